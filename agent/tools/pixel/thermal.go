package pixel

import (
	"math"

	"terraloom/agent/raster"
)

// C2 is the second radiation constant hc/k, in µm·K, and C1 is 2hc², in
// W·µm⁴/(m²·sr).
const (
	C1 = 1.191042972e8
	C2 = 14387.7
)

// Limits beyond which a number is no temperature of the Earth, in kelvin: the
// coldest cloud tops are above 150 K, sensors saturate over fires below 500 K.
const (
	MinKelvin = 150
	MaxKelvin = 500
)

func kelvin(t float64) bool { return t > MinKelvin && t < MaxKelvin }

// Emission turns a brightness temperature into that of a surface of emissivity e
// at a wavelength in µm, T/(1 + (λT/c2)·ln e) (Artis and Carnahan 1982).
func Emission(t, wavelength, e float64) float64 {
	return t / (1 + wavelength*t/C2*math.Log(e))
}

// VegetationEmissivity is the thermal emissivity by NDVI: bare soil 0.96 below
// 0.2, full cover 0.99 above 0.7, between them 0.97 + 0.003·NDVI.
func VegetationEmissivity(ndvi float64) float64 {
	switch {
	case ndvi > 0.7:
		return 0.99
	case ndvi < 0.2:
		return 0.96
	}
	return 0.97 + 0.003*ndvi
}

// LandsatTIR is the wavelength, in µm, of the single-channel method.
const LandsatTIR = 10.9

// SingleChannel is the surface temperature of a brightness temperature with the
// emissivity by NDVI.
func SingleChannel(dst, bt, red, nir []float32) {
	raster.Chunks(len(dst), func(_, lo, hi int) {
		for i := lo; i < hi; i++ {
			t, r, n := float64(bt[i]), float64(red[i]), float64(nir[i])
			ndvi := (n - r) / (n + r)
			if !kelvin(t) || !finite(ndvi) {
				dst[i] = nan
				continue
			}
			dst[i] = float32(Emission(t, LandsatTIR, VegetationEmissivity(ndvi)))
		}
	})
}

// MultiChannel is 1.022·T31 + 0.47(T31-T32) + 0.43.
func MultiChannel(dst, t31, t32 []float32) {
	Map2(dst, t31, t32, func(a, b float64) float64 {
		if !kelvin(a) || !kelvin(b) {
			return float64(nan)
		}
		return 1.022*a + 0.47*(a-b) + 0.43
	})
}

// SplitWindow is the surface temperature by the quadratic split-window algorithm
// of Jiménez-Muñoz et al. (2014, eq. 2) for a column water vapour in g/cm²:
//
//	T31 + c1·ΔT + c2·ΔT² + c0 + (c3 + c4·w)(1-ε) + (c5 + c6·w)·Δε
func SplitWindow(dst, t31, t32, e31, e32 []float32, vapour float64) {
	const c0, c1, c2, c3, c4, c5, c6 = -0.268, 1.378, 0.183, 54.3, -2.238, -129.2, 16.4
	raster.Chunks(len(dst), func(_, lo, hi int) {
		for i := lo; i < hi; i++ {
			a, b, e, f := float64(t31[i]), float64(t32[i]), float64(e31[i]), float64(e32[i])
			if !kelvin(a) || !kelvin(b) || !Emissivity(e) || !Emissivity(f) {
				dst[i] = nan
				continue
			}
			d := a - b
			dst[i] = float32(a + c1*d + c2*d*d + c0 + (c3+c4*vapour)*(1-(e+f)/2) + (c5+c6*vapour)*(e-f))
		}
	})
}

// Emissivity reports whether e can be the thermal emissivity of a natural surface.
func Emissivity(e float64) bool { return e >= 0.5 && e <= 1 }

// VapourIndex is 100·ΔT/(T31·ε), a relative measure of column water vapour.
func VapourIndex(dst, t31, t32, e31, e32 []float32) {
	raster.Chunks(len(dst), func(_, lo, hi int) {
		for i := lo; i < hi; i++ {
			a, b, e, f := float64(t31[i]), float64(t32[i]), float64(e31[i]), float64(e32[i])
			if !kelvin(a) || !kelvin(b) || !Emissivity(e) || !Emissivity(f) {
				dst[i] = nan
				continue
			}
			dst[i] = float32(100 * (a - b) / (a * (e + f) / 2))
		}
	})
}

