package synth

import (
	"context"
	"fmt"
	"strconv"

	"terraloom/data"
	"terraloom/data/prompt"
)

// OptionsOf reads the options of a dataset's manifest.
func OptionsOf(m *data.Manifest) (Options, error) {
	o := Default()
	number := func(key string) float64 {
		f, _ := m.Options.Get(key).Float()
		return f
	}
	o.Seed, o.PerSeed, o.Tries = m.Seed, int(number("per_seed")), int(number("tries"))
	o.MaxTarget, o.MaxTrajectory, o.NearDuplicate = int(number("max_target")), int(number("max_trajectory")), number("near_duplicate")
	o.Style, o.Mode = prompt.Style(m.Options.Get("style").Text()), m.Options.Get("mode").Text()
	if err := o.Validate(); err != nil {
		return o, fmt.Errorf("the manifest's options: %w", err)
	}
	return o, nil
}

// Rebuild makes one instance again from its seed and its provenance: the same
// trajectory and records, bit for bit, with the same programs and tools.
func Rebuild(ctx context.Context, seed *data.Trajectory, t *data.Trajectory, programs Programs, env Environment, o Options) (*data.Trajectory, data.PlannerRow, []data.ExecutorRow, error) {
	fail := func(err error) (*data.Trajectory, data.PlannerRow, []data.ExecutorRow, error) {
		return nil, data.PlannerRow{}, nil, err
	}
	p := &plan{seed: seed}
	if err := p.prepare(programs, o); err != nil {
		return fail(err)
	}
	for key, have := range map[string]string{"seed_hash": p.compiled.Program.SeedHash, "program_hash": p.compiled.ProgramHash} {
		if want := t.Provenance.Get(key).Text(); want != have {
			return fail(fmt.Errorf("%s: it was made with %s %s, here is %s", t.ID, key, want, have))
		}
	}
	index, err1 := strconv.Atoi(t.Provenance.Get("index").Text())
	attempt, err2 := strconv.Atoi(t.Provenance.Get("attempt").Text())
	if err1 != nil || err2 != nil {
		return fail(fmt.Errorf("%s: the provenance has no index and attempt", t.ID))
	}
	c, err := p.try(ctx, index, attempt, env, o)
	if err != nil {
		return fail(err)
	}
	return c.t, c.planner, c.executor, nil
}

// Filters names the checks that every instance of a dataset passed, in order.
func Filters() []string { return append([]string(nil), filters...) }
