package tools

import (
	"os"
	"path/filepath"
	"testing"

	"terraloom/agent/raster"
)

func TestImageStatistics(t *testing.T) {
	l := newLab(t)
	l.put("d/a.tif", file{width: 3}, []float64{1, 2, 3, 6, no, no}) // n 4, sum 12
	l.put("d/b.tif", file{width: 3}, []float64{-1, 0, 1, 0, 0, 0})  // mean 0
	l.put("d/one.tif", file{width: 3}, []float64{no, no, 5, no, no, no})
	l.put("d/none.tif", file{width: 3}, []float64{no, no, no, no, no, no})
	l.put("d/bytes.tif", file{width: 2, kind: raster.Uint8, nodata: new(255.0)}, []float64{10, 20}, []float64{30, 40}, []float64{50, 255})
	l.put("d/pwv.tif", file{width: 2, bands: []raster.BandSpec{{Description: "PWV"}, {Description: "T17"}}}, []float64{10, 20}, []float64{0.5, 0.7})
	l.put("d/dn.tif", file{width: 2, kind: raster.Int16, bands: []raster.BandSpec{{Scale: 0.1}}}, []float64{100, 201})
	l.put("d/unit.tif", file{width: 4}, []float64{-1, 0.5, 1, 2})
	one := func(tool, want string) rasterCase {
		return rasterCase{tool: tool, args: `{"file_list":["d/a.tif"]}`, want: want, used: 4}
	}
	l.check([]rasterCase{
		one("calc_batch_image_mean", `[3.0]`),
		one("calc_batch_image_std", `[2.160246899469287]`), // deviations -2 -1 0 3: 14/3
		one("calc_batch_image_median", `[2.5]`),
		one("calc_batch_image_min", `[1.0]`),
		one("calc_batch_image_max", `[6.0]`),
		one("calc_batch_image_sum", `[12.0]`),
		// m2 3.5, m3 (-8-1+27)/4 = 4.5, m4 (16+1+81)/4 = 24.5; G1 = √12/2·4.5/3.5^1.5
		one("calc_batch_image_skewness", `[1.1903401282789947]`),
		one("calc_batch_image_kurtosis", `[2.0]`),
		{tool: "calc_single_image_mean", args: `{"file_path":"d/a.tif"}`, want: `[3.0]`},
		// the range 1 … 6 goes to 0 … 255: 0, 51, 102, 255
		{tool: "calc_batch_image_mean", args: `{"file_list":["d/a.tif"],"uint8":true}`, want: `[102.0]`},
		{tool: "calc_batch_image_max", args: `{"file_list":["d/a.tif","d/b.tif"]}`, want: `[6.0,1.0]`, used: 10},
		// all colours of bytes, one band of quantities
		{tool: "calc_batch_image_mean", args: `{"file_list":["d/bytes.tif"]}`, want: `[30.0]`, used: 5},
		{tool: "calc_batch_image_median", args: `{"file_list":["d/bytes.tif"]}`, want: `[30.0]`},
		{tool: "calc_batch_image_mean", args: `{"file_list":["d/pwv.tif"]}`, want: `[15.0]`, used: 2, warns: "has 2 bands; band 1 (PWV) was used"},
		{tool: "calc_batch_image_mean", args: `{"file_list":["d/dn.tif"]}`, want: `[150.5]`, warns: "value = number·0.1 + 0"},
		{tool: "calc_batch_image_mean", args: `{"file_list":["d/a.tif","d/none.tif"]}`, want: `[3.0,null]`, used: 4, warns: "d/none.tif: it has no valid pixels"},
		{tool: "calc_batch_image_sum", args: `{"file_list":["d/none.tif"]}`, want: "insufficient", says: "it has no valid pixels"},
		{tool: "calc_batch_image_std", args: `{"file_list":["d/one.tif"]}`, want: "insufficient", says: "at least 2 valid pixels"},
		{tool: "calc_batch_image_skewness", args: `{"file_list":["d/one.tif","d/a.tif"]}`, want: `[null,1.1903401282789947]`, warns: "at least 3 valid pixels"},
		{tool: "calc_batch_image_mean", args: `{"file_list":[]}`, want: "error", says: "/file_list: the list is empty"},
		{tool: "calc_batch_image_mean_mean", args: `{"file_list":["d/a.tif","d/b.tif","d/none.tif"]}`, want: `1.5`, warns: "d/none.tif"},
		{tool: "calc_batch_image_mean_max", args: `{"file_list":["d/a.tif","d/b.tif"]}`, want: `3.0`},
		{tool: "calc_batch_image_mean_max", args: `{"file_list":["d/none.tif"]}`, want: "insufficient", says: "no image has valid pixels"},
		{tool: "calc_batch_image_mean_max_min", args: `{"file_list":["d/a.tif","d/b.tif"]}`, want: `[1.5,6.0,-1.0]`},
		// cut to 0 … 1: 0, 0.5, 1, 1
		{tool: "calc_batch_image_mean_max_min", args: `{"file_list":["d/unit.tif"],"uint8":true}`, want: `[159.375,255.0,0.0]`},
		{tool: "get_percentile_value_from_image", args: `{"image_path":"d/a.tif","percentile":50}`, want: `2.5`, used: 4},
		{tool: "get_percentile_value_from_image", args: `{"image_path":"d/a.tif","percentile":90}`, want: `5.1`},
		{tool: "get_percentile_value_from_image", args: `{"image_path":"d/a.tif","percentile":100}`, want: `6.0`},
		// together -1 0 0 0 0 1 1 2 3 6: the 70th lies at 6.3
		{tool: "get_percentile_value_from_image", args: `{"image_path":["d/a.tif","d/b.tif"],"percentile":70}`, want: `1.2999999999999998`},
		{tool: "get_percentile_value_from_image", args: `{"image_path":"d/dn.tif","percentile":50}`, want: `150`, warns: "stored numbers"}, // 150.5, half to even
		{tool: "get_percentile_value_from_image", args: `{"image_path":"d/none.tif","percentile":50}`, want: "insufficient", says: "no pixel is valid"},
		{tool: "get_percentile_value_from_image", args: `{"image_path":"d/a.tif","percentile":101}`, want: "error", says: "percentile"},
		{tool: "image_division_mean", args: `{"image_path1":"d/pwv.tif"}`, want: `24.285714149475098`},                 // (20 + 20/0.7f)/2
		{tool: "image_division_mean", args: `{"image_path1":"d/a.tif","image_path2":"d/b.tif"}`, want: `1.0`, used: 2}, // 1/-1 and 3/1; the rest divides by 0
		{tool: "image_division_mean", args: `{"image_path1":"d/a.tif"}`, want: "error", says: "has 1 bands, 1 to 1; there is no band 2"},
		{tool: "image_division_mean", args: `{"image_path1":"d/a.tif","image_path2":"d/none.tif"}`, want: "insufficient", says: "a denominator other than 0"},
	})
}

