package reward

import (
	"math/rand/v2"
	"strings"
	"testing"

	"terraloom/data/strictjson"
)

// changed returns v with each of its leaves changed in turn, one at a time.
func changed(v strictjson.Value) []strictjson.Value {
	switch v.Kind() {
	case strictjson.Array, strictjson.Object:
		if v.Len() == 0 {
			return []strictjson.Value{strictjson.Text("")}
		}
		var all []strictjson.Value
		kids := make([]strictjson.Value, v.Len())
		for i := range kids {
			kids[i] = v.Index(i)
		}
		for i := range kids {
			if i > 4 && i < len(kids)-1 {
				continue // the last one stands for the rest of a long list
			}
			for _, other := range changed(v.Index(i)) {
				copied := append([]strictjson.Value(nil), kids...)
				copied[i] = other
				all = append(all, v.Rebuilt(copied))
			}
		}
		return all
	case strictjson.String:
		return []strictjson.Value{strictjson.Text(v.Text() + "x"), strictjson.NullValue()}
	case strictjson.Number:
		f, _ := v.Float()
		return []strictjson.Value{strictjson.Float(f + 0.5), strictjson.Text(v.Text())}
	case strictjson.Bool:
		return []strictjson.Value{strictjson.Boolean(!v.True()), strictjson.Int(1)}
	}
	return []strictjson.Value{strictjson.Text("null")}
}

// On every reference of the public tasks: the reference scores 2, every single
// changed slot scores less, and the standing probes stay lowest.
func TestRealReferences(t *testing.T) {
	r := DefaultRules()
	changes := 0
	every := 1
	if testing.Short() {
		every = 8
	}
	for i, args := range realArguments(t) {
		if i%every > 0 {
			continue
		}
		text := args.JSON()
		ref := reference(t, text)
		if s := r.Score(ref, text); s.Reward != 2 || !s.Exact() {
			t.Fatalf("%.200s: %+v", text, s)
		}
		worst := 2.0
		for _, other := range changed(args) {
			s := r.Score(ref, other.JSON())
			if !(s.Reward < 2) || s.Exact() {
				t.Fatalf("%.200s\nscores like\n%.200s", other.JSON(), text)
			}
			worst = min(worst, s.Reward)
			changes++
		}
		if len(text) > 400 {
			continue // 1000 of it would take long
		}
		for name, probe := range probes(text) {
			if s := r.Score(ref, probe); s.Reward > -1 || s.Reward >= worst {
				t.Fatalf("R5 %s on %.200s: %+v, a wrong value gets %v", name, text, s, worst)
			}
		}
	}
	t.Logf("%d changes", changes)
	if changes < 5000/every {
		t.Errorf("only %d changes", changes)
	}
}

// probes are completions that must never pay (acceptance case R5).
func probes(reference string) map[string]string {
	prompt := "You are the Executor. Give the arguments of mean(x: list[float]) as one JSON object, such as {\"x\": [1.0]}.\nAccepted so far: " + reference
	return map[string]string{
		"empty":               "",
		"prompt echo":         prompt,
		"prompt echo, JSON":   `[{"role":"user","content":` + strictjson.Text(prompt).JSON() + `}]`,
		"all options, list":   `[` + reference + `,` + strings.ReplaceAll(reference, "0", "1") + `]`,
		"all options, prose":  "One of " + reference + " or " + strings.ReplaceAll(reference, "0", "1"),
		"repeated 1000 times": strings.Repeat(reference, 1000),
		"repeated in a list":  "[" + strings.Repeat(reference+",", 999) + reference + "]",
		"as a text":           strictjson.Text(reference).JSON(),
		"cut":                 reference[:len(reference)-1],
		"opened 1000 times":   strings.Repeat("{", 1000),
		"nested 400 deep":     strings.Repeat(`{"deep":`, 400) + `1` + strings.Repeat(`}`, 400),
		"in another object":   `{"arguments":` + reference + `}`,
	}
}

