package eval

import (
	"context"
	"testing"

	"terraloom/agent/rsure"
)

// RS-16: a calibration call is valid if its observation matches the reference's;
// tools that the reference does not call, and questions of no known type, say
// nothing.
func TestCalibrate(t *testing.T) {
	call := func(name, output string) Call {
		return Call{Name: name, Input: parsed(t, "{}"), Output: parsed(t, output)}
	}
	benchmark := []Question{
		{ID: "q1", Query: "How many ships lie there?", Calls: []Call{call("InstructSAM", "10"), call("mean", "[1.0, 2.0]")}},
		{ID: "q2", Query: "xyzzy", Calls: []Call{call("mean", "1")}},
		{ID: "q3", Query: "How many cars are parked?", Calls: []Call{call("mean", "1")}},
	}
	run := &Run{Predictions: map[string]*Prediction{
		"q1": {Calls: []Call{call("InstructSAM", "11"), call("mean", "[1.0, 2.5]"), call("kurtosis", "3"), {Name: "mean", Input: parsed(t, "{}")}}},
		"q2": {Calls: []Call{call("mean", "1")}},
	}}
	samples, tasks, err := Calibrate(context.Background(), nil, "", []*Run{run}, benchmark)
	if err != nil || len(samples) != 2 || len(tasks) != 1 || tasks[0] != "q1" {
		t.Fatalf("%+v %v %v", samples, tasks, err)
	}
	if s := samples[0]; s.Task != "Object Counting" || s.Config.Coarse != "perceive:objects" || !s.Valid || samples[1].Valid {
		t.Errorf("%+v", samples)
	}
	p, err := rsure.Fit(samples, tasks, []string{"q9"})
	if err != nil || len(p.Coarse) != 2 || len(p.Fine) != 1 {
		t.Errorf("%+v %v", p, err)
	}
}

func TestSameObservation(t *testing.T) {
	for _, c := range []struct {
		want, got string
		same      bool
	}{
		{"100", "114.9", true}, {"100", "115", false}, {"0", "0.0", true}, {"0", "0.1", false}, {`"a "`, `"a"`, true}, {`"a"`, "1", false},
		{"[1,2]", "[1,2]", true}, {"[1,2]", "[1]", false}, {`{"a":1,"b":"x"}`, `{"b":"x","a":1.05}`, true}, {`{"a":1}`, `{"b":1}`, false}, {"true", "true", true}, {"true", "false", false},
	} {
		if got := SameObservation(parsed(t, c.want), parsed(t, c.got)); got != c.same {
			t.Errorf("%s, %s: %v", c.want, c.got, got)
		}
	}
}