func TestThresholds(t *testing.T) {
	l := newLab(t)
	l.put("d/a.tif", file{width: 4}, []float64{0.1, 0.7, 0.8, no})
	l.put("d/b.tif", file{width: 4}, []float64{0.9, 0.9, no, 0.2})
	l.put("d/none.tif", file{width: 4}, []float64{no, no, no, no})
	l.put("d/dn.tif", file{width: 4, kind: raster.Uint16}, []float64{10, 11, 12, 0})
	l.put("d/two.tif", file{width: 4}, []float64{1, 2, 3, no}, []float64{10, no, 30, 40})
	l.put("d/map.tif", file{width: 4}, []float64{1, 0, 0, no})
	l.put("d/map255.tif", file{width: 4, kind: raster.Uint8, nodata: new(7.0)}, []float64{255, 255, 0, 7})
	l.put("d/lst_2022-01-01.tif", file{width: 4}, []float64{300, 310, no, 320})
	l.put("d/lst_2022-01-17.tif", file{width: 4}, []float64{290, 290, 290, 290})
	l.put("d/tvdi_2022-01-01.tif", file{width: 4}, []float64{0.1, 0.2, 0.3, 0.4})
	l.put("d/tvdi_2022-01-17.tif", file{width: 4}, []float64{5, 5, 5, 5})
	const pair = `"path1":["d/lst_2022-01-01.tif","d/lst_2022-01-17.tif"],"path2":["d/tvdi_2022-01-17.tif","d/tvdi_2022-01-01.tif"]`
	l.check([]rasterCase{
		{tool: "calculate_threshold_ratio", args: `{"image_paths":"d/a.tif","threshold":0.7}`, want: `33.33333333333333`, used: 3},
		{tool: "calculate_threshold_ratio", args: `{"image_paths":"d/a.tif","threshold":0.7,"mode":"above_equal"}`, want: `66.66666666666666`},
		{tool: "calculate_threshold_ratio", args: `{"image_paths":"d/a.tif","threshold":0.7,"mode":"equal"}`, want: `33.33333333333333`},
		{tool: "calculate_threshold_ratio", args: `{"image_paths":"d/a.tif","threshold":0.7,"mode":"below"}`, want: `33.33333333333333`},
		{tool: "calculate_threshold_ratio", args: `{"image_paths":"d/a.tif","threshold":0.7,"mode":"below_equal"}`, want: `66.66666666666666`},
		{tool: "calculate_threshold_ratio", args: `{"image_paths":["d/a.tif","d/b.tif","d/none.tif"],"threshold":0.5}`, want: `66.66666666666666`, warns: "d/none.tif: it has no valid pixels"},
		{tool: "calculate_threshold_ratio", args: `{"image_paths":"d/dn.tif","threshold":10.5}`, want: `66.66666666666666`},
		{tool: "calculate_threshold_ratio", args: `{"image_paths":"d/dn.tif","threshold":10.5,"mode":"equal"}`, want: `0.0`},
		{tool: "calculate_threshold_ratio", args: `{"image_paths":"d/two.tif","threshold":20,"band_index":1}`, want: `66.66666666666666`},
		{tool: "calculate_threshold_ratio", args: `{"image_paths":"d/two.tif","band_index":2}`, want: "error", says: "d/two.tif has 2 bands, 0 to 1; there is no band 2"},
		{tool: "calculate_threshold_ratio", args: `{"image_paths":"d/none.tif"}`, want: "insufficient", says: "no image has valid pixels"},
		{tool: "calculate_threshold_ratio", args: `{"image_paths":"d/a.tif","threshold":"NaN"}`, want: "error", says: "threshold"},
		{tool: "calc_batch_image_hotspot_percentage", args: `{"file_list":["d/a.tif","d/b.tif"],"threshold":0.75}`, want: `[0.3333333333333333,0.6666666666666666]`, used: 6},
		{tool: "calc_batch_image_hotspot_percentage", args: `{"file_list":["d/a.tif"],"threshold":254,"uint8":true}`, want: `[0.3333333333333333]`},
		{tool: "calc_batch_image_hotspot_percentage", args: `{"file_list":["d/none.tif"],"threshold":1}`, want: "insufficient", says: "no image has a value"},
		{tool: "calc_batch_fire_pixels", args: `{"file_list":["d/dn.tif","d/none.tif"],"fire_threshold":10}`, want: `[2,null]`, warns: "d/none.tif"},
		{tool: "count_above_threshold", args: `{"file_path":"d/two.tif","threshold":1}`, want: `2`, used: 3},
		{tool: "count_above_threshold", args: `{"file_path":"d/none.tif","threshold":1}`, want: "insufficient", says: "no valid pixels"},
		{tool: "calc_extreme_snow_loss_percentage_from_binary_map", args: `{"binary_map_path":"d/map.tif"}`, want: `0.3333333333333333`},
		{tool: "calc_extreme_snow_loss_percentage_from_binary_map", args: `{"binary_map_path":"d/map255.tif"}`, want: `0.6666666666666666`},
		{tool: "calc_extreme_snow_loss_percentage_from_binary_map", args: `{"binary_map_path":"d/a.tif"}`, want: "error", says: "it is no binary map"},
		// valid in both: 0.1/0.9 and 0.7/0.9
		{tool: "calculate_intersection_percentage", args: `{"path1":"d/a.tif","threshold1":0.5,"path2":"d/b.tif","threshold2":0.5}`, want: `50.0`, used: 2},
		{tool: "calculate_intersection_percentage", args: `{"path1":"d/a.tif","threshold1":0.5,"path2":"d/none.tif","threshold2":0.5}`, want: "insufficient", says: "valid in both"},
		// bands 1/10, 3/30 are valid in both
		{tool: "calculate_multi_band_threshold_ratio", args: `{"image_path":"d/two.tif","band_conditions":[[0,2,"above"],[1,50,"below"]]}`, want: `50.0`, used: 2},
		{tool: "count_pixels_satisfying_conditions", args: `{"image_path":"d/two.tif","band_conditions":[[0,0,"above"],[1,50,"below"]]}`, want: `2`},
		{tool: "count_pixels_satisfying_conditions", args: `{"image_path":"d/two.tif","band_conditions":[[5,0,"above"]]}`, want: "error", says: "there is no band"},
		{tool: "count_pixels_satisfying_conditions", args: `{"image_path":"d/two.tif","band_conditions":[[0,0,"over"]]}`, want: "error", says: `/band_conditions/0/2: expected "above" or "below", got "over"`},
		{tool: "count_pixels_satisfying_conditions", args: `{"image_path":"d/two.tif","band_conditions":[[0,0]]}`, want: "error", says: "got 2 items"},
		{tool: "count_pixels_satisfying_conditions", args: `{"image_path":"d/two.tif","band_conditions":[]}`, want: "error", says: "the list is empty"},
		{tool: "count_images_exceeding_threshold_ratio", args: `{"image_paths":["d/a.tif","d/b.tif"],"value_threshold":0.75,"ratio_threshold":50}`, want: `1`},
		{tool: "count_images_exceeding_threshold_ratio", args: `{"image_paths":"d/a.tif","value_threshold":0.75,"ratio_threshold":50,"mode":"below","verbose":"false"}`, want: `1`},
		{tool: "average_ratio_exceeding_threshold", args: `{"image_paths":["d/a.tif","d/b.tif"],"value_threshold":0.75,"ratio_threshold":30}`, want: `50.0`},
		{tool: "average_ratio_exceeding_threshold", args: `{"image_paths":["d/a.tif","d/b.tif"],"value_threshold":0.75,"ratio_threshold":90}`, want: "insufficient", says: "exceeds 90 in none of the 2 images"},
		// means of dn 11, two 2; of all 6.5
		{tool: "count_images_exceeding_mean_multiplier", args: `{"image_paths":["d/dn.tif","d/two.tif"],"mean_multiplier":1.5}`, want: `1`},
		{tool: "count_images_exceeding_mean_multiplier", args: `{"image_paths":["d/dn.tif","d/two.tif"],"mean_multiplier":0.4,"mode":"below"}`, want: `1`},
		{tool: "calc_batch_image_mean_threshold", args: `{"file_list":["d/dn.tif","d/two.tif","d/none.tif"],"threshold":5}`, want: `50.0`, warns: "d/none.tif"},
		{tool: "calc_batch_image_mean_threshold", args: `{"file_list":["d/dn.tif","d/two.tif"],"threshold":11,"above":false,"return_type":"count"}`, want: `1`},
		{tool: "calc_batch_image_mean_threshold", args: `{"file_list":["d/dn.tif"],"threshold":127,"uint8":true,"return_type":"count"}`, want: `1`}, // 0, 127, 255: 127.3
		{tool: "calculate_band_mean_by_condition", args: `{"image_path":"d/two.tif","condition_band_index":0,"condition_threshold":3,"target_band_index":1}`, want: `30.0`, used: 1},
		{tool: "calculate_band_mean_by_condition", args: `{"image_path":"d/two.tif","condition_band_index":0,"condition_threshold":3,"condition_mode":"below","target_band_index":1}`, want: `10.0`},
		{tool: "calculate_band_mean_by_condition", args: `{"image_path":"d/two.tif","condition_band_index":0,"condition_threshold":9,"target_band_index":1}`, want: "insufficient", says: "condition value ≥ 9"},
		// by the dates in the names: only the first date is above 305, at 310 and 320
		{tool: "calc_threshold_value_mean", args: `{` + pair + `,"threshold":305}`, want: `0.30000000447034836`, used: 2, warns: "no valid pixel where d/lst_2022-01-17.tif"},
		{tool: "calc_threshold_value_mean", args: `{"path1":"d/a.tif","path2":"d/b.tif","threshold":0.05}`, want: `0.8999999761581421`, used: 2},
		{tool: "calc_threshold_value_mean", args: `{` + pair + `,"threshold":900}`, want: "insufficient", says: "exceed 900 nowhere"},
		{tool: "calc_threshold_value_mean", args: `{"path1":"d/lst_2022-01-01.tif","path2":"d/tvdi_2022-01-17.tif"}`, want: "error", says: "no time in its names occurs in those of path1"},
		{tool: "calc_threshold_value_mean", args: `{"path1":["d/a.tif","d/b.tif"],"path2":"d/b.tif"}`, want: "error", says: "1 files for 2"},
	})
}

