package pixel

import (
	"math"

	"terraloom/agent/raster"
)

// Wavelengths, in µm, of the MODIS bands of the water vapour ratio.
const (
	modis2, modis5            = 0.865, 1.240
	modis17, modis18, modis19 = 0.905, 0.936, 0.940
)

// vapourAbsorption is the absorption of band 18 per unit of water vapour.
const vapourAbsorption = 0.03

// Vapour sets the precipitable water vapour and the transmittances of bands 17,
// 18 and 19: their reflectance over that which bands 2 and 5 give by a line
// through their wavelengths (Kaufman and Gao 1992); the vapour follows from that
// of band 18 by Beer's law, -ln(T18)/0.03. A transmittance above 1 is noise over
// dry air: no vapour.
func Vapour(pwv, t17, t18, t19 []float32, b2, b5, b17, b18, b19 []float32) {
	raster.Chunks(len(pwv), func(_, lo, hi int) {
		for i := lo; i < hi; i++ {
			r2, r5 := float64(b2[i]), float64(b5[i])
			slope := (r5 - r2) / (modis5 - modis2)
			window := func(w float64) float64 { return r2 + slope*(w-modis2) }
			a := float64(b17[i]) / window(modis17)
			b := float64(b18[i]) / window(modis18)
			c := float64(b19[i]) / window(modis19)
			if !(r2 > 0 && r5 > 0 && a > 0 && b > 0 && c > 0) || math.IsInf(a+b+c, 1) {
				pwv[i], t17[i], t18[i], t19[i] = nan, nan, nan, nan
				continue
			}
			pwv[i] = float32(max(-math.Log(b)/vapourAbsorption, 0))
			t17[i], t18[i], t19[i] = float32(a), float32(b), float32(c)
		}
	})
}

// Turbidity model of water by red reflectance.
type Turbidity struct {
	Method  string // linear a·R+b, power a·R^n+b, log a·ln(R)+b
	A, B, N float64
}

// NTU sets the turbidity, not below 0. Power and logarithm have none for a
// reflectance that is not positive.
func (m Turbidity) NTU(dst, red []float32) {
	Map(dst, red, func(r float64) float64 {
		v := m.A*r + m.B
		switch {
		case m.Method != "linear" && r <= 0:
			return float64(nan)
		case m.Method == "power":
			v = m.A*math.Pow(r, m.N) + m.B
		case m.Method == "log":
			v = m.A*math.Log(r) + m.B
		}
		if !finite(v) {
			return float64(nan)
		}
		return max(v, 0)
	})
}
