package world

import "math"

// cover is what a pixel is covered with, as shares that add up to 1 with bare soil.
type cover struct {
	water, snow, urban, plants, burnt []float32
}

// makeCover fills in the cover of the day.
func (s *Scene) makeCover() *cover {
	if s.cover != nil {
		return s.cover
	}
	s.makeFires()
	c := &cover{s.field(), s.field(), s.field(), s.field(), s.field()}
	at := lags{snow: s.ago(10), fallen: s.ago(20), ice: s.ago(25), growth: s.ago(18), moist: s.ago(25), field: seasonAt(s.day, peakField), rains: seasonAt(s.day-25, peakRain)}
	for i := range c.water {
		water := s.waterShare(i)
		land := 1 - water
		urban := land * s.builtShare(i, s.now.years)
		open := land - urban
		plants := open * s.plantShare(i, &at)
		burnt := open * float64(s.burn[i])
		plants *= 1 - float64(s.burn[i])
		snow := s.snowShare(i, &at)
		frozen := 0.0
		if water > 0 {
			frozen = s.freeze(i, &at)
		}
		c.water[i] = float32(water * (1 - frozen))
		c.snow[i] = float32(snow*(land-0.45*plants*float64(s.tree[i])*float64(s.evergreen[i])-0.4*urban) + water*frozen)
		uncovered := 1 - snow
		c.urban[i] = float32(urban * (1 - 0.6*snow))
		c.plants[i] = float32(plants * max(uncovered, 0.45*snow*float64(s.tree[i])*float64(s.evergreen[i])))
		c.burnt[i] = float32(burnt * uncovered)
	}
	s.cover = c
	return c
}

// lags are the moments that the cover of a day remembers.
type lags struct {
	snow, fallen, ice, growth, moist moment
	field, rains                     float64 // seasons of temperate and of rain-fed fields
}

// bare is the share of bare soil.
func (c *cover) bare(i int) float64 {
	return max(0, 1-float64(c.water[i])-float64(c.snow[i])-float64(c.urban[i])-float64(c.plants[i])-float64(c.burnt[i]))
}

// waterShare is the share of a pixel under sea, lake or marsh water.
func (s *Scene) waterShare(i int) float64 {
	sea := 1 - float64(s.land[i])
	inland := float64(s.marsh[i]) * clamp(1+0.5*float64(s.season[i])*s.now.water, 0.3, 1.6)
	if d := float64(s.lake[i]); d > -1 {
		level := s.trends[i].Level*s.now.years + 0.02*s.now.rain*float64(s.season[i])
		inland = max(inland, ramp(-0.03, 0.03, d+level))
	}
	return sea + (1-sea)*inland
}

// builtShare is the share of the land that is built up, so many years from the epoch.
func (s *Scene) builtShare(i int, y float64) float64 {
	u := float64(s.urban[i])
	if u < 0.01 {
		return 0
	}
	return 0.95 * (1 - math.Exp(-u*math.Exp(s.trends[i].Building*y)))
}

// snowShare is the share of the land under snow or ice, apart from trees that
// stand out of it.
func (s *Scene) snowShare(i int, at *lags) float64 {
	felt := s.warmth(i, at.snow) + 0.35*s.weatherSwing(i)*float64(s.heat[i]) + 0.3*float64(s.yearly[i])
	fallen := ramp(0.1, 0.7, s.rainfall(i, at.fallen)) // cold deserts have little snow
	snow := (1 - ramp(-2.5, 1.5, felt+0.5*float64(s.soil[i]))) * fallen
	ice := clamp(float64(s.ice[i])*(1+0.15*float64(s.soil[i]))+boolean(s.ice[i] > 0.2)*s.trends[i].Ice*s.now.years, 0, 1)
	return clamp(snow+ice*(1-snow), 0, 1)
}

func boolean(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// freeze is the share of the water under ice.
func (s *Scene) freeze(i int, at *lags) float64 {
	limit := -3.0 // fresh water freezes after some frost
	if s.land[i] < 0.5 {
		limit = -9
	}
	return 1 - ramp(limit-3, limit+1, s.warmth(i, at.ice)+0.3*float64(s.yearly[i]))
}

// plantShare is the share of open land under green plants.
func (s *Scene) plantShare(i int, at *lags) float64 {
	warm := s.warmth(i, at.growth)
	growth := ramp(0, 14, warm)
	moist := clamp(1.5*s.rainfall(i, at.moist)/need(warm), 0, 1)
	ever := float64(s.evergreen[i])
	tree := ever*(0.62+0.33*moist*ramp(-5, 12, warm)) + (1-ever)*(0.1+0.82*growth*(0.3+0.7*moist))
	grass := 0.05 + 0.8*growth*moist
	// Fields are green for one season: temperate ones in early summer, others with the rain.
	crop := 0.05 + 0.85*growth*max(moist, 0.85*float64(s.irrigated[i]))*(0.45+0.55*ramp(-0.4, 0.7, s.fieldSeason(i, at)))
	v := float64(s.tree[i])*tree + float64(s.grass[i])*grass + float64(s.crop[i])*crop
	v *= 1 + 0.13*float64(s.vigour[i]) + 0.02*float64(s.yearly[i])
	v += s.trends[i].Greening * s.now.years * (0.35 + 0.65*growth) * ramp(0.02, 0.15, v)
	return clamp(v, 0, 0.97)
}

// fieldSeason is 1 when fields are greenest and -1 half a year later.
func (s *Scene) fieldSeason(i int, at *lags) float64 {
	if math.Abs(float64(s.swing[i])) > 6 {
		return math.Copysign(1, float64(s.swing[i])) * at.field
	}
	return at.rains * clamp(2*float64(s.season[i]), -1, 1)
}

// Water returns the share of open water, Snow that of snow and ice, Urban that of
// buildings and roads, Plants that of green plants, Bare that of bare soil and
// Burnt that of charred ground.
func (s *Scene) Water() []float32  { return s.makeCover().water }
func (s *Scene) Snow() []float32   { return s.makeCover().snow }
func (s *Scene) Urban() []float32  { return s.makeCover().urban }
func (s *Scene) Plants() []float32 { return s.makeCover().plants }
func (s *Scene) Burnt() []float32  { return s.makeCover().burnt }

// Bare returns the share of bare soil.
func (s *Scene) Bare() []float32 {
	c := s.makeCover()
	out := s.field()
	for i := range out {
		out[i] = float32(c.bare(i))
	}
	return out
}

// Elevation returns the height above the sea in metres.
func (p *Patch) Elevation() []float32 { return p.elevation }

// Land returns the share of each pixel that the sea leaves.
func (p *Patch) Land() []float32 { return p.land }

// Frozen returns the share of the topmost soil that is frozen, 0 … 1.
func (s *Scene) Frozen() []float32 {
	out := s.field()
	fortnight := s.ago(12)
	for i := range out {
		out[i] = float32(1 - ramp(-4, 0, s.warmth(i, fortnight)))
	}
	return out
}
