package grpo

import (
	"testing"

	"terraloom/lora/decoder"
	"terraloom/lora/train/setup"
	"terraloom/lora/train/traintest"
)

func TestMain(m *testing.M) { traintest.Main(m) }

var check = traintest.Check

// drawers keeps one local sampler of every base, as its model is kept: compiling is what takes time here.
var drawers = map[*decoder.Model]*local{}

// share lets a run use the base's model and sampler that earlier runs of the tests have used.
func share(tb testing.TB, p *Prepared) *setup.Placed {
	tb.Helper()
	on := traintest.Place(tb, p.Base)
	if p.Config.Rollout.Engine != Local {
		return on
	}
	if drawers[on.Model] == nil {
		l, err := newLocal(p.Config, p.Base, on, p.Train.Terminator)
		check(tb, err)
		drawers[on.Model] = l
	}
	p.sampler = drawers[on.Model]
	return on
}
