package tools

import (
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"terraloom/agent/raster"
	"terraloom/data/catalogue"
	"terraloom/data/strictjson"
)

// validCalls are one call of each tool that has files, over the files of
// evidenceLab, with the family of its evidence. Pure tools take theirs from cases.
var validCalls = map[string]struct {
	family Family
	args   string
}{
	"calculate_batch_ndvi": {Execute, `{"input_nir_paths":["nir.tif"],"input_red_paths":["red.tif"],"output_paths":["o/x.tif"]}`},
	"calculate_batch_ndwi": {Execute, `{"input_nir_paths":["nir.tif"],"input_swir_paths":["swir.tif"],"output_paths":["o/x.tif"]}`},
	"calculate_batch_ndbi": {Execute, `{"input_swir_paths":["swir.tif"],"input_nir_paths":["nir.tif"],"output_paths":["o/x.tif"]}`},
	"calculate_batch_evi":  {Execute, `{"input_nir_paths":["nir.tif"],"input_red_paths":["red.tif"],"input_blue_paths":["swir.tif"],"output_paths":["o/x.tif"]}`},
	"calculate_batch_nbr":  {Execute, `{"input_nir_paths":["nir.tif"],"input_swir_paths":["swir.tif"],"output_paths":["o/x.tif"]}`},
	"calculate_batch_fvc":  {Execute, `{"input_nir_paths":["nir.tif"],"input_red_paths":["red.tif"],"output_paths":["o/x.tif"]}`},
	"calculate_batch_wri":  {Execute, `{"input_green_paths":["green.tif"],"input_red_paths":["red.tif"],"input_nir_paths":["nir.tif"],"input_swir_paths":["swir.tif"],"output_paths":["o/x.tif"]}`},
	"calculate_batch_ndti": {Execute, `{"input_red_paths":["red.tif"],"input_green_paths":["green.tif"],"output_paths":["o/x.tif"]}`},
	"calculate_batch_frp":  {Execute, `{"input_frp_paths":["warm.tif"],"output_paths":["o/x.tif"],"fire_threshold":295}`},
	"calculate_batch_ndsi": {Execute, `{"green_file_list":["green.tif"],"swir_file_list":["swir.tif"],"output_path_list":["o/x.tif"]}`},
	"calculate_ndvi":       {Execute, `{"input_nir_path":"nir.tif","input_red_path":"red.tif","output_path":"o/x.tif"}`},
	"calculate_ndwi":       {Execute, `{"input_nir_path":"nir.tif","input_swir_path":"swir.tif","output_path":"o/x.tif"}`},
	"calculate_nbr":        {Execute, `{"input_nir_path":"nir.tif","input_swir_path":"swir.tif","output_path":"o/x.tif"}`},
	"calculate_ndti":       {Execute, `{"input_red_path":"red.tif","input_green_path":"green.tif","output_path":"o/x.tif"}`},
	"compute_tvdi":         {Execute, `{"ndvi_path":"ndvi.tif","lst_path":"lst.tif","output_path":"o/x.tif"}`},
	"calc_extreme_snow_loss_percentage_from_binary_map": {Measure, `{"binary_map_path":"map.tif"}`},

	"band_ratio":                        {Execute, `{"sur_refl_b02_path":"nir.tif","sur_refl_b05_path":"nir.tif","sur_refl_b17_path":"red.tif","sur_refl_b18_path":"red.tif","sur_refl_b19_path":"red.tif","output_path":"o/x.tif"}`},
	"lst_single_channel":                {Execute, `{"bt_path":"warm.tif","red_path":"red.tif","nir_path":"nir.tif","output_path":"o/x.tif"}`},
	"lst_multi_channel":                 {Execute, `{"band31_path":"warm.tif","band32_path":"mild.tif","output_path":"o/x.tif"}`},
	"split_window":                      {Execute, `{"band31_path":"warm.tif","band32_path":"mild.tif","emissivity31_path":"emis.tif","emissivity32_path":"emis.tif","parameter":"LST","output_path":"o/x.tif"}`},
	"temperature_emissivity_separation": {Execute, `{"tir_band_paths":["BT_10.tif","BT_11.tif","BT_12.tif"],"representative_band_index":1,"output_path":"o/x.tif"}`},
	"modis_day_night_lst":               {Execute, `{"BT_day_path":"warm.tif","BT_night_path":"cool.tif","Emis_day_path":"emis.tif","Emis_night_path":"emis.tif","output_path":"o/x.tif"}`},
	"ttm_lst":                           {Execute, `{"tir_band_paths":["BT_10.tif","BT_11.tif","BT_12.tif"],"output_path":"o/x.tif"}`},
	"calculate_mean_lst_by_ndvi":        {Execute, `{"red_paths":"red.tif","nir_paths":"nir.tif","lst_paths":"warm.tif","ndvi_threshold":0.3}`},
	"calculate_max_lst_by_ndvi":         {Execute, `{"red_path":"red.tif","nir_path":"nir.tif","lst_path":"warm.tif","ndvi_threshold":0.3}`},
	"ATI":                               {Execute, `{"day_temp_path":"warm.tif","night_temp_path":"cool.tif","albedo_path":"swir.tif","output_path":"o/x.tif"}`},
	"dual_polarization_differential":    {Execute, `{"pol1_path":"vv.tif","pol2_path":"vh.tif","parameter":"soil_moisture","output_path":"o/x.tif"}`},
	"dual_frequency_diff":               {Execute, `{"band1_path":"nir.tif","band2_path":"red.tif","parameter":"SM","alpha":0.7,"beta":0.1,"output_path":"o/x.tif"}`},
	"multi_freq_bt":                     {Execute, `{"bt_paths":["warm.tif","mild.tif","cool.tif"],"diff_pairs":[[0,1],[1,2]],"parameter":"SM","output_path":"o/x.tif"}`},
	"chang_single_param_inversion":      {Execute, `{"bt_paths":["warm.tif","mild.tif","cool.tif"],"diff_pairs":[[0,1],[1,2],[0,2]],"parameter":"VWC","output_path":"o/x.tif"}`},
	"nasa_team_sea_ice_concentration":   {Execute, `{"bt_paths":{"19V":"warm.tif","19H":"cool.tif","37V":"mild.tif","37H":"cool.tif"},"output_path":"o/x.tif","nd_ice":15,"nd_water":75,"s1_ice":10,"s1_water":60}`},
	"dual_polarization_ratio":           {Execute, `{"bt_paths":{"V":"warm.tif","H":"cool.tif"},"parameter":"SM","output_path":"o/x.tif"}`},
	"calculate_water_turbidity_ntu":     {Execute, `{"input_red_path":"red.tif","output_path":"o/x.tif","a":50,"b":1}`},

	"threshold_segmentation":  {Execute, `{"input_image_path":"warm.tif","threshold":295,"output_path":"o/x.tif"}`},
	"count_above_threshold":   {Measure, `{"file_path":"warm.tif","threshold":295}`},
	"count_skeleton_contours": {Measure, `{"image_path":"mask.png"}`},
	"MSCN":                    {Perceive, `{"input_image_path":"park.png"}`},
	"RemoteCLIP":              {Perceive, `{"input_image_path":"park.png"}`},
	"Strip_R_CNN":             {Perceive, `{"input_image_path":"park.png","text_prompt":"tennis court"}`},
	"SM3Det":                  {Perceive, `{"input_image_path":"park.png","text_prompt":"tennis court"}`},
	"RemoteSAM":               {Perceive, `{"image_path":"park.png","text_prompt":"the largest tennis court"}`},
	"InstructSAM":             {Perceive, `{"input_image_path":"park.png","text_prompt":"tennis court"}`},
	"SAM2":                    {Perceive, `{"input_image_path":"park.png","bbox":[[10,10,60,60]],"output_path":"o/m.png"}`},
	"ChangeOS":                {Perceive, `{"pre_image_path":"pre.png","post_image_path":"post.png","output_path":"o/c.png"}`},

	"getis_ord_gi_star":         {Execute, `{"image_path":"warm.tif","weight_matrix":[[1,1,1]],"output_path":"o/x.tif"}`},
	"analyze_hotspot_direction": {Execute, `{"hotspot_map_path":"map.tif"}`},

	"calc_batch_image_mean":                  {Execute, `{"file_list":["warm.tif","cool.tif"]}`},
	"calc_batch_image_std":                   {Execute, `{"file_list":["warm.tif","cool.tif"]}`},
	"calc_batch_image_median":                {Execute, `{"file_list":["warm.tif","cool.tif"]}`},
	"calc_batch_image_min":                   {Execute, `{"file_list":["warm.tif","cool.tif"]}`},
	"calc_batch_image_max":                   {Execute, `{"file_list":["warm.tif","cool.tif"]}`},
	"calc_batch_image_skewness":              {Execute, `{"file_list":["warm.tif","cool.tif"]}`},
	"calc_batch_image_kurtosis":              {Execute, `{"file_list":["warm.tif","cool.tif"]}`},
	"calc_batch_image_sum":                   {Execute, `{"file_list":["warm.tif","cool.tif"]}`},
	"calc_batch_image_hotspot_percentage":    {Measure, `{"file_list":["warm.tif","cool.tif"],"threshold":295}`},
	"calc_batch_image_hotspot_tif":           {Execute, `{"file_list":["warm.tif"],"threshold":295,"output_path_list":["o/x.tif"]}`},
	"calculate_threshold_ratio":              {Measure, `{"image_paths":["warm.tif","cool.tif"],"threshold":295}`},
	"calc_batch_fire_pixels":                 {Measure, `{"file_list":["warm.tif","cool.tif"],"fire_threshold":295}`},
	"create_fire_increase_map":               {Execute, `{"change_image_path":"warm.tif","output_path":"o/x.tif"}`},
	"identify_fire_prone_areas":              {Execute, `{"file_path":"warm.tif","output_path":"o/x.tif"}`},
	"get_percentile_value_from_image":        {Execute, `{"image_path":"warm.tif","percentile":70}`},
	"image_division_mean":                    {Execute, `{"image_path1":"warm.tif","image_path2":"cool.tif"}`},
	"calculate_intersection_percentage":      {Measure, `{"path1":"warm.tif","threshold1":295,"path2":"cool.tif","threshold2":280}`},
	"calc_batch_image_mean_mean":             {Execute, `{"file_list":["warm.tif","cool.tif"]}`},
	"calc_batch_image_mean_max":              {Execute, `{"file_list":["warm.tif","cool.tif"]}`},
	"calc_batch_image_mean_max_min":          {Execute, `{"file_list":["warm.tif","cool.tif"]}`},
	"calc_batch_image_mean_threshold":        {Execute, `{"file_list":["warm.tif","cool.tif"],"threshold":290}`},
	"calculate_multi_band_threshold_ratio":   {Measure, `{"image_path":"two.tif","band_conditions":[[0,2,"above"],[1,50,"below"]]}`},
	"count_pixels_satisfying_conditions":     {Measure, `{"image_path":"two.tif","band_conditions":[[0,0,"above"],[1,50,"below"]]}`},
	"count_images_exceeding_threshold_ratio": {Execute, `{"image_paths":["warm.tif","cool.tif"],"value_threshold":295,"ratio_threshold":30}`},
	"average_ratio_exceeding_threshold":      {Execute, `{"image_paths":["warm.tif","cool.tif"],"value_threshold":295,"ratio_threshold":30}`},
	"count_images_exceeding_mean_multiplier": {Execute, `{"image_paths":["warm.tif","cool.tif"],"mean_multiplier":1.01}`},
	"calculate_band_mean_by_condition":       {Execute, `{"image_path":"two.tif","condition_band_index":0,"condition_threshold":3,"target_band_index":1}`},
	"calc_threshold_value_mean":              {Execute, `{"path1":"warm.tif","path2":"red.tif","threshold":295}`},
	"calculate_tif_average":                  {Execute, `{"file_list":["warm.tif","cool.tif"],"output_path":"o/x.tif"}`},
	"calculate_tif_difference":               {Execute, `{"image_a_path":"cool.tif","image_b_path":"warm.tif","output_path":"o/x.tif"}`},
	"subtract":                               {Execute, `{"img1_path":"warm.tif","img2_path":"cool.tif","output_path":"o/x.tif"}`},
	"calculate_area":                         {Measure, `{"input_image_path":"mask.png","gsd":0.3}`},
	"grayscale_to_colormap":                  {Execute, `{"image_path":"warm.tif","save_name":"o/c.png"}`},
	"get_filelist":                           {Execute, `{"dir_path":"."}`},
	"radiometric_correction_sr":              {Execute, `{"input_band_path":"sr.tif","output_path":"o/x.tif"}`},
	"apply_cloud_mask":                       {Execute, `{"sr_band_path":"sr.tif","qa_pixel_path":"qa.tif","output_path":"o/x.tif"}`},

	"download_product":               {Execute, `{"source":"MOD11A1","bands":["LST"],"bbox":[9,50,10,51],"time_range":["2013-01-03","2013-01-03"],"base_save_name":"x"}`},
	"apply_scale_offset":             {Execute, `{"file_list":["sr.tif"],"scale":0.0000275,"offset":-0.2,"output_path":["o/x.tif"]}`},
	"extract_brightness_temperature": {Execute, `{"file_list":["AST_L1T_B13.tif"],"output_path":["o/x.tif"]}`},
}

