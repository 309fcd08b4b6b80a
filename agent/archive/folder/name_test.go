package folder

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestParseName(t *testing.T) {
	tests := []struct {
		file, place, variable, part, date string
		precise                           Precision
	}{
		{"Green Valley_2021-03-06_LST.tif", "Green Valley", "LST", "", "2021-03-06 00:00", ToDay},
		{"Green-Valley_NDVI_2021-03-06.tif", "Green-Valley", "NDVI", "", "2021-03-06 00:00", ToDay},
		{"2020_02_23_0550_BT_31.tif", "", "BT_31", "", "2020-02-23 05:50", ToMinute},
		{"2023_07_01_2035_BT_31_Night.tif", "", "BT_31_Night", "", "2023-07-01 20:35", ToMinute},
		{"Dune.tif_2020-02-23_0550_Emis32.tif", "Dune", "Emis32", "", "2020-02-23 05:50", ToMinute},
		{"Dune_20200223_0550_Emis31.tif", "Dune", "Emis31", "", "2020-02-23 05:50", ToMinute},
		{"Dune_sur_refl_b01.tif_2022-01-01.tif", "Dune", "sur_refl_b01", "", "2022-01-01 00:00", ToDay},
		{"Two_Words_2015_avg_rad_2015-06-01.tif", "Two_Words_2015", "avg_rad", "", "2015-06-01 00:00", ToDay},
		{"Two_Words_built_volume_total_1985.tif", "Two_Words", "built_volume_total", "", "1985-01-01 00:00", ToYear},
		{"2022_06_15_BT_12_Polygon2.tif", "", "BT_12", "Polygon2", "2022-06-15 00:00", ToDay},
		{"SR_B5_2018-01-01.tif", "", "SR_B5", "", "2018-01-01 00:00", ToDay},
		{"North Plain _NDVI_2021-05-01.tif", "North Plain ", "NDVI", "", "2021-05-01 00:00", ToDay},
		{"Leon_LST_Day_1km_2020-01-31.TIFF", "Leon", "LST_Day_1km", "", "2020-01-31 00:00", ToDay},
		{"Leon_Radiance_31_Day_2020-01-31_0550.tif", "Leon", "Radiance_31_Day", "", "2020-01-31 05:50", ToMinute},
	}
	for _, tt := range tests {
		n, ok := ParseName(tt.file)
		if !ok {
			t.Errorf("%q is not read", tt.file)
			continue
		}
		if n.Place != tt.place || n.Variable != tt.variable || n.Part != tt.part || n.Date.Format("2006-01-02 15:04") != tt.date || n.Precise != tt.precise {
			t.Errorf("%q is read as %+v", tt.file, n)
		}
		if n.String() != tt.file {
			t.Errorf("%q is written as %q", tt.file, n)
		}
	}
	for _, file := range []string{"", ".tif", "x.tif", "LST.tif", "Leon_LST.tif", "Leon_LST_2020-13-01.tif", "Leon_LST_2020-02-30.tif", "Leon_LST_2020-01-01.png",
		"2020-01-01.tif", "Leon_LST_2020-01-01.tif.enp", "Leon_LST_1234.tif", "Leon_LST_20-01-01.tif", "Leon2020-01-01_LST.tif"} {
		if n, ok := ParseName(file); ok {
			t.Errorf("%q is read as %+v", file, n)
		}
	}
}

// A name takes another place and date in its own style.
func TestRename(t *testing.T) {
	n, ok := ParseName("Dune.tif_2020-02-23_0550_Emis32.tif")
	if !ok {
		t.Fatal("not read")
	}
	n.Place, n.Date = "Salt Lake", time.Date(2021, 7, 4, 13, 5, 0, 0, time.UTC)
	if want := "Salt Lake.tif_2021-07-04_1305_Emis32.tif"; n.String() != want {
		t.Errorf("written as %q, want %q", n, want)
	}
}

// shared is the folder with the benchmark's questions.
func shared(t *testing.T) string {
	t.Helper()
	if s := os.Getenv("TERRALOOM_SHARED"); s != "" {
		return s
	}
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
			return filepath.Join(root, "..", "shared")
		}
		if root == filepath.Dir(root) {
			t.Fatal("no go.mod above the package")
		}
		root = filepath.Dir(root)
	}
}

// Every file that the benchmark's Spectrum and Products questions list is read,
// with one of the variables that occur there, and written back as it was.
func TestEarthBenchNames(t *testing.T) {
	file := filepath.Join(shared(t), "earth-bench", "question.json")
	raw, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		t.Skipf("%s is missing; set TERRALOOM_SHARED to the folder that has earth-bench/question.json", file)
	}
	if err != nil {
		t.Fatal(err)
	}
	var items map[string]struct {
		Dialogs []struct {
			Name    string
			Content any
		}
	}
	if err := json.Unmarshal(raw, &items); err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, v := range strings.Fields("B10 BT10 BT_10 BT_11 BT_12 BT_13 BT_14 BT_31 BT_31_Day BT_31_Night BT_32 Emis31 Emis32 LST MaxFRP NDVI QA_PIXEL Reflectance_17 " +
		"Reflectance_18 Reflectance_19 Reflectance_2 Reflectance_5 SR_B3 SR_B5 albedo avg_rad b03 b3 b4 b5 built_surface_nres built_volume_nres built_volume_total precipitation " +
		"sur_refl_b01 sur_refl_b02 sur_refl_b04 sur_refl_b06 sur_refl_b07") {
		known[v] = true
	}
	read := 0
	for q := 1; q <= 188; q++ {
		for _, d := range items[fmt.Sprint(q)].Dialogs {
			content, _ := d.Content.(map[string]any)
			list, _ := content["content"].([]any)
			if d.Name != "get_filelist" {
				continue
			}
			for _, f := range list {
				name := path.Base(strings.TrimSpace(f.(string)))
				n, ok := ParseName(name)
				switch {
				case strings.HasSuffix(name, ".enp"): // no raster
				case !ok:
					t.Errorf("question %d: %q is not read", q, name)
				case n.String() != name:
					t.Errorf("question %d: %q is written as %q", q, name, n)
				case !known[n.Variable]:
					t.Errorf("question %d: %q has the variable %q", q, name, n.Variable)
				default:
					read++
				}
			}
		}
	}
	if read < 12000 {
		t.Errorf("%d names were read", read)
	}
}

func FuzzParseName(f *testing.F) {
	for _, s := range []string{"Dune.tif_2020-02-23_0550_Emis32.tif", "2022_06_15_BT_12_Polygon2.tif", "a_b_2015_avg_rad_2015-06-01.tif", "x_built_volume_total_1985.tif", "_2020-01-01_.tif", "2020_2021-01-01_x.tif"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, ok := ParseName(s)
		if !ok {
			return
		}
		if got := n.String(); got != strings.TrimSpace(s) {
			t.Fatalf("%q is written as %q", s, got)
		}
		if n.Variable == "" || n.Date.IsZero() || n.Precise == Undated {
			t.Fatalf("%q is read as %+v", s, n)
		}
	})
}
