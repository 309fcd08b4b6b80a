package run

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"terraloom/agent/llm"
	"terraloom/agent/memory"
	"terraloom/data"
	"terraloom/data/catalogue"
	"terraloom/data/skills"
)

// failing is a scene whose third of five steps always fails until it is replaced.
func failing(t *testing.T, proposals ...llm.Line) *scene {
	plan := []string{"get_filelist", "calc_batch_image_mean", "difference", "mean", "compute_linear_trend"}
	lines := append(answers("x"), planner(plan...), args("get_filelist", listArgs), args("calc_batch_image_mean", meanArgs), always(args("difference", `{"a":4.125,"b":5.375}`)),
		always(args("mean", `{"x":[4.125,5.375]}`)), always(args("compute_linear_trend", trendArgs)))
	s := newScene(t, append(lines, proposals...)...)
	s.tools.results["difference"] = []string{"!the numbers do not belong together"}
	s.tools.results["mean"] = []string{"4.75"}
	return s
}

// AGT-18: the repair preserves the successful prefix, installs the suffix, archives
// old suffix, new suffix and diagnosis, leaves M unchanged, and re-executes only
// the failed position and what follows.
func TestAGT18RepairKeepsThePrefix(t *testing.T) {
	s := failing(t, planner("mean", "compute_linear_trend"))
	var before, after string
	s.agent.Progress = func(e memory.Event) {
		events, err := memory.Read(s.dir)
		if err != nil {
			t.Fatal(err)
		}
		state, err := memory.Replay(events)
		if err != nil {
			t.Fatal(err)
		}
		switch e.Kind {
		case memory.GaveUp:
			before = state.EvidenceHash()
		case memory.Repaired:
			after = state.EvidenceHash()
		}
	}
	o := s.run().must(t, Answered)
	if s.tools.count("get_filelist") != 1 || s.tools.count("calc_batch_image_mean") != 1 || s.tools.count("difference") != 3 {
		t.Errorf("%v", s.tools.made)
	}
	if before == "" || before != after {
		t.Errorf("M changed in the repair: %s, %s", before, after)
	}
	if len(o.State.Archive) != 1 {
		t.Fatalf("%d revisions", len(o.State.Archive))
	}
	r := o.State.Archive[0]
	if r.At != 3 || len(r.Old) != 3 || !slices.Equal(r.New, []string{"mean", "compute_linear_trend"}) || !strings.Contains(r.Diagnosis, "do not belong together") {
		t.Errorf("%+v", r)
	}
	if n := o.State.Node(3); n.Planned != "mean" || n.Revision != 1 || o.State.Node(2).Revision != 0 {
		t.Errorf("%+v", n)
	}
}

// The Executor validates candidates and rejects one by each rule; the reason goes
// back to the Planner (AGT-19 to AGT-24, in a run).
func TestRefusedCandidatesGoBack(t *testing.T) {
	for code, proposal := range map[string][]string{
		NotInCatalogue: {"magic_tool"},
		NotInSkill:     {"SAM2"},
		NoProgress:     {"difference", "mean", "compute_linear_trend"},
		BadLength:      slices.Repeat([]string{"calc_batch_image_mean"}, 9),
		TooRepetitive:  {"mean", "mean", "mean", "mean"},
	} {
		s := failing(t, planner(proposal...), planner("mean", "compute_linear_trend"))
		s.run().must(t, Answered)
		refused := s.events(memory.Refused)
		if len(refused) != 1 || refused[0].Code != code || refused[0].Node != 3 {
			t.Errorf("%s: %+v", code, refused)
			continue
		}
		asked := s.asked("planner")
		if last := asked[len(asked)-1]; !strings.Contains(last, "refused ("+code+")") {
			t.Errorf("%s does not reach the Planner", code)
		}
	}
}

// AGT-21: a candidate that repeats an earlier repair is rejected.
func TestAGT21RepeatsRepair(t *testing.T) {
	s := failing(t, planner("mean", "compute_linear_trend"), planner("calc_batch_image_sum", "mean"), planner("mean", "compute_linear_trend"), planner("compute_linear_trend"))
	s.tools.results["mean"] = []string{"!no"}
	s.tools.results["calc_batch_image_sum"] = []string{"!no"}
	s.script = llm.NewScript(append(answers("x"), planner("get_filelist", "calc_batch_image_mean", "difference", "mean", "compute_linear_trend"), args("get_filelist", listArgs), args("calc_batch_image_mean", meanArgs),
		always(args("difference", `{"a":4.125,"b":5.375}`)), always(args("mean", `{"x":[4.125,5.375]}`)), always(args("calc_batch_image_sum", meanArgs)), always(args("compute_linear_trend", trendArgs)),
		planner("mean", "compute_linear_trend"), planner("calc_batch_image_sum", "mean"), planner("mean", "compute_linear_trend"), planner("compute_linear_trend"))...)
	s.agent.Model = s.script
	s.run().must(t, Answered)
	refused := s.events(memory.Refused)
	if len(refused) != 1 || refused[0].Code != RepeatsRepair {
		t.Errorf("%+v", refused)
	}
}

