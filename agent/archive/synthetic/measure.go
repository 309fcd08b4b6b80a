package synthetic

import (
	"fmt"
	"math"

	"terraloom/agent/archive"
)

// Opacities of a cloud from which on it is noticed.
const (
	veiled = 0.02 // in a reflectance
	cloudy = 0.3  // enough to drop a retrieval
	opaque = 0.5
)

var nan = float32(math.NaN())

// measure returns the physical values of a band. Every quantity of the table has
// its case here; the tests see to it.
func (v *view) measure(b *archive.Band) ([]float32, error) {
	hour := v.product.LocalHour(v.day, b.Night)
	switch b.Measures {
	case archive.SurfaceTemperature:
		return v.surfaceTemperature(b, hour), nil
	case archive.BrightnessTemperature, archive.ThermalRadiance:
		return v.thermal(b, hour), nil
	case archive.Emissivity:
		return v.emissivity(b), nil
	case archive.SurfaceReflectance:
		return v.reflectance(b), nil
	case archive.TOAReflectance:
		return v.topReflectance(b), nil
	case archive.NDVI, archive.EVI:
		return v.vegetationIndex(b), nil
	case archive.Albedo:
		return v.albedo(b), nil
	case archive.SnowCover:
		return v.snowCover(b), nil
	case archive.FirePower:
		return v.firePower(), nil
	case archive.FireMask:
		return v.fireMask(), nil
	case archive.LandCover:
		return classes(v.LandCover()), nil
	case archive.SceneClass:
		return v.sceneClass(), nil
	case archive.Quality:
		return v.quality(b), nil
	case archive.ViewTime:
		return v.viewTime(hour), nil
	case archive.Backscatter:
		return v.backscatter(b), nil
	case archive.SoilMoisture:
		return v.soilMoisture(b), nil
	case archive.MicrowaveTemperature:
		return v.microwave(b, hour), nil
	case archive.Precipitation:
		return v.Rain(), nil
	case archive.NightLight:
		return v.nightLight(b), nil
	case archive.ClearObservations:
		return v.clearObservations(b), nil
	case archive.BuiltSurface, archive.BuiltVolume:
		return v.built(b), nil
	case archive.Elevation:
		return append([]float32(nil), v.Scene.Elevation()...), nil
	}
	return nil, fmt.Errorf("%s: %s cannot be observed", b.Name, b.Measures)
}

func classes(c []uint8) []float32 {
	out := make([]float32, len(c))
	for i, x := range c {
		out[i] = float32(x)
	}
	return out
}

// drop makes the pixels invalid under a cloud of some opacity. Retrievals skip them.
func (v *view) drop(values []float32, opacity float32) []float32 {
	if v.mode != observed {
		return values
	}
	for i, c := range v.Cloud() {
		if c > opacity {
			values[i] = nan
		}
	}
	return values
}

// blur adds detector noise.
func (v *view) blur(values []float32, salt string, sigma func(x float64) float64) []float32 {
	if v.mode != observed {
		return values
	}
	g := v.grain(salt)
	for i, x := range values {
		values[i] = float32(float64(x) + sigma(float64(x))*g(i))
	}
	return values
}

func constant(sigma float64) func(float64) float64 { return func(float64) float64 { return sigma } }

// fires and settlement

func (v *view) firePower() []float32 {
	out := append([]float32(nil), v.FirePower()...)
	if v.mode == observed {
		for i, c := range v.Cloud() {
			if c > cloudy {
				out[i] = 0
			}
		}
	}
	return out
}

func (v *view) fireMask() []float32 {
	power, water, cloud := v.FirePower(), v.Water(), v.Cloud()
	out := make([]float32, len(power))
	for i, p := range power {
		switch {
		case v.mode == observed && cloud[i] > cloudy:
			out[i] = 4
		case p > 60:
			out[i] = 9
		case p > 12:
			out[i] = 8
		case p > 0:
			out[i] = 7
		case water[i] > 0.5:
			out[i] = 3
		default:
			out[i] = 5
		}
	}
	return out
}

func (v *view) nightLight(b *archive.Band) []float32 {
	return v.blur(append([]float32(nil), v.Lights()...), b.Name, func(x float64) float64 { return 0.04 + 0.02*x })
}

// clearObservations counts the clear nights of a month.
func (v *view) clearObservations(b *archive.Band) []float32 {
	out := make([]float32, len(v.Water()))
	g := v.grain(b.Name)
	for i := range out {
		clear := 1 - v.Cloudiness(i)
		n := float64(v.product.Days(v.day))
		out[i] = float32(math.Round(min(max(n*clear+math.Sqrt(n*clear*(1-clear))*g(i), 0), n)))
	}
	return out
}

// built is the surface (m²) or volume (m³) of buildings per pixel of 100 m.
func (v *view) built(b *archive.Band) []float32 {
	share, height := v.Built()
	other := v.NonResidential()
	nonResidential := b.Name == "built_surface_nres" || b.Name == "built_volume_nres"
	out := make([]float32, len(share))
	for i := range out {
		// A built-up pixel is not all roofs.
		x := 0.6 * float64(share[i]) * 1e4
		if share[i] < 0.01 {
			x = 0
		}
		if nonResidential {
			x *= float64(other[i])
		}
		if b.Measures == archive.BuiltVolume {
			x *= float64(height[i])
		}
		out[i] = float32(x)
	}
	return out
}
