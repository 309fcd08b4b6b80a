package main

import (
	"bytes"
	"fmt"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"terraloom/agent/tools/scenes"
	"terraloom/data/catalogue"
)

// A worked example of every family of tools, from the archive to a picture: each
// call writes what it gave, and the next reads it.
func TestToolsPlotFamilies(t *testing.T) {
	dir, pictures := t.TempDir(), t.TempDir()
	park, err := scenes.Generate(1, scenes.Spec{Class: "Park", Width: 256, Height: 256, GSD: 0.3, Groups: []scenes.Group{{Class: "tennis court", Count: 3}}})
	if err != nil {
		t.Fatal(err)
	}
	var truths bytes.Buffer
	if err := scenes.WriteTruths(&truths, []scenes.Truth{park.Truth}); err != nil {
		t.Fatal(err)
	}
	known := filepath.Join(pictures, "truths.json")
	for name, data := range map[string][]byte{filepath.Join(dir, "park.png"): park.PNG, known: truths.Bytes()} {
		if err := os.WriteFile(name, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const where = `"bbox":[-101.84,20.58,-101.04,21.23],"scale_m":2000,"time_range":["2022-03-06","2022-03-06"],"base_save_name":"leon/raw"`
	var outputs []any // of the calls so far
	families := map[string]bool{}
	for i, c := range []struct {
		tool, args string // %[n]s is the output of call n
		title      string // a picture is drawn where there is one
		columns    int    // least width of the picture
	}{
		{"download_product", `{"source":"MOD13A2","bands":["NDVI"],` + where + `}`, "acquisition", 700},
		{"download_product", `{"source":"MOD11A2","bands":["LST_Day_1km"],` + where + `}`, "", 0},
		{"apply_scale_offset", `{"file_list":%[1]s,"scale":0.0001,"output_path":["leon/ndvi.tif"]}`, "preparation", 700},
		{"apply_scale_offset", `{"file_list":%[2]s,"scale":0.02,"output_path":["leon/lst.tif"]}`, "", 0},
		{"compute_tvdi", `{"ndvi_path":"leon/ndvi.tif","lst_path":"leon/lst.tif","output_path":"leon/tvdi.tif"}`, "index", 700},
		{"download_product", `{"source":"MODIS/061/MOD021KM","bands":["Radiance_31_Day","Radiance_32_Day"],"bbox":[115.8,39.4,116.8,40.2],"scale_m":4000,"time_range":["2020-06-13","2020-06-13"],"base_save_name":"beijing/l1b"}`, "", 0},
		{"extract_brightness_temperature", `{"file_list":%[6]s,"output_path":["beijing/bt31.tif","beijing/bt32.tif"]}`, "two maps", 1000},
		{"lst_multi_channel", `{"band31_path":"beijing/bt31.tif","band32_path":"beijing/bt32.tif","output_path":"beijing/lst.tif"}`, "inversion", 700},
		{"download_product", `{"source":"VIIRS nighttime lights","bands":["avg_rad"],"bbox":[-101.84,20.98,-101.54,21.23],"time_range":["2013-01-01","2022-12-31"],"interval":"year","scale_m":2000,"base_save_name":"leon/lights"}`, "", 0},
		{"calc_batch_image_mean", `{"file_list":%[9]s}`, "statistics, a series", 700},
		{"calc_batch_image_mean_max_min", `{"file_list":%[9]s}`, "statistics, bars", 400},
		{"calculate_threshold_ratio", `{"image_paths":"leon/tvdi.tif","threshold":0.7}`, "statistics, a number over its raster", 700},
		{"compute_linear_trend", `{"y":%[10]s}`, "analysis", 700},
		{"getis_ord_gi_star", `{"image_path":"leon/lst.tif","weight_matrix":[[1,1,1],[1,1,1],[1,1,1]],"output_path":"leon/gi.tif"}`, "analysis, a raster", 700},
		{"SM3Det", `{"input_image_path":"park.png","text_prompt":"tennis court"}`, "perception", 700},
		{"SAM2", `{"input_image_path":"park.png","bbox":%[15]s,"output_path":"courts.png"}`, "perception, a mask", 700},
	} {
		args := c.args
		if strings.Contains(args, "%[") {
			args = fmt.Sprintf(args, outputs...)
		}
		flags := []string{"call", c.tool, "--workspace", dir, "--archive", "synthetic", "--perceiver", "scenes:" + known, "--args", args}
		picture := filepath.Join(pictures, fmt.Sprintf("%d.png", i+1))
		if c.title != "" {
			flags = append(flags, "--plot", picture)
		}
		out, err := toolsRun(t, nil, flags...)
		if err != nil {
			t.Fatalf("%s %s: %v", c.tool, args, err)
		}
		outputs = append(outputs, strings.TrimSpace(out))
		if c.title == "" {
			continue
		}
		tool, _ := catalogue.Default().Tool(c.tool)
		families[tool.Family] = true
		data, err := os.ReadFile(picture)
		if err != nil {
			t.Fatal(err)
		}
		img, err := png.Decode(bytes.NewReader(data))
		if err != nil {
			t.Fatalf("%s: %v", c.title, err)
		}
		b := img.Bounds()
		colours := map[color.Color]int{}
		for y := b.Min.Y; y < b.Max.Y; y++ {
			for x := b.Min.X; x < b.Max.X; x++ {
				colours[img.At(x, y)]++
			}
		}
		most := 0
		for _, n := range colours {
			most = max(most, n)
		}
		if b.Dx() < c.columns || b.Dx() > 2000 || b.Dy() < 300 || b.Dy() > 2000 || len(colours) < 16 || most > b.Dx()*b.Dy()*99/100 {
			t.Errorf("%s: %d × %d pixels of %d colours, %d of one", c.title, b.Dx(), b.Dy(), len(colours), most)
		}
	}
	for _, tool := range catalogue.Default().Tools() {
		if !families[tool.Family] {
			t.Errorf("the family %s, as of %s, has no picture", tool.Family, tool.Name)
			families[tool.Family] = true
		}
	}
}
