package tools

import "testing"

func TestRetrievals(t *testing.T) {
	l := newLab(t)
	four := file{width: 4}
	x := func(v ...float64) map[string][]float64 { return map[string][]float64{"benchmark/out/q/x.tif": v} }
	const saved = `"Result saved at benchmark/out/q/x.tif"`
	l.put("d/bt.tif", four, []float64{300, 300, 300, 0})
	l.put("d/red.tif", four, []float64{0.3, 0.05, 0.1, 0.1})
	l.put("d/nir.tif", four, []float64{0.3, 0.45, 0.3, 0.3}) // NDVI 0, 0.8, 0.5, 0.5
	l.put("d/bt32.tif", four, []float64{298, 298, no, 298})
	l.put("d/e31.tif", four, []float64{0.98, 0.98, 0.98, 240})
	l.put("d/e32.tif", four, []float64{0.97, 240, 0.97, 0.97})
	l.put("d/night.tif", four, []float64{280, 300, 310, 290})
	l.put("d/e.tif", four, []float64{0.97, 0.97, 0.97, 0.97})
	l.put("d/albedo.tif", four, []float64{0.2, 0.2, 0.2, 0.2})
	l.put("d/albedo_dn.tif", four, []float64{200, 200, 200, 200})
	l.put("d/BT_10.tif", four, []float64{300, 300, 0, 308.3284425336778})
	l.put("d/BT_11.tif", four, []float64{300.5, 300, 300, 307.08301251853294})
	l.put("d/BT_12.tif", four, []float64{301, 300, 300, 300.50371505180584})
	l.put("d/b2.tif", four, []float64{0.3, 0.3, 0.3, no})
	l.put("d/b5.tif", four, []float64{0.4, 0.3, 0.3, 0.3})
	l.put("d/b17.tif", four, []float64{0.25, 0.3, 0.2, 0.3})
	l.put("d/b18.tif", four, []float64{0.2, 0.33, 0, 0.3})
	l.put("d/b19.tif", four, []float64{0.22, 0.3, 0.2, 0.3})
	l.put("d/ntu.tif", four, []float64{0.1, 0, -0.1, no})
	l.check([]rasterCase{
		// the numbers are the formulas worked out apart from the code
		{tool: "lst_single_channel", args: `{"bt_path":"d/bt.tif","red_path":"d/red.tif","nir_path":"d/nir.tif","output_path":"q/x.tif"}`,
			want: saved, files: x(302.80944161665775, 300.68683333499433, 301.98449198506944, no), used: 3},
		{tool: "lst_multi_channel", args: `{"band31_path":"d/bt.tif","band32_path":"d/bt32.tif","output_path":"q/x.tif"}`,
			want: saved, files: x(307.97, 307.97, no, no)},
		{tool: "split_window", args: `{"band31_path":"d/bt.tif","band32_path":"d/bt32.tif","emissivity31_path":"d/e31.tif","emissivity32_path":"d/e32.tif","parameter":"LST","output_path":"q/x.tif"}`,
			want: saved, files: x(303.5016, no, no, no), used: 1, warns: "water vapour of 2 g/cm²"},
		{tool: "split_window", args: `{"band31_path":"d/bt.tif","band32_path":"d/bt32.tif","emissivity31_path":"d/e31.tif","emissivity32_path":"d/e32.tif","parameter":"PWV","output_path":"q/x.tif"}`,
			want: saved, files: x(0.6837606837606838, no, no, no), warns: "relative measure"},
		{tool: "split_window", args: `{"band31_path":"d/e31.tif","band32_path":"d/bt32.tif","emissivity31_path":"d/e31.tif","emissivity32_path":"d/e32.tif","parameter":"LST","output_path":"q/x.tif"}`,
			want: "insufficient", says: "scale stored numbers first"},
		{tool: "modis_day_night_lst", args: `{"BT_day_path":"d/bt.tif","BT_night_path":"d/night.tif","Emis_day_path":"d/e31.tif","Emis_night_path":"d/e.tif","output_path":"q/x.tif"}`,
			want: saved, files: x(301.3965949904288, 301.3965949904288, 301.3965949904288, no,
				281.83771027659293, 302.11060584865464, 312.25418665612347, 291.9717815037346,
				300, 300, 300, 0, 280, 300, 310, 290, 0.98, 0.98, 0.98, 240, 0.97, 0.97, 0.97, 0.97)},
		{tool: "ttm_lst", args: `{"tir_band_paths":["d/bt.tif","d/bt.tif","d/bt.tif"],"output_path":"q/x.tif"}`,
			want: saved, files: x(302.8122647154484, 302.8122647154484, 302.8122647154484, no), warns: "emissivity of 0.95"},
		{tool: "ttm_lst", args: `{"tir_band_paths":["d/bt.tif","d/bt.tif"],"output_path":"q/x.tif"}`, want: "error", says: "needs 3 bands, got 2"},
		{tool: "ttm_lst", args: `{"tir_band_paths":["d/bt.tif","d/bt.tif","d/bt.tif"],"output_path":"q/x.tif","wavelengths":[8.3,8.65,8300]}`, want: "error", says: "/wavelengths/2: 8300 µm"},
		// the last pixel is 310 K seen with the emissivities 0.97, 0.95, 0.85: the method finds 310.57 K
		{tool: "temperature_emissivity_separation", args: `{"tir_band_paths":["d/BT_12.tif","d/BT_10.tif","d/BT_11.tif"],"representative_band_index":1,"output_path":"q/x.tif"}`,
			want: saved, files: x(302.45981203381183, 300.5161249450031, no, 310.56961141713793,
				0.9552705709950383, 0.9899992868486502, no, 0.9600551310480621, 0.02020254967477131, 0.0009282836499622249, no, 0.13165138218336925), warns: "irradiance of the sky"},
		{tool: "temperature_emissivity_separation", args: `{"tir_band_paths":["d/BT_12.tif","d/BT_10.tif","d/BT_12.tif"],"representative_band_index":1,"output_path":"q/x.tif"}`, want: "error", says: "/tir_band_paths/2: it is the same band as item 0"},
		{tool: "temperature_emissivity_separation", args: `{"tir_band_paths":["d/BT_12.tif","d/BT_10.tif","d/BT_11.tif"],"representative_band_index":3,"output_path":"q/x.tif"}`, want: "error", says: "indexes 0 to 2, got 3"},
		// 0.8/20, day = night, day below night, no day
		{tool: "ATI", args: `{"day_temp_path":"d/bt.tif","night_temp_path":"d/night.tif","albedo_path":"d/albedo.tif","output_path":"q/x.tif"}`,
			want: saved, files: x(0.04, no, no, no), used: 1},
		{tool: "ATI", args: `{"day_temp_path":"d/bt.tif","night_temp_path":"d/night.tif","albedo_path":"d/albedo_dn.tif","output_path":"q/x.tif"}`,
			want: "insufficient", says: "MODIS albedo: 0.001"},
		// T18 of the second is 1.1: dry air; of the third 0: no number
		{tool: "band_ratio", args: `{"sur_refl_b02_path":"d/b2.tif","sur_refl_b05_path":"d/b5.tif","sur_refl_b17_path":"d/b17.tif","sur_refl_b18_path":"d/b18.tif","sur_refl_b19_path":"d/b19.tif","output_path":"q/x.tif"}`,
			want: saved, files: x(15.555490932674031, 0, no, no, 0.8047210300429185, 1, no, no, 0.6270903010033445, 1.1, no, no, 0.6875, 1, no, no), used: 2},
		{tool: "calculate_water_turbidity_ntu", args: `{"input_red_path":"d/ntu.tif","output_path":"q/x.tif","a":50,"b":1}`,
			want: saved, files: x(6, 1, 0, no)},
		{tool: "calculate_water_turbidity_ntu", args: `{"input_red_path":"d/ntu.tif","output_path":"q/x.tif","method":"power","a":100,"b":1,"n":2}`,
			want: saved, files: x(2, no, no, no)},
		{tool: "calculate_water_turbidity_ntu", args: `{"input_red_path":"d/ntu.tif","output_path":"q/x.tif","method":"log","a":2,"b":10}`,
			want: saved, files: x(10-2*2.302585093, no, no, no)},
		{tool: "calculate_water_turbidity_ntu", args: `{"input_red_path":["d/ntu.tif"],"output_path":["q/x.tif"],"a":50,"b":1}`,
			want: `[` + saved + `]`, files: x(6, 1, 0, no)},
		// NDVI ≥ 0.5: pixels 1 and 2 (the fourth has no temperature in kelvin but 0 is a number)
		{tool: "calculate_mean_lst_by_ndvi", args: `{"red_paths":["d/red.tif","d/red.tif"],"nir_paths":["d/nir.tif","d/nir.tif"],"lst_paths":["d/night.tif","d/bt32.tif"],"ndvi_threshold":0.45,"mode":"above"}`,
			want: `299.2`, used: 5},
		{tool: "calculate_mean_lst_by_ndvi", args: `{"red_paths":"d/red.tif","nir_paths":"d/nir.tif","lst_paths":"d/night.tif","ndvi_threshold":0.45,"mode":"below"}`, want: `280.0`, used: 1},
		{tool: "calculate_mean_lst_by_ndvi", args: `{"red_paths":"d/red.tif","nir_paths":"d/nir.tif","lst_paths":"d/night.tif","ndvi_threshold":0.9}`, want: "insufficient", says: "NDVI above 0.9"},
		{tool: "calculate_mean_lst_by_ndvi", args: `{"red_paths":["d/red.tif"],"nir_paths":["d/nir.tif","d/nir.tif"],"lst_paths":["d/night.tif"],"ndvi_threshold":0.5}`, want: "error", says: "/nir_paths: 2 paths, but red_paths has 1"},
		{tool: "calculate_max_lst_by_ndvi", args: `{"red_path":"d/red.tif","nir_path":"d/nir.tif","lst_path":"d/night.tif","ndvi_threshold":0.45}`, want: `310.0`, used: 3},
	})
}

