package synth

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"terraloom/data"
	"terraloom/data/strictjson"
)

// stubs are n foreign examples of a domain.
func stubs(t testing.TB, domain string, n int) []*data.Trajectory {
	t.Helper()
	out := make([]*data.Trajectory, n)
	for i := range out {
		id := fmt.Sprintf("%s-%d", domain, i)
		out[i] = seedOf(t, fmt.Sprintf(`{"id":%[1]q,"seed_id":%[1]q,"source":"openearthagent","domain":%[2]q,"query":"What is %[3]d times 4?",
			"steps":[{"tool":"Calculator","arguments":{"expression":"%[3]d*4"},"observation":"%[4]d"}],"provenance":{"split":"train"}}`, id, domain, i, 4*i))
	}
	return out
}

func mixed(t testing.TB) []*data.Trajectory {
	return append(append(stubs(t, "gis", 900), stubs(t, "perception", 1500)...), stubs(t, "geometry", 600)...)
}

// DATA-17: 2,480 instances and 3,000 examples at 1:1 make 4,960, evenly over the
// examples' domains.
func TestMixBalancesByDomain(t *testing.T) {
	all := mixed(t)
	o := Default()
	run := func(all []*data.Trajectory, o Options) (*Report, *memory) {
		r := &Report{Trajectories: 2480, PlannerRows: 2480, Split: map[string]int{"train": 1980}}
		sink := &memory{}
		if err := r.Mix(&Mix{Name: "openearthagent", Ratio: 1, Trajectories: all}, sink, o); err != nil {
			t.Fatal(err)
		}
		return r, sink
	}
	r, sink := run(all, o)
	if want := map[string]int{"gis": 900, "perception": 980, "geometry": 600}; !maps.Equal(r.Mixed, want) || r.PlannerRows != 4960 || len(sink.rows) != 2480 || r.Split["train"] != 1980+2480 {
		t.Errorf("mixed %v, want %v; %d planner rows", r.Mixed, want, r.PlannerRows)
	}
	seen := map[string]bool{}
	for _, row := range sink.rows {
		if row.split != "train" || seen[row.t.ID] || len(row.executor) != 1 || row.executor[0].Source != "openearthagent" {
			t.Fatalf("%s in %s, seen before: %v", row.t.ID, row.split, seen[row.t.ID])
		}
		seen[row.t.ID] = true
	}
	count := map[string]int{}
	for _, c := range r.Manifest(o, nil).Counts {
		count[c.Name] = c.Count
	}
	if count["mixed in from openearthagent gis"] != 900 || count["mixed in from openearthagent perception"] != 980 {
		t.Errorf("the manifest counts %v", count)
	}
	// The choice is the run seed's, not the file order's.
	reversed := make([]*data.Trajectory, len(all))
	for i, x := range all {
		reversed[len(all)-1-i] = x
	}
	_, again := run(reversed, o)
	o.Seed++
	_, other := run(all, o)
	differ := false
	for i := range sink.rows {
		if sink.rows[i].t.ID != again.rows[i].t.ID {
			t.Fatalf("row %d is %s, in another file order %s", i, sink.rows[i].t.ID, again.rows[i].t.ID)
		}
		differ = differ || sink.rows[i].t.ID != other.rows[i].t.ID
	}
	if !differ {
		t.Error("another run seed chooses the same examples in the same order")
	}
}

// A mixed-in row carries the edges of its dependency graph; the caller's example stays as it was.
func TestMixFindsEdges(t *testing.T) {
	x := seedOf(t, `{"id":"e","seed_id":"e","source":"openearthagent","domain":"gis","query":"What is 31.25 times 4, and half of it?",
		"steps":[{"tool":"Calculator","arguments":{"expression":"31.25*4"},"observation":"125.0"},
			{"tool":"Calculator","arguments":{"expression":"125.0"},"observation":"62.5"}],"provenance":{"split":"train"}}`)
	r, sink := &Report{Trajectories: 1, Split: map[string]int{}}, &memory{}
	if err := r.Mix(&Mix{Name: "openearthagent", Ratio: 1, Trajectories: []*data.Trajectory{x}}, sink, Default()); err != nil {
		t.Fatal(err)
	}
	if uses := sink.rows[0].t.Steps[1].Uses; len(uses) != 1 || uses[0].From != 0 || uses[0].Argument != "/expression" {
		t.Errorf("edges of the second step: %+v", uses)
	}
	if x.Steps[1].Uses != nil {
		t.Error("the example was changed")
	}
}

