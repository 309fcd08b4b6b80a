package workspace

import (
	"context"
	"errors"
	"testing"
)

// Limits that are not stated are the default ones.
func TestZeroLimitsAreTheDefaults(t *testing.T) {
	w, err := Open(t.TempDir(), Limits{Pixels: 7})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	want := DefaultLimits
	want.Pixels = 7
	if w.limits != want {
		t.Errorf("limits %+v, want %+v", w.limits, want)
	}
	release, err := w.Reserve(context.Background(), DefaultLimits.Memory)
	if err != nil {
		t.Fatal(err)
	}
	release()
	if _, err := w.Reserve(context.Background(), DefaultLimits.Memory+1); !errors.Is(err, ErrTooLarge) {
		t.Errorf("%v; want %v", err, ErrTooLarge)
	}
}
