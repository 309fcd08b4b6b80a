package archive

import (
	_ "embed"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"terraloom/agent/raster"
)

// Quantity is what a band measures.
type Quantity string

// The quantities.
const (
	SurfaceTemperature    Quantity = "surface temperature"
	BrightnessTemperature Quantity = "brightness temperature"
	ThermalRadiance       Quantity = "thermal radiance"
	SurfaceReflectance    Quantity = "surface reflectance"
	TOAReflectance        Quantity = "top-of-atmosphere reflectance"
	NDVI                  Quantity = "NDVI"
	EVI                   Quantity = "EVI"
	Emissivity            Quantity = "emissivity"
	Albedo                Quantity = "albedo"
	FirePower             Quantity = "fire power"
	FireMask              Quantity = "fire mask"
	SnowCover             Quantity = "snow cover"
	LandCover             Quantity = "land cover"
	Quality               Quantity = "quality"
	SceneClass            Quantity = "scene class"
	ViewTime              Quantity = "view time"
	Backscatter           Quantity = "backscatter"
	SoilMoisture          Quantity = "soil moisture"
	MicrowaveTemperature  Quantity = "microwave temperature"
	Precipitation         Quantity = "precipitation"
	NightLight            Quantity = "night light"
	ClearObservations     Quantity = "clear observations"
	BuiltVolume           Quantity = "built volume"
	BuiltSurface          Quantity = "built surface"
	Elevation             Quantity = "elevation"
)

// Combine says how the rasters of an interval become one.
type Combine string

// The ways to combine, each over the valid pixels.
const (
	Mean  Combine = "mean" // the default
	Max   Combine = "max"
	Sum   Combine = "sum"
	First Combine = "first" // for classes and flags
)

// Product is a collection of rasters of one kind.
type Product struct {
	ID         string
	Aliases    []string
	Title      string
	Platform   string
	Sensor     string
	Resolution float64 // metres
	// Start and End are the first days of the first and the last raster.
	Start, End time.Time

	// One of three says when there are rasters: Cadence, for composites that
	// follow the calendar; Revisit, for days on which the satellite passes;
	// Once, for a product without time.
	Cadence Step
	Revisit int // days
	Once    bool
	Phase   int     // days by which cadence or revisit begin later
	Share   float64 // of the passes that were recorded; 1 unless stated

	Overpass float64 // local solar time in hours of the day pass; the night pass is 12 hours away
	Swath    bool    // rasters are 5-minute granules with a clock time
	ClearOf  int     // days out of which the clearest view is taken; those of the cadence if 0
	Bands    []Band
}

// Band is one layer of a product. Stored values v mean v·Scale + Offset.
type Band struct {
	Name       string
	Aliases    []string
	Title      string
	Type       raster.DataType
	Fill       *float64 // stored value of invalid pixels; nil: NaN in a float band, none in an integer band
	Scale      float64
	Offset     float64
	Valid      [2]float64 // range of the valid stored values
	Unit       string     // of the scaled value: SI or as written; "1" for ratios, "class", "bits"
	Measures   Quantity
	Wavelength float64 // µm, 0 where it has no meaning
	Night      bool    // observed in the night pass
	// K1 (W/m²/sr/µm) and K2 (K) turn a thermal radiance L into brightness
	// temperature K2/ln(K1/L + 1). Both are set for every thermal band.
	K1, K2  float64
	Combine Combine
	Bits    []BitField
	Classes map[int]string // meaning of the values of a class band
}

// BitField is a part of a flag value.
type BitField struct {
	First, Last int // bits, counted from the least significant
	Name        string
	Values      map[int]string // nil for a single yes-or-no bit
}

// Get returns the field's part of a flag value.
func (f BitField) Get(v int) int { return v >> f.First & (1<<(f.Last-f.First+1) - 1) }

// Put returns a flag value that has part in the field and nothing else.
func (f BitField) Put(part int) int { return part << f.First }

// Bit returns the flag field of the given name.
func (b *Band) Bit(name string) (BitField, bool) {
	for _, f := range b.Bits {
		if f.Name == name {
			return f, true
		}
	}
	return BitField{}, false
}

// Stored returns the stored value of a physical one, rounded to what an integer
// band holds and cut to its valid range; NaN stays NaN.
func (b *Band) Stored(physical float64) float64 {
	v := (physical - b.Offset) / b.Scale
	if !b.Type.Float() {
		v = math.Round(v)
	}
	return min(max(v, b.Valid[0]), b.Valid[1])
}

// Band finds a band by name or alias, in any case.
func (p *Product) Band(name string) (*Band, bool) {
	key := fold(name)
	for i := range p.Bands {
		if fold(p.Bands[i].Name) == key {
			return &p.Bands[i], true
		}
	}
	for i := range p.Bands {
		if slices.ContainsFunc(p.Bands[i].Aliases, func(a string) bool { return fold(a) == key }) {
			return &p.Bands[i], true
		}
	}
	return nil, false
}

// BandNames lists the names of the bands.
func (p *Product) BandNames() []string {
	names := make([]string, len(p.Bands))
	for i := range p.Bands {
		names[i] = p.Bands[i].Name
	}
	return names
}

// Step is the length of time that one raster of the product stands for.
func (p *Product) Step() Step {
	if p.Cadence.IsZero() {
		return Step{1, Day}
	}
	return p.Cadence
}

//go:embed products.yaml
var productsYAML []byte

// table is the parsed products.yaml. The file is part of the program and the
// tests parse it, so a fault in it is a broken build, not an error to handle.
var table = sync.OnceValue(func() []*Product {
	products, err := parseProducts(productsYAML, "products.yaml")
	if err != nil {
		panic(err)
	}
	return products
})

// Products returns the product table, by ID. It is shared: do not change it.
func Products() []*Product { return slices.Clone(table()) }

// FindProduct finds a product among ps by ID or alias; case, blanks and the
// choice of "-", "_", "/" or "." between words do not matter.
func FindProduct(ps []*Product, name string) (*Product, bool) {
	key := fold(name)
	for _, p := range ps {
		if fold(p.ID) == key {
			return p, true
		}
	}
	for _, p := range ps {
		if slices.ContainsFunc(p.Aliases, func(a string) bool { return fold(a) == key }) {
			return p, true
		}
	}
	return nil, false
}

// fold maps the spellings of a name to one.
func fold(s string) string {
	return strings.Map(func(r rune) rune {
		switch r {
		case ' ', '-', '_', '/', '.', '\t':
			return -1
		}
		return r
	}, strings.ToLower(s))
}
