package slots

import (
	"errors"
	"strings"
	"testing"

	"terraloom/data"
	"terraloom/data/strictjson"
)

// verifySeed has a place, a date, a folder number, a limit that the question
// names, an artefact, a scaled value, a pure tool and a derived answer.
func verifySeed(t testing.TB) *data.Trajectory {
	return seedOf(t, "Which share of Nairobi was above 305.5 K on July 12, 2022?",
		step("get_filelist", `{"dir_path":"benchmark/data/question7"}`, `["Nairobi_2022-07-12_LST.tif"]`)+","+
			step("lst", `{"lst_path":"benchmark/data/question7/Nairobi_2022-07-12_LST.tif","output_path":"question7/lst_2022-07-12.tif"}`, `"Result saved at benchmark/out/question7/lst_2022-07-12.tif"`)+","+
			step("calc_batch_image_mean", `{"file_list":["benchmark/out/question7/lst_2022-07-12.tif"],"uint8":false}`, "[301.25,304.75]")+","+
			step("mean", `{"x":[301.25,304.75]}`, "303.0")+","+
			step("calculate_threshold_ratio", `{"image_paths":"benchmark/out/question7/lst_2022-07-12.tif","threshold":305.5}`, "37.42"),
		`,"inputs":{"data_path":"benchmark/data/question7"},"answer":{"text":"37.42 %"}`)
}

