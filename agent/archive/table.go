package archive

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"terraloom/agent/raster"
	"terraloom/data/strictyaml"
)

// productRow is a product as products.yaml has it. A key that is left out takes
// the value of the product named by like, which stands above.
type productRow struct {
	ID         string    `yaml:"id"`
	Like       string    `yaml:"like"`
	Aliases    []string  `yaml:"aliases"`
	Title      string    `yaml:"title"`
	Platform   string    `yaml:"platform"`
	Sensor     string    `yaml:"sensor"`
	Resolution float64   `yaml:"resolution"` // metres
	Start      string    `yaml:"start"`      // first day, as 2000-02-24
	End        string    `yaml:"end"`        // first day of the last raster or later
	Cadence    string    `yaml:"cadence"`    // a Step; or one of the next two
	Revisit    int       `yaml:"revisit"`    // days between passes
	Once       bool      `yaml:"once"`
	Phase      *int      `yaml:"phase"`    // days by which cadence or revisit begin later
	Share      float64   `yaml:"share"`    // of the passes that were recorded
	Overpass   float64   `yaml:"overpass"` // local solar time, hours
	Swath      bool      `yaml:"swath"`
	Clear      int       `yaml:"clear"` // days out of which the clearest view is taken
	Bands      []bandRow `yaml:"bands"`
}

type bandRow struct {
	Name       string         `yaml:"name"`
	Aliases    []string       `yaml:"aliases"`
	Title      string         `yaml:"title"`
	Type       string         `yaml:"type"`
	Fill       *float64       `yaml:"fill"`
	Scale      float64        `yaml:"scale"` // 1 if left out
	Offset     float64        `yaml:"offset"`
	Valid      []float64      `yaml:"valid"` // the type's range if left out
	Unit       string         `yaml:"unit"`  // "1" if left out
	Measures   Quantity       `yaml:"measures"`
	Wavelength float64        `yaml:"wavelength"` // µm
	When       string         `yaml:"when"`       // "night", or left out for day
	K1         float64        `yaml:"k1"`         // by Planck's law from the wavelength if left out
	K2         float64        `yaml:"k2"`
	Combine    Combine        `yaml:"combine"`
	Bits       []bitRow       `yaml:"bits"`
	Classes    map[int]string `yaml:"classes"`
}

type bitRow struct {
	At     string         `yaml:"at"` // "3" or "8-9"
	Name   string         `yaml:"name"`
	Values map[int]string `yaml:"values"`
}

// Planck's constants for spectral radiance in W/m²/sr/µm at wavelengths in µm.
const (
	planckC1 = 1.191042972e8 // 2hc², W µm⁴/m²/sr
	planckC2 = 14387.7688    // hc/k, µm K
)

var quantities = []Quantity{SurfaceTemperature, BrightnessTemperature, ThermalRadiance, SurfaceReflectance, TOAReflectance, NDVI, EVI,
	Emissivity, Albedo, FirePower, FireMask, SnowCover, LandCover, Quality, SceneClass, ViewTime, Backscatter, SoilMoisture,
	MicrowaveTemperature, Precipitation, NightLight, ClearObservations, BuiltVolume, BuiltSurface, Elevation}

var dataTypes = map[string]raster.DataType{"uint8": raster.Uint8, "int8": raster.Int8, "uint16": raster.Uint16, "int16": raster.Int16,
	"uint32": raster.Uint32, "int32": raster.Int32, "float32": raster.Float32, "float64": raster.Float64}

// parseProducts reads a product table and checks all of it.
func parseProducts(src []byte, name string) ([]*Product, error) {
	var doc struct {
		Products []productRow `yaml:"products"`
	}
	if err := strictyaml.Unmarshal(src, name, &doc); err != nil {
		return nil, err
	}
	var products []*Product
	var errs []error
	names := map[string]string{} // folded ID or alias → ID
	for _, row := range doc.Products {
		p, err := row.product(products)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %s: %w", name, row.ID, err))
			continue
		}
		for _, n := range append([]string{p.ID}, p.Aliases...) {
			if other, ok := names[fold(n)]; ok && other != p.ID {
				errs = append(errs, fmt.Errorf("%s: %s: the name %q belongs to %s", name, p.ID, n, other))
			}
			names[fold(n)] = p.ID
		}
		products = append(products, p)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	slices.SortFunc(products, func(a, b *Product) int { return strings.Compare(a.ID, b.ID) })
	return products, nil
}

