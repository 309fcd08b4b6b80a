package synthetic

import (
	"math"

	"terraloom/agent/archive"
)

const kelvin = 273.15

// surfaceTemperature is a retrieval of the surface temperature. Composites and
// swaths of MODIS leave cloudy pixels out; scenes of Landsat show the cold clouds.
func (v *view) surfaceTemperature(b *archive.Band, hour float64) []float32 {
	out := v.SurfaceTemperature(hour)
	if v.mode != observed {
		return out
	}
	v.blur(out, b.Name, constant(0.3))
	if v.product.Revisit == 0 {
		return v.drop(out, cloudy)
	}
	cloud, top := v.Cloud(), v.cloudTop()
	for i, t := range out {
		out[i] = t + cloud[i]*(top(i)-t)
	}
	return out
}

// cloudTop is the temperature of the clouds in kelvin.
func (v *view) cloudTop() func(i int) float32 {
	air := v.Air()
	return func(i int) float32 { return air[i] + kelvin - 32 }
}

func (v *view) emissivity(b *archive.Band) []float32 {
	out := v.blur(v.Emissivity(b.Wavelength), b.Name, constant(0.0015))
	if v.product.Revisit == 0 {
		v.drop(out, cloudy)
	}
	return out
}

// vapourDepth is the optical depth of the thermal window per cm of precipitable
// water, by wavelength in µm, fitted so that the published split-window
// coefficients hold (see the tests).
var vapourDepth = [][2]float64{{8.291, 0.17}, {8.634, 0.12}, {9.075, 0.11}, {10.657, 0.098}, {10.9, 0.1}, {11.03, 0.103}, {11.318, 0.115}, {12, 0.178}, {12.02, 0.18}}

func depthPerCM(um float64) float64 {
	s := vapourDepth
	k := 0
	for k < len(s)-2 && s[k+1][0] < um {
		k++
	}
	w := min(max((um-s[k][0])/(s[k+1][0]-s[k][0]), 0), 1)
	return s[k][1] + w*(s[k+1][1]-s[k][1])
}

// thermal is the radiance at the sensor, or the brightness temperature that goes
// with it: what the surface emits and reflects, through the atmosphere, and what
// the atmosphere adds.
func (v *view) thermal(b *archive.Band, hour float64) []float32 {
	planck := func(t float64) float64 { return b.K1 / (math.Exp(b.K2/t) - 1) }
	temperature := v.SurfaceTemperature(hour)
	out := make([]float32, len(temperature))
	emissivity := v.Emissivity(b.Wavelength)
	var vapour, air, cloud []float32
	top := v.cloudTop()
	if v.mode == observed {
		vapour, air, cloud = v.Vapour(), v.Air(), v.Cloud()
	}
	k := depthPerCM(b.Wavelength)
	for i, t := range temperature {
		e := float64(emissivity[i])
		l := e * planck(float64(t)) // without an atmosphere
		if v.mode == observed {
			tau := math.Exp(-0.01 - k*float64(vapour[i])/10)
			sky := planck(float64(air[i]) + kelvin - 7)
			down := (1 - math.Pow(tau, 1.66)) * planck(float64(air[i])+kelvin-10)
			l = tau*(l+(1-e)*down) + (1-tau)*sky
			if c := float64(cloud[i]); c > 0 {
				l += c * (planck(float64(top(i))) - l)
			}
		}
		if b.Measures == archive.BrightnessTemperature {
			l = b.K2 / math.Log(b.K1/l+1)
		}
		out[i] = float32(l)
	}
	if b.Measures == archive.BrightnessTemperature {
		return v.blur(out, b.Name, constant(0.08))
	}
	return v.blur(out, b.Name, func(l float64) float64 { // 0.08 K as a radiance
		t := b.K2 / math.Log(b.K1/l+1)
		return 0.08 * l * b.K2 / (t * t)
	})
}

// viewTime is the local solar time of the observation, which sways across a swath.
func (v *view) viewTime(hour float64) []float32 {
	out := make([]float32, len(v.Water()))
	width := len(v.cols)
	n := archive.DayNumber(v.day)
	for i := range out {
		lon := float64(v.cols[i%width]) * 360 / 40075 // km to degrees at 1 km
		_, f := math.Modf(math.Abs(lon)/24.7 + float64(n*7%16)/16)
		out[i] = float32(math.Mod(hour+1.4*(f-0.5)+24, 24))
	}
	return v.drop(out, cloudy)
}
