package synthetic

import (
	"fmt"
	"testing"

	"terraloom/agent/archive"
)

// BenchmarkFetch makes and writes rasters of a daily series; the time is that of
// one raster.
func BenchmarkFetch(b *testing.B) {
	for _, bench := range []struct {
		product, band string
		n             int
	}{{"MOD11A1", "LST_Day_1km", 64}, {"MOD11A1", "LST_Day_1km", 256}, {"MOD09GA", "sur_refl_b01", 64}, {"MOD09GA", "sur_refl_b01", 256}} {
		b.Run(fmt.Sprintf("%s/%d", bench.product, bench.n), func(b *testing.B) {
			a := New(1, nil)
			p, _ := archive.FindProduct(a.Products(), bench.product)
			side := float64(bench.n) * p.Resolution / 111319.49
			s := archive.Spec{Product: p.ID, Bands: []string{bench.band}, Box: archive.Box{West: 100, South: 30, East: 100 + side, North: 30 + side},
				Start: on("2020-01-01"), End: on("2020-01-20"), Name: "x"}
			dir := b.TempDir()
			rasters := 0
			for b.Loop() {
				files, err := archive.Fetch(b.Context(), a, s, dir)
				if err != nil {
					b.Fatal(err)
				}
				rasters += len(files)
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/1000/float64(rasters), "ms/raster")
		})
	}
}
