package reward

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"

	"terraloom/data/strictjson"
)

func scorer(t *testing.T, functions ...Function) *Scorer {
	t.Helper()
	s, err := New(Config{Rules: DefaultRules(), Functions: functions})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestWeightedSum(t *testing.T) {
	s := scorer(t,
		Function{Name: "argument", Kind: KindArgument, Weight: 1},
		Function{Name: "format", Kind: KindFormat, Weight: 0.5},
		Function{Name: "length", Kind: KindLength, Weight: 0.25, Free: 10, Max: 20},
		Function{Name: "extra", Kind: KindExpr, Weight: -0.125, Program: "extra"})
	ref := reference(t, `{"a":1}`)
	for completion, want := range map[string][]float64{
		`{"a":1}`:                    {2, 1, 0, 0, 2.5},
		`{"a":1,"b":22}`:             {1, 1, -0.4, 1, 1 + 0.5 - 0.1 - 0.125},
		`{"a":1,"b":"üüüü"}`:         {1, 1, -0.8, 1, 1 + 0.5 - 0.2 - 0.125},
		``:                           {-2, 0, 0, 0, -2},
		`null`:                       {-1, 0, 0, 0, -1},
		strings.Repeat(" ", 20):      {-2, 0, -1, 0, -2.25},
		strings.Repeat(" ", 1000000): {-2, 0, -1, 0, -2.25},
	} {
		r := s.Score(context.Background(), []Item{{completion, ref}})[0]
		if r.Err() != nil || math.Abs(r.Reward-want[4]) > 1e-12 || r.Score != DefaultRules().Score(ref, completion) {
			t.Errorf("%.40q: %+v", completion, r)
		}
		for i, p := range r.Parts {
			if math.Abs(p.Value-want[i]) > 1e-12 || p.Name != []string{"argument", "format", "length", "extra"}[i] {
				t.Errorf("%.40q: part %+v, want %v", completion, p, want[i])
			}
		}
	}
}

// G2: what has no value is left out of the sum; what failed makes the whole
// result one that the trainer leaves out. Neither is ever 0.
func TestG2MissingValues(t *testing.T) {
	ref := reference(t, `{"a":1}`)
	argument := Function{Name: "argument", Kind: KindArgument, Weight: 1}
	some := Function{Name: "some", Kind: KindExpr, Weight: 10, Program: `status == "object" ? 1 : nil`}
	breaks := Function{Name: "breaks", Kind: KindExpr, Weight: 10, Program: `arguments.a`}
	both := scorer(t, argument, some).Score(context.Background(), []Item{{`{"a":1}`, ref}, {`x`, ref}})
	if both[0].Reward != 12 || both[1].Reward != -2 || !math.IsNaN(both[1].Parts[1].Value) || both[1].Parts[1].Err != nil {
		t.Errorf("%+v", both)
	}
	alone := scorer(t, some).Score(context.Background(), []Item{{`x`, ref}})[0]
	if alone.Valid() || alone.Err() != nil {
		t.Errorf("no value at all: %+v", alone)
	}
	failed := scorer(t, argument, breaks).Score(context.Background(), []Item{{`x`, ref}, {`{"a":1}`, ref}})
	if failed[0].Valid() || failed[0].Err() == nil || failed[0].Parts[0].Value != -2 || failed[0].Score.Reward != -2 || failed[1].Reward != 12 {
		t.Errorf("%+v", failed)
	}
}

// A function that panics is an error of that part.
func TestR1PanicIsAnError(t *testing.T) {
	s := &Scorer{rules: DefaultRules(), functions: []function{{name: "own", weight: 1, evaluate: func(context.Context, *sample) (float64, error) {
		var list []float64
		return list[3], nil
	}}}}
	r := s.Score(context.Background(), []Item{{`{}`, reference(t, `{"a":1}`)}})[0]
	if r.Valid() || r.Err() == nil || !strings.Contains(r.Err().Error(), "panicked: runtime error: index out of range") {
		t.Errorf("%+v", r)
	}
}

// Any number of processors gives the same results in the same order.
func TestScoreIsDeterministic(t *testing.T) {
	s := scorer(t, Function{Name: "argument", Kind: KindArgument, Weight: 1},
		Function{Name: "own", Kind: KindExpr, Weight: 0.1, Program: "length"})
	var items []Item
	for i := range 997 {
		ref := reference(t, fmt.Sprintf(`{"a":%d,"b":"x"}`, i))
		items = append(items, Item{fmt.Sprintf(`{"a":%d,"c":%d}`, i/2*2, i), ref})
	}
	want := s.Score(context.Background(), items)
	if len(want) != len(items) || want[0].Reward == want[1].Reward {
		t.Fatalf("%+v", want[:2])
	}
	before := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(before)
	for _, procs := range []int{1, 3, 8} {
		runtime.GOMAXPROCS(procs)
		for i, r := range s.Score(context.Background(), items) {
			if r.Reward != want[i].Reward || r.Score != want[i].Score || r.Parts[1] != want[i].Parts[1] {
				t.Fatalf("%d processors, item %d: %+v and %+v", procs, i, r, want[i])
			}
		}
	}
	if got := s.Score(context.Background(), nil); len(got) != 0 {
		t.Errorf("no items: %+v", got)
	}
}

func TestScoreCancelledAndWithoutReference(t *testing.T) {
	s := scorer(t, Function{Name: "argument", Kind: KindArgument, Weight: 1})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	r := s.Score(ctx, []Item{{`{"a":1}`, reference(t, `{"a":1}`)}})[0]
	if r.Valid() || !errors.Is(r.Err(), context.Canceled) || r.Score.Reward != 2 {
		t.Errorf("%+v", r)
	}
	r = s.Score(context.Background(), []Item{{Completion: `{"a":1}`}})[0]
	if r.Valid() || !errors.Is(r.Err(), ErrReference) {
		t.Errorf("%+v", r)
	}
}

func TestResultValue(t *testing.T) {
	s := scorer(t, Function{Name: "argument", Kind: KindArgument, Weight: 1}, Function{Name: "own", Kind: KindExpr, Weight: 1, Program: "1/(extra-1)"})
	items := []Item{{`{"a":2}`, reference(t, `{"a":1}`)}, {`{"a":1,"b":1}`, reference(t, `{"a":1}`)}}
	for i, want := range []string{
		`{"reward":0.0,"argument":1.0,"status":"object","keys":1,"matched":1,"missing":0,"extra":0,"values":0,"reason":"/a: expected 1, got 2","parts":{"argument":1.0,"own":-1.0}}`,
		`{"reward":null,"argument":1.0,"status":"object","keys":1,"matched":1,"missing":0,"extra":1,"values":1,"reason":"extra \"b\"","parts":{"argument":1.0,"own":null},"errors":{"own":"returned +Inf; a finite number is needed"}}`,
	} {
		if got := s.Score(context.Background(), items)[i].Value().JSON(); got != want {
			t.Errorf("\n got %s\nwant %s", got, want)
		}
	}
}

func TestDecodePrediction(t *testing.T) {
	schema := func(source, tool string) (string, error) {
		if tool == "mean" && source == "earth-bench" {
			return `{"type":"object","properties":{"x":{"type":"number"}}}`, nil
		}
		return "", fmt.Errorf("unknown tool %q", tool)
	}
	for row, want := range map[string]float64{
		`{"completion":"{\"x\":1.0}","reference":{"x":1}}`:                                                     1,
		`{"completion":"{\"x\":1.0}","reference":"{\"x\":1}","tool":null,"id":[1]}`:                            1,
		`{"completion":"{\"x\":1.0}","reference":{"x":1},"tool":"mean","source":"earth-bench","id":"row one"}`: 2,
	} {
		p, err := DecodePrediction(parsed(t, row), schema)
		if err != nil {
			t.Fatal(err)
		}
		if s := DefaultRules().Score(p.Reference, p.Completion); s.Reward != want {
			t.Errorf("%s: %+v", row, s)
		}
		if p.ID.JSON() != parsed(t, row).Get("id").JSON() {
			t.Errorf("%s: id %s", row, p.ID.JSON())
		}
	}
	for row, want := range map[string]string{
		`[]`:                    "expected an object with completion and reference, got a list of 0 items",
		`{"completion":"x"}`:    "/reference: expected the argument object or its JSON text, got nothing",
		`{"reference":{"a":1}}`: "/completion: expected the text of the completion, got nothing",
		`{"completion":{"a":1},"reference":{"a":1}}`:          "/completion: expected the text",
		`{"completion":"x","reference":{}}`:                   "unusable reference: expected an object with at least one member",
		`{"completion":"x","reference":"{\"a\":1,\"a\":1}"}`:  `unusable reference: not JSON: 1:8: key "a" is repeated`,
		`{"completion":"x","reference":[1]}`:                  "/reference: expected",
		`{"Completion":"x","reference":{"a":1}}`:              `unknown key "Completion"; known: completion, reference, tool, source, id`,
		`{"completion":"x","reference":{"a":1},"tool":"men"}`: `/tool: unknown tool "men"`,
		`{"completion":"x","reference":{"a":1},"tool":3}`:     "/tool: expected a name, got 3",
		`{"completion":"x","reference":{"a":1},"source":[]}`:  "/source: expected a name, got a list of 0 items",
	} {
		if _, err := DecodePrediction(parsed(t, row), schema); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %s", row, err, want)
		}
	}
	if _, err := DecodePrediction(strictjson.Value{}, schema); err == nil {
		t.Error("nothing is accepted")
	}
}
