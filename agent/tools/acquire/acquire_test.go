package acquire

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"terraloom/agent/archive/synthetic"
	"terraloom/agent/tools"
	"terraloom/agent/tools/workspace"
	"terraloom/data/strictjson"
)

// desk is a registry over a workspace and the synthetic archive.
type desk struct {
	*testing.T
	kit *tools.Registry
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	w, err := workspace.Open(t.TempDir(), workspace.DefaultLimits)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	kit, err := tools.New(tools.Correct, tools.WithWorkspace(w), tools.WithArchive(From(synthetic.New(1, nil))))
	if err != nil {
		t.Fatal(err)
	}
	return &desk{t, kit}
}

func (d *desk) call(tool, format string, args ...any) strictjson.Value {
	d.Helper()
	text := fmt.Sprintf(format, args...)
	v, err := strictjson.Parse([]byte(text))
	if err != nil {
		d.Fatalf("%s: %v", text, err)
	}
	res, err := d.kit.Invoke(d.Context(), tool, v)
	if err != nil || res.Evidence.Status != tools.OK {
		d.Fatalf("%s %s: %v %s", tool, text, err, res.Evidence.Value().JSON())
	}
	return res.Value
}

const region = `"bbox":[-101.84,20.98,-101.54,21.23]`

func (d *desk) download(product, bands, days, scale, name string) strictjson.Value {
	d.Helper()
	return d.call("download_product", `{"source":%q,"bands":%s,%s,"time_range":%s,"scale_m":%s,"base_save_name":%q}`, product, bands, region, days, scale, name)
}

// The whole road of a dryness question: acquire, scale, index, share.
func TestDrynessFromTheArchive(t *testing.T) {
	d := newDesk(t)
	const days = `["2022-03-06","2022-03-21"]`
	ndvi := d.download("MODIS/061/MOD13A2", `["NDVI"]`, days, "1000", "q/leon")
	lst := d.download("MOD11A2", `["LST_Day_1km"]`, `["2022-03-06","2022-03-13"]`, "1000", "q/leon")
	if ndvi.JSON() != `["benchmark/out/q/leon_NDVI_2022-03-06.tif"]` || lst.Len() != 1 {
		t.Fatalf("%s %s", ndvi.JSON(), lst.JSON())
	}
	d.call("apply_scale_offset", `{"file_list":%s,"scale":0.0001,"output_path":["q/ndvi.tif"]}`, ndvi.JSON())
	d.call("apply_scale_offset", `{"file_list":%s,"scale":0.02,"output_path":["q/lst.tif"]}`, lst.JSON())
	d.call("compute_tvdi", `{"ndvi_path":"q/ndvi.tif","lst_path":"q/lst.tif","output_path":"q/tvdi.tif"}`)
	share, _ := d.call("calculate_threshold_ratio", `{"image_paths":"q/tvdi.tif","threshold":0.7}`).Float()
	if share <= 0 || share >= 100 {
		t.Errorf("%g %% of the pixels are dry", share)
	}
	mean, _ := d.call("calc_batch_image_mean", `{"file_list":["q/lst.tif"]}`).Index(0).Float()
	if mean < 280 || mean > 330 {
		t.Errorf("a mean temperature of %g K", mean)
	}
	// Without the scaling there is no estimate, and the reason says what is missing.
	v, err := strictjson.Parse([]byte(fmt.Sprintf(`{"ndvi_path":%q,"lst_path":%q,"output_path":"q/raw.tif"}`, ndvi.Index(0).Text(), lst.Index(0).Text())))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.kit.Call("compute_tvdi", v); !errors.Is(err, tools.ErrInsufficient) || !strings.Contains(err.Error(), "run apply_scale_offset first") {
		t.Errorf("unscaled: %v", err)
	}
}

// Radiances become temperatures by what their files state.
func TestBrightnessTemperatureFromTheArchive(t *testing.T) {
	d := newDesk(t)
	aster := d.download("ASTER", `["B10","B11","B12"]`, `["2022-01-01","2022-12-31"]`, "900", "q/aster")
	if aster.Len() < 3 || aster.Len()%3 != 0 {
		t.Fatalf("%s", aster.JSON())
	}
	n := aster.Len() / 3 // bands one after the other
	d.call("extract_brightness_temperature", `{"file_list":[%s,%s,%s],"output_path":["q/BT_10.tif","q/BT_11.tif","q/BT_12.tif"]}`,
		aster.Index(0).JSON(), aster.Index(n).JSON(), aster.Index(2*n).JSON())
	for _, tool := range []string{"ttm_lst", "temperature_emissivity_separation"} {
		extra := ""
		if tool != "ttm_lst" {
			extra = `,"representative_band_index":0`
		}
		d.call(tool, `{"tir_band_paths":["q/BT_10.tif","q/BT_11.tif","q/BT_12.tif"],"output_path":"q/lst.tif"%s}`, extra)
		if mean, _ := d.call("calc_batch_image_mean", `{"file_list":["q/lst.tif"]}`).Index(0).Float(); mean < 260 || mean > 340 {
			t.Errorf("%s: %g K", tool, mean)
		}
	}
	modis := d.download("MODIS/061/MOD021KM", `["Radiance_31_Day"]`, `["2022-01-01","2022-01-04"]`, "1000", "q/modis")
	bt := d.call("extract_modis_bt", `{"file_list":[%s],"output_path":["q/bt31.tif"]}`, modis.Index(0).JSON())
	if mean, _ := d.call("calc_batch_image_max", `{"file_list":%s}`, bt.JSON()).Index(0).Float(); mean < 230 || mean > 340 {
		t.Errorf("band 31: up to %g K", mean)
	}
}

func TestRequestsThatTheArchiveRefuses(t *testing.T) {
	d := newDesk(t)
	for name, args := range map[string]string{
		"interval":     `{"source":"MOD11A1","bands":["LST"],` + region + `,"time_range":["2022-01-01","2022-01-02"],"interval":"fortnightly","base_save_name":"x"}`,
		"record":       `{"source":"MOD11A1","bands":["LST"],` + region + `,"time_range":["1950-01-01","1950-01-02"],"base_save_name":"x"}`,
		"many pixels":  `{"source":"MOD11A1","bands":["LST"],"bbox":[-100,-60,100,60],"time_range":["2022-01-01","2022-01-02"],"scale_m":10,"base_save_name":"x"}`,
		"many rasters": `{"source":"MOD11A1","bands":["LST","LST_Night"],` + region + `,"time_range":["2001-01-01","2022-01-02"],"base_save_name":"x"}`,
	} {
		v, err := strictjson.Parse([]byte(args))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.kit.Call("download_product", v); !errors.Is(err, tools.ErrBadArguments) || !errors.Is(err, tools.ErrRequest) {
			t.Errorf("%s: %v, want ErrBadArguments and ErrRequest", name, err)
		}
	}
}
