package tools

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"terraloom/agent/raster"
	"terraloom/agent/tools/workspace"
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
