package world

import (
	"math"

	"terraloom/slots/gazetteer"
)

// lay puts one place of the gazetteer into the patch.
func (p *Patch) lay(n *near, coast []float32) {
	small := math.Max(n.East-n.West, n.North-n.South) < 4
	if n.high {
		n.each(p.Width, func(i, at int) {
			w := ramp(1.4, 0.7, float64(n.plain[at]))
			rough := 0.1 * math.Abs(n.height) * float64(p.texture[i]) * 0.3
			p.elevation[i] = float32(mix(float64(p.elevation[i]), n.height+rough, w))
		})
	}
	switch n.Kind {
	case gazetteer.Lake, gazetteer.Reservoir:
		p.layLake(n, coast)
	case gazetteer.Sea:
		n.each(p.Width, func(i, at int) { push(coast, i, -0.7, ramp(0.5, 0.15, float64(n.centre[at]))) })
	case gazetteer.Island:
		if small { // larger ones have their real coast
			n.each(p.Width, func(i, at int) {
				push(coast, i, 2*(0.85-float64(n.rugged[at])), ramp(1.4, 1.1, float64(n.plain[at])))
			})
		}
	case gazetteer.Coast:
		p.layBay(n, coast)
	case gazetteer.City:
		p.layCity(n, coast)
	case gazetteer.Country, gazetteer.Province, gazetteer.Region, gazetteer.RiverBasin:
	default:
		p.layCover(n)
		n.each(p.Width, func(i, at int) { raise(coast, i, 0.6, ramp(0.6, 0.3, float64(n.centre[at]))) })
	}
}

// push moves a field to a value with a weight.
func push(f []float32, i int, to, w float64) { f[i] = float32(mix(float64(f[i]), to, w)) }

// raise is push, but never downwards.
func raise(f []float32, i int, to, w float64) { push(f, i, max(to, float64(f[i])), w) }

// layLake makes a lake in dry surroundings.
func (p *Patch) layLake(n *near, coast []float32) {
	n.each(p.Width, func(i, at int) {
		depth := 0.8 - float64(n.rugged[at])
		// The point of the gazetteer is under water even if it is off the middle.
		depth = max(depth, 0.5*(1.2-float64(n.centre[at])/0.18))
		p.lake[i] = float32(max(float64(p.lake[i]), depth))
		raise(coast, i, 1, ramp(1.4, 1.15, float64(n.plain[at])))
		push(p.elevation, i, float64(p.elevation[i])*0.97, ramp(1, 0.8, float64(n.plain[at])))
	})
}

// layBay has the coast run through the point of the gazetteer.
func (p *Patch) layBay(n *near, coast []float32) {
	m := theMaps()
	hx, hy := n.halves()
	gx := m.landShare(n.Lon+1, n.Lat) - m.landShare(n.Lon-1, n.Lat)
	gy := m.landShare(n.Lon, n.Lat+1) - m.landShare(n.Lon, n.Lat-1)
	if math.Hypot(gx, gy) < 0.05 {
		angle := 2 * math.Pi * unit(n.seed)
		gx, gy = math.Cos(angle), math.Sin(angle)
	}
	norm := math.Hypot(gx, gy)
	gx, gy = gx/norm, gy/norm
	n.each(p.Width, func(i, at int) {
		lon, lat := p.ax.lon[i%p.Width], p.ax.lat[i/p.Width]
		across := gx*(lon-n.Lon)/hx + gy*(lat-n.Lat)/hy
		edge := float64(n.rugged[at] - n.plain[at])
		w := ramp(1.3, 0.8, float64(n.plain[at]))
		push(coast, i, 1.2*across+edge+0.05, w)
		push(p.elevation, i, 4+60*max(across, 0), w)
	})
}

// layCity builds a city around its point, on land.
func (p *Patch) layCity(n *near, coast []float32) {
	n.each(p.Width, func(i, at int) {
		r := float64(n.centre[at])
		edge := float64(n.rugged[at] - n.plain[at])
		raise(coast, i, 0.5, ramp(0.75, 0.45, r+edge))
		core := math.Exp(-2.2 * math.Pow(max(r+0.6*edge, 0), 2))
		streets := 1 + 0.22*float64(p.vigour[i])
		p.urban[i] = float32(max(float64(p.urban[i]), 1.7*core*max(streets, 0.25)))
		push(p.ice, i, 0, ramp(1.3, 0.8, r))
		if !n.high { // cities keep to low and level ground
			low := 0.4 * float64(p.elevation[i])
			if n.Sea != "" {
				low = 12 + 4*float64(p.soil[i])
			}
			push(p.elevation, i, max(low, 1), ramp(1.4, 0.9, r))
		}
	})
}

// ground is the cover of a kind of place.
type ground struct {
	tree, crop, grass, evergreen float64
	rain                         float64 // mm a year at least (at most if dry)
	dry                          bool
	bright, fire                 float64
	marsh, irrigated, ice        float64
	keep                         float64 // how much of the landscape shows through
}

