package tools

import (
	"math"
	"testing"

	"terraloom/agent/raster"
)

// bandsLab has 3×2 bands in d/. Of six pixels one lacks near infrared, one red.
func bandsLab(t *testing.T) *lab {
	l := newLab(t)
	three := file{width: 3}
	l.put("d/nir.tif", three, []float64{0.5, 0.4, 0.3, no, 0.2, 0.1})
	l.put("d/red.tif", three, []float64{0.1, 0.4, no, 0.2, -0.2, 0.3})
	l.put("d/green.tif", three, []float64{0.2, 0.1, 0.3, 0.2, 0.4, 0.1})
	l.put("d/blue.tif", three, []float64{0.1, 0.1, 0.1, 0.1, 0.1, 0.1})
	l.put("d/swir.tif", three, []float64{0.3, 0.1, 0.1, 0.2, 0.2, 0.3})
	l.put("d/none.tif", three, []float64{no, no, no, no, no, no})
	return l
}

func TestIndices(t *testing.T) {
	l := bandsLab(t)
	const saved = "Result save at benchmark/out/q/x.tif"
	x := func(v ...float64) map[string][]float64 { return map[string][]float64{"benchmark/out/q/x.tif": v} }
	l.put("d/dn.tif", file{width: 3, kind: raster.Int16, nodata: new(-28672.0)}, []float64{3000, 2000, 1000, -28672, 500, 0})
	l.put("d/frp.tif", file{width: 3}, []float64{0, 5, 30, no, 30.5, 100})
	l.put("d/swir60.tif", file{width: 1, transform: raster.NorthUp(500_000, 4_000_000, 30, 20)}, []float64{0.1})
	l.check([]rasterCase{
		// 0.4/0.6, 0/0.8, no red, no nir, 0.4/0, -0.2/0.4
		{tool: "calculate_batch_ndvi", args: `{"input_nir_paths":["d/nir.tif"],"input_red_paths":["d/red.tif"],"output_paths":["q/x.tif"]}`,
			want: `["` + saved + `"]`, files: x(2.0/3, 0, no, no, no, -0.5), used: 3},
		{tool: "calculate_ndvi", args: `{"input_nir_path":"d/nir.tif","input_red_path":"d/red.tif","output_path":"q/x.tif"}`,
			want: `"` + saved + `"`, files: x(2.0/3, 0, no, no, no, -0.5)},
		// a list where the kit declares one path
		{tool: "calculate_ndvi", args: `{"input_nir_path":["d/nir.tif","d/swir.tif"],"input_red_path":["d/red.tif","d/green.tif"],"output_path":["q/x.tif","q/y.tif"]}`,
			want:  `["Result save at benchmark/out/q/x.tif","Result save at benchmark/out/q/y.tif"]`,
			files: map[string][]float64{"benchmark/out/q/y.tif": {0.2, 0, -0.5, 0, -1.0 / 3, 0.5}}, used: 9},
		{tool: "calculate_batch_ndwi", args: `{"input_nir_paths":["d/nir.tif"],"input_swir_paths":["d/swir.tif"],"output_paths":["q/x.tif"]}`,
			want: `["` + saved + `"]`, files: x(0.25, 0.6, 0.5, no, 0, -0.5)},
		{tool: "calculate_ndwi", args: `{"input_nir_path":"d/nir.tif","input_swir_path":"d/swir.tif","output_path":"q/x.tif"}`,
			want: `"` + saved + `"`, files: x(0.25, 0.6, 0.5, no, 0, -0.5)},
		{tool: "calculate_batch_nbr", args: `{"input_nir_paths":["d/nir.tif"],"input_swir_paths":["d/swir.tif"],"output_paths":["q/x.tif"]}`,
			want: `["` + saved + `"]`, files: x(0.25, 0.6, 0.5, no, 0, -0.5)},
		{tool: "calculate_nbr", args: `{"input_nir_path":"d/nir.tif","input_swir_path":"d/swir.tif","output_path":"q/x.tif"}`,
			want: `"` + saved + `"`, files: x(0.25, 0.6, 0.5, no, 0, -0.5)},
		{tool: "calculate_batch_ndbi", args: `{"input_swir_paths":["d/swir.tif"],"input_nir_paths":["d/nir.tif"],"output_paths":["q/x.tif"]}`,
			want: `["` + saved + `"]`, files: x(-0.25, -0.6, -0.5, no, 0, 0.5)},
		// the fifth: (-0.2-0.4)/(-0.2+0.4)
		{tool: "calculate_batch_ndti", args: `{"input_red_paths":["d/red.tif"],"input_green_paths":["d/green.tif"],"output_paths":["q/x.tif"]}`,
			want: `["` + saved + `"]`, files: x(-1.0/3, 0.6, no, 0, -3, 0.5), warns: "outside -1 … 1"},
		{tool: "calculate_ndti", args: `{"input_red_path":"d/red.tif","input_green_path":"d/green.tif","output_path":"q/x.tif"}`,
			want: `"` + saved + `"`, files: x(-1.0/3, 0.6, no, 0, -3, 0.5), warns: "outside -1 … 1"},
		// G=2.5, C1=6, C2=7.5, L=1: 2.5·0.4/(0.5+0.6-0.75+1), 0, …, 2.5·0.4/(0.2-1.2-0.75+1), 2.5·-0.2/(0.1+1.8-0.75+1)
		{tool: "calculate_batch_evi", args: `{"input_nir_paths":["d/nir.tif"],"input_red_paths":["d/red.tif"],"input_blue_paths":["d/blue.tif"],"output_paths":["q/x.tif"]}`,
			want: `["` + saved + `"]`, files: x(1/1.35, 0, no, no, 1/-0.75, -0.5/2.15)},
		{tool: "calculate_batch_evi", args: `{"input_nir_paths":["d/dn.tif"],"input_red_paths":["d/dn.tif"],"input_blue_paths":["d/blue.tif"],"output_paths":["q/x.tif"],"L":0}`,
			want: `["` + saved + `"]`, files: x(no, no, no, no, no, 0)},
		// NDVI 2/3 → 100·(2/3-0.1)/0.8, 0 → below, -0.5 → below
		{tool: "calculate_batch_fvc", args: `{"input_nir_paths":["d/nir.tif"],"input_red_paths":["d/red.tif"],"output_paths":["q/x.tif"]}`,
			want: `["` + saved + `"]`, files: x(100*(2.0/3-0.1)/0.8, 0, no, no, no, 0)},
		{tool: "calculate_batch_fvc", args: `{"input_nir_paths":["d/nir.tif"],"input_red_paths":["d/red.tif"],"output_paths":["q/x.tif"],"ndvi_min":0.9}`,
			want: "error", says: "/ndvi_max: 0.9 must lie above ndvi_min, 0.9"},
		{tool: "calculate_batch_wri", args: `{"input_green_paths":["d/green.tif"],"input_red_paths":["d/red.tif"],"input_nir_paths":["d/nir.tif"],"input_swir_paths":["d/swir.tif"],"output_paths":["q/x.tif"]}`,
			want: `["` + saved + `"]`, files: x(0.3/0.8, 1, no, no, 0.5, 1)},
		{tool: "calculate_batch_frp", args: `{"input_frp_paths":["d/frp.tif"],"output_paths":["q/x.tif"],"fire_threshold":30}`,
			want: `["` + saved + `"]`, files: x(0, 0, 0, no, 255, 255), used: 5},
		// the bands stay as they are: (3000-500)/3500 would be the same after scaling
		{tool: "calculate_batch_ndsi", args: `{"green_file_list":["d/green.tif"],"swir_file_list":["d/swir.tif"],"output_path_list":["q/x.tif"]}`,
			want: `["` + saved + `"]`, files: x(-0.2, 0, 0.5, 0, 1.0/3, -0.5)},
		// the coarser band has one pixel, under whose middle lies the second column between both rows
		{tool: "calculate_batch_ndsi", args: `{"green_file_list":["d/green.tif"],"swir_file_list":["d/swir60.tif"],"output_path_list":["q/x.tif"]}`,
			want: `["` + saved + `"]`, files: x((0.25 - 0.1) / (0.25 + 0.1)), used: 1},
		{tool: "calculate_batch_ndvi", args: `{"input_nir_paths":["d/nir.tif"],"input_red_paths":["d/none.tif"],"output_paths":["q/none.tif"]}`,
			want: "insufficient", says: "no pixel is valid in all inputs"},
		// of a batch with one empty scene the other stays
		{tool: "calculate_batch_ndvi", args: `{"input_nir_paths":["d/none.tif","d/nir.tif"],"input_red_paths":["d/red.tif","d/red.tif"],"output_paths":["q/none.tif","q/x.tif"]}`,
			want: `[null,"` + saved + `"]`, used: 3, warns: "benchmark/out/q/none.tif: no pixel is valid"},
		{tool: "calculate_batch_ndvi", args: `{"input_nir_paths":["d/nir.tif","d/nir.tif"],"input_red_paths":["d/red.tif"],"output_paths":["q/x.tif","q/y.tif"]}`,
			want: "error", says: "/input_red_paths: 1 paths, but output_paths has 2"},
		{tool: "calculate_batch_ndvi", args: `{"input_nir_paths":["d/swir.tif","d/green.tif"],"input_red_paths":["d/blue.tif","d/blue.tif"],"output_paths":["q/x.tif","q/x.tif"]}`,
			want: `["` + saved + `","` + saved + `"]`, files: x(1.0/3, 0, 0.5, 1.0/3, 0.6, 0), warns: "share the path benchmark/out/q/x.tif"},
	})
}

