package synthetic

import (
	"math"

	"terraloom/agent/archive"
)

// cloudSpectrum is the reflectance of thick clouds by wavelength in µm.
var cloudSpectrum = [][2]float64{{0.4, 0.78}, {0.7, 0.76}, {0.95, 0.72}, {1.24, 0.66}, {1.64, 0.48}, {2.2, 0.36}}

func cloudReflectance(um float64) float64 {
	s := cloudSpectrum
	k := 0
	for k < len(s)-2 && s[k+1][0] < um {
		k++
	}
	w := min(max((um-s[k][0])/(s[k+1][0]-s[k][0]), 0), 1)
	return s[k][1] + w*(s[k+1][1]-s[k][1])
}

// masksClouds is true of products that leave cloudy pixels out; the others show
// the clouds.
func (v *view) masksClouds() bool { return v.product.ClearOf > 0 }

// reflectance of the surface, as seen between clouds.
func (v *view) reflectance(b *archive.Band) []float32 {
	out := v.Reflectance(b.Wavelength)
	if v.mode != observed {
		return out
	}
	if v.masksClouds() {
		v.drop(out, cloudy)
	} else {
		v.cover(out, b.Wavelength)
	}
	return v.blur(out, b.Name, func(x float64) float64 { return 0.0015 + 0.004*x })
}

// cover lays clouds over reflectances, and below them their shadows where pixels
// are fine enough to show them.
func (v *view) cover(values []float32, um float64) {
	top := cloudReflectance(um)
	if v.product.Resolution <= 100 {
		for i, s := range v.Shadow() {
			values[i] *= 1 - 0.6*s
		}
	}
	for i, c := range v.Cloud() {
		if c > 0 {
			values[i] = float32(float64(values[i])*(1-float64(c)) + top*float64(c))
		}
	}
}

// absorption by water vapour, per mm, in the bands of MODIS that look for it.
var vapourBands = map[float64]float64{0.905: 0.009, 0.936: 0.03, 0.94: 0.018}

// topReflectance is the reflectance at the top of the atmosphere.
func (v *view) topReflectance(b *archive.Band) []float32 {
	um := b.Wavelength
	out := v.Reflectance(um)
	if v.mode != observed {
		return out
	}
	rayleigh := 0.0088 / math.Pow(um, 4.05) // optical depth at sea level
	k := vapourBands[um]
	var vapour []float32
	if k > 0 {
		vapour = v.Vapour()
	}
	v.cover(out, um)
	cloud, height := v.Cloud(), v.Scene.Elevation()
	for i, x := range out {
		tau := rayleigh * math.Exp(-float64(height[i])/8000)
		y := float64(x)*math.Exp(-1.3*tau) + 0.42*tau
		if k > 0 { // there is little vapour above clouds
			y *= math.Exp(-k * float64(vapour[i]) * (1 - 0.85*float64(cloud[i])))
		}
		out[i] = float32(y)
	}
	return v.blur(out, b.Name, func(x float64) float64 { return 0.0005 + 0.002*x })
}

// vegetationIndex is the NDVI or EVI of the MODIS bands.
func (v *view) vegetationIndex(b *archive.Band) []float32 {
	band := func(name string, um float64) []float32 {
		return v.reflectance(&archive.Band{Name: name, Wavelength: um})
	}
	red, nir := band("sur_refl_b01", 0.645), band("sur_refl_b02", 0.858)
	if b.Measures == archive.NDVI {
		for i, r := range red {
			red[i] = (nir[i] - r) / (nir[i] + r)
		}
		return red
	}
	blue := band("sur_refl_b03", 0.469)
	for i, r := range red {
		red[i] = 2.5 * (nir[i] - r) / (nir[i] + 6*r - 7.5*blue[i] + 1)
	}
	return red
}

func (v *view) albedo(b *archive.Band) []float32 {
	return v.drop(v.blur(v.Albedo(), b.Name, constant(0.003)), cloudy)
}

// snowCover is the NDSI in percent where there is snow, 0 elsewhere.
func (v *view) snowCover(b *archive.Band) []float32 {
	green, swir, snow := v.Reflectance(0.555), v.Reflectance(1.64), v.Snow()
	for i, g := range green {
		ndsi := (g - swir[i]) / (g + swir[i])
		if snow[i] < 0.1 || ndsi < 0 {
			ndsi = 0
		}
		green[i] = 100 * ndsi
	}
	return v.drop(green, cloudy)
}
