package world

import (
	"math"

	"terraloom/slots/gazetteer"
)

// Yearly mean temperature (°C) at sea level and half the range of the monthly
// means (K) by latitude in steps of ten degrees from the equator, for the two
// hemispheres.
var (
	meanNorth  = []float64{26.5, 26.5, 25, 20.5, 14.5, 8, 1, -8, -16, -20}
	meanSouth  = []float64{26.5, 26, 23.5, 19, 13.5, 8, 0, -12, -26, -42}
	swingNorth = []float64{1, 2.5, 5.5, 9, 11.5, 13, 15, 17, 18, 18}
	swingSouth = []float64{1, 2, 4.5, 6.5, 6.5, 5.5, 5.5, 10, 14, 16}
)

// lapse is the fall of temperature with height, K per metre.
const lapse = 0.006

func byLatitude(north, south []float64, lat float64) float64 {
	t := north
	if lat < 0 {
		t = south
	}
	x := math.Abs(lat) / 10
	i := min(int(x), len(t)-2)
	return mix(t[i], t[i+1], x-float64(i))
}

// layClimate sets the mean and the swing of the air temperature.
func (p *Patch) layClimate() {
	m := theMaps()
	p.each(func(i int, lon, lat float64) {
		inland := m.inlandShare(lon, lat)
		atlantic := math.Exp(-math.Pow((lon-5)/22, 2) - math.Pow((lat-58)/12, 2)) // the Gulf Stream's gift
		mean := byLatitude(meanNorth, meanSouth, lat) + float64(p.mean[i]) + 6*atlantic - lapse*float64(p.elevation[i])
		swing := byLatitude(swingNorth, swingSouth, lat) * mix(0.5, 1.1, inland) * (1 - 0.35*atlantic)
		if p.rain[i] < 250 {
			swing++
		}
		p.mean[i] = float32(mean)
		p.swing[i] = float32(swing * math.Tanh(lat/4))
	})
}

// layTrends sets the planted trends: smooth fields of the world, and over them
// those that each place has of its own.
func (p *Patch) layTrends(places []near) {
	const fields = 7
	var base [fields][]float32
	for f := range base {
		base[f] = p.field()
		noise(base[f], p.ax, p.world.seed+saltTrend+uint64(f)<<24, 0, band{4, 6, 0.6}, 1)
	}
	p.trends = make([]Trends, p.pixels())
	p.each(func(i int, lon, lat float64) {
		x := func(f int) float64 { return clamp(float64(base[f][i]), -2, 2) }
		p.trends[i] = Trends{
			Warming:  0.03 + 0.012*x(0) + 0.03*ramp(50, 75, math.Abs(lat)),
			Greening: 0.0018 * x(1),
			Lights:   0.02 + 0.012*x(2),
			Building: 0.02 + 0.008*x(3),
			Level:    0.002 * x(4),
			Ice:      -0.003 + 0.0015*x(5),
			Rain:     0.003 * x(6),
		}
	})
	for _, administrative := range []bool{true, false} {
		for k := range places {
			n := &places[k]
			if n.administrative() != administrative {
				continue
			}
			own := p.world.placeTrends(n.place)
			n.each(p.Width, func(i, at int) {
				if w := ramp(1.4, 1, float64(n.plain[at])); w > 0 {
					p.trends[i] = p.trends[i].blend(own, w)
				}
			})
		}
	}
}

// administrative places give way to natural ones and to cities, whatever their size.
func (p *place) administrative() bool {
	switch p.Kind {
	case gazetteer.Country, gazetteer.Province, gazetteer.Region, gazetteer.RiverBasin, gazetteer.Sea:
		return true
	}
	return false
}

// placeTrends are the trends that a place has of its own.
func (w *World) placeTrends(p *place) Trends {
	x := func(f int64) float64 { return signed(hash(w.seed^p.seed, f, 0, 5)) }
	t := Trends{Warming: 0.05 + 0.05*x(1), Greening: 0.005 * x(2), Lights: 0.025 + 0.045*x(3), Building: 0.03 + 0.02*x(4),
		Level: 0.006*x(5) - 0.001, Ice: -0.006 + 0.006*x(6), Rain: 0.005 * x(7)}
	switch p.Kind {
	case gazetteer.Desert:
		t.Greening *= 0.2 // there is little to change
	case gazetteer.Forest:
		t.Greening = 0.006*x(2) - 0.001
	}
	return t
}

// TrendsOf returns the trends planted at a place. They hold in the ellipse that
// touches its box, except where another place lies over it: a smaller one, or a
// natural place or city over a country, province, region, river basin or sea.
func (w *World) TrendsOf(g gazetteer.Place) Trends {
	return w.placeTrends(&place{Place: g, seed: textHash(g.Name)})
}

func (t Trends) blend(u Trends, w float64) Trends {
	if w == 1 { // exactly
		return u
	}
	return Trends{
		Warming:  mix(t.Warming, u.Warming, w),
		Greening: mix(t.Greening, u.Greening, w),
		Lights:   mix(t.Lights, u.Lights, w),
		Building: mix(t.Building, u.Building, w),
		Level:    mix(t.Level, u.Level, w),
		Ice:      mix(t.Ice, u.Ice, w),
		Rain:     mix(t.Rain, u.Rain, w),
	}
}

// Trends returns the planted trends at a pixel.
func (p *Patch) Trends(pixel int) Trends { return p.trends[pixel] }

// seasonAt is the cosine of the time of year with its maximum on a day of year.
func seasonAt(day, peak float64) float64 {
	return math.Cos(2 * math.Pi * (yearDay(day) - peak) / 365.25)
}

// yearDay is the day of the year, from 0, of a day counted from 1970.
func yearDay(day float64) float64 {
	y := day / 365.25
	return (y - math.Floor(y)) * 365.25
}

// moment is a point in time with what the seasons make of it.
type moment struct {
	years             float64 // since the epoch
	heat, rain, water float64 // 1 in northern summer, its rains, its warm waters; -1 half a year later
}

func momentOf(day float64) moment {
	return moment{years(day), seasonAt(day, peakHeat), seasonAt(day, peakRain), seasonAt(day, peakWater)}
}

// Days of the year on which northern summer, its rains and its waters peak.
const (
	peakHeat  = 201
	peakRain  = 215
	peakWater = 232
	peakField = 188
)