// A planted dryness comes back: temperatures that lie a share between the edges.
func TestTVDI(t *testing.T) {
	l := newLab(t)
	var ndvi, lst, want []float64
	for i := range 101 {
		for k := range 5 {
			n := float64(i) / 100
			dry, wet := 320-20*n, 290-5*n
			ndvi, lst = append(ndvi, n), append(lst, wet+float64(k)/4*(dry-wet))
			want = append(want, float64(k)/4)
		}
	}
	ndvi[2], want[2] = no, no
	ndvi[7], want[7] = 1.5, no
	lst[12], want[12] = no, no
	l.put("d/ndvi.tif", file{width: 5}, ndvi)
	l.put("d/lst.tif", file{width: 5}, lst)
	l.put("d/lst_dn.tif", file{width: 5, bands: []raster.BandSpec{{Scale: 0.02}}}, lst)
	l.put("d/ndvi_dn.tif", file{width: 5, bands: []raster.BandSpec{{Scale: 0.0001}}}, scaledBy(ndvi, 10000))
	l.put("d/few.tif", file{width: 5}, ndvi[:50])
	l.put("d/few_lst.tif", file{width: 5}, lst[:50])
	l.put("d/same.tif", file{width: 5}, scaledBy(ndvi, 0))
	const call = `{"ndvi_path":"d/ndvi.tif","lst_path":"d/lst.tif","output_path":"q/tvdi.tif"}`
	res, err := l.correct.Invoke(t.Context(), "compute_tvdi", mustParse(t, call))
	if err != nil || res.Value.Text() != "Result saved at benchmark/out/q/tvdi.tif" {
		t.Fatal(res.Value.JSON(), err)
	}
	checkEvidence(t, "compute_tvdi", &res)
	for i, got := range l.read("benchmark/out/q/tvdi.tif")[0] {
		// An interval holds one row, so its middle lies half an interval from its NDVI: the edges move by
		// 0.1 K of their distance of 30 to 15 K.
		if math.IsNaN(got) != math.IsNaN(want[i]) || math.Abs(got-want[i]) > 0.01 {
			t.Fatalf("pixel %d: %v, want %v", i, got, want[i])
		}
	}
	l.check([]rasterCase{
		{tool: "compute_tvdi", args: `{"ndvi_path":"d/few.tif","lst_path":"d/few_lst.tif","output_path":"q/few.tif"}`,
			want: "insufficient", says: "47 pixels have an NDVI of 0 to 1 and a positive temperature, 100 are needed"},
		{tool: "compute_tvdi", args: `{"ndvi_path":"d/ndvi_dn.tif","lst_path":"d/lst_dn.tif","output_path":"q/dn.tif"}`,
			want: "insufficient", says: "run apply_scale_offset first"},
		{tool: "compute_tvdi", args: `{"ndvi_path":"d/same.tif","lst_path":"d/lst.tif","output_path":"q/same.tif"}`,
			want: "insufficient", says: "all NDVI values lie in one interval"},
	})
}

func scaledBy(in []float64, k float64) []float64 {
	out := make([]float64, len(in))
	for i, v := range in {
		out[i] = v * k
	}
	return out
}