// evidenceLab has the small valid input of every tool.
func evidenceLab(t *testing.T) *lab {
	t.Helper()
	l, _ := newSceneLab(t, "park.png", "pre.png", "post.png", WithArchive(shelf{}))
	three := file{width: 3}
	for name, values := range map[string][]float64{
		"red.tif": {0.1, 0.15, 0.2, no, 0.1, 0.12}, "nir.tif": {0.5, 0.4, 0.3, no, 0.2, 0.45}, "green.tif": {0.2, 0.1, 0.3, no, 0.4, 0.1}, "swir.tif": {0.2, 0.1, 0.1, no, 0.2, 0.3},
		"warm.tif": {300, 301, 290, no, 310, 305}, "mild.tif": {298, 299, 289, no, 308, 303}, "cool.tif": {280, 285, 281, no, 282, 283}, "emis.tif": {0.98, 0.97, 0.98, no, 0.97, 0.98},
		"BT_10.tif": {300, 300, 299, no, 303, 301}, "BT_11.tif": {300.5, 301, 299.5, no, 304, 302}, "BT_12.tif": {301, 301.5, 300, no, 304.5, 302.5},
		"vv.tif": {-10, -11, -12, no, -9, -10}, "vh.tif": {-20, -21, -19, no, -18, -20},
	} {
		l.put(name, three, values)
	}
	var ndvi, lst []float64
	for i := range 101 {
		n := float64(i) / 100
		for k := range 5 {
			ndvi, lst = append(ndvi, n), append(lst, 290-5*n+float64(k)/4*(30-15*n))
		}
	}
	l.put("ndvi.tif", file{width: 5}, ndvi)
	l.put("lst.tif", file{width: 5}, lst)
	l.put("two.tif", file{width: 4}, []float64{1, 2, 3, no}, []float64{10, no, 30, 40})
	l.put("map.tif", file{width: 3, kind: raster.Uint8, nodata: new(9.0)}, []float64{0, 0, 1, 0, 1, 1, 0, 0, 0})
	l.put("sr.tif", file{width: 3, kind: raster.Uint16}, []float64{0, 10000, 20000, 30000, 40000, 45000})
	l.put("qa.tif", file{width: 3, kind: raster.Uint16, nodata: new(1.0)}, []float64{1, 64, 64 + 8, 64, 64 + 16, 64})
	l.put("AST_L1T_B13.tif", file{width: 3, kind: raster.Uint16}, []float64{1500, 1600, 0})
	mask := make([]uint8, 20*20)
	for y := 4; y < 16; y++ {
		for x := 4; x < 16; x++ {
			mask[20*y+x] = 255
		}
	}
	l.picture("mask.png", 20, mask)
	return l
}

