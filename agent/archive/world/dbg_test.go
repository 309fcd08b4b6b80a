package world

import (
	"testing"

	"terraloom/slots/gazetteer"
)

func BenchmarkPatchBig(b *testing.B) {
	p, _ := gazetteer.ByName("Beijing")
	a := axesOf(p, 256, 2.5)
	w := New(1)
	for b.Loop() {
		w.Patch(a)
	}
}
func BenchmarkSceneBig(b *testing.B) {
	p, _ := gazetteer.ByName("Beijing")
	a := axesOf(p, 256, 2.5)
	w := New(1)
	pt := w.Patch(a)
	for b.Loop() {
		pt.Scene(18000, 1).SurfaceTemperature(10)
	}
}
