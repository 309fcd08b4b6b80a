package archive

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"

	"terraloom/data/spelling"
)

// Limits of one spec.
const (
	MaxPixels = 1 << 22 // of one raster
	MaxFiles  = 5000    // rasters of one fetch
	maxName   = 120     // bytes of the start of the file names
)

// Request is a spec that has been checked against the products of an archive.
type Request struct {
	Product    *Product
	Bands      []*Band
	Box        Box
	Grid       Grid
	Start, End time.Time // days, UTC midnight
	Step       Step      // zero: the product's own cadence
	ScaleM     float64   // metres, never 0
	OwnScale   bool      // the spec states no ScaleM
	Name       string
}

// Resolve checks a spec against the products. Its error joins a *SpecError for
// each fault.
func Resolve(products []*Product, s Spec) (*Request, error) {
	r := &Request{Box: s.Box, Start: midnight(s.Start), End: midnight(s.End), ScaleM: s.ScaleM, Name: s.Name}
	var errs []error
	fault := func(kind error, field, got, want string, args ...any) {
		errs = append(errs, &SpecError{Kind: kind, Field: field, Got: got, Want: fmt.Sprintf(want, args...)})
	}
	checkBox(s.Box, fault)
	checkName(s.Name, fault)
	if s.Start.IsZero() || s.End.IsZero() {
		fault(nil, "time_range", "incomplete", "state the first and the last day, as 2013-01-01")
	} else if r.End.Before(r.Start) {
		fault(nil, "time_range", r.period(), "the first day must not be after the last")
	}
	if math.IsNaN(s.ScaleM) || math.IsInf(s.ScaleM, 0) || s.ScaleM < 0 {
		fault(nil, "scale_m", fmt.Sprint(s.ScaleM), "use a positive number of metres, or leave it out for the product's own")
	}
	p, ok := FindProduct(products, s.Product)
	if !ok {
		fault(ErrUnknownProduct, "source", fmt.Sprintf("%q", s.Product), "this archive has %s", productHint(products, s.Product))
		return nil, errors.Join(errs...)
	}
	r.Product = p
	r.takeBands(s.Bands, fault)
	r.takeStep(s.Interval, fault)
	if !p.Once && !s.Start.IsZero() && !s.End.IsZero() && (r.Start.Before(p.Start) || r.End.After(p.End)) {
		fault(nil, "time_range", r.period(), "the record of %s is %s … %s", p.ID, p.Start.Format(time.DateOnly), p.End.Format(time.DateOnly))
	}
	if r.ScaleM == 0 {
		r.OwnScale = true
		r.ScaleM = p.Resolution
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	if n := r.Box.pixels(r.ScaleM); n > MaxPixels {
		least := math.Ceil(r.ScaleM * math.Sqrt(n/MaxPixels) * 1.001)
		fault(ErrTooLarge, "scale_m", fmt.Sprintf("%g with a bbox of %.0f pixels", r.ScaleM, n), "at most %d are allowed: use at least %g, or a smaller bbox", MaxPixels, least)
		return nil, errors.Join(errs...)
	}
	r.Grid = NewGrid(r.Box, r.ScaleM)
	return r, nil
}

func (r *Request) period() string {
	return r.Start.Format(time.DateOnly) + " … " + r.End.Format(time.DateOnly)
}

type faultFunc func(kind error, field, got, want string, args ...any)

func checkBox(b Box, fault faultFunc) {
	for _, v := range []float64{b.West, b.South, b.East, b.North} {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			fault(nil, "bbox", b.String(), "use four numbers, [west, south, east, north] in degrees")
			return
		}
	}
	switch {
	case b.West < -180 || b.East > 180 || b.South < -90 || b.North > 90:
		fault(nil, "bbox", b.String(), "longitudes lie in -180 … 180 and latitudes in -90 … 90, in the order [west, south, east, north]")
	case b.West >= b.East:
		fault(nil, "bbox", b.String(), "west (%g) must be less than east (%g); an area across the antimeridian takes two boxes", b.West, b.East)
	case b.South >= b.North:
		fault(nil, "bbox", b.String(), "south (%g) must be less than north (%g)", b.South, b.North)
	}
}

// checkName refuses whatever is not the start of a plain file name.
func checkName(name string, fault faultFunc) {
	bad := func(c rune) bool { return !unicode.IsPrint(c) || strings.ContainsRune(`/\:*?"<>|`, c) }
	if name == "" || len(name) > maxName || name[0] == '.' || strings.ContainsFunc(name, bad) {
		fault(nil, "base_save_name", fmt.Sprintf("%.40q", name), `use 1 to %d letters, digits, blanks, "_", "-" or "." that do not begin with "."`, maxName)
	}
}

func (r *Request) takeBands(names []string, fault faultFunc) {
	if len(names) == 0 {
		names = r.Product.BandNames()
	}
	for _, name := range names {
		b, ok := r.Product.Band(name)
		switch {
		case !ok:
			fault(ErrUnknownBand, "bands", fmt.Sprintf("%q", name), "%s has %s", r.Product.ID, strings.Join(r.Product.BandNames(), ", "))
		case slices.Contains(r.Bands, b):
			fault(nil, "bands", fmt.Sprintf("%q", name), "band %s is listed twice", b.Name)
		default:
			r.Bands = append(r.Bands, b)
		}
	}
}

func (r *Request) takeStep(interval string, fault faultFunc) {
	if interval == "" {
		return
	}
	own := r.Product.Step()
	step, err := ParseStep(interval)
	switch {
	case err != nil:
		fault(nil, "interval", fmt.Sprintf("%q", interval), "%s", stepForms)
	case r.Product.Once:
		fault(nil, "interval", fmt.Sprintf("%q", interval), "%s has one raster only; leave it out", r.Product.ID)
	case step.days() < own.days():
		fault(nil, "interval", fmt.Sprintf("%q", interval), "%s has one raster each %v; use that or a longer interval", r.Product.ID, own)
	case step != own || r.Product.Revisit > 0:
		r.Step = step
	}
}

// productHint names the products most like a wrong name, and how many there are.
func productHint(products []*Product, name string) string {
	key := fold(name)
	score := func(p *Product) int {
		best := 1 << 20
		for _, n := range append([]string{p.ID}, p.Aliases...) {
			best = min(best, unlike(key, fold(n)))
		}
		return best
	}
	like := slices.Clone(products)
	slices.SortStableFunc(like, func(a, b *Product) int { return score(a) - score(b) })
	ids := make([]string, 0, 3)
	for _, p := range like[:min(len(like), 3)] {
		ids = append(ids, p.ID)
	}
	return fmt.Sprintf("%d products, most like it: %s", len(products), strings.Join(ids, ", "))
}

// unlike is the edit distance of two names of at most 64 bytes, less for a name
// that holds the other.
func unlike(a, b string) int {
	a, b = a[:min(len(a), 64)], b[:min(len(b), 64)]
	if a != "" && (strings.Contains(b, a) || strings.Contains(a, b)) {
		return 1
	}
	return spelling.Distance(a, b)
}