func (r productRow) product(above []*Product) (*Product, error) {
	p := &Product{Share: 1}
	if r.Like != "" {
		i := slices.IndexFunc(above, func(q *Product) bool { return q.ID == r.Like })
		if i < 0 {
			return nil, fmt.Errorf("like: no product %q stands above", r.Like)
		}
		*p = *above[i]
	}
	p.ID, p.Aliases = r.ID, r.Aliases
	take(&p.Title, r.Title)
	take(&p.Platform, r.Platform)
	take(&p.Sensor, r.Sensor)
	take(&p.Resolution, r.Resolution)
	take(&p.Revisit, r.Revisit)
	take(&p.Once, r.Once)
	take(&p.Share, r.Share)
	take(&p.Overpass, r.Overpass)
	take(&p.Swath, r.Swath)
	take(&p.ClearOf, r.Clear)
	if r.Phase != nil {
		p.Phase = *r.Phase
	}
	var errs []error
	for _, d := range []struct {
		key, text string
		to        *time.Time
	}{{"start", r.Start, &p.Start}, {"end", r.End, &p.End}} {
		if d.text == "" {
			continue
		}
		t, err := time.Parse(time.DateOnly, d.text)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %q is no date such as 2000-02-24", d.key, d.text))
		}
		*d.to = t
	}
	if r.Cadence != "" {
		var err error
		if p.Cadence, err = ParseStep(r.Cadence); err != nil {
			errs = append(errs, fmt.Errorf("cadence: %w", err))
		}
	}
	if len(r.Bands) > 0 {
		p.Bands = nil
		for _, b := range r.Bands {
			band, err := b.band()
			if err != nil {
				errs = append(errs, fmt.Errorf("band %s: %w", b.Name, err))
			}
			p.Bands = append(p.Bands, band)
		}
	}
	return p, errors.Join(append(errs, p.check())...)
}

// take overwrites a value unless the new one is zero.
func take[T comparable](to *T, v T) {
	var zero T
	if v != zero {
		*to = v
	}
}

func (p *Product) check() error {
	ways := 0
	for _, set := range []bool{!p.Cadence.IsZero(), p.Revisit > 0, p.Once} {
		if set {
			ways++
		}
	}
	switch {
	case p.ID == "" || p.Title == "" || p.Platform == "" || p.Sensor == "":
		return errors.New("id, title, platform and sensor must be stated")
	case !(p.Resolution > 0):
		return errors.New("resolution must be positive")
	case p.Start.IsZero() || p.End.Before(p.Start):
		return errors.New("start and end must be stated in order")
	case ways != 1:
		return errors.New("exactly one of cadence, revisit and once must be stated")
	case p.Share < 0 || p.Share > 1:
		return errors.New("share must be in 0 … 1")
	case p.Overpass < 0 || p.Overpass >= 24:
		return errors.New("overpass must be in 0 … 24")
	case len(p.Bands) == 0:
		return errors.New("no bands")
	}
	names := map[string]string{}
	for _, b := range p.Bands {
		for _, n := range append([]string{b.Name}, b.Aliases...) {
			if other, ok := names[fold(n)]; ok {
				return fmt.Errorf("the band name %q is used by %s and %s", n, other, b.Name)
			}
			names[fold(n)] = b.Name
		}
	}
	return nil
}