func TestMasksAndMaps(t *testing.T) {
	l := newLab(t)
	x := func(v ...float64) map[string][]float64 { return map[string][]float64{"benchmark/out/q/x.tif": v} }
	const saveX, savedX = `"Result save at benchmark/out/q/x.tif"`, `"Result saved at benchmark/out/q/x.tif"`
	l.put("d/a.tif", file{width: 3}, []float64{1, 5, no, 20, 30, 40})
	l.put("d/b.tif", file{width: 3}, []float64{3, no, no, 10, 10, 10})
	l.put("d/neg.tif", file{width: 3}, []float64{-1, -1, 0, 0, no, no})
	l.put("d/none.tif", file{width: 3}, []float64{no, no, no, no, no, no})
	l.put("d/two.tif", file{width: 2}, []float64{1, 2}, []float64{3, no})
	l.put("d/sr.tif", file{width: 3, kind: raster.Uint16}, []float64{0, 10000, 20000, 30000, 40000, 50000})
	l.put("d/qa.tif", file{width: 3, kind: raster.Uint16, nodata: new(1.0)}, []float64{1, 64, 64 + 8, 64 + 16, 64 + 4, 64 + 2})
	l.put("d/qafill.tif", file{width: 3, kind: raster.Uint16, nodata: new(1.0)}, []float64{1, 1, 1, 1, 1, 1})
	l.put("d/side.tif", file{width: 3, kind: raster.Uint8, nodata: new(9.0)}, []float64{0, 0, 255, 0, 255, 255, 0, 0, 0})
	l.put("d/ring.tif", file{width: 3, kind: raster.Uint8, nodata: new(9.0)}, []float64{1, 1, 1, 1, 1, 1, 1, 1, 1})
	l.put("d/empty.tif", file{width: 3, kind: raster.Uint8, nodata: new(9.0)}, []float64{0, 0, 0, 0, 0, 0, 0, 0, 0})
	l.picture("d/mask.png", 4, []uint8{255, 0, 255, 0, 0, 0, 255, 255})
	l.picture("d/rgb.png", 2, []uint8{0, 9}, []uint8{0, 9}, []uint8{3, 9})
	blocks := make([]uint8, 12*6)
	for y := 1; y < 5; y++ {
		for x := 1; x < 5; x++ {
			blocks[y*12+x], blocks[y*12+x+6] = 255, 255
		}
	}
	l.picture("d/blocks.png", 12, blocks)
	ones := make([]uint8, len(blocks))
	for i, b := range blocks {
		ones[i] = b / 255
	}
	l.picture("d/ones.png", 12, ones)
	l.check([]rasterCase{
		{tool: "threshold_segmentation", args: `{"input_image_path":"d/a.tif","threshold":20,"output_path":"q/x.tif"}`, want: saveX, files: x(0, 0, no, 0, 255, 255), used: 5},
		{tool: "threshold_segmentation", args: `{"input_image_path":"d/rgb.png","threshold":5,"output_path":"q/m.png"}`, want: `"Result save at benchmark/out/q/m.png"`,
			files: map[string][]float64{"benchmark/out/q/m.png": {0, 255}}},
		{tool: "threshold_segmentation", args: `{"input_image_path":"d/a.tif","threshold":20,"output_path":"q/holes.png"}`, want: `"Result save at benchmark/out/q/holes.png"`,
			files: map[string][]float64{"benchmark/out/q/holes.png": {0, 0, 0, 0, 255, 255}}, warns: "1 missing pixels of benchmark/out/q/holes.png became 0"},
		{tool: "calc_batch_image_hotspot_tif", args: `{"file_list":["d/a.tif"],"threshold":20,"output_path_list":["q/x.tif"]}`, want: `[` + saveX + `]`, files: x(1, 1, no, 0, 0, 0)},
		{tool: "create_fire_increase_map", args: `{"change_image_path":"d/a.tif","output_path":"q/x.tif"}`, want: saveX, files: x(0, 0, no, 1, 1, 1)},
		{tool: "identify_fire_prone_areas", args: `{"file_path":"d/a.tif","output_path":"q/x.tif"}`, want: `[` + saveX + `,30.0]`, files: x(0, 0, no, 0, 1, 1), used: 5},
		{tool: "identify_fire_prone_areas", args: `{"file_path":"d/neg.tif","output_path":"q/y.tif"}`, want: "insufficient", says: "no valid pixel is positive"},
		{tool: "calculate_tif_average", args: `{"file_list":["d/a.tif","d/b.tif"],"output_path":"q/x.tif"}`, want: saveX, files: x(2, 5, no, 15, 20, 25), used: 5},
		{tool: "calculate_tif_average", args: `{"file_list":["d/two.tif","d/two.tif"],"output_path":"q/x.tif"}`, want: saveX, files: x(1, 2, 3, no)},
		{tool: "calculate_tif_average", args: `{"file_list":["d/a.tif","d/two.tif"],"output_path":"q/x.tif"}`, want: "error", says: "rasters do not match"},
		{tool: "calculate_tif_average", args: `{"file_list":["d/sr.tif"],"output_path":"q/x.tif","uint8":true}`, want: "error", says: "1 of 6 pixels have no data"},
		{tool: "calculate_tif_average", args: `{"file_list":["d/qa.tif"],"output_path":"q/x.tif"}`, want: saveX, files: x(no, 64, 72, 80, 68, 66)},
		{tool: "calculate_tif_difference", args: `{"image_a_path":"d/a.tif","image_b_path":"d/b.tif","output_path":"q/x.tif"}`, want: saveX, files: x(2, no, no, -10, -20, -30), used: 4},
		{tool: "subtract", args: `{"img1_path":"d/a.tif","img2_path":"d/b.tif","output_path":"q/x.tif"}`, want: saveX, files: x(-2, no, no, 10, 20, 30)},
		{tool: "subtract", args: `{"img1_path":"d/a.tif","img2_path":"d/none.tif","output_path":"q/y.tif"}`, want: "insufficient", says: "no pixel is valid"},
		{tool: "calculate_area", args: `{"input_image_path":"d/mask.png","gsd":null}`, want: `4.0`, used: 8},
		{tool: "calculate_area", args: `{"image_path":"d/mask.png","gsd":0.13}`, want: `0.0676`},
		{tool: "calculate_area", args: `{"input_image_path":"d/rgb.png","gsd":2}`, want: `8.0`}, // two pixels, one set in blue alone
		{tool: "calculate_area", args: `{"input_image_path":"d/mask.png","gsd":0}`, want: "error", says: "gsd"},
		// two blocks of 4×4 keep a core each
		{tool: "count_skeleton_contours", args: `{"image_path":"d/blocks.png"}`, want: `2`},
		{tool: "count_skeleton_contours", args: `{"image_path":"d/ones.png"}`, want: `2`},
		{tool: "radiometric_correction_sr", args: `{"input_band_path":"d/sr.tif","output_path":"q/x.tif"}`, want: savedX, files: x(no, 0.075, 0.35, 0.625, 0.9, 1.175)},
		{tool: "apply_cloud_mask", args: `{"sr_band_path":"d/sr.tif","qa_pixel_path":"d/qa.tif","output_path":"q/x.tif"}`, want: savedX, files: x(no, 10000, no, no, no, no)},
		{tool: "apply_cloud_mask", args: `{"sr_band_path":"d/sr.tif","qa_pixel_path":"d/qafill.tif","output_path":"q/y.tif"}`, want: "insufficient", says: "QA_PIXEL marks every pixel"},
		// lists: the scene without a clear pixel is missing in the answer
		{tool: "apply_cloud_mask", args: `{"sr_band_path":["d/sr.tif","d/sr.tif"],"qa_pixel_path":["d/qa.tif","d/qafill.tif"],"output_path":["q/x.tif","q/y.tif"]}`,
			want: `[` + savedX + `,null]`, files: x(no, 10000, no, no, no, no), warns: "q/y.tif: QA_PIXEL marks every pixel"},
		{tool: "apply_cloud_mask", args: `{"sr_band_path":["d/sr.tif","d/sr.tif"],"qa_pixel_path":["d/qa.tif"],"output_path":["q/x.tif","q/y.tif"]}`, want: "error", says: "1 paths, but output_path has 2"},
		// the middle counts for no side; the others are north-east (half each) and east
		{tool: "analyze_hotspot_direction", args: `{"hotspot_map_path":"d/side.tif"}`, want: `"east"`, used: 3},
		{tool: "analyze_hotspot_direction", args: `{"hotspot_map_path":"d/ring.tif"}`, want: `"north"`, warns: "north and south hold equally many"},
		{tool: "analyze_hotspot_direction", args: `{"hotspot_map_path":"d/empty.tif"}`, want: "insufficient", says: "no hotspots"},
		{tool: "analyze_hotspot_direction", args: `{"hotspot_map_path":"d/a.tif"}`, want: "error", says: "no binary map"},
		{tool: "grayscale_to_colormap", args: `{"image_path":"d/b.tif","save_name":"q/b.png","cmap_name":"gray"}`, want: `"Result save at benchmark/out/q/b.png"`, // 3 and 10 are black and white
			files: map[string][]float64{"benchmark/out/q/b.png": {0, 0, 0, 255, 255, 255, 0, 0, 0, 255, 255, 255, 0, 0, 0, 255, 255, 255}}},
		{tool: "grayscale_to_colormap", args: `{"image_path":"d/b.tif","save_name":"q/b.png","preserve_geo":true}`, want: `"Result save at benchmark/out/q/b.tif"`},
		{tool: "grayscale_to_colormap", args: `{"image_path":"d/b.tif","save_name":"q/b.png","cmap_name":"virids"}`, want: "error", says: `no colour map "virids"`},
		{tool: "grayscale_to_colormap", args: `{"image_path":"d/b.tif","save_name":"q/b"}`, want: "error", says: "names no picture"},
		{tool: "grayscale_to_colormap", args: `{"image_path":"d/none.tif","save_name":"q/n.png"}`, want: "insufficient", says: "no pixel is valid"},
	})
}

