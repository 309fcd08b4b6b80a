package archive

import (
	"errors"
	"fmt"
)

// What callers branch on. A *SpecError wraps ErrSpec and, where one fits, a
// second of these.
var (
	ErrSpec           = errors.New("bad acquisition spec")
	ErrUnknownProduct = errors.New("unknown product")
	ErrUnknownBand    = errors.New("unknown band")
	ErrTooLarge       = errors.New("too many pixels")
	ErrNoData         = errors.New("no acquisition in the period")
	ErrCache          = errors.New("damaged cache")
)

// SpecError is one fault of an acquisition spec, written for whoever is to
// repair it.
type SpecError struct {
	Kind  error  // ErrUnknownProduct, ErrUnknownBand, ErrTooLarge, ErrNoData, or nil
	Field string // as the download_product tool calls it: source, bands, bbox, time_range, interval, scale_m, base_save_name
	Got   string
	Want  string // what is allowed
}

func (e *SpecError) Error() string {
	kind := ErrSpec
	if e.Kind != nil {
		kind = e.Kind
	}
	return fmt.Sprintf("%v: %s is %s; %s", kind, e.Field, e.Got, e.Want)
}

// Unwrap makes errors.Is true of ErrSpec and of e.Kind.
func (e *SpecError) Unwrap() []error {
	if e.Kind == nil {
		return []error{ErrSpec}
	}
	return []error{ErrSpec, e.Kind}
}