func TestMicrowave(t *testing.T) {
	l := newLab(t)
	three := file{width: 3}
	x := func(v ...float64) map[string][]float64 { return map[string][]float64{"benchmark/out/q/x.tif": v} }
	const saved = `"Result saved at benchmark/out/q/x.tif"`
	l.put("d/vv.tif", three, []float64{-10, -20, no})
	l.put("d/vh.tif", three, []float64{-20, -20, -20})
	l.put("d/a.tif", three, []float64{0.9, 0.5, 250})
	l.put("d/b.tif", three, []float64{0.4, 0.6, 200})
	l.put("d/c.tif", three, []float64{0.3, no, 210})
	l.put("d/v.tif", three, []float64{250, 200, -1})
	l.put("d/h.tif", three, []float64{200, 200, 200})
	l.check([]rasterCase{
		// 0.1 and 0.01 of power
		{tool: "dual_polarization_differential", args: `{"pol1_path":"d/vv.tif","pol2_path":"d/vh.tif","parameter":"soil_moisture","output_path":"q/x.tif"}`, want: saved, files: x(0.3*0.09+0.1, 0.1, no)},
		{tool: "dual_polarization_differential", args: `{"pol1_path":"d/vv.tif","pol2_path":"d/vh.tif","parameter":"vegetation_index","output_path":"q/x.tif"}`, want: saved, files: x(0.09/0.11, 0, no)},
		{tool: "dual_polarization_differential", args: `{"pol1_path":"d/vv.tif","pol2_path":"d/vh.tif","parameter":"vegetation_index","output_path":"q/x.tif","input_unit":"linear"}`, want: "insufficient", says: "no pixel is valid"},
		{tool: "dual_frequency_diff", args: `{"band1_path":"d/a.tif","band2_path":"d/b.tif","parameter":"SM","alpha":0.7,"beta":0.1,"output_path":"q/x.tif"}`, want: saved, files: x(0.5, -0.1, 50, 0.45, 0.03, 1)},
		{tool: "multi_freq_bt", args: `{"bt_paths":["d/a.tif","d/b.tif","d/c.tif"],"diff_pairs":[[0,1],[1,2]],"parameter":"SM","output_path":"q/x.tif"}`, want: saved, files: x(0.6*0.5+0.4*0.1+0.05, no, 1)},
		{tool: "multi_freq_bt", args: `{"bt_paths":["d/a.tif","d/b.tif"],"diff_pairs":[[0,1],[1,2]],"parameter":"SM","output_path":"q/x.tif"}`, want: "error", says: "/diff_pairs/1/1: 2 is outside the 2 bands"},
		{tool: "multi_freq_bt", args: `{"bt_paths":["d/a.tif","d/b.tif"],"diff_pairs":[[0,1]],"parameter":"SM","output_path":"q/x.tif"}`, want: "error", says: "2 differences, got 1 pairs"},
		{tool: "chang_single_param_inversion", args: `{"bt_paths":["d/a.tif","d/b.tif","d/c.tif"],"diff_pairs":[[0,1],[1,2],[0,2]],"parameter":"VWC","output_path":"q/x.tif"}`, want: saved, files: x(0.5*0.5+0.4*0.1+0.2*0.6+0.05, no, 1)},
		// tie points of nature: 19 GHz water 75 K, ice 15 K; 37 GHz water 60 K, ice 10 K
		{tool: "nasa_team_sea_ice_concentration", args: `{"bt_paths":{"19V":"d/v.tif","19H":"d/h.tif","37V":"d/v.tif","37H":"d/h.tif"},"output_path":"q/x.tif","nd_ice":15,"nd_water":75,"s1_ice":10,"s1_water":60}`,
			want: saved, files: x((25.0/60+10.0/50)/2, 1, no)},
		{tool: "nasa_team_sea_ice_concentration", args: `{"bt_paths":{"19V":"d/v.tif","19H":"d/h.tif","37V":"d/v.tif","37H":"d/h.tif"},"output_path":"q/x.tif"}`, want: saved, files: x(1, 0, no), warns: "other way round"},
		{tool: "nasa_team_sea_ice_concentration", args: `{"bt_paths":{"19V":"d/v.tif","19H":"d/h.tif","37V":"d/v.tif","37H":"d/h.tif"},"output_path":"q/x.tif","nd_ice":0}`, want: "error", says: "/nd_ice: it equals nd_water"},
		{tool: "dual_polarization_ratio", args: `{"bt_paths":{"V":"d/v.tif","H":"d/h.tif"},"parameter":"VWC","output_path":"q/x.tif"}`, want: saved, files: x(15*50.0/450+5, 5, no, 50.0/450, 0, no)},
		{tool: "dual_polarization_ratio", args: `{"bt_paths":{"V":"d/v.tif","H":"d/h.tif"},"parameter":"SM","output_path":"q/x.tif","coeffs":{"SM":{"a":9,"b":0}}}`, want: saved, files: x(1, 0, no, 50.0/450, 0, no)},
		{tool: "dual_polarization_ratio", args: `{"bt_paths":{"V":"d/v.tif","H":"d/h.tif"},"parameter":"SM","output_path":"q/x.tif","coeffs":{"SM":{"a":9}}}`, want: "error", says: `it lacks the number "b"`},
		{tool: "dual_polarization_ratio", args: `{"bt_paths":{"V":"d/v.tif","H":"d/h.tif"},"parameter":"SM","output_path":"q/x.tif","coeffs":{"VWC":{"a":9,"b":1}}}`, want: "error", says: `no coefficients of "SM"`},
	})
}