func TestMixRefusals(t *testing.T) {
	o := Default()
	mix := func(change func(*Mix, *Options)) (*Report, error) {
		m := &Mix{Name: "openearthagent", Ratio: 0.5, Trajectories: stubs(t, "gis", 8)}
		o := o
		change(m, &o)
		r := &Report{Trajectories: 10, Split: map[string]int{}}
		return r, r.Mix(m, &memory{}, o)
	}
	for _, test := range []struct {
		name, want string
		change     func(*Mix, *Options)
	}{
		{"too few", "40 trajectories wanted, the set has 8; lower the ratio", func(m *Mix, _ *Options) { m.Ratio = 4 }},
		{"negative", "ratio -1 is not between 0 and 1000", func(m *Mix, _ *Options) { m.Ratio = -1 }},
		{"shard", "mix into the merged dataset's run, not into a shard", func(_ *Mix, o *Options) { o.Shard = Shard{0, 2} }},
		{"test split", "gis-3 is of the test split; give the training file", func(m *Mix, _ *Options) {
			m.Trajectories[3].Provenance = strictjson.Obj(strictjson.Member{Key: "split", Value: strictjson.Text("test")})
		}},
		{"all unknown", "5 trajectories wanted, the set has 0", func(m *Mix, _ *Options) {
			for _, x := range m.Trajectories {
				x.Steps[0].Tool = "Calkulator"
			}
		}},
	} {
		if _, err := mix(test.change); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want %q", test.name, err, test.want)
		}
	}
	// What no record can be made of is left out, counted, and another one taken.
	r, err := mix(func(m *Mix, _ *Options) {
		m.Trajectories[0].Steps[0].Tool = "Calkulator"
		m.Trajectories[1].Steps[0].Arguments = strictjson.Obj() // S7
		m.Ratio = 0.6
	})
	if err != nil || r.Mixed["gis"] != 6 {
		t.Fatalf("mixed %v, %v", r.Mixed, err)
	}
	reasons := map[string]string{}
	for _, x := range r.Refusals {
		reasons[x.Reason] = x.SeedID + ": " + x.Detail
	}
	if !strings.Contains(reasons[refusedTool], `gis-0: `) || !strings.Contains(reasons[refusedTool], "Calculator") || !strings.Contains(reasons[refusedScore], "gis-1: ") {
		t.Errorf("refusals %v", reasons)
	}
	if r, err := mix(func(m *Mix, _ *Options) { m.Ratio = 0 }); err != nil || r.Mixed["gis"] != 0 {
		t.Errorf("ratio 0: %v, %v", r.Mixed, err)
	}
}

// The project's own conversation file goes through import, mix and extraction.
func TestMixOfImportedConversations(t *testing.T) {
	res, err := data.Import("../data/testdata/conversations.json", data.FormatOpenEarthAgent, data.ImportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var train []*data.Trajectory
	for _, x := range res.Trajectories {
		if x.Provenance.Get("split").Text() != "test" {
			train = append(train, x)
		}
	}
	if len(train) == 0 || len(train) == len(res.Trajectories) {
		t.Fatalf("%d of %d are for training", len(train), len(res.Trajectories))
	}
	r := &Report{Trajectories: len(train), Split: map[string]int{}}
	if err := r.Mix(&Mix{Name: "openearthagent", Ratio: 1, Trajectories: res.Trajectories}, &memory{}, Default()); err == nil || !strings.Contains(err.Error(), "test split") {
		t.Errorf("error %v", err)
	}
	// DATA-16: three actions and Terminate make one Planner record of three names, three Executor records.
	sink := &memory{}
	if err := r.Mix(&Mix{Name: "openearthagent", Ratio: 1, Trajectories: train}, sink, Default()); err != nil {
		t.Fatal(err)
	}
	got := sink.rows[0]
	if want := `{"tool_sequence":["GetAreaBoundary","AddPoisLayer","ComputeDistance"]}`; got.planner.Completion[0].Content != want || len(got.executor) != 3 {
		t.Errorf("planner %s, %d executor rows", got.planner.Completion[0].Content, len(got.executor))
	}
}
