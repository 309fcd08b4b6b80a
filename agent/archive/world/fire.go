package world

import "math"

// Fires start at random in cells of the lattice of level fireLevel and blocks of
// fireBlock days, the more readily the drier the season and the land.
const (
	fireLevel = 10 // 0.35 degrees
	fireBlock = 8  // days
	fireReach = 0.09
	scarDays  = 420
)

// fire is one event.
type fire struct {
	lon, lat   float64
	first      int // day
	days       int
	radius     float64 // degrees
	power      float64 // MW in a kilometre of its middle
	lastRadius float64
}

// fireMap is the readiness to burn of the cells around a patch.
type fireMap struct {
	x0, y0     int64
	cols, rows int64
	ready      []float64 // fires per block at the dry season's height, before the season
	season     []float64
	mean       []float64
	swing      []float64
	rain       []float64
}

func (w *World) fireMap(p *Patch) *fireMap {
	size := cell(fireLevel)
	lons, lats := p.ax.lon, p.ax.lat
	m := &fireMap{x0: int64(math.Floor((lons[0] + 180 - fireReach) / size)), y0: int64(math.Floor((lats[len(lats)-1] + 90 - fireReach) / size))}
	m.cols = int64(math.Floor((lons[len(lons)-1]+180+fireReach)/size)) - m.x0 + 1
	m.rows = int64(math.Floor((lats[0]+90+fireReach)/size)) - m.y0 + 1
	n := m.cols * m.rows
	m.ready, m.season, m.mean, m.swing, m.rain = make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
	world := theMaps()
	for y := range m.rows {
		for x := range m.cols {
			lon := (float64(m.x0+x)+0.5)*size - 180
			lat := clamp((float64(m.y0+y)+0.5)*size-90, -90, 90)
			l, height := world.landscapeAt(lon, lat)
			i := y*m.cols + x
			m.ready[i] = 0.09 * l.fire * world.landShare(lon, lat) * clamp(l.tree+l.grass+0.6*l.crop, 0, 1)
			m.season[i] = l.season * math.Tanh(lat/6)
			m.mean[i] = byLatitude(meanNorth, meanSouth, lat) + l.warm - lapse*height
			m.swing[i] = byLatitude(swingNorth, swingSouth, lat) * math.Tanh(lat/4)
			m.rain[i] = l.rain
		}
	}
	return m
}

// drought is how dry cell i is at a time, 0 … 1.
func (m *fireMap) drought(i int64, day float64) float64 {
	rain := m.rain[i] / 365.25 * max(1+m.season[i]*seasonAt(day-20, peakRain), 0.04)
	warm := m.mean[i] + m.swing[i]*seasonAt(day, peakHeat)
	return ramp(1.4, 0.2, rain/(0.6+0.09*max(warm, 0))) * ramp(4, 16, warm)
}

// active lists the fires that burnt or had burnt in the patch on a day, those of
// the last scarDays days.
func (p *Patch) active(day int) []fire {
	m := p.fires
	size := cell(fireLevel)
	var out []fire
	h := p.world.seed + saltFire
	last := int64(math.Floor(float64(day) / fireBlock))
	for block := last - scarDays/fireBlock; block <= last; block++ {
		middle := (float64(block) + 0.5) * fireBlock
		for y := range m.rows {
			for x := range m.cols {
				i := y*m.cols + x
				if m.ready[i] < 1e-4 {
					continue
				}
				gx, gy := (m.x0+x)&(1<<fireLevel-1), m.y0+y
				bits := hash(h, gx, gy, block)
				draw := unit(bits)
				if draw > m.ready[i]*1.8 { // no drought makes it burn
					continue
				}
				if draw > m.ready[i]*m.drought(i, middle) {
					continue
				}
				r := func(k int64) float64 { return unit(hash(bits, k, 0, 0)) }
				f := fire{lon: (float64(m.x0+x)+r(1))*size - 180, lat: (float64(gy)+r(2))*size - 90, first: int(block*fireBlock) + int(r(3)*fireBlock),
					days: 1 + int(6*r(4)*r(4)), radius: 0.012 + 0.05*r(5)*r(5), power: 15 + 400*math.Pow(r(6), 3)}
				if age := day - f.first; age >= 0 && age < scarDays {
					f.lastRadius = f.radius * min(1, math.Sqrt(float64(age+1)/float64(f.days)))
					out = append(out, f)
				}
			}
		}
	}
	return out
}

// makeFires fills in the fire power and the burnt share.
func (s *Scene) makeFires() {
	if s.burn != nil {
		return
	}
	s.burn, s.power = s.field(), s.field()
	if !s.weather {
		return
	}
	last := s.first + s.span - 1
	ax := s.ax
	for _, f := range s.active(last) {
		age := last - f.first
		burning := age < f.days+s.span-1
		scar := 0.9 * math.Exp(-math.Pow(float64(age)/190, 2))
		for j, lat := range ax.lat {
			v := lat - f.lat
			if math.Abs(v) > f.lastRadius {
				continue
			}
			from, to := within(ax.lon, f.lon-1.5*f.lastRadius, f.lon+1.5*f.lastRadius)
			for i := from; i < to; i++ {
				u := ax.lon[i] - f.lon
				at := j*s.Width + i
				d := math.Hypot(u, v) / f.lastRadius * (1 + 0.2*float64(s.soil[at]))
				if d >= 1 || s.land[at] < 0.5 || s.lake[at] > 0 || s.urban[at] > 0.3 {
					continue
				}
				fuel := ramp(0.08, 0.35, float64(s.tree[at]+s.grass[at]+s.crop[at]))
				s.burn[at] = float32(max(float64(s.burn[at]), scar*fuel*ramp(1, 0.8, d)))
				if front := ramp(0.35, 0.75, d); burning && front > 0 {
					flare := unit(hash(s.world.seed+saltFlicker, int64(math.Round(lat*1e4)), int64(math.Round(ax.lon[i]*1e4)), int64(last)))
					if power := f.power * front * fuel * flare * flare * 2; power > 2 {
						s.power[at] = float32(max(float64(s.power[at]), power))
					}
				}
			}
		}
	}
}

// FirePower returns the radiative power of the fires of the day, MW per pixel of a
// square kilometre; over a span of days the strongest.
func (s *Scene) FirePower() []float32 {
	s.makeFires()
	return s.power
}
