package world

import "math"

// Scene is a patch on one day, or over a span of days seen as one. Its fields are
// made when they are first asked for. It is not safe for concurrent use.
type Scene struct {
	*Patch
	day     float64 // middle of the span, days from 1970
	now     moment
	first   int
	span    int
	weather bool

	heat, moisture  []float32 // weather of unit variance
	yearly, wetYear []float32 // of the year
	air             []float32
	wet             []float32
	cover           *cover
	cloud, shadow   []float32
	burn, power     []float32
}

// Scene returns the patch on a day, counted from 1970-01-01, or over the span of
// days that begins on it.
func (p *Patch) Scene(day, span int) *Scene {
	return p.scene(day, span, true)
}

// Mean is Scene without weather, clouds, fires and the differences between years:
// season and planted trends only.
func (p *Patch) Mean(day, span int) *Scene {
	return p.scene(day, span, false)
}

func (p *Patch) scene(day, span int, weather bool) *Scene {
	middle := float64(day) + float64(span)/2
	s := &Scene{Patch: p, first: day, span: span, day: middle, now: momentOf(middle), weather: weather}
	s.makeWeather()
	return s
}

// Timescales of the weather in days.
const (
	weatherStep = 4.0
	yearStep    = 365.25
)

var (
	synoptic = band{5, 9, 0.65}
	regional = band{4, 7, 0.6}
)

// makeWeather fills in the weather fields.
func (s *Scene) makeWeather() {
	s.heat, s.moisture, s.yearly, s.wetYear = s.field(), s.field(), s.field(), s.field()
	if !s.weather {
		return
	}
	seed := s.world.seed
	if s.span <= 8 {
		calm := 1 / math.Sqrt(1+float64(s.span-1)/weatherStep) // a mean over days varies less
		drift(s.heat, s.ax, seed+saltHeat, s.day, weatherStep, synoptic, calm)
		drift(s.moisture, s.ax, seed+saltMoisture, s.day, weatherStep, synoptic, calm)
	}
	drift(s.yearly, s.ax, seed+saltYear, s.day, yearStep, regional, 1)
	drift(s.wetYear, s.ax, seed+saltYearRain, s.day, yearStep, regional, 1)
}

// weatherSwing is the standard deviation of the air temperature from day to day.
func (s *Scene) weatherSwing(i int) float64 {
	return 0.6 + 0.22*math.Abs(float64(s.swing[i]))
}

// ago is the moment some days before the scene.
func (s *Scene) ago(days float64) moment { return momentOf(s.day - days) }

// warmth is the air temperature (°C) of the season with the planted warming.
func (p *Patch) warmth(i int, m moment) float64 {
	return float64(p.mean[i]) + float64(p.swing[i])*m.heat + p.trends[i].Warming*m.years
}

// Air returns the mean air temperature of the day in °C.
func (s *Scene) Air() []float32 {
	if s.air != nil {
		return s.air
	}
	s.air = s.field()
	for i := range s.air {
		t := s.warmth(i, s.now) + s.weatherSwing(i)*float64(s.heat[i]) + 0.3*float64(s.yearly[i])
		s.air[i] = float32(t)
	}
	return s.air
}

// rainfall is the mean rain of the season, mm a day, before its planted trend:
// plants have a trend of their own.
func (s *Scene) rainfall(i int, m moment) float64 {
	wet := max(1+float64(s.season[i])*m.rain, 0.04)
	return float64(s.rain[i]) / 365.25 * wet * clamp(1+0.12*float64(s.wetYear[i]), 0.5, 1.5)
}

// SoilMoisture returns the water of the topmost soil, m³/m³, of the land's part of
// each pixel.
func (s *Scene) SoilMoisture() []float32 {
	if s.wet != nil {
		return s.wet
	}
	recent := s.field() // the memory of the last days' rain
	if s.weather && s.span <= 8 {
		for _, m := range []struct{ lag, w float64 }{{0, 0.5}, {2.5, 0.35}, {5, 0.25}} {
			drift(recent, s.ax, s.world.seed+saltMoisture, s.day-m.lag, weatherStep, synoptic, m.w)
		}
	}
	s.wet = s.field()
	week, fortnight := s.ago(6), s.ago(12)
	for i := range s.wet {
		daily := s.rainfall(i, fortnight) * s.rainTrend(i)
		need := need(s.warmth(i, week))
		base := 0.05 + 0.38*daily/(daily+1.1*need)
		base = mix(base, max(base, 0.26), 0.5*float64(s.irrigated[i]))
		base += 0.015*float64(s.soil[i]) + 0.05*ramp(0.05, 0.25, base)*float64(recent[i])
		s.wet[i] = float32(clamp(mix(base, 0.45, float64(s.marsh[i])), 0.02, 0.5))
	}
	return s.wet
}

