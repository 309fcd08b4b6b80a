package synth

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"terraloom/data"
	"terraloom/data/catalogue"
	"terraloom/data/prompt"
	"terraloom/data/strictjson"
	"terraloom/reward"
)

func extractorOf(t testing.TB, seed *data.Trajectory, o Options) *extractor {
	t.Helper()
	x, err := newExtractor(seed, o)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func extractAll(t testing.TB, seed *data.Trajectory, o Options) (data.PlannerRow, []data.ExecutorRow, int) {
	t.Helper()
	p, e, long, err := extractorOf(t, seed, o).extract(seed)
	if err != nil {
		t.Fatal(err)
	}
	return p, e, long
}

// DATA-11, DATA-12: targets are exactly the tool sequence and the bare argument
// objects.
func TestTargetsAreExact(t *testing.T) {
	seed := sampleSeed(t, "sample-5")
	p, e, long := extractAll(t, seed, Default())
	if want := `{"tool_sequence":["get_filelist","SM3Det","bboxes2centroids","centroid_distance_extremes","multiply"]}`; len(p.Completion) != 1 || p.Completion[0] != (data.Message{Role: "assistant", Content: want}) {
		t.Errorf("planner completion %v", p.Completion)
	}
	if len(e) != 5 || long != 0 {
		t.Fatalf("%d executor rows, %d too long", len(e), long)
	}
	want := `{"a":"417.665854032862","b":"0.25"}`
	if r := e[4]; r.Completion[0].Content != want || r.Reference != want || r.Tool != "multiply" || r.Node != 4 || r.TrajectoryID != "sample-5" || r.SeedID != "sample-5" || r.Domain != "rgb" || r.Source != "own" {
		t.Errorf("executor row %+v", r)
	}
	n := 0
	for _, s := range realSeeds(t) {
		_, e, long := extractAll(t, s, Default())
		n += len(e) + long
	}
	if n != 1335 {
		t.Errorf("%d nodes of the 248 real seeds, want 1,335", n)
	}
}

// DATA-13: what step i does and returns is in the prompts of later nodes and in
// no other.
func TestNoLaterStepLeaksIntoAPrompt(t *testing.T) {
	for _, style := range []prompt.Style{prompt.Full, prompt.Compact} {
		for _, id := range []string{"sample-1", "sample-4", "sample-5", "sample-7"} {
			seed := sampleSeed(t, id)
			o := Default()
			o.Style = style
			x := extractorOf(t, seed, o)
			for i := range seed.Steps {
				marked := *seed
				marked.Steps = append([]data.Step(nil), seed.Steps...)
				s := &marked.Steps[i]
				s.Arguments = strictjson.Obj(strictjson.Member{Key: "output_path", Value: strictjson.Text("SENTINEL-ARGUMENT")})
				s.Observation = strictjson.Text("SENTINEL-OBSERVATION")
				s.Thought = "SENTINEL-THOUGHT"
				p, e, _, err := x.extract(&marked)
				if err != nil {
					t.Fatal(err)
				}
				if strings.Contains(p.Prompt[0].Content+p.Prompt[1].Content, "SENTINEL") {
					t.Errorf("%s: the planner prompt shows step %d", id, i)
				}
				for k := range e {
					text := e[k].Prompt[0].Content + e[k].Prompt[1].Content
					later := e[k].Node > i
					for _, mark := range []string{"SENTINEL-ARGUMENT", "SENTINEL-OBSERVATION"} {
						if got := strings.Contains(text, mark); got != later {
							t.Errorf("%s %s: node %d shows %s of step %d: %v, want %v", id, style, e[k].Node, mark, i, got, later)
						}
					}
					if strings.Contains(text, "SENTINEL-THOUGHT") {
						t.Errorf("%s: node %d shows a thought", id, e[k].Node)
					}
				}
			}
		}
	}
}

// DATA-15: a target is whole or has no row and is counted.
func TestLongTargetsAreCountedNotCut(t *testing.T) {
	seed := sampleSeed(t, "sample-1")
	o := Default()
	limit := len(seed.Steps[1].Arguments.JSON())
	for _, test := range []struct{ max, rows, long int }{
		{64, 2, 1}, {limit - 1, 2, 1}, {limit, 3, 0}, {1 << 20, 3, 0},
	} {
		o.MaxTarget = test.max
		p, e, long := extractAll(t, seed, o)
		if len(e) != test.rows || long != test.long {
			t.Errorf("limit %d: %d rows, %d too long; want %d and %d", test.max, len(e), long, test.rows, test.long)
		}
		if strings.Count(p.Completion[0].Content, `"`) != 2+2*3 {
			t.Errorf("limit %d: the plan lost a tool: %s", test.max, p.Completion[0].Content)
		}
		for i := range e {
			if e[i].Reference != seed.Steps[e[i].Node].Arguments.JSON() {
				t.Errorf("limit %d: node %d has the target %s", test.max, e[i].Node, e[i].Reference)
			}
		}
	}
	o.MaxTarget, o.PerSeed = 64, 4
	rep, err := runAll(t, []*data.Trajectory{seed}, &memory{}, o)
	if err != nil {
		t.Fatal(err)
	}
	if rep.LongNodes != 4 || rep.ExecutorRows != 8 || rep.Nodes != 12 {
		t.Errorf("%+v", rep)
	}
	counted := 0
	for _, r := range rep.Refusals {
		if r.Reason == refusedTarget {
			counted += r.Count
		}
	}
	if counted != rep.LongNodes {
		t.Errorf("%d refusals for %d long targets", counted, rep.LongNodes)
	}
}

// S7, REW-6: a target that the reward cannot give its maximum is refused when
// records are made, with seed and node; every target that is made scores 2.
func TestS7TargetsThatCannotScoreAreRefused(t *testing.T) {
	seed := sampleSeed(t, "sample-3")
	seed.Steps[1].Arguments = strictjson.Obj()
	_, err := newExtractor(seed, Default())
	if !errors.Is(err, ErrSeed) || !strings.Contains(err.Error(), "sample-3 node 1 (compute_tvdi)") {
		t.Errorf("error %v", err)
	}
	x := extractorOf(t, sampleSeed(t, "sample-3"), Default())
	if _, _, _, err := x.extract(seed); !errors.Is(err, errUnscorable) || !strings.Contains(err.Error(), "node 1 (compute_tvdi)") || reasonOf(err) != refusedScore {
		t.Errorf("error %v", err)
	}
	sink := &memory{}
	if _, err := runAll(t, sampleSeeds(t), sink, Default()); err != nil {
		t.Fatal(err)
	}
	for _, r := range sink.rows {
		for i := range r.executor {
			ref, err := reward.NewReference(r.executor[i].Reference, nil)
			if err != nil {
				t.Fatal(err)
			}
			if s := reward.DefaultRules().Score(ref, r.executor[i].Completion[0].Content); s.Reward != 2 {
				t.Errorf("%s node %d: %+v", r.t.ID, r.executor[i].Node, s)
			}
		}
	}
}

// The candidates are the skill's tools in the catalogue's order, whatever the
// plan; a tool that the seed calls by an alias stands under that name alone.
func TestCandidates(t *testing.T) {
	plan := func(tools ...string) []string {
		steps := make([]string, len(tools))
		for i, name := range tools {
			steps[i] = fmt.Sprintf(`{"tool":%q,"arguments":{"a":1},"observation":1}`, name)
		}
		seed := seedOf(t, `{"id":"x","seed_id":"x","source":"own","domain":"products","query":"By how much did the NDWI of the cloud masked Landsat reflectance change?","steps":[`+strings.Join(steps, ",")+`]}`)
		var names []string
		for _, c := range extractorOf(t, seed, Default()).candidates {
			names = append(names, c.Name)
		}
		return names
	}
	forward, backward := plan("apply_cloud_mask", "calculate_tif_average", "mean"), plan("mean", "calculate_tif_average", "apply_cloud_mask", "mean")
	if strings.Join(forward, " ") != strings.Join(backward, " ") {
		t.Errorf("the order of the plan shows in the candidates:\n%v\n%v", forward, backward)
	}
	if n := len(forward); n < 20 || n > 30 {
		t.Errorf("%d candidates", n)
	}
	position := map[string]int{}
	for i, tool := range catalogue.Default().Tools() {
		position[tool.Name] = i
	}
	for i := 1; i < len(forward); i++ {
		if position[forward[i-1]] >= position[forward[i]] {
			t.Errorf("%s stands before %s", forward[i-1], forward[i])
		}
	}
	r, err := catalogue.Default().Resolve("argmax")
	if err != nil || r.Tool.Name == "argmax" {
		t.Fatalf("argmax is no alias any more: %v", err)
	}
	aliased := plan("argmax", "mean")
	count := 0
	for i, name := range aliased {
		if name == "argmax" {
			count++
			if forward[i] != r.Tool.Name {
				t.Errorf("the alias stands at %d, its tool at another place", i)
			}
		}
		if name == r.Tool.Name {
			t.Errorf("%s stands beside its alias", name)
		}
	}
	if count != 1 || len(aliased) != len(forward) {
		t.Errorf("%d times the alias, %d candidates of %d", count, len(aliased), len(forward))
	}
	// No skill has both: the plan's tools stand among those of the skill that comes closest.
	mixed := plan("MSCN", "compute_tvdi", "mean")
	if n := len(mixed); n < 20 || n > 30 || !slices.Contains(mixed, "MSCN") || !slices.Contains(mixed, "compute_tvdi") || !slices.Contains(mixed, "mean") {
		t.Errorf("a plan across skills has %d candidates: %v", n, mixed)
	}
	for i := 1; i < len(mixed); i++ {
		if position[mixed[i-1]] >= position[mixed[i]] {
			t.Errorf("%s stands before %s", mixed[i-1], mixed[i])
		}
	}
	if _, err := newExtractor(seedOf(t, `{"id":"x","seed_id":"x","source":"own","domain":"rgb","query":"q","steps":[{"tool":"meen","arguments":{"x":[1]},"observation":1}]}`), Default()); !errors.Is(err, ErrSeed) || !strings.Contains(err.Error(), `x node 0: unknown tool "meen"`) || !strings.Contains(err.Error(), `"mean"`) {
		t.Errorf("error %v", err)
	}
}

// What a target repeats of an earlier observation is in its prompt, however long
// the lists are; the rest of them is not.
func TestPromptsShowWhatTargetsNeed(t *testing.T) {
	const n = 60
	entries, paths, values := make([]string, n), make([]string, n), make([]string, n)
	for i := range n {
		day := fmt.Sprintf("2020-%02d-%02d", 1+i/28, 1+i%28)
		entries[i], paths[i], values[i] = strconv.Quote("a_"+day+".tif"), strconv.Quote("d/a_"+day+".tif"), fmt.Sprintf("%d.%03d", 280+i%7, i)
	}
	list := func(items []string) string { return "[" + strings.Join(items, ",") + "]" }
	seed := seedOf(t, `{"id":"x","seed_id":"x","source":"own","domain":"products","query":"Trend of the mean image values?","steps":[
		{"tool":"get_filelist","arguments":{"dir_path":"d"},"observation":`+list(entries)+`},
		{"tool":"calc_batch_image_mean","arguments":{"file_list":`+list(paths)+`},"observation":`+list(values)+`},
		{"tool":"compute_linear_trend","arguments":{"y":`+list(values)+`},"observation":[0.1,280]},
		{"tool":"calc_batch_image_max","arguments":{"file_list":`+list(paths[10:30])+`},"observation":[300.5]}]}`)
	_, e, _ := extractAll(t, seed, Default())
	for _, test := range []struct {
		node         int
		item         string // in the middle of a list
		shown        bool
		omittedLists int
	}{
		{1, entries[30], true, 0},                            // a tool that reads files sees the listing
		{2, values[30], true, 2},                             // a tool that takes numbers sees them, no file names
		{2, entries[30], false, 2},                           //
		{3, entries[20], true, 3}, {3, values[30], false, 3}, // and the reverse; arguments are short in both
	} {
		text := e[test.node].Prompt[1].Content
		if got := strings.Contains(text, test.item); got != test.shown {
			t.Errorf("node %d shows %s: %v, want %v", test.node, test.item, got, test.shown)
		}
		if got := strings.Count(text, `{"omitted":54}`); got != test.omittedLists {
			t.Errorf("node %d leaves items out of %d lists, want %d", test.node, got, test.omittedLists)
		}
	}
}