func (r bandRow) band() (Band, error) {
	b := Band{Name: r.Name, Aliases: r.Aliases, Title: r.Title, Fill: r.Fill, Scale: r.Scale, Offset: r.Offset, Unit: r.Unit, Measures: r.Measures,
		Wavelength: r.Wavelength, Night: r.When == "night", K1: r.K1, K2: r.K2, Combine: r.Combine, Classes: r.Classes}
	var ok bool
	if b.Type, ok = dataTypes[r.Type]; !ok {
		return b, fmt.Errorf("type %q is none of a raster's sample types", r.Type)
	}
	if r.When != "" && !b.Night {
		return b, fmt.Errorf("when is %q, expected \"night\" or nothing", r.When)
	}
	if !slices.Contains(quantities, b.Measures) {
		return b, fmt.Errorf("measures %q, expected one of %q", b.Measures, quantities)
	}
	if b.Scale == 0 {
		b.Scale = 1
	}
	if b.Unit == "" {
		b.Unit = "1"
	}
	if b.Combine == "" {
		b.Combine = Mean
	}
	if !slices.Contains([]Combine{Mean, Max, Sum, First}, b.Combine) {
		return b, fmt.Errorf("combine is %q, expected mean, max, sum or first", b.Combine)
	}
	lo, hi := b.Type.Range()
	b.Valid = [2]float64{lo, hi}
	switch {
	case len(r.Valid) == 2:
		b.Valid = [2]float64{r.Valid[0], r.Valid[1]}
	case len(r.Valid) != 0:
		return b, errors.New("valid needs two numbers")
	}
	if b.Valid[0] < lo || b.Valid[1] > hi || b.Valid[0] >= b.Valid[1] {
		return b, fmt.Errorf("valid range %g … %g does not fit %s", b.Valid[0], b.Valid[1], r.Type)
	}
	if b.Fill != nil {
		if *b.Fill < lo || *b.Fill > hi || !b.Type.Float() && *b.Fill != math.Trunc(*b.Fill) {
			return b, fmt.Errorf("fill %g does not fit %s", *b.Fill, r.Type)
		}
		if len(b.Bits) == 0 && len(r.Valid) == 2 && *b.Fill >= b.Valid[0] && *b.Fill <= b.Valid[1] {
			return b, fmt.Errorf("fill %g lies in the valid range", *b.Fill)
		}
	}
	spectral := b.Measures == SurfaceReflectance || b.Measures == TOAReflectance || b.Measures == Emissivity
	thermal := b.Measures == ThermalRadiance || b.Measures == BrightnessTemperature
	if (spectral || thermal) && !(b.Wavelength > 0.3 && b.Wavelength < 15) {
		return b, fmt.Errorf("wavelength %g µm, expected 0.3 … 15", b.Wavelength)
	}
	if thermal && b.K1 == 0 && b.K2 == 0 {
		b.K1, b.K2 = planckC1/math.Pow(b.Wavelength, 5), planckC2/b.Wavelength
	}
	if thermal != (b.K1 > 0 && b.K2 > 0) {
		return b, errors.New("k1 and k2 belong to thermal bands, both or none")
	}
	return b, b.readBits(r.Bits)
}

func (b *Band) readBits(rows []bitRow) error {
	used := 0
	for _, r := range rows {
		first, last, pair := strings.Cut(r.At, "-")
		if !pair {
			last = first
		}
		lo, err1 := strconv.Atoi(first)
		hi, err2 := strconv.Atoi(last)
		if err1 != nil || err2 != nil || lo < 0 || hi < lo || hi >= 8*b.Type.Size() {
			return fmt.Errorf("bits %s: at is %q, expected bits of %v such as \"8-9\"", r.Name, r.At, b.Type)
		}
		mask := (1<<(hi-lo+1) - 1) << lo
		if used&mask != 0 {
			return fmt.Errorf("bits %s: %s is used already", r.Name, r.At)
		}
		used |= mask
		for v := range r.Values {
			if v < 0 || v > mask>>lo {
				return fmt.Errorf("bits %s: value %d does not fit %s", r.Name, v, r.At)
			}
		}
		b.Bits = append(b.Bits, BitField{First: lo, Last: hi, Name: r.Name, Values: r.Values})
	}
	return nil
}