// Emitted is Emission for a raster of temperatures and one of emissivities.
func Emitted(dst, bt, emissivity []float32, wavelength float64) {
	Map2(dst, bt, emissivity, func(t, e float64) float64 {
		if !kelvin(t) || !Emissivity(e) {
			return float64(nan)
		}
		return Emission(t, wavelength, e)
	})
}

// GreyBody is the mean surface temperature over bands of given wavelengths for
// one emissivity in all of them.
func GreyBody(dst []float32, bands [][]float32, wavelengths []float64, emissivity float64) {
	MapN(dst, bands, func(t []float64) float64 {
		sum := 0.0
		for k, v := range t {
			if !kelvin(v) {
				return float64(nan)
			}
			sum += Emission(v, wavelengths[k], emissivity)
		}
		return sum / float64(len(t))
	})
}

// Radiance is Planck's law in W/(m²·sr·µm); Brightness is its inverse.
func Radiance(t, wavelength float64) float64 {
	return C1 / (math.Pow(wavelength, 5) * math.Expm1(C2/(wavelength*t)))
}

// Brightness is the temperature of a black body of a radiance in W/(m²·sr·µm).
func Brightness(radiance, wavelength float64) float64 {
	return C2 / (wavelength * math.Log1p(C1/(math.Pow(wavelength, 5)*radiance)))
}

// ASTERThermal are the effective wavelengths, in µm, of ASTER's bands 10 to 14.
var ASTERThermal = [5]float64{8.291, 8.634, 9.075, 10.657, 11.318}

// TES is temperature and emissivity separation (Gillespie et al. 1998), without
// the correction for sky irradiance, which brightness temperatures do not allow:
//
//	normalised emissivity: T = max over bands of Brightness(L/0.99)
//	ratio:                 β = ε/mean(ε)
//	max-min difference:    MMD = max β - min β, ε_min = 0.994 - 0.687·MMD^0.737
//
// It sets lst, the emissivity of band keep, and MMD.
func TES(lst, emissivity, mmd []float32, bands [][]float32, wavelengths []float64, keep int) {
	const assumed = 0.99
	raster.Chunks(len(lst), func(_, lo, hi int) {
		e := make([]float64, len(bands))
		for i := lo; i < hi; i++ {
			lst[i], emissivity[i], mmd[i] = nan, nan, nan
			t, ok := 0.0, true
			for k, b := range bands {
				v := float64(b[i])
				ok = ok && kelvin(v)
				e[k] = Radiance(v, wavelengths[k])
				t = max(t, Brightness(e[k]/assumed, wavelengths[k]))
			}
			if !ok {
				continue
			}
			mean := 0.0
			for k := range e {
				e[k] /= Radiance(t, wavelengths[k])
				mean += e[k] / float64(len(e))
			}
			least, most, at := math.Inf(1), 0.0, 0
			for k := range e {
				e[k] /= mean // β
				least = min(least, e[k])
				if e[k] > most {
					most, at = e[k], k
				}
			}
			d := most - least
			scale := (0.994 - 0.687*math.Pow(d, 0.737)) / least
			top := min(most*scale, 1)
			lst[i] = float32(Brightness(Radiance(float64(bands[at][i]), wavelengths[at])/top, wavelengths[at]))
			emissivity[i], mmd[i] = float32(min(e[keep]*scale, 1)), float32(d)
		}
	})
}

// Inertia is the apparent thermal inertia (1-albedo)/(day-night) (Price 1985),
// in 1/K. It has no meaning where the night is warmer or the albedo is not one.
func Inertia(dst, day, night, albedo []float32) {
	raster.Chunks(len(dst), func(_, lo, hi int) {
		for i := lo; i < hi; i++ {
			d, n, a := float64(day[i]), float64(night[i]), float64(albedo[i])
			if a < 0 || a > 1 || d <= n {
				dst[i] = nan
				continue
			}
			dst[i] = float32((1 - a) / (d - n))
		}
	})
}
