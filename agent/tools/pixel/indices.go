package pixel

import "terraloom/agent/raster"

// NormalizedDifference is (a-b)/(a+b): NDVI (Rouse 1974), NDWI (Gao 1996), NBR
// (Key and Benson 2006), NDSI (Hall 1995) and their kin, by the choice of bands.
// A pixel whose bands sum to zero has none.
func NormalizedDifference(dst, a, b []float32) {
	raster.Chunks(len(dst), func(_, lo, hi int) {
		d, x, y := dst[lo:hi], a[lo:hi], b[lo:hi]
		x, y = x[:len(d)], y[:len(d)] // spares the bounds checks
		for i := range d {
			p, q := float64(x[i]), float64(y[i])
			d[i] = float32((p - q) / (p + q))
		}
	})
}

// EVICoefficients are those of the enhanced vegetation index.
type EVICoefficients struct{ G, C1, C2, L float64 }

// Reflectance limits beyond which a value is no surface reflectance: MODIS's
// valid range is -0.01 to 1.6, Landsat's formula gives -0.2 at its lowest count.
const (
	MinReflectance = -0.2
	MaxReflectance = 1.6
)

// reflectance allows for the rounding of a limit to single precision.
func reflectance(v float64) bool { return v > MinReflectance-1e-6 && v < MaxReflectance+1e-6 }

// EVI is G(N-R)/(N + C1·R - C2·B + L) (Huete et al. 2002). The index is not free
// of scale: pixels whose values are no reflectances have none.
func EVI(dst, nir, red, blue []float32, k EVICoefficients) {
	raster.Chunks(len(dst), func(_, lo, hi int) {
		for i := lo; i < hi; i++ {
			n, r, b := float64(nir[i]), float64(red[i]), float64(blue[i])
			if reflectance(n) && reflectance(r) && reflectance(b) {
				dst[i] = float32(k.G * (n - r) / (n + k.C1*r - k.C2*b + k.L))
			} else {
				dst[i] = nan
			}
		}
	})
}

// Cover is the vegetation cover in percent, 100(NDVI-bare)/(full-bare), cut to
// 0 … 100 (Gutman and Ignatov 1998).
func Cover(dst, nir, red []float32, bare, full float64) {
	Map2(dst, nir, red, func(n, r float64) float64 {
		ndvi := (n - r) / (n + r)
		if !finite(ndvi) { // a sum of zero gives an infinity that the cut would make valid
			return float64(nan)
		}
		return min(max(100*(ndvi-bare)/(full-bare), 0), 100)
	})
}

// WaterRatio is (G+R)/(N+S), above 1 over open water (Shen and Li 2010).
func WaterRatio(dst, green, red, nir, swir []float32) {
	raster.Chunks(len(dst), func(_, lo, hi int) {
		for i := lo; i < hi; i++ {
			dst[i] = float32((float64(green[i]) + float64(red[i])) / (float64(nir[i]) + float64(swir[i])))
		}
	})
}

// Mask sets dst[i] to set where f holds and to 0 where it does not; invalid
// pixels stay invalid.
func Mask(dst, a []float32, set float32, f func(v float32) bool) {
	raster.Chunks(len(dst), func(_, lo, hi int) {
		for i := lo; i < hi; i++ {
			switch v := a[i]; {
			case !raster.Finite(v):
				dst[i] = nan
			case f(v):
				dst[i] = set
			default:
				dst[i] = 0
			}
		}
	})
}
