// Package world is a deterministic model of the Earth's surface and weather, made
// to be observed: it gives every place and day heights, land and water, plants,
// snow, buildings, temperatures, rain, clouds, fires and lights that fit each
// other, the seasons, the latitude and the places of the gazetteer.
//
// It is a stand-in for imagery, not a forecast. Coasts are real to about a degree,
// landscapes to about five; lakes, deserts, cities and the rest of the gazetteer
// stand in their boxes; everything finer is noise. The laws that tools look for are
// built in: dry bare ground is hot by day, plants cool it, height cools the air,
// cities are warm, snow is bright in the visible and dark in the shortwave
// infrared, water the other way round.
//
// Everything is a pure function of the world's seed, the position, the footprint of
// the observer and the time: patches that overlap agree bit for bit on one
// processor architecture.
//
// # Planted trends
//
// From the year 2010 on, and backwards, the climate and the land change at rates
// that the world sets for each place of the gazetteer and smoothly elsewhere:
// Patch.Trends gives them, Scene.Mean the state without weather that follows.
package world

import "math"

// World is one of the possible worlds. It is safe for concurrent use.
type World struct{ seed uint64 }

// New returns the world of a seed.
func New(seed uint64) *World { return &World{seed: hash(seed, 0, 0, 0x7e44a)} }

// Salts of the noise fields.
const (
	saltCoast = uint64(iota+1) << 32
	saltWarpX
	saltWarpY
	saltRidge
	saltSoil
	saltVigour
	saltTexture
	saltTurbidity
	saltHeat
	saltMoisture
	saltCloud
	saltShower
	saltYear
	saltYearRain
	saltTrend
	saltFire
	saltTown
	saltUse
	saltFlicker
)

// Axes describes where a patch lies: the pixel centres in degrees, longitudes from
// west to east and latitudes from north to south, and the footprint that a pixel
// averages over, in degrees. There is at least one of each.
type Axes struct {
	Lon, Lat  []float64
	Footprint float64
}

// Patch is a piece of the world with everything that does not depend on the day.
// It is safe for concurrent use. Its fields have one value per pixel, row by row
// from the north-west corner.
type Patch struct {
	world         *World
	ax            *axes
	Width, Height int

	land      []float32 // share of the pixel that the sea leaves
	elevation []float32 // m
	lake      []float32 // above 0 where there is a lake; 0.8 in its middle
	marsh     []float32 // share of open water among plants
	urban     []float32 // built-up share in 2010, before saturation
	tree      []float32 // cover by woods, and so on
	crop      []float32
	grass     []float32
	evergreen []float32
	ice       []float32 // share of permanent ice
	bright    []float32 // soil brightness
	fire      []float32 // readiness to burn
	rain      []float32 // mm a year
	season    []float32 // of rain, signed by hemisphere: the wet season is in July if positive
	irrigated []float32
	mean      []float32 // yearly mean air temperature, °C
	swing     []float32 // half the range of the monthly means; July is warm if positive
	vigour    []float32 // noise of unit variance: of plants
	soil      []float32 // of the soil
	texture   []float32 // of temperature
	turbidity []float32 // share of turbid water, 0 … 1
	trends    []Trends
	fires     *fireMap
	use       []float32 // non-residential share of buildings
}

// Trends are the planted rates of change of a place, per year.
type Trends struct {
	Warming  float64 // air temperature, K
	Greening float64 // plant cover, share of the pixel in the growing season
	Lights   float64 // night light, relative
	Building float64 // built-up area, relative while it is small
	Level    float64 // of a lake; 0.8 stands for all of it
	Ice      float64 // permanent ice, share of the pixel
	Rain     float64 // relative
}

// Epoch is the year on which the planted trends pivot.
const Epoch = 2010

// years since the epoch.
func years(day float64) float64 { return (day - 14610) / 365.25 }