// Each kind of damage to a good instance is refused with its own reason, and the
// refusal names seed, step and pointer.
func TestVerifyRefusals(t *testing.T) {
	seed := verifySeed(t)
	c := discovered(t, seed, arithmetic{})
	good, v := sample(t, c, arithmetic{}, 4)
	arg := func(step int, from, to string) func(*testing.T, *data.Trajectory) {
		return func(t *testing.T, in *data.Trajectory) {
			in.Steps[step].Arguments = edited(t, in.Steps[step].Arguments, from, to)
		}
	}
	obs := func(step int, from, to string) func(*testing.T, *data.Trajectory) {
		return func(t *testing.T, in *data.Trajectory) {
			in.Steps[step].Observation = edited(t, in.Steps[step].Observation, from, to)
		}
	}
	get := func(step int, pointer string) string {
		x, _ := good.Steps[step].Observation.At(pointer)
		return x.Text()
	}
	for _, test := range []struct {
		name   string
		change func(*testing.T, *data.Trajectory)
		reason error
		want   []string
	}{
		{"a step less", func(_ *testing.T, in *data.Trajectory) { in.Steps = in.Steps[:4] }, ErrSkeleton, []string{"s, /steps: ", "4 steps, the seed has 5"}},
		{"another tool", func(_ *testing.T, in *data.Trajectory) { in.Steps[3].Tool = "median" }, ErrSkeleton, []string{"s, step 3 /tool: ", "tool median, the seed has mean"}},
		{"another key", arg(2, `"uint8"`, `"uint16"`), ErrSkeleton, []string{"step 2 /arguments", `key "uint16", the seed has "uint8"`}},
		{"a key more", arg(2, `"uint8":false`, `"uint8":false,"band":1`), ErrSkeleton, []string{"3 children, the seed has 2"}},
		{"a key less", arg(2, `,"uint8":false`, ``), ErrSkeleton, []string{"1 children, the seed has 2"}},
		{"another JSON type", arg(2, `false`, `0`), ErrSkeleton, []string{"step 2 /arguments/uint8", "number, the seed has bool"}},
		{"D4 a number as text", arg(4, `"threshold":`, `"threshold":"`+"X"), ErrSkeleton, []string{"string, the seed has number"}},
		{"a list for a text", arg(4, `"image_paths":`, `"image_paths":[`+"X"), ErrSkeleton, []string{"array, the seed has string"}},
		{"a shorter list", arg(3, get(2, "/0")+",", ""), ErrSkeleton, []string{"step 3 /arguments/x", "1 children, the seed has 2"}},
		{"a file that is not listed", arg(1, "_LST.tif", "_NDVI.tif"), ErrEdge, []string{"step 1 /arguments/lst_path", "is not join of", "in step 0"}},
		{"an artefact that was not made", arg(2, "/lst_", "/ndvi_"), ErrEdge, []string{"step 2 /arguments/file_list/0", "is not path of"}},
		{"a changed number", func(t *testing.T, in *data.Trajectory) {
			arg(3, get(2, "/0"), "300.0")(t, in)
			in.Steps[3].Observation, _ = arithmetic{}.Call("mean", in.Steps[3].Arguments)
		}, ErrEdge, []string{"step 3 /arguments/x/0", "300.0 is not identity of"}},
		{"an observation that moved alone", obs(2, get(2, "/0"), "300.0"), ErrEdge, []string{"step 3 /arguments/x/0"}},
		{"an observation that is gone", func(t *testing.T, in *data.Trajectory) { in.Steps[2].Observation = parse(t, "[]") }, ErrEdge, []string{`the observation of step 2 has nothing at "/0"`}},
		{"a limit that the question does not name", arg(4, `"threshold":`, `"threshold":1`), ErrEdge, []string{"step 4 /arguments/threshold", "is not in the question"}},
		{"the old limit in the question", func(_ *testing.T, in *data.Trajectory) {
			in.Query = strings.Replace(in.Query, in.Steps[4].Arguments.Get("threshold").Text()+" K", "305.5 K", 1)
		}, ErrEdge, []string{"step 4 /arguments/threshold", "is not in the question"}},
		{"a mean that is none", obs(3, get(3, ""), "300.5"), ErrRecompute, []string{"step 3 /observation", "the tool returns " + get(3, ""), "recorded is 300.5"}},
		{"the old place in the question", func(_ *testing.T, in *data.Trajectory) { in.Query += " Not Nairobi." }, ErrStale, []string{"s, slot place1, /query: ", `"nairobi" in `}},
		{"the old place in capitals", func(_ *testing.T, in *data.Trajectory) { in.Steps[2].Thought = "NAIROBI is warm" }, ErrStale, []string{"slot place1, step 2 /thought"}},
		{"the old day", func(_ *testing.T, in *data.Trajectory) { in.Query += " 2022-07-12" }, ErrStale, []string{`"2022-07-12"`}},
		{"the old day in words", func(_ *testing.T, in *data.Trajectory) { in.Query += " July 12, 2022" }, ErrStale, []string{`"July 12, 2022"`}},
		{"any other day", func(_ *testing.T, in *data.Trajectory) { in.Query += " 1999-01-31" }, ErrStale, []string{`"1999-01-31"`}},
		{"any other year", func(_ *testing.T, in *data.Trajectory) { in.Query += " 1999" }, ErrStale, []string{`"1999"`}},
		{"the old folder", func(t *testing.T, in *data.Trajectory) {
			in.Inputs = parse(t, `{"data_path":"benchmark/data/question7"}`)
		}, ErrStale, []string{"slot sample, /inputs/data_path", `"question7"`}},
		{"the old folder in capitals", func(_ *testing.T, in *data.Trajectory) { in.Query += " Question7" }, ErrStale, []string{"slot sample"}},
		{"another answer", func(t *testing.T, in *data.Trajectory) { in.Answer = parse(t, `{"text":"1.00 %"}`) }, ErrAnswer, []string{"s, /answer: ", "the observations give", `recorded is {"text":"1.00 %"}`}},
		{"no answer", func(_ *testing.T, in *data.Trajectory) { in.Answer = strictjson.Value{} }, ErrAnswer, []string{"/answer"}},
		{"the seed's answer", func(_ *testing.T, in *data.Trajectory) { in.Answer = seed.Answer }, ErrAnswer, []string{"/answer"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			in := cloned(good)
			test.change(t, in)
			err := c.Verify(in, v, arithmetic{})
			wantError(t, test.name, err, test.want...)
			var r *Refusal
			if !errors.Is(err, test.reason) || !errors.As(err, &r) || r.Seed != "s" {
				t.Errorf("%v is not %v", err, test.reason)
			}
			for _, other := range []error{ErrSkeleton, ErrEdge, ErrStale, ErrRecompute, ErrAnswer, ErrCollapsed} {
				if other != test.reason && errors.Is(err, other) {
					t.Errorf("%v is %v too", err, other)
				}
			}
		})
	}
	if err := c.Verify(good, v, arithmetic{}); err != nil {
		t.Errorf("the good instance: %v", err)
	}
}

