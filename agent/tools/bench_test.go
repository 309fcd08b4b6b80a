package tools

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"terraloom/agent/raster"
	"terraloom/agent/tools/workspace"
	"terraloom/data/strictjson"
)

// BenchmarkRasterTools runs whole calls on files of 1024×1024 pixels: reading,
// computing, and writing and hashing where there is a result to write.
func BenchmarkRasterTools(b *testing.B) {
	w, err := workspace.Open(b.TempDir(), workspace.DefaultLimits)
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	const side = 1024
	put := func(name string, base, swing float64) {
		g, err := raster.NewGrid(side, side, raster.WGS84, raster.NorthUp(0, 1, 0.001, 0.001))
		if err != nil {
			b.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(uint64(len(name)), 1))
		for i := range g.Data {
			x, y := float64(i%side), float64(i/side)
			g.Data[i] = float32(math.Round(1000*(base+swing*(math.Sin(x/97)+math.Cos(y/61)+0.1*rng.NormFloat64()))) / 1000)
		}
		if err := raster.Save(filepath.Join(w.Dir(), name), raster.Spec{NoData: new(-9999.0)}, g); err != nil {
			b.Fatal(err)
		}
	}
	put("nir.tif", 0.4, 0.1)
	put("red.tif", 0.2, 0.05)
	put("ndvi.tif", 0.5, 0.2)
	put("lst.tif", 300, 8)
	r, err := New(Correct, WithWorkspace(w))
	if err != nil {
		b.Fatal(err)
	}
	list := `["lst.tif"`
	for range 7 {
		list += `,"lst.tif"`
	}
	list += "]"
	for _, c := range []struct {
		tool, args string
		pixels     int
	}{
		{"calculate_ndvi", `{"input_nir_path":"nir.tif","input_red_path":"red.tif","output_path":"x.tif"}`, 2 * side * side},
		{"calc_batch_image_mean", `{"file_list":` + list + `}`, 8 * side * side},
		{"calculate_threshold_ratio", `{"image_paths":` + list + `,"threshold":300}`, 8 * side * side},
		{"compute_tvdi", `{"ndvi_path":"ndvi.tif","lst_path":"lst.tif","output_path":"t.tif"}`, 2 * side * side},
		{"getis_ord_gi_star", `{"image_path":"lst.tif","weight_matrix":[[1,1,1],[1,1,1],[1,1,1]],"output_path":"g.tif"}`, side * side},
		{"get_percentile_value_from_image", `{"image_path":"lst.tif","percentile":70}`, side * side},
	} {
		b.Run(c.tool, func(b *testing.B) {
			args := mustParse(b, c.args)
			b.SetBytes(int64(4 * c.pixels))
			for b.Loop() {
				if _, err := r.Call(c.tool, args); err != nil {
					b.Fatal(fmt.Errorf("%s: %w", c.tool, err))
				}
			}
		})
	}
}

// batch is a kit over n pairs of bands of side × side pixels, and the arguments of
// a call that makes n NDVI rasters of them.
func batch(t testing.TB, n, side int) (*Registry, strictjson.Value) {
	w := testWorkspace(t)
	lists := map[string][]string{}
	for i := range n {
		for k, band := range []string{"nir", "red"} {
			g, err := raster.NewGrid(side, side, raster.WGS84, raster.NorthUp(0, 1, 0.001, 0.001))
			if err != nil {
				t.Fatal(err)
			}
			rng := rand.New(rand.NewPCG(uint64(i), uint64(k)))
			for j := range g.Data {
				g.Data[j] = float32(math.Round(1e4*(0.3+0.1*math.Sin(float64(j%side)/31)+0.02*rng.NormFloat64()))) / 1e4
			}
			name := fmt.Sprintf("%s_%02d.tif", band, i)
			if err := raster.Save(filepath.Join(w.Dir(), name), raster.Spec{NoData: new(-9999.0)}, g); err != nil {
				t.Fatal(err)
			}
			lists[band] = append(lists[band], name)
		}
		lists["out"] = append(lists["out"], fmt.Sprintf("ndvi_%02d.tif", i))
	}
	r, err := New(Correct, WithWorkspace(w))
	if err != nil {
		t.Fatal(err)
	}
	return r, object(member("input_nir_paths", texts(lists["nir"])), member("input_red_paths", texts(lists["red"])), member("output_paths", texts(lists["out"])))
}

// invokeOn calls calculate_batch_ndvi on a number of cores.
func invokeOn(t testing.TB, cores int, r *Registry, args strictjson.Value) Result {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(cores))
	res, err := r.Invoke(t.Context(), "calculate_batch_ndvi", args)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// A batch gives the same files, by their hashes, and the same evidence on any
// number of cores.
func TestBatchOnAnyCores(t *testing.T) {
	r, args := batch(t, 16, 64)
	want := invokeOn(t, 1, r, args)
	if len(want.Artefacts) != 16 {
		t.Fatalf("%d files", len(want.Artefacts))
	}
	for _, cores := range []int{2, 7} {
		if got := invokeOn(t, cores, r, args); got.JSON().JSON() != want.JSON().JSON() {
			t.Errorf("%d cores: %s\none core: %s", cores, got.JSON().JSON(), want.JSON().JSON())
		}
	}
}

// BenchmarkBatchCores is the time of one core for 16 rasters over that of two.
func BenchmarkBatchCores(b *testing.B) {
	r, args := batch(b, 16, 512)
	var on [3]time.Duration
	for b.Loop() {
		for cores := 1; cores <= 2; cores++ {
			start := time.Now()
			invokeOn(b, cores, r, args)
			on[cores] += time.Since(start)
		}
	}
	b.ReportMetric(on[1].Seconds()/on[2].Seconds(), "speedup")
	b.ReportMetric(0, "ns/op")
}