var grounds = map[gazetteer.Kind]ground{
	gazetteer.Desert:        {grass: 0.015, evergreen: 0.5, rain: 50, dry: true, bright: 1.3},
	gazetteer.Glacier:       {grass: 0.1, evergreen: 0.5, rain: 700, bright: 0.8, ice: 1},
	gazetteer.Forest:        {tree: 0.85, crop: 0.02, grass: 0.1, evergreen: 0.6, rain: 900, bright: 0.65, fire: 0.3, keep: 0.15},
	gazetteer.Grassland:     {tree: 0.03, crop: 0.08, grass: 0.72, evergreen: 0.5, rain: 350, bright: 0.9, fire: 0.5, keep: 0.15},
	gazetteer.Plain:         {tree: 0.08, crop: 0.74, grass: 0.1, evergreen: 0.3, rain: 500, bright: 0.85, fire: 0.15, irrigated: 0.7, keep: 0.1},
	gazetteer.Wetland:       {tree: 0.15, crop: 0.05, grass: 0.7, evergreen: 0.6, rain: 900, bright: 0.6, fire: 0.3, marsh: 0.3, irrigated: 0.8},
	gazetteer.RiverDelta:    {tree: 0.08, crop: 0.65, grass: 0.15, evergreen: 0.4, rain: 800, bright: 0.75, fire: 0.1, marsh: 0.12, irrigated: 0.9},
	gazetteer.ProtectedArea: {tree: 0.5, crop: 0, grass: 0.35, evergreen: 0.6, rain: 500, bright: 0.75, fire: 0.4, keep: 0.75},
}

// layCover covers a place as its kind has it.
func (p *Patch) layCover(n *near) {
	switch n.Kind {
	case gazetteer.MountainRange, gazetteer.Volcano:
		n.each(p.Width, func(i, at int) {
			w := max(ramp(1.3, 0.5, float64(n.rugged[at])), ramp(0.5, 0.2, float64(n.centre[at])))
			rise := 700.0
			if n.Kind == gazetteer.Volcano {
				rise = 2400 * max(0, 1-float64(n.centre[at]))
			} else if n.high {
				rise = 0
			}
			ridge := 450 * w * max(float64(p.soil[i]), -0.8)
			p.elevation[i] = float32(max(float64(p.elevation[i])+w*rise+ridge, 1))
		})
	case gazetteer.Plateau:
		return // its height is in the maps
	}
	g, ok := grounds[n.Kind]
	if !ok {
		return
	}
	n.each(p.Width, func(i, at int) {
		// The point of the gazetteer belongs to the place even if it is off the middle.
		w := max(ramp(1.15, 0.8, float64(n.rugged[at])), ramp(0.3, 0.1, float64(n.centre[at]))) * (1 - g.keep)
		push(p.tree, i, g.tree, w)
		push(p.crop, i, g.crop, w)
		push(p.grass, i, g.grass, w)
		push(p.evergreen, i, g.evergreen, w*0.5)
		push(p.ice, i, g.ice, w)
		push(p.bright, i, g.bright, w)
		push(p.fire, i, g.fire, w)
		push(p.irrigated, i, g.irrigated, w)
		if g.dry {
			push(p.rain, i, min(g.rain, float64(p.rain[i])), w)
		} else {
			raise(p.rain, i, g.rain, w)
		}
		if !n.high && (n.Kind == gazetteer.RiverDelta || n.Kind == gazetteer.Plain || n.Kind == gazetteer.Wetland) {
			push(p.elevation, i, max(0.35*float64(p.elevation[i]), 1), w)
		}
		if g.marsh > 0 {
			pools := g.marsh + 0.25*float64(p.turbidity[i]-0.4)
			push(p.marsh, i, clamp(pools+0.1*float64(p.soil[i]), 0, 0.6), w)
		}
	})
}

// layCoast turns the coast potential into the share of land.
func (p *Patch) layCoast(coast []float32) {
	soft := max(0.01, 0.8*p.ax.foot) // the potential changes by about 1 per degree
	for i, c := range coast {
		p.land[i] = float32(ramp(-soft, soft, float64(c)))
		p.elevation[i] *= p.land[i]
		p.ice[i] *= p.land[i]
	}
}

// layTowns strews towns over habitable land.
func (p *Patch) layTowns() {
	const k = 9 // one chance per cell of 0.7 degrees
	size := cell(k)
	ax := p.ax
	reach := 0.12
	x0, x1 := int64(math.Floor((ax.lon[0]+180-reach)/size)), int64(math.Floor((ax.lon[p.Width-1]+180+reach)/size))
	y0, y1 := int64(math.Floor((ax.lat[p.Height-1]+90-reach)/size)), int64(math.Floor((ax.lat[0]+90+reach)/size))
	m := theMaps()
	for y := y0; y <= y1; y++ {
		for x := x0; x <= x1; x++ {
			h := p.world.seed + saltTown
			wrapped := x & (1<<k - 1)
			lon := (float64(x)+unit(hash(h, wrapped, y, 1)))*size - 180
			lat := (float64(y)+unit(hash(h, wrapped, y, 2)))*size - 90
			l, height := m.landscapeAt(lon, clamp(lat, -90, 90))
			habitable := m.landShare(lon, clamp(lat, -90, 90)) * clamp(l.crop*1.6+0.25*l.grass, 0, 1) * ramp(4000, 1500, height) * ramp(68, 55, math.Abs(lat))
			if unit(hash(h, wrapped, y, 3)) > habitable {
				continue
			}
			r := 0.01 + 0.035*math.Pow(unit(hash(h, wrapped, y, 4)), 2)
			p.buildTown(lon, lat, r, 0.5+0.6*unit(hash(h, wrapped, y, 5)))
		}
	}
}

func (p *Patch) buildTown(lon, lat, r, dense float64) {
	lats := p.ax.lat
	for j := range lats {
		v := (lats[j] - lat) / r
		if v > 3 || v < -3 {
			continue
		}
		from, to := within(p.ax.lon, lon-3*r, lon+3*r)
		for i := from; i < to; i++ {
			u := (p.ax.lon[i] - lon) / r
			at := j*p.Width + i
			d := u*u + v*v
			// A footprint wider than the town sees it thinned out.
			core := dense * math.Exp(-d) * (1 + 0.3*float64(p.vigour[at]))
			p.urban[at] = float32(max(float64(p.urban[at]), core))
		}
	}
}