func TestFileList(t *testing.T) {
	l := newLab(t)
	for _, name := range []string{"b_2.tif", "b_10.tif", "B.tif", ".hidden.tif", "sub/c.tif"} {
		l.put("benchmark/data/question1/"+name, file{width: 1}, []float64{1})
	}
	if err := os.Mkdir(filepath.Join(l.w.Dir(), "empty"), 0o755); err != nil {
		t.Fatal(err)
	}
	l.check([]rasterCase{
		{tool: "get_filelist", args: `{"dir_path":"benchmark/data/question1"}`, want: `["B.tif","b_10.tif","b_2.tif","sub"]`, used: 4},
		{tool: "get_filelist", args: `{"dir_path":"benchmark/data/question1/"}`, want: `["B.tif","b_10.tif","b_2.tif","sub"]`},
		{tool: "get_filelist", args: `{"dir_path":"empty"}`, want: `[]`, warns: "the folder is empty"},
		{tool: "get_filelist", args: `{"dir_path":"benchmark/data/question2"}`, want: "error", says: `has "question1"`},
		{tool: "get_filelist", args: `{"dir_path":"benchmark/data/question1/B.tif"}`, want: "error", says: "is a file; name a folder"},
		{tool: "get_filelist", args: `{"dir_path":"/"}`, want: "error", says: "leads outside"},
	})
}