// rainTrend is the planted change of the rain, relative.
func (s *Scene) rainTrend(i int) float64 { return max(1+s.trends[i].Rain*s.now.years, 0.2) }

// need is the water that plants and air take up, mm a day, at an air temperature in °C.
func need(air float64) float64 { return 0.6 + 0.09*max(air, 0) }

// Rain returns the precipitation of the day in mm. Its mean over time is the
// season's: rain falls on a share of the days that grows with the season's rain,
// where the moisture of the weather is highest, in amounts that are exponentially
// distributed.
func (s *Scene) Rain() []float32 {
	showers := s.field()
	if s.weather {
		noise(showers, s.ax, s.world.seed+saltShower, int64(s.first), band{9, 12, 0.7}, 1)
	}
	out := s.field()
	for i := range out {
		mean := s.rainfall(i, s.now) * s.rainTrend(i)
		if !s.weather {
			out[i] = float32(mean)
			continue
		}
		chance := clamp(mean/9+0.06*math.Sqrt(mean), 0.004, 0.8)
		rank := normalShare(0.8*float64(s.moisture[i]) + 0.6*float64(showers[i]))
		if over := (rank - (1 - chance)) / chance; over > 0 {
			out[i] = float32(min(-mean/chance*math.Log(max(1-over, 1e-6)), 400))
		}
	}
	return out
}

// Vapour returns the precipitable water, mm (kg/m²).
func (s *Scene) Vapour() []float32 {
	air := s.Air()
	out := s.field()
	week := s.ago(5)
	for i := range out {
		rain := s.rainfall(i, week)
		humid := 0.35 + 0.55*rain/(rain+1.8) + 0.1*float64(s.moisture[i])
		thin := math.Exp(-float64(s.elevation[i]) / 2200)
		out[i] = float32(clamp(18*math.Exp(0.055*(float64(air[i])+lapse*float64(s.elevation[i])-12))*clamp(humid, 0.2, 1)*thin, 0.8, 68))
	}
	return out
}

// Cloud returns the opacity of the clouds, 0 … 1. Over a span of days it is that
// of the clearest of several days, pixel by pixel.
func (s *Scene) Cloud() []float32 {
	if s.cloud == nil {
		s.cloud = s.clouds(s.ax)
	}
	return s.cloud
}

// Shadow returns the opacity of the clouds whose shadow falls on each pixel.
func (s *Scene) Shadow() []float32 {
	if s.shadow == nil {
		ax := &axes{lon: shift(s.ax.lon, -0.011), lat: shift(s.ax.lat, -0.008), foot: s.ax.foot}
		s.shadow = s.clouds(ax)
	}
	return s.shadow
}

func shift(v []float64, by float64) []float64 {
	out := make([]float64, len(v))
	for i, x := range v {
		out[i] = x + by
	}
	return out
}

func (s *Scene) clouds(ax *axes) []float32 {
	out := s.field()
	if !s.weather {
		return out
	}
	days := []int{s.first}
	if s.span > 1 {
		days = days[:0]
		for k := range min(s.span, 5) {
			days = append(days, s.first+k*(s.span-1)/min(s.span-1, 4))
		}
	}
	weather, texture := s.field(), s.field()
	for k, day := range days {
		clear(weather)
		clear(texture)
		drift(weather, ax, s.world.seed+saltMoisture, float64(day)+0.5, weatherStep, synoptic, 0.62)
		noise(texture, ax, s.world.seed+saltCloud, int64(day), band{8, 17, 0.72}, 0.78)
		for i := range out {
			rank := normalShare(float64(weather[i] + texture[i]))
			opacity := float32(ramp(0, 0.14, rank-(1-s.cloudiness(i))))
			if k == 0 || opacity < out[i] {
				out[i] = opacity
			}
		}
	}
	return out
}

// cloudiness is the share of time that clouds cover a pixel.
func (s *Scene) cloudiness(i int) float64 {
	rain := s.rainfall(i, s.now)
	land := 0.14 + 0.58*rain/(rain+2.6)
	return mix(0.5, land, float64(s.land[i]))
}

// Cloudiness is the share of time that clouds cover a pixel in the season.
func (s *Scene) Cloudiness(pixel int) float64 {
	return s.cloudiness(pixel)
}
