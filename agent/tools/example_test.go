package tools_test

import (
	"bytes"
	"context"
	"fmt"
	"image/png"
	"log"
	"os"
	"path/filepath"
	"strings"

	"terraloom/agent/archive/synthetic"
	"terraloom/agent/plot"
	"terraloom/agent/tools"
	"terraloom/agent/tools/acquire"
	"terraloom/agent/tools/scenes"
	"terraloom/agent/tools/workspace"
	"terraloom/data/strictjson"
)

// desk is a workspace with all tools over the synthetic world.
type desk struct {
	dir   string
	files *workspace.Workspace
	kit   *tools.Registry
}

func newDesk(truths ...scenes.Truth) *desk {
	dir, err := os.MkdirTemp("", "desk")
	check(err)
	files, err := workspace.Open(dir, workspace.DefaultLimits)
	check(err)
	eye, err := scenes.NewLibrary(1, scenes.Errors{}, truths...)
	check(err)
	kit, err := tools.New(tools.Correct, tools.WithWorkspace(files), tools.WithPerceiver(eye), tools.WithArchive(acquire.From(synthetic.New(1, nil))))
	check(err)
	return &desk{dir, files, kit}
}

func (d *desk) close() {
	check(d.files.Close())
	check(os.RemoveAll(d.dir))
}

// call runs a tool; the arguments are JSON with %s for earlier observations.
func (d *desk) call(tool, args string, earlier ...strictjson.Value) tools.Result {
	for _, v := range earlier {
		args = strings.Replace(args, "%s", v.JSON(), 1)
	}
	v, err := strictjson.Parse([]byte(args))
	check(err)
	res, err := d.kit.Invoke(context.Background(), tool, v)
	check(err)
	return res
}

