package synthetic

import (
	"strings"

	"terraloom/agent/archive"
)

// sky is what the flags say of a pixel.
type sky struct {
	cloud, shadow, snow, water float32
	inland, fire               bool
}

func (v *view) sky() func(i int) sky {
	cloud, snow, water, land, power := v.Cloud(), v.Snow(), v.Water(), v.Land(), v.FirePower()
	shadow := make([]float32, len(cloud))
	if v.product.Resolution <= 500 {
		shadow = v.Shadow()
	}
	return func(i int) sky {
		return sky{cloud[i], shadow[i], snow[i], water[i], land[i] > 0.5, power[i] > 0 && cloud[i] <= cloudy}
	}
}

// quality composes the flags of a band from its own bit fields, so that the table
// is the one place that says where they are.
func (v *view) quality(b *archive.Band) []float32 {
	at := v.sky()
	out := make([]float32, len(v.Cloud()))
	put := func(name string, part int) int {
		f, ok := b.Bit(name)
		if !ok {
			return 0 // an older sensor has no such flag
		}
		return f.Put(part)
	}
	var flags func(sky) int
	switch {
	case strings.HasPrefix(b.Name, "QC_"):
		flags = func(s sky) int { return lstFlags(s, put) }
	case b.Name == "QA_PIXEL":
		flags = func(s sky) int { return landsatFlags(s, put) }
	case b.Name == "QA60":
		flags = func(s sky) int {
			return put("cloud", bit(s.cloud > opaque)) | put("cirrus", bit(s.cloud > veiled && s.cloud <= opaque))
		}
	case b.Name == "SummaryQA":
		flags = summary
	case len(b.Classes) > 0: // inversion quality
		flags = func(s sky) int { return bit(s.cloud > 0.1) }
	default:
		flags = func(s sky) int { return stateFlags(s, put) }
	}
	for i := range out {
		out[i] = float32(flags(at(i)))
	}
	return out
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// lstFlags are MODIS land surface temperature's.
func lstFlags(s sky, put func(string, int) int) int {
	switch {
	case s.cloud > cloudy:
		return put("mandatory", 2)
	case s.cloud > 0.05:
		return put("mandatory", 1) | put("data quality", 1) | put("emissivity error", 1) | put("LST error", 1)
	}
	return put("mandatory", 0)
}

// landsatFlags are QA_PIXEL's. Every pixel that a cloud veils has one of the bits
// 1 to 3, every one in a shadow bit 4.
func landsatFlags(s sky, put func(string, int) int) int {
	level := func(high bool) int {
		if high {
			return 3
		}
		return 1
	}
	cloud := s.cloud > opaque
	veil := s.cloud > veiled && !cloud
	shadow := s.shadow > veiled && s.cloud <= opaque
	snow := s.snow > 0.5 && !cloud
	water := s.water > 0.5
	confidence := level(cloud)
	if veil {
		confidence = 2
	}
	q := put("cloud", bit(cloud)) | put("dilated cloud", bit(veil)) | put("cirrus", bit(veil && s.cloud < 0.25)) |
		put("cloud shadow", bit(shadow)) | put("snow", bit(snow)) | put("water", bit(water)) | put("clear", bit(!cloud && !veil))
	return q | put("cloud confidence", confidence) | put("cloud shadow confidence", level(shadow)) |
		put("snow confidence", level(snow)) | put("cirrus confidence", level(veil && s.cloud < 0.25))
}

// summary is MOD13's pixel reliability.
func summary(s sky) int {
	switch {
	case s.cloud > cloudy:
		return 3
	case s.snow > 0.5:
		return 2
	case s.cloud > veiled:
		return 1
	}
	return 0
}

// stateFlags are MODIS surface reflectance's.
func stateFlags(s sky, put func(string, int) int) int {
	state, surface, cirrus := 0, 1, 0
	switch {
	case s.cloud > opaque:
		state = 1
	case s.cloud > veiled:
		state, cirrus = 2, 1
	}
	switch {
	case s.water > 0.5 && s.inland:
		surface = 3
	case s.water > 0.5:
		surface = 6
	case s.water > 0.1:
		surface = 2
	}
	snow := bit(s.snow > 0.5 && s.cloud <= opaque)
	return put("cloud state", state) | put("cloud shadow", bit(s.shadow > cloudy && state == 0)) | put("land water", surface) | put("aerosol", 1) |
		put("cirrus", cirrus) | put("internal cloud", bit(s.cloud > cloudy)) | put("internal fire", bit(s.fire)) | put("MOD35 snow", snow) | put("next to cloud", bit(state == 2)) | put("internal snow", snow)
}

// sceneClass is Sentinel-2's scene classification.
func (v *view) sceneClass() []float32 {
	at := v.sky()
	plants, bare := v.Plants(), v.Bare()
	out := make([]float32, len(plants))
	for i := range out {
		s := at(i)
		switch {
		case v.mode == observed && s.cloud > 0.75:
			out[i] = 9
		case v.mode == observed && s.cloud > opaque:
			out[i] = 8
		case v.mode == observed && s.cloud > veiled:
			out[i] = 10
		case v.mode == observed && s.shadow > cloudy:
			out[i] = 3
		case s.snow > 0.5:
			out[i] = 11
		case s.water > 0.5:
			out[i] = 6
		case plants[i] > bare[i]:
			out[i] = 4
		default:
			out[i] = 5
		}
	}
	return out
}