// Patch prepares a piece of the world. Its cost is that of a few dozen noise
// fields of its size; keep a patch below a million pixels.
func (w *World) Patch(a Axes) *Patch {
	ax := &axes{lon: a.Lon, lat: a.Lat, foot: a.Footprint}
	p := &Patch{world: w, ax: ax, Width: len(a.Lon), Height: len(a.Lat)}
	p.layNoise()
	coast := p.layLandscape()
	places := w.nearPlaces(ax)
	p.layTowns()
	for i := range places {
		p.lay(&places[i], coast)
	}
	p.layCoast(coast)
	p.layClimate()
	p.layTrends(places)
	p.fires = w.fireMap(p)
	return p
}

func (p *Patch) pixels() int { return p.Width * p.Height }

func (p *Patch) field() []float32 { return make([]float32, p.pixels()) }

// each calls f with every pixel and its position.
func (p *Patch) each(f func(i int, lon, lat float64)) {
	i := 0
	for _, lat := range p.ax.lat {
		for _, lon := range p.ax.lon {
			f(i, lon, lat)
			i++
		}
	}
}

// layNoise makes the textures that stay.
func (p *Patch) layNoise() {
	make := func(salt uint64, b band) []float32 {
		f := p.field()
		noise(f, p.ax, p.world.seed+salt, 0, b, 1)
		return f
	}
	p.vigour = make(saltVigour, band{9, 19, 0.8})
	p.soil = make(saltSoil, band{8, 19, 0.75})
	p.texture = make(saltTexture, band{11, 20, 0.85})
	p.use = make(saltUse, band{12, 18, 0.8})
	p.turbidity = make(saltTurbidity, band{8, 17, 0.7})
	for i, v := range p.turbidity {
		p.turbidity[i] = float32(ramp(-1, 2.2, float64(v)))
	}
}

// layLandscape fills in what the maps say and returns the coast potential,
// which is positive on land.
func (p *Patch) layLandscape() []float32 {
	for _, f := range []*[]float32{&p.land, &p.elevation, &p.lake, &p.marsh, &p.urban, &p.tree, &p.crop, &p.grass, &p.evergreen, &p.ice,
		&p.bright, &p.fire, &p.rain, &p.season, &p.irrigated, &p.mean, &p.swing} {
		*f = p.field()
	}
	coast, warpX, warpY, ridge := p.field(), p.field(), p.field(), p.field()
	noise(coast, p.ax, p.world.seed+saltCoast, 0, band{8, 19, 0.62}, 1)
	noise(warpX, p.ax, p.world.seed+saltWarpX, 0, band{6, 11, 0.6}, 1.1)
	noise(warpY, p.ax, p.world.seed+saltWarpY, 0, band{6, 11, 0.6}, 1.1)
	noise(ridge, p.ax, p.world.seed+saltRidge, 0, band{7, 18, 0.62}, 1)
	m := theMaps()
	p.each(func(i int, lon, lat float64) {
		share := m.landShare(lon, lat)
		// Noise moves the coast where there is one and raises no islands far out.
		shore := 4 * share * (1 - share)
		coast[i] = float32(2*share - 1 + 0.5*shore*float64(coast[i]))
		l, height := m.landscapeAt(lon+float64(warpX[i]), clamp(lat+float64(warpY[i]), -90, 90))
		h := height * ramp(0.2, 0.9, share)
		p.elevation[i] = float32(max(h+(25+0.22*h)*float64(ridge[i]), 1))
		p.lake[i] = -1
		p.tree[i], p.crop[i], p.grass[i], p.evergreen[i] = float32(l.tree), float32(l.crop), float32(l.grass), float32(l.evergreen)
		p.ice[i], p.bright[i], p.fire[i] = float32(l.ice), float32(l.bright), float32(l.fire)
		p.rain[i], p.season[i] = float32(l.rain), float32(l.season*math.Tanh(lat/6))
		p.mean[i] = float32(l.warm)
	})
	return coast
}
