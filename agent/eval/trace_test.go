package eval

import (
	"testing"

	"terraloom/data/strictjson"
)

func parsed(tb testing.TB, text string) strictjson.Value {
	tb.Helper()
	v, err := strictjson.Parse([]byte(text))
	if err != nil {
		tb.Fatal(err)
	}
	return v
}

// calls are calls of the names with empty arguments.
func calls(tb testing.TB, names ...string) []Call {
	tb.Helper()
	out := make([]Call, len(names))
	for i, n := range names {
		out[i] = Call{Name: n, Input: parsed(tb, "{}")}
	}
	return out
}

func TestEVAL3To7Trace(t *testing.T) {
	expected := calls(t, "get_filelist", "mean", "mean", "difference")
	for _, c := range []struct {
		actual                           []Call
		tao, tio, tem, param, efficiency float64
	}{
		{calls(t, "get_filelist", "mean", "difference"), 1, .5, .5, .5, .75},
		{calls(t, "difference", "get_filelist", "mean", "mean"), 1, .75, 0, 0, 1},
		{calls(t, "get_filelist", "x", "mean", "mean", "difference"), 1, 1, .25, .25, 1.25},
		{calls(t, "get_filelist", "mean", "mean", "difference"), 1, 1, 1, 1, 1},
		{nil, 0, 0, 0, 0, 0},
	} {
		s := Trace(expected, c.actual)
		if s.AnyOrder != c.tao || s.InOrder != c.tio || s.ExactMatch != c.tem || s.Param != c.param || s.Efficiency != c.efficiency {
			t.Errorf("%v: %+v, expected %+v", Names(c.actual), s, c)
		}
	}
	if s := Trace(nil, expected); s != (TraceScore{}) {
		t.Errorf("without a reference: %+v", s)
	}
}

func TestEVAL6ParameterIsAPrefix(t *testing.T) {
	one := func(args ...string) []Call {
		out := make([]Call, len(args))
		for i, a := range args {
			out[i] = Call{Name: "f", Input: parsed(t, a)}
		}
		return out
	}
	expected := one(`{"x":1}`, `{"x":[1,2]}`, `{"x":3}`, `{"x":4}`)
	for _, c := range []struct {
		actual []Call
		want   float64
	}{
		{one(`{"x":1.0}`, `{"x":[2,1]}`, `{"x":3}`, `{"x":4}`), .25}, // wrong only at step 2
		{one(`{"x":true}`, `{"x":[true,2.0]}`, `{"x":3e0}`, `{"x":4}`), 1},
		{one(`{"x":1,"y":null}`), 0}, // a default that was written out
		{one(`"{\"x\":1}"`), 0},      // arguments as a text
		{one(`null`), 0},
		{nil, 0},
	} {
		if got := Parameter(expected, c.actual); got != c.want {
			t.Errorf("%v, expected %v", got, c.want)
		}
	}
}

func TestEVAL7MeanEfficiency(t *testing.T) {
	expected := calls(t, "a", "b", "c", "d")
	short, long := Trace(expected, expected[:3]), Trace(expected, append(expected[:4:4], expected[0]))
	if m := mean([]float64{short.Efficiency, long.Efficiency}, CompensatedSum); m != 1 {
		t.Errorf("mean efficiency %v", m)
	}
}

func TestEqualIsPythons(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{`1`, `1.0`, true}, {`1`, `true`, true}, {`0`, `false`, true}, {`1.0`, `true`, true}, {`2`, `true`, false},
		{`0`, `-0`, true}, {`0`, `-0.0`, true}, {`100`, `1e2`, true}, {`0.1`, `0.10`, true}, {`0.1`, `0.1000000000000000055`, true},
		{`9007199254740993`, `9007199254740992.0`, false}, {`9007199254740992`, `9007199254740992.0`, true}, {`9007199254740993`, `9007199254740993`, true},
		{`1e400`, `1e400`, false}, {`1e400`, `1`, false}, {`1`, `"1"`, false}, {`null`, `null`, true}, {`null`, `false`, false}, {`null`, `0`, false},
		{`""`, `""`, true}, {`"a"`, `"A"`, false}, {`[1,2]`, `[2,1]`, false}, {`[1,2]`, `[1.0,2.0]`, true}, {`[]`, `{}`, false}, {`[]`, `[]`, true},
		{`{"a":1,"b":[true]}`, `{"b":[1],"a":1.0}`, true}, {`{"a":1}`, `{"a":1,"b":null}`, false}, {`{"a":1}`, `{"b":1}`, false},
		{`{"a":null,"c":1}`, `{"b":null,"c":1}`, false}, {`[[1],[2]]`, `[[1],[2.5]]`, false}, {`1.5`, `1`, false},
	} {
		a, b := parsed(t, c.a), parsed(t, c.b)
		if Equal(a, b) != c.want || Equal(b, a) != c.want {
			t.Errorf("%s == %s is not %v", c.a, c.b, c.want)
		}
	}
	if (Equal(strictjson.Value{}, strictjson.Value{})) {
		t.Error("nothing equals nothing")
	}
}

func TestSums(t *testing.T) {
	tenths := make([]float64, 10)
	for i := range tenths {
		tenths[i] = 0.1
	}
	// What Python 3.12 prints for a loop of += and for sum().
	if Sum(tenths) != 0.9999999999999999 || CompensatedSum(tenths) != 1 {
		t.Errorf("%v, %v", Sum(tenths), CompensatedSum(tenths))
	}
	if s := CompensatedSum([]float64{1e100, 1, -1e100}); s != 1 {
		t.Errorf("%v", s)
	}
}

func TestEVAL13WeightedMean(t *testing.T) {
	got := WeightedMean([]Share{{66.43, 855}, {70.64, 855}, {40.35, 855}, {31.58, 855}, {1.55, 129}})
	if got < 50.405 || got >= 50.415 {
		t.Errorf("%v, the paper has 50.41", got)
	}
	if WeightedMean(nil) != 0 {
		t.Error("of nothing")
	}
}
