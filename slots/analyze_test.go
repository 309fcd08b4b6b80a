package slots

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"terraloom/data/strictjson"
)

// originOf analyses a trajectory and returns the origin, producer and transform
// of one argument leaf.
func originOf(t *testing.T, query, steps string, step int, pointer string) string {
	t.Helper()
	seed := seedOf(t, query, steps, `,"inputs":{"data_path":"benchmark/data/question7","note":"use band 31 "}`)
	for _, l := range Analyze(seed).Leaves {
		if l.Step == step && l.Pointer == pointer {
			if l.Use.From < 0 {
				return string(l.Origin)
			}
			return fmt.Sprintf("%s %d%s %s", l.Origin, l.Use.From, l.Use.Observation, l.Use.Transform)
		}
	}
	t.Fatalf("no leaf %s in step %d", pointer, step)
	return ""
}

func TestAnalyzeFindsEachOrigin(t *testing.T) {
	list := step("get_filelist", `{"dir_path":"benchmark/data/question7"}`, `["a_2020-01-01.tif"," b_2020-01-02.tif "]`)
	for _, test := range []struct {
		name, query, steps string
		step               int
		pointer, want      string
	}{
		{"folder of the inputs", "q", list, 0, "/dir_path", "inputs"},
		{"folder + entry", "q", list + "," + step("f", `{"p":["benchmark/data/question7/a_2020-01-01.tif"]}`, "1"), 1, "/p/0", "listing 0/0 join"},
		{"entry with blanks", "q", list + "," + step("f", `{"p":"benchmark/data/question7/b_2020-01-02.tif"}`, "1"), 1, "/p", "listing 0/1 join"},
		{"entry as it is", "q", list + "," + step("f", `{"p":"a_2020-01-01.tif"}`, "1"), 1, "/p", "observation 0/0 identity"},
		{"entry under another folder", "q", list + "," + step("f", `{"p":"other/a_2020-01-01.tif"}`, "1"), 1, "/p", "artifact 0/0 rebase"},
		{"windows path", "q", list + "," + step("f", `{"p":"F:\\x\\a_2020-01-01.tif"}`, "1"), 1, "/p", "artifact 0/0 rebase"},
		{"path of a message", "q", step("f", `{"output_path":"question7/x.tif"}`, `"Result saved at out/question7/x.tif"`) + "," + step("g", `{"p":"out/question7/x.tif"}`, "1"), 1, "/p", "text 0 path"},
		{"same name as a message's path", "q", step("f", `{"output_path":"question7/x.tif"}`, `"Result save at out/question7/x.tif"`) + "," + step("g", `{"p":"benchmark/x.tif"}`, "1"), 1, "/p", "artifact 0 rebase"},
		{"name of an output", "q", step("f", `{"output_path":"question7/x.tif"}`, `"done"`) + "," + step("g", `{"p":"benchmark/out/x.tif"}`, "1"), 1, "/p", "artifact 0 made-output"},
		{"new file", "q", step("f", `{"output_path":"question7/x.tif"}`, `"done"`), 0, "/output_path", "output"},
		{"new file, saved", "q", step("f", `{"save_name":"x.png"}`, `"done"`), 0, "/save_name", "output"},
		{"output that was observed", "q", step("f", `{"a":1}`, `["out/x.tif"]`) + "," + step("g", `{"output_path":"out/x.tif"}`, "1"), 1, "/output_path", "observation 0/0 identity"},
		{"unknown path", "q", list + "," + step("f", `{"p":"benchmark/data/question7/c.tif"}`, "1"), 1, "/p", "missing-path"},
		{"repeated unknown path", "q", step("f", `{"p":"d/c.tif"}`, "1") + "," + step("g", `{"p":"d/c.tif"}`, "1"), 1, "/p", "argument"},
		{"number", "q", step("f", `{"a":1}`, "[0.5,291.25]") + "," + step("g", `{"x":[0.5,291.25]}`, "1"), 1, "/x/1", "observation 0/1 identity"},
		{"small integer of data", "q", step("f", `{"a":1}`, "[3,4]") + "," + step("g", `{"x":[3,4]}`, "1"), 1, "/x/0", "observation 0/0 identity"},
		{"small integer of a setting", "q", step("f", `{"a":1}`, "[3,4]") + "," + step("g", `{"band_index":3}`, "1"), 1, "/band_index", "constant"},
		{"negative zero", "q", step("f", `{"a":1}`, "0.0") + "," + step("g", `{"x":-0.0}`, "1"), 1, "/x", "observation 0 identity"},
		{"nearest producer", "q", step("f", `{"a":1}`, "5.5") + "," + step("f", `{"a":1}`, "5.5") + "," + step("g", `{"x":5.5}`, "1"), 2, "/x", "observation 1 identity"},
		{"number in a Python list", "q", step("f", `{"a":1}`, `"[[324.6, 12.5]]"`) + "," + step("g", `{"x":12.5}`, "1"), 1, "/x", "text 0 parse:/0/1"},
		{"number text of a number", "q", step("f", `{"a":1}`, "290.94") + "," + step("g", `{"a":"290.94"}`, "1"), 1, "/a", "number-text 0 text"},
		{"number text with zeros", "q", step("f", `{"a":1}`, "3.744") + "," + step("g", `{"a":"3.7440"}`, "1"), 1, "/a", "number-text 0 text"},
		{"number of a percentage", "q", step("f", `{"a":1}`, `"14.98%"`) + "," + step("g", `{"a":14.98}`, "1"), 1, "/a", "number-text 0 number"},
		{"rounded", "q", step("f", `{"a":1}`, "3.14159") + "," + step("g", `{"a":3.14}`, "1"), 1, "/a", "rounded 0 round:2"},
		{"scaled", "q", step("f", `{"a":1}`, "0.28") + "," + step("g", `{"threshold":0.42}`, "1"), 1, "/threshold", "scaled 0 scale:1.5"},
		{"scaled is for settings", "q", step("f", `{"a":1}`, "0.28") + "," + step("g", `{"x":0.42}`, "1"), 1, "/x", "nowhere"},
		{"number of the question", "above 305.5 K", step("f", `{"threshold":305.5}`, "1"), 0, "/threshold", "query"},
		{"percentage of the question", "above 30 %", step("f", `{"threshold":0.3}`, "1"), 0, "/threshold", "query"},
		{"a setting asks the question first", "above 305.5 K", step("f", `{"a":1}`, "305.5") + "," + step("g", `{"threshold":305.5}`, "1"), 1, "/threshold", "query"},
		{"data ask observations first", "above 305.5 K", step("f", `{"a":1}`, "305.5") + "," + step("g", `{"x":305.5}`, "1"), 1, "/x", "observation 0 identity"},
		{"number text of the question", "GSD 0.25 m", step("g", `{"b":"0.25"}`, "1"), 0, "/b", "query"},
		{"prompt of the question", "Find each Storage Tank here", step("g", `{"text_prompt":"storage tank"}`, "1"), 0, "/text_prompt", "query"},
		{"earlier argument", "q", step("f", `{"x":12.75}`, "1") + "," + step("g", `{"x":12.75}`, "1"), 1, "/x", "argument"},
		{"tool's own word", "q", step("g", `{"mode":"above"}`, "1"), 0, "/mode", "constant"},
		{"true", "q", step("g", `{"verbose":true}`, "1"), 0, "/verbose", "constant"},
		{"nothing gives the number", "q", step("g", `{"x":12.75}`, "1"), 0, "/x", "nowhere"},
		{"nothing gives the text", "q", step("g", `{"t":"30% increase over the July NTU values"}`, "1"), 0, "/t", "nowhere"},
		{"date in the question is no number", "in 2020", step("g", `{"threshold":2020}`, "1"), 0, "/threshold", "constant"},
		{"number too great for a float", "q", step("g", `{"x":1e999}`, "1"), 0, "/x", "nowhere"},
	} {
		if got := originOf(t, test.query, test.steps, test.step, test.pointer); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

// A list copied whole is one edge; a selection has one edge for each item.
func TestWholeListsAreOneEdge(t *testing.T) {
	steps := step("f", `{"a":1}`, "[1.5,2.5,3.5]") + "," + step("g", `{"x":[1.5,2.5,3.5]}`, "1") + "," + step("g", `{"x":[1.5,3.5]}`, "1") + "," + step("g", `{"x":[1.50,2.5,3.5]}`, "1")
	a := Analyze(seedOf(t, "q", steps, ""))
	for i, want := range []int{0, 1, 2, 1} {
		if len(a.Uses[i]) != want {
			t.Errorf("step %d has the edges %+v, want %d", i, a.Uses[i], want)
		}
	}
	if u := a.Uses[1][0]; u.Argument != "/x" || u.From != 0 || u.Observation != "" || u.Transform != identity {
		t.Errorf("edge %+v", u)
	}
}

// Every leaf of every argument is reported once, with an origin of the list.
func TestEveryLeafHasAnOrigin(t *testing.T) {
	known := map[Origin]bool{}
	for _, o := range Origins {
		if known[o] {
			t.Errorf("%s is listed twice", o)
		}
		known[o] = true
	}
	for _, seed := range sampleSeeds(t) {
		a := Analyze(seed)
		k := 0
		for i, s := range seed.Steps {
			s.Arguments.Leaves("", func(p string, v strictjson.Value) {
				if l := a.Leaves[k]; l.Step != i || l.Pointer != p || !l.Value.Equal(v) || !known[l.Origin] || (l.Use.From >= 0) != (l.Use.Transform != "") || l.Use.From >= i {
					t.Errorf("%s: leaf %d is %+v, want step %d %s", seed.ID, k, l, i, p)
				}
				k++
			})
		}
		if k != len(a.Leaves) {
			t.Errorf("%s: %d leaves, the arguments have %d", seed.ID, len(a.Leaves), k)
		}
		if again := Analyze(seed); !reflect.DeepEqual(a, again) {
			t.Errorf("%s: two analyses differ", seed.ID)
		}
	}
}

// The counts on the real file against those that were measured by another
// program (the public file's notes): same classes agree closely, and what has no
// origin stays as rare as it is.
func TestOriginsOfTheRealFile(t *testing.T) {
	seeds := realSeeds(t)
	s := Summarize(seeds)
	if s.Trajectories != 248 || s.Calls != 1335 || s.Leaves != 18294 {
		t.Fatalf("%d trajectories, %d calls, %d leaves; want 248, 1,335, 18,294", s.Trajectories, s.Calls, s.Leaves)
	}
	for _, test := range []struct {
		origin   Origin
		measured int // by the other program
		slack    int
	}{
		{FromListing, 7040, 5},
		{FromMissingPath, 2671, 10},
		{FromOutput, 2542, 10},
		{FromInputs, 250, 5},
		{FromArtifact, 187, 10},
		{FromQuery, 98 + 47, 15},
		{FromNowhere, 215, 20},
		{FromNumberText, 26, 2},
		{FromRounded, 1, 0},
		{FromArgument, 37, 20},
	} {
		if got := s.Origins[test.origin]; got < test.measured-test.slack || got > test.measured+test.slack {
			t.Errorf("%s: %d leaves, %d were measured", test.origin, got, test.measured)
		}
	}
	// Numbers and paths that repeat an observation, in texts and Python literals too: 2,588 + 2,467 there.
	if got := s.Origins[FromObservation] + s.Origins[FromText]; got < 4900 || got > 5100 {
		t.Errorf("observed values: %d, 5,055 were measured", got)
	}
	if len(s.Nowhere) != s.Origins[FromNowhere] {
		t.Errorf("%d leaves of %d without origin are reported", len(s.Nowhere), s.Origins[FromNowhere])
	}
	text := s.String()
	for _, part := range []string{"248 trajectories, 1335 calls, 18294 argument leaves", "listing", "nowhere"} {
		if !strings.Contains(text, part) {
			t.Errorf("the summary lacks %q:\n%s", part, text)
		}
	}
	for i, seed := range seeds {
		if i%16 == 0 && !reflect.DeepEqual(Analyze(seed), Analyze(seed)) {
			t.Errorf("%s: two analyses differ", seed.ID)
		}
	}
}

// DATA-9: the producers in a trajectory of pictures.
func TestEdgesOfADetection(t *testing.T) {
	for _, seed := range sampleSeeds(t) {
		if seed.ID != "sample-5" {
			continue
		}
		pairs := map[string]bool{}
		for i, uses := range Analyze(seed).Uses {
			for _, u := range uses {
				pairs[fmt.Sprintf("%d→%d", u.From, i)] = true
			}
		}
		if want := map[string]bool{"0→1": true, "1→2": true, "2→3": true, "3→4": true}; !reflect.DeepEqual(pairs, want) {
			t.Errorf("edges %v, want %v", pairs, want)
		}
	}
}

func TestQueryNumbers(t *testing.T) {
	for text, want := range map[string]string{
		"above 305 K and 40.5 %, 12 percent": "305 40.5% 12%",
		"B10, 8b, x_5, 5_x, v2":              "8",
		"on 2020-01-05 or in 2021":           "",
		"-5 degrees, (-2.5), 3-4":            "-5 -2.5 3 4",
		"0.25m and 30m2, 10th, 12percent":    "0.25 30",
		"305K":                               "305",
	} {
		var got []string
		for _, n := range queryNumbers(text) {
			s := fmt.Sprint(n.f)
			if n.percent {
				s += "%"
			}
			got = append(got, s)
			if n.start < 0 || n.end > len(text) || n.start >= n.end {
				t.Errorf("%q: span %d to %d", text, n.start, n.end)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q has %q, want %q", text, got, want)
		}
	}
}