// Gi* of three pixels in a row with equal weights for a pixel and its neighbours:
// x = 0 0 3, mean 1, s² = 2. At the left end Σw = 2 of n = 3: (0-2)/(√2·√((3·2-4)/2)).
func TestGiStar(t *testing.T) {
	l := newLab(t)
	l.put("d/a.tif", file{width: 3}, []float64{0, 0, 3})
	l.put("d/hole.tif", file{width: 4}, []float64{0, 0, 3, no})
	l.put("d/flat.tif", file{width: 3}, []float64{4, 4, 4})
	x := func(v ...float64) map[string][]float64 { return map[string][]float64{"benchmark/out/q/x.tif": v} }
	l.check([]rasterCase{
		{tool: "getis_ord_gi_star", args: `{"image_path":"d/a.tif","weight_matrix":[[1,1,1]],"output_path":"q/x.tif"}`, want: `"Result save at benchmark/out/q/x.tif"`,
			files: x(-1.4142135, no, 0.70710678), used: 2}, // the middle pixel has all three for neighbours: no variance
		// a hole is no neighbour, so the pixel before it has the value of an end
		{tool: "getis_ord_gi_star", args: `{"image_path":"d/hole.tif","weight_matrix":[[1,1,1]],"output_path":"q/x.tif"}`, want: `"Result save at benchmark/out/q/x.tif"`,
			files: x(-1.4142135, no, 0.70710678, no)},
		// a weight to the right looks right
		{tool: "getis_ord_gi_star", args: `{"image_path":"d/a.tif","weight_matrix":[[0,0,1]],"output_path":"q/x.tif"}`, want: `"Result save at benchmark/out/q/x.tif"`,
			files: x(-0.70710678, 1.4142135, no)},
		{tool: "getis_ord_gi_star", args: `{"image_path":"d/flat.tif","weight_matrix":[[1,1,1]],"output_path":"q/y.tif"}`, want: "insufficient", says: "standard deviation 0"},
		{tool: "getis_ord_gi_star", args: `{"image_path":"d/a.tif","weight_matrix":[[1,1]],"output_path":"q/y.tif"}`, want: "error", says: "have no middle"},
		{tool: "getis_ord_gi_star", args: `{"image_path":"d/a.tif","weight_matrix":[[1,1,1],[1,1,1],[1]],"output_path":"q/y.tif"}`, want: "error", says: "/weight_matrix/2: 1 weights in a matrix of 3 columns"},
		{tool: "getis_ord_gi_star", args: `{"image_path":"d/a.tif","weight_matrix":[[1,-2,1]],"output_path":"q/y.tif"}`, want: "error", says: "sum to 0"},
		{tool: "getis_ord_gi_star", args: `{"image_path":"d/a.tif","weight_matrix":[[]],"output_path":"q/y.tif"}`, want: "error", says: "the matrix is empty"},
	})
}