// picture draws a result as `terraloom tools call --plot` does.
func (d *desk) picture(tool, args string, res tools.Result) string {
	v, err := strictjson.Parse([]byte(args))
	check(err)
	var file bytes.Buffer
	check(plot.Result(&file, d.files, tool, v, &res))
	img, err := png.Decode(&file)
	check(err)
	return fmt.Sprintf("%d × %d pixels", img.Bounds().Dx(), img.Bounds().Dy())
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func number(v strictjson.Value) float64 {
	f, _ := v.Float()
	return f
}

// Family index: the share of dry land around Leon in March 2022, from NDVI and land
// surface temperature, with the map as a picture.
func Example_index() {
	d := newDesk()
	defer d.close()
	const place = `"bbox":[-101.84,20.58,-101.04,21.23],"scale_m":1000,`
	ndvi := d.call("download_product", `{"source":"MODIS/061/MOD13A2","bands":["NDVI"],`+place+`"time_range":["2022-03-06","2022-03-06"],"base_save_name":"leon/raw"}`)
	lst := d.call("download_product", `{"source":"MODIS/061/MOD11A2","bands":["LST_Day_1km"],`+place+`"time_range":["2022-03-06","2022-03-06"],"base_save_name":"leon/raw"}`)
	d.call("apply_scale_offset", `{"file_list":%s,"scale":0.0001,"output_path":["leon/ndvi.tif"]}`, ndvi.Value)
	d.call("apply_scale_offset", `{"file_list":%s,"scale":0.02,"output_path":["leon/lst.tif"]}`, lst.Value)
	const args = `{"ndvi_path":"leon/ndvi.tif","lst_path":"leon/lst.tif","output_path":"leon/tvdi.tif"}`
	tvdi := d.call("compute_tvdi", args)
	share := d.call("calculate_threshold_ratio", `{"image_paths":"leon/tvdi.tif","threshold":0.7}`)
	fmt.Println(tvdi.Value.Text())
	m := share.Evidence.Measure
	fmt.Printf("%.2f %% of the valid pixels are dry: %.0f of %.0f\n", number(share.Value), m.Numerator[0], m.Denominator[0])
	fmt.Println("map:", d.picture("compute_tvdi", args, tvdi))
	// Output:
	// Result saved at benchmark/out/leon/tvdi.tif
	// 47.54 % of the valid pixels are dry: 3166 of 6660
	// map: 770 × 611 pixels
}

// Family inversion: land surface temperature from the thermal radiances of two MODIS
// bands.
func Example_inversion() {
	d := newDesk()
	defer d.close()
	l1b := d.call("download_product", `{"source":"MODIS/061/MOD021KM","bands":["Radiance_31_Day","Radiance_32_Day"],"bbox":[115.8,39.4,116.8,40.2],"scale_m":3000,`+
		`"time_range":["2020-06-13","2020-06-13"],"base_save_name":"beijing/l1b"}`)
	bt := d.call("extract_brightness_temperature", `{"file_list":%s,"output_path":["beijing/bt31.tif","beijing/bt32.tif"]}`, l1b.Value)
	lst := d.call("lst_multi_channel", `{"band31_path":"beijing/bt31.tif","band32_path":"beijing/bt32.tif","output_path":"beijing/lst.tif"}`)
	mean := d.call("calc_batch_image_mean", `{"file_list":["beijing/lst.tif"]}`)
	fmt.Println(len(bt.Artefacts), "brightness temperatures")
	fmt.Println(lst.Evidence.Formula)
	fmt.Printf("mean %.1f K of %d pixels, %d missing\n", number(mean.Value.Index(0)), mean.Evidence.Used, mean.Evidence.Missing)
	// Output:
	// 2 brightness temperatures
	// 1.022·T31 + 0.47(T31-T32) + 0.43
	// mean 296.1 K of 1209 pixels, 0 missing
}

// Family perception: the area of the tennis courts of a scene.
func Example_perception() {
	s, err := scenes.Generate(1, scenes.Spec{Class: "Park", Width: 256, Height: 256, GSD: 0.3, Groups: []scenes.Group{{Class: "tennis court", Count: 3}}})
	check(err)
	d := newDesk(s.Truth)
	defer d.close()
	check(os.WriteFile(filepath.Join(d.dir, "park.png"), s.PNG, 0o644))
	const find = `{"input_image_path":"park.png","text_prompt":"tennis court"}`
	boxes := d.call("SM3Det", find)
	d.call("SAM2", `{"input_image_path":"park.png","bbox":%s,"output_path":"courts.png"}`, boxes.Value)
	area := d.call("calculate_area", `{"input_image_path":"courts.png","gsd":0.3}`)
	fmt.Println(boxes.Value.Len(), "courts,", boxes.Evidence.Model.Geometry, "geometry")
	fmt.Printf("%.2f m² = %.0f pixels · 0.3²\n", number(area.Value), area.Evidence.Measure.Numerator[0])
	fmt.Println("picture with the boxes:", d.picture("SM3Det", find, boxes))
	// Output:
	// 3 courts, exact geometry
	// 779.31 m² = 8659 pixels · 0.3²
	// picture with the boxes: 770 × 678 pixels
}

// Family statistics: the change of night lights over ten years.
func Example_statistics() {
	d := newDesk()
	defer d.close()
	lights := d.call("download_product", `{"source":"VIIRS nighttime lights","bands":["avg_rad"],"bbox":[-101.84,20.98,-101.54,21.23],"time_range":["2013-01-01","2022-12-31"],`+
		`"interval":"year","scale_m":1000,"base_save_name":"leon/lights"}`)
	means := d.call("calc_batch_image_mean", `{"file_list":%s}`, lights.Value)
	first, last := means.Value.Index(0), means.Value.Index(means.Value.Len()-1)
	change := d.call("percentage_change", `{"a":%s,"b":%s}`, first, last)
	fmt.Printf("%d years, %.2f to %.2f nW/cm²/sr: %+.1f %%\n", means.Value.Len(), number(first), number(last), number(change.Value))
	fmt.Println("series:", d.picture("calc_batch_image_mean", `{"file_list":`+lights.Value.JSON()+`}`, means))
	// Output:
	// 10 years, 22.75 to 24.86 nW/cm²/sr: +9.3 %
	// series: 760 × 420 pixels
}

// Family analysis: is the change of a region's greenness significant, and how fast is it?
func Example_analysis() {
	d := newDesk()
	defer d.close()
	ndvi := d.call("download_product", `{"source":"MODIS/061/MOD13A2","bands":["NDVI"],"bbox":[-101.84,20.98,-101.54,21.23],"time_range":["2012-01-01","2021-12-31"],`+
		`"interval":"year","scale_m":5000,"base_save_name":"leon/ndvi"}`)
	means := d.call("calc_batch_image_mean", `{"file_list":%s}`, ndvi.Value)
	test := d.call("mann_kendall_test", `{"x":%s}`, means.Value)
	line := d.call("compute_linear_trend", `{"y":%s}`, means.Value)
	fmt.Printf("%s, p = %.3f, %+.2f of 10,000 a year\n", test.Value.Index(0).Text(), number(test.Value.Index(1)), number(line.Value.Index(0)))
	fmt.Println("line:", d.picture("compute_linear_trend", `{"y":`+means.Value.JSON()+`}`, line))
	// Output:
	// decreasing, p = 0.007, -38.77 of 10,000 a year
	// line: 760 × 420 pixels
}

// Family acquisition: what a product is, and what it says of itself.
func Example_acquisition() {
	d := newDesk()
	defer d.close()
	res := d.call("download_product", `{"source":"Landsat 8","bands":["SR_B4","QA_PIXEL"],"bbox":[9.0,50.5,9.05,50.55],"time_range":["2021-07-01","2021-07-20"],"base_save_name":"kassel"}`)
	for _, a := range res.Artefacts {
		fmt.Printf("%s: %d × %d, %s, %s, %d of %d pixels valid\n", filepath.Base(a.Path), a.Width, a.Height, a.Time, a.CRS, a.Bands[0].Valid, a.Width*a.Height)
	}
	// Output:
	// kassel_SR_B4_2021-07-14.tif: 187 × 187, 2021-07-14, EPSG:4326, 34969 of 34969 pixels valid
	// kassel_QA_PIXEL_2021-07-14.tif: 187 × 187, 2021-07-14, EPSG:4326, 34969 of 34969 pixels valid
}
