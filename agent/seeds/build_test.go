package seeds

import (
	"bytes"
	"context"
	"io/fs"
	"runtime"
	"slices"
	"testing"

	"terraloom/data"
	"terraloom/slots"
)

// some are cores of every domain and of the kinds of workflow: a share, a trend
// over years, two places, two acquisitions of one product, pictures.
var some = []int{2, 6, 27, 85, 101, 161, 190, 216, 233}

// A second execution gives the bundled bytes: observations, digests of the files
// that tools made, answers. All cores without -short.
func TestSeedsRebuildByteForByte(t *testing.T) {
	spec := bundledSpec(t)
	have := bundled(t, "")
	o := Options{Workers: runtime.GOMAXPROCS(0)}
	if testing.Short() {
		o.Cores = some
	}
	built, err := BuildAll(context.Background(), spec, openEnvironment(t, spec), o, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range built {
		want := have[b.Trajectory.ID]
		switch {
		case want == nil:
			t.Errorf("%s is specified and not bundled; run make seeds", b.Trajectory.ID)
		case want.Value().JSON() != b.Trajectory.Value().JSON():
			t.Errorf("%s: a second execution differs from what is bundled; run make seeds", b.Trajectory.ID)
		}
	}
	if n := len(built); o.Cores == nil && n != len(have) {
		t.Errorf("%d seeds are specified, %d are bundled", n, len(have))
	}
}

// The bundled programs are those that analysis and specification give, and their
// samples, executed again, verify. The number of workers changes nothing.
func TestProgramsRebuildByteForByte(t *testing.T) {
	spec := bundledSpec(t)
	env := openEnvironment(t, spec)
	o := Options{Cores: []int{2, 27, 101, 190, 233}, Check: true}
	var files []map[string][]byte
	for o.Workers = 1; o.Workers <= 2; o.Workers++ {
		built, err := BuildAll(context.Background(), spec, env, o, nil)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, Files(built))
	}
	for name, text := range files[0] {
		if !bytes.Equal(text, files[1][name]) {
			t.Errorf("%s depends on the number of workers", name)
		}
		if name[:9] != "programs/" {
			continue
		}
		if have, err := fs.ReadFile(data.SeedFiles(), name); err != nil || !bytes.Equal(have, text) {
			t.Errorf("%s is not what is bundled (%v); run make seeds", name, err)
		}
	}
}

// Every bundled program is for its seed, reviewed, and derives the answer that
// the seed has from the seed's observations.
func TestBundledProgramsHold(t *testing.T) {
	for id, s := range bundled(t, "") {
		src, err := fs.ReadFile(data.SeedPrograms(), id+".yaml")
		if err != nil {
			t.Error(err)
			continue
		}
		p, err := slots.ParseProgram(src, id)
		if err != nil {
			t.Error(err)
			continue
		}
		if state, err := p.State(); err != nil || state != slots.MachineChecked && state != slots.Approved {
			t.Errorf("%s: review %q, %v", id, state, err)
		}
		recorded := slots.Recorded{Seed: s}
		c, err := slots.Compile(p, s, recorded)
		if err != nil {
			t.Error(err)
			continue
		}
		v, err := c.SeedValues()
		if err != nil {
			t.Error(err)
			continue
		}
		z, err := c.Instance(v, recorded)
		if err != nil {
			t.Errorf("%s: %v", id, err)
			continue
		}
		if have, want := z.Answer.Get("text").Text(), s.Answer.Get("text").Text(); have != want {
			t.Errorf("%s: the observations give %q, the answer is %q", id, have, want)
		}
		if !slices.ContainsFunc(p.Slots, func(s slots.Slot) bool { return s.Role == slots.Root }) {
			t.Errorf("%s: nothing can vary", id)
		}
	}
}