// The evidence of each of the tools of the catalogue, by name, is whole by the one
// schema; and no field of its family can be taken out of it unnoticed.
func TestEvidenceOfEveryTool(t *testing.T) {
	schema, err := evidenceSchema()
	if err != nil {
		t.Fatal(err)
	}
	l := evidenceLab(t)
	pure := map[string]string{"stl_decompose": `{"x":[1,2,3,1,2,3,1,2,3,1,2,3],"period":3}`} // its case has a test of its own
	for _, c := range cases {
		if pure[c.tool] == "" && c.want != "error" {
			pure[c.tool] = c.args
		}
	}
	n := 0
	for _, tool := range catalogue.Default().Tools() {
		n++
		t.Run(tool.Name, func(t *testing.T) {
			call, ok := validCalls[tool.Name]
			if tool.Pure {
				call.family, call.args, ok = Execute, pure[tool.Name], pure[tool.Name] != ""
			}
			if !ok {
				t.Fatal("no valid call of it is written down")
			}
			res, err := l.correct.Invoke(t.Context(), tool.Name, mustParse(t, call.args))
			if err != nil {
				t.Fatal(err)
			}
			checkEvidence(t, tool.Name, &res)
			if res.Evidence.Status != OK || res.Evidence.Family != call.family {
				t.Errorf("%s evidence is %s: %s; want %s", res.Evidence.Family, res.Evidence.Status, res.Evidence.Reason, call.family)
			}
			whole := res.Evidence.Value()
			for i := range whole.Len() {
				part := whole.Index(i)
				for k := -1; k < part.Len() && (k < 0 || part.Kind() == strictjson.Object); k++ {
					doc, err := jsonschema.UnmarshalJSON(strings.NewReader(cut(whole, i, k).JSON()))
					if err != nil {
						t.Fatal(err)
					}
					if schema.Validate(doc) == nil {
						t.Errorf("it passes without field %d of %s", k, whole.Key(i))
					}
				}
			}
		})
	}
	if n != len(validCalls)+len(pureFuncs) {
		t.Errorf("%d tools in the catalogue; %d calls and %d pure tools here", n, len(validCalls), len(pureFuncs))
	}
}