// edited replaces a text in a value's JSON; X marks where a closing must follow.
func edited(t *testing.T, v strictjson.Value, from, to string) strictjson.Value {
	t.Helper()
	text := v.JSON()
	if !strings.Contains(text, from) {
		t.Fatalf("%q is not in %s", from, text)
	}
	if head, ok := strings.CutSuffix(to, "X"); ok { // open a quote or a list around the rest of the member
		i := strings.Index(text, from) + len(from)
		j := i + strings.IndexAny(text[i:], ",}")
		closing := map[byte]string{'"': `"`, '[': "]"}[head[len(head)-1]]
		text = text[:i-len(from)] + head + text[i:j] + closing + text[j:]
	} else {
		text = strings.Replace(text, from, to, 1)
	}
	return parse(t, text)
}

func cloned(t *data.Trajectory) *data.Trajectory {
	c := *t
	c.Steps = append([]data.Step(nil), t.Steps...)
	return &c
}

// Values that a tool returned apart must stay apart: what is selected from them
// would not be the same choice.
func TestCollapsedValuesAreRefused(t *testing.T) {
	seed := seedOf(t, "q", step("calc_batch_image_mean", `{"a":1}`, "[10,12]")+","+step("f", `{"a":2}`, "3"), "")
	p := programOf(t, seed, `slots:
  - {name: scale, type: number, role: root, seed: 1, source: {choice: [0.04]}}
  - {name: o, type: observation, role: derived, expr: 'vary(was("/steps/0/observation"), scale, 0)'}
occurrences:
  - {at: /steps/0/observation, slot: o}
`)
	c := compile(t, p, seed, arithmetic{})
	v := c.Draw(rngOf(1))
	in, err := c.Instance(v, arithmetic{})
	if err != nil {
		t.Fatal(err)
	}
	err = c.Verify(in, v, arithmetic{})
	wantError(t, "10 and 12 · 0.04", err, "step 0 /observation", "1 distinct numbers, the seed has 2")
	if !errors.Is(err, ErrCollapsed) {
		t.Errorf("%v is not ErrCollapsed", err)
	}
}

// SLOT-8: old names are found in every spelling, and only as words of their own.
func TestWordIndex(t *testing.T) {
	for _, test := range []struct {
		text, word string
		want       bool
	}{
		{"leon", "leon", true}, {"in leon.", "leon", true}, {"leon_2013", "leon", true}, {"x-leon-y", "leon", true}, {"leon2", "leon", true}, {"2leon", "leon", true},
		{"leonardo", "leon", false}, {"napoleon", "leon", false}, {"napoleon leon", "leon", true}, {"question7", "question7", true}, {"question71", "question7", false}, {"myquestion7", "question7", false},
		{"", "leon", false}, {"leo", "leon", false},
	} {
		if got := wordIndex(test.text, test.word) >= 0; got != test.want {
			t.Errorf("%q in %q: %v, want %v", test.word, test.text, got, test.want)
		}
	}
}

// The aliases of the old place are old names too.
func TestAliasesOfTheOldPlaceAreStale(t *testing.T) {
	seed := seedOf(t, "Night lights of Ho Chi Minh City?", step("f", `{"a":1}`, "2.5")+","+step("f", `{"a":1}`, "3.5"), "")
	c := discovered(t, seed, arithmetic{})
	in, v := sample(t, c, arithmetic{}, 1)
	in.Query += " (Saigon)"
	if err := c.Verify(in, v, arithmetic{}); !errors.Is(err, ErrStale) {
		t.Errorf("error %v", err)
	}
}