func TestPreparation(t *testing.T) {
	l := newLab(t)
	l.put("d/lst.tif", file{width: 3, kind: raster.Uint16, bands: []raster.BandSpec{{Description: "LST", Unit: "K", Scale: 0.02}}}, []float64{15000, 0, 15100})
	l.put("d/none.tif", file{width: 3}, []float64{no, no, no})
	l.put("d/AST_L1T_B13.tif", file{width: 3, kind: raster.Uint16}, []float64{1500, 1, 0})
	l.put("d/LC08_B10.tif", file{width: 1, kind: raster.Uint16}, []float64{25000})
	l.put("d/modis_31.tif", file{width: 1, kind: raster.Uint16, bands: []raster.BandSpec{{Description: "Emissive 31", Scale: 0.001}}}, []float64{9500})
	l.put("d/stated.tif", file{width: 1, kind: raster.Uint16, bands: []raster.BandSpec{{Scale: 3.342e-4, Offset: 0.1, Metadata: map[string]string{"K1": "774.8853", "K2": "1321.0789"}}}}, []float64{25000})
	l.put("d/kelvin.tif", file{width: 1, kind: raster.Uint16, bands: []raster.BandSpec{{Scale: 0.1, Offset: 150, Metadata: map[string]string{"MEASURES": "brightness temperature"}}}}, []float64{1350})
	l.put("d/modis_32.tif", file{width: 1, kind: raster.Uint16}, []float64{9500})
	l.put("d/x.tif", file{width: 1, kind: raster.Uint16}, []float64{9500})
	l.check([]rasterCase{
		{tool: "apply_scale_offset", args: `{"file_list":["d/lst.tif"],"scale":0.02,"output_path":["q/lst.tif"]}`, want: `["benchmark/out/q/lst.tif"]`,
			files: map[string][]float64{"benchmark/out/q/lst.tif": {300, no, 302}}, used: 2},
		{tool: "apply_scale_offset", args: `{"path":"d/lst.tif","scale":0.02,"offset":-273.15,"output_path":"q/c.tif"}`, want: `["benchmark/out/q/c.tif"]`,
			files: map[string][]float64{"benchmark/out/q/c.tif": {26.85, no, 28.85}}},
		{tool: "apply_scale_offset", args: `{"file_list":["d/lst.tif","d/none.tif"],"scale":0.02,"output_path":["q/a.tif","q/b.tif"]}`, want: `["benchmark/out/q/a.tif",null]`, warns: "d/none.tif: no pixel is valid"},
		{tool: "apply_scale_offset", args: `{"file_list":["d/none.tif"],"scale":0.02,"output_path":["q/b.tif"]}`, want: "insufficient", says: "no file has a valid pixel"},
		{tool: "apply_scale_offset", args: `{"file_list":["d/lst.tif"],"scale":0,"output_path":["q/b.tif"]}`, want: "error", says: "/scale: a scale of 0"},
		{tool: "apply_scale_offset", args: `{"file_list":["d/lst.tif","d/lst.tif"],"scale":1,"output_path":["q/b.tif"]}`, want: "error", says: "/output_path: 1 paths, but file_list has 2"},
		// numbers worked out apart from the code; 1 is ASTER's number for no radiance
		{tool: "extract_brightness_temperature", args: `{"file_list":["d/AST_L1T_B13.tif"],"output_path":["q/bt.tif"]}`, want: `["benchmark/out/q/bt.tif"]`,
			files: map[string][]float64{"benchmark/out/q/bt.tif": {291.57987977433324, no, no}}, used: 1},
		{tool: "extract_bt", args: `{"file_list":["d/LC08_B10.tif"],"output_path":["q/bt.tif"]}`, want: `["benchmark/out/q/bt.tif"]`,
			files: map[string][]float64{"benchmark/out/q/bt.tif": {291.70557490856805}}},
		{tool: "extract_modis_bt", args: `{"file_list":["d/modis_31.tif"],"output_path":["q/bt.tif"]}`, want: `["benchmark/out/q/bt.tif"]`,
			files: map[string][]float64{"benchmark/out/q/bt.tif": {299.58582093599426}}},
		{tool: "extract_bt", args: `{"file_list":["d/stated.tif","d/kelvin.tif"],"output_path":["q/a.tif","q/b.tif"]}`, want: `["benchmark/out/q/a.tif","benchmark/out/q/b.tif"]`,
			files: map[string][]float64{"benchmark/out/q/a.tif": {291.70557490856805}, "benchmark/out/q/b.tif": {285}}},
		{tool: "extract_bt", args: `{"file_list":["d/x.tif"],"bands":["ASTER 13"],"output_path":["q/bt.tif"]}`, want: `["benchmark/out/q/bt.tif"]`},
		{tool: "extract_bt", args: `{"file_list":["d/x.tif"],"output_path":["q/bt.tif"]}`, want: "error", says: `give bands as ["ASTER 13"]`},
		{tool: "extract_bt", args: `{"file_list":["d/x.tif"],"bands":["B10"],"output_path":["q/bt.tif"]}`, want: "error", says: `sensor "", band "10"`},
		{tool: "extract_bt", args: `{"file_list":["d/modis_32.tif"],"output_path":["q/bt.tif"]}`, want: "error", says: "needs the radiance scale of its file"},
	})
	// The unit and the name of a band are kept, the scale is gone.
	r, err := l.w.OpenRaster("q/lst.tif")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if b := r.Info.Bands[0]; b.Description != "LST" || b.Unit != "K" || b.Scale != 1 {
		t.Errorf("the band is %+v", b)
	}
}