// AGT-19 to AGT-24: each reason for refusal, and what passes.
func TestRefusalRules(t *testing.T) {
	cat, skill := catalogue.Default(), skills.Default()[slices.IndexFunc(skills.Default(), func(s *skills.Skill) bool { return s.Name == "earth-product-statistics" })]
	inSkill := func(t *catalogue.Tool) bool { return slices.Contains(skill.Tools, t.Name) }
	fresh := func() *memory.State {
		return memory.Init([]string{"get_filelist", "calc_batch_image_mean", "difference", "mean", "compute_linear_trend"})
	}
	repaired := func(suffixes ...[]string) *memory.State {
		s := fresh()
		for _, x := range suffixes {
			if err := s.Repair(3, x, "d"); err != nil {
				t.Fatal(err)
			}
		}
		return s
	}
	for name, c := range map[string]struct {
		state  *memory.State
		at     int
		suffix []string
		want   string
	}{
		"AGT-19 outside the catalogue":    {fresh(), 3, []string{"magic_tool"}, NotInCatalogue},
		"AGT-20 outside the skill":        {fresh(), 3, []string{"SAM2"}, NotInSkill},
		"AGT-21 an earlier repair":        {repaired([]string{"mean"}, []string{"kurtosis"}), 3, []string{"mean"}, RepeatsRepair},
		"AGT-21 the first plan again":     {repaired([]string{"mean"}), 3, []string{"difference", "mean", "compute_linear_trend"}, RepeatsRepair},
		"AGT-22 the failed suffix":        {fresh(), 3, []string{"difference", "mean", "compute_linear_trend"}, NoProgress},
		"AGT-22 same start, no evidence":  {repaired([]string{"mean", "kurtosis"}), 3, []string{"mean", "skewness"}, NoProgress},
		"AGT-23 empty":                    {fresh(), 3, nil, BadLength},
		"AGT-23 nine for three":           {fresh(), 3, slices.Repeat([]string{"calc_batch_image_mean"}, 9), BadLength},
		"AGT-23 eight pass":               {fresh(), 3, slices.Repeat([]string{"calc_batch_image_mean"}, 8), ""},
		"AGT-23 more than fifty in all":   {memory.Init(slices.Repeat([]string{"subtract"}, 40)), 20, slices.Repeat([]string{"division"}, 35), BadLength},
		"AGT-24 four means":               {fresh(), 3, []string{"mean", "mean", "mean", "mean"}, TooRepetitive},
		"AGT-24 a pair three times":       {fresh(), 3, []string{"mean", "kurtosis", "mean", "kurtosis", "mean", "kurtosis"}, TooRepetitive},
		"AGT-24 a change for each pair":   {fresh(), 3, slices.Repeat([]string{"percentage_change"}, 6), ""},
		"an ordinary one":                 {fresh(), 3, []string{"mean", "compute_linear_trend"}, ""},
		"after a repair at another place": {repaired([]string{"mean", "kurtosis"}), 4, []string{"mean"}, ""},
	} {
		if got, why := Refusal(c.state, c.at, c.suffix, cat, inSkill, PerItem); got != c.want || (why == "") != (c.want == "") {
			t.Errorf("%s: %q (%s), want %q", name, got, why, c.want)
		}
	}
}

// AGT-24: all reference workflows pass as suffixes of their own.
func TestAGT24ReferencesPass(t *testing.T) {
	res, err := data.Import(filepath.Join(shared(t), "earth-bench", "question.json"), "", data.ImportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	all := func(*catalogue.Tool) bool { return true }
	for _, tr := range res.Trajectories {
		suffix := make([]string, len(tr.Steps))
		for i, s := range tr.Steps {
			suffix[i] = s.Tool
		}
		state := memory.Init(slices.Repeat([]string{"get_filelist"}, len(suffix)))
		if code, why := Refusal(state, 1, suffix, catalogue.Default(), all, PerItem); code != "" {
			t.Errorf("%s: %s: %s", tr.ID, code, why)
		}
	}
}

// AGT-25: adaptation is bounded: a tool that always fails stops the run within the
// limits of calls and repairs.
func TestAGT25Bounded(t *testing.T) {
	s := newScene(t, append(answers("nothing"), planner("get_filelist", "calc_batch_image_mean"), always(args("get_filelist", listArgs)), always(args("calc_batch_image_mean", meanArgs)),
		always(args("calc_batch_image_sum", meanArgs)), always(args("kurtosis", `{"x":[1,2]}`)), always(args("skewness", `{"x":[1,2]}`)),
		planner("calc_batch_image_sum"), planner("kurtosis"), planner("skewness"), planner("mean"))...)
	for _, tool := range []string{"calc_batch_image_mean", "calc_batch_image_sum", "kurtosis", "skewness"} {
		s.tools.results[tool] = []string{"!never"}
	}
	o := s.run().must(t, Incomplete)
	if len(o.State.Archive) != 3 || len(s.tools.made) != 1+4*3 {
		t.Errorf("%d repairs, %d calls", len(o.State.Archive), len(s.tools.made))
	}
	if o.Answer != "nothing" {
		t.Errorf("answer %q", o.Answer)
	}
	s = failing(t, planner("mean", "compute_linear_trend"))
	s.agent.Config.Limits.ToolCalls = 4
	if o := s.run().must(t, Incomplete); len(s.tools.made) != 4 || !strings.Contains(o.Reason, "tool calls is spent: 4") {
		t.Errorf("%v, %s", s.tools.made, o.Reason)
	}
}

// A planner that proposes nothing usable ends the repair after its candidates.
func TestNoUsableCandidate(t *testing.T) {
	s := failing(t, llm.Line{Role: "planner", Reply: "I do not know."}, llm.Line{Role: "planner", Reply: `{"tool_sequence":[]}`}, planner("magic_tool"), planner("mean"))
	s.run().must(t, Incomplete)
	var codes []string
	for _, e := range s.events(memory.Refused) {
		codes = append(codes, e.Code)
	}
	if !slices.Equal(codes, []string{NotAPlan, BadLength, NotInCatalogue}) {
		t.Errorf("%v", codes)
	}
}