func TestR5ProbesStayLowest(t *testing.T) {
	ref := reference(t, example)
	for _, extract := range []bool{false, true} {
		r := DefaultRules()
		r.Extract = extract
		attempts := []string{`{"threshold":0.75}`, `{"file_list":[],"threshold":0}`, `{"file_list":["a.tif"],"threshold":0.75,"gsd":1}`}
		lowest := 2.0
		for _, a := range attempts {
			lowest = min(lowest, r.Score(ref, a).Reward)
		}
		for name, probe := range probes(example) {
			if s := r.Score(ref, probe); s.Reward > -1 || s.Reward >= lowest {
				t.Errorf("extract %v, %s: %+v; an honest attempt gets %v", extract, name, s, lowest)
			}
		}
	}
	// Every known argument at once: each extra key costs.
	if s := DefaultRules().Score(ref, `{"file_list":["a.tif","b.tif"],"threshold":0.75,"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1}`); s.Reward != -1 {
		t.Errorf("all keys of the catalogue: %+v", s)
	}
}

func TestR3NumbersOfArguments(t *testing.T) {
	ref := reference(t, `{"n":3}`)
	for literal, want := range map[string]float64{
		`3`: 2, `"3"`: 1, `3.0`: 1, `3e0`: 1, `"3.0"`: 1, `"3,000"`: 1, `"−3"`: 1, `"3 m"`: 1, `3,000`: -2, `−3`: -2, `3 m`: -2, `03`: -2,
	} {
		if s := DefaultRules().Score(ref, `{"n":`+literal+`}`); s.Reward != want {
			t.Errorf("%s: %+v, want %v", literal, s, want)
		}
	}
}

func TestR4ListRules(t *testing.T) {
	for _, c := range []struct {
		reference, completion string
		ordered, set, subset  bool
	}{
		{`["a","b","c"]`, `["a","b","c"]`, true, true, true},
		{`["a","b","c"]`, `["c","a","b"]`, false, true, true},
		{`["a","b"]`, `["b","x","a"]`, false, false, true},
		{`["a","b"]`, `["a"]`, false, false, false},
		{`["a","a"]`, `["a","b"]`, false, false, false},
		{`["a","a","b"]`, `["a","b","b"]`, false, false, false},
		{`[]`, `["a"]`, false, false, true},
		{`[]`, `[]`, true, true, true},
		{`[{"a":1,"b":[1,2]}]`, `[{"b":[2,1],"a":1}]`, false, true, true},
		// 0.0 must give 0.0000009 to its neighbour and take -0.0000005.
		{`[0.0,0.0000009]`, `[0.0000009,-0.0000005]`, false, true, true},
		{`[0.0,0.0000009]`, `[0.0000019,-0.0000005]`, false, true, true},
		{`[0.0,0.0000009]`, `[0.0000021,-0.0000005]`, false, false, false},
		{`[1,2]`, `[2.0,1]`, false, false, false},
	} {
		ref := reference(t, `{"x":`+c.reference+`}`)
		for rule, want := range map[ListRule]bool{Ordered: c.ordered, Set: c.set, Subset: c.subset} {
			r := Rules{Tolerance: 1e-6, Lists: rule}
			if s := r.Score(ref, `{"x":`+c.completion+`}`); s.Exact() != want || s.Reason == "" {
				t.Errorf("%s: %s against %s: %+v", rule, c.completion, c.reference, s)
			}
		}
	}
	// Key order never counts; an extra key counts under every rule.
	for _, rule := range ListRules {
		r := Rules{Tolerance: 1e-6, Lists: rule}
		ref := reference(t, `{"a":1,"b":2}`)
		if s := r.Score(ref, `{"b":2,"a":1}`); s.Reward != 2 {
			t.Errorf("%s: %+v", rule, s)
		}
		if s := r.Score(ref, `{"b":2,"a":1,"c":3}`); s.Reward != 1.5 {
			t.Errorf("%s: %+v", rule, s)
		}
	}
}

// A long list of equal and of shuffled items stays cheap under Set.
func TestSetOfLongLists(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	items := make([]strictjson.Value, 1000)
	for i := range items {
		items[i] = strictjson.Int(i % 100)
	}
	list := func() string {
		return strictjson.Obj(strictjson.Member{Key: "x", Value: strictjson.List(items...)}).JSON()
	}
	ref := reference(t, list())
	rng.Shuffle(len(items), func(i, j int) { items[i], items[j] = items[j], items[i] })
	r := Rules{Lists: Set}
	if s := r.Score(ref, list()); s.Reward != 2 {
		t.Errorf("%+v", s)
	}
	items[500] = strictjson.Int(100)
	if s := r.Score(ref, list()); s.Reward != 1 {
		t.Errorf("%+v", s)
	}
}
