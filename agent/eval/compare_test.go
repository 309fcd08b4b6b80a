package eval

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// scored makes a score file whose TAO are the given figures.
func scored(run string, tao ...float64) *Scored {
	s := &Scored{Run: run, Setting: EndToEnd}
	for i, f := range tao {
		param, efficiency := f/2, 1.0
		s.Records = append(s.Records, Record{Question: fmt.Sprintf("question%d", i), TAO: f, Param: &param, Efficiency: &efficiency, Correct: f > .5, Traced: true, Answered: true})
	}
	s.Summary = Summarize(s.Records)
	return s
}

func difference(t *testing.T, c *Comparison, metric string) Difference {
	t.Helper()
	for _, d := range c.Differences {
		if d.Metric == metric {
			return d
		}
	}
	t.Fatalf("no %s in %+v", metric, c)
	return Difference{}
}

func TestCompare(t *testing.T) {
	var low, high, same []float64
	for i := range 60 {
		low = append(low, .2+.002*float64(i))
		high = append(high, .5+.004*float64(i%30))
		same = append(same, .2+.002*float64(i))
	}
	a, b := scored("a", low...), scored("b", high...)
	c, err := Compare(a, b, 7, 2000)
	if err != nil {
		t.Fatal(err)
	}
	d := difference(t, c, "tao")
	if d.Questions != 60 || d.Low <= 0 || !(d.Low < d.Mean && d.Mean < d.High) || d.P != 0 {
		t.Errorf("a clear difference: %+v", d)
	}
	again, _ := Compare(a, b, 7, 2000)
	other, _ := Compare(a, b, 8, 2000)
	if !reflect.DeepEqual(c, again) || reflect.DeepEqual(c.Differences, other.Differences) {
		t.Error("the intervals are not a function of the seed")
	}
	back, _ := Compare(b, a, 7, 2000)
	if r := difference(t, back, "tao"); r.Mean >= 0 || r.High >= 0 {
		t.Errorf("the other way round: %+v", r)
	}
	c, err = Compare(a, scored("c", same...), 7, 2000)
	if d := difference(t, c, "tao"); err != nil || d.Mean != 0 || d.Low != 0 || d.High != 0 || d.P != 1 {
		t.Errorf("no difference: %+v, %v", d, err)
	}
	b.Records[0].Question, b.Records[1].Param = "question99", nil
	c, err = Compare(a, b, 7, 100)
	if err != nil || !reflect.DeepEqual(c.OnlyA, []string{"question0"}) || !reflect.DeepEqual(c.OnlyB, []string{"question99"}) {
		t.Errorf("%+v, %v", c, err)
	}
	if difference(t, c, "tao").Questions != 59 || difference(t, c, "param").Questions != 58 {
		t.Errorf("%+v", c)
	}
	if _, err := Compare(a, scored("d"), 1, 100); !errors.Is(err, ErrUnpaired) {
		t.Errorf("%v", err)
	}
	if _, err := Compare(a, b, 1, 0); err == nil {
		t.Error("no resamples were taken")
	}
}

func TestScoreFileRoundTrip(t *testing.T) {
	s := scored("a_AP", .1, 1./3, .9)
	s.AddVerdicts("judge", []Verdict{{Correct: true, Reply: "x"}, {Failure: "down"}, {}})
	s.AddSimilarities("embedder", []float64{.95, .1, 0})
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "s.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := ReadScored(path)
	if err != nil || !reflect.DeepEqual(got, s) {
		t.Errorf("%+v, %v\nexpected %+v", got, err, s)
	}
	if j, e := got.Summary.Judge, got.Summary.Embedding; j.Judged != 2 || j.Failed != 1 || j.Accuracy != .5 || e.Match != 1./3 {
		t.Errorf("%+v, %+v", j, e)
	}
	record := `{"question":"question1","tao":1,"tio":1,"tem":1,"param":1,"efficiency":1,"predicted":"A","correct":true}`
	file := func(records string) string { return `{"run":"r","setting":"end-to-end","records":[` + records + `]}` }
	if _, err := parseScored("f", []byte(file(record))); err != nil {
		t.Errorf("%v", err)
	}
	for bad, want := range map[string]string{
		"":                               "f:1:1",
		file(""):                         "at least one record",
		file(record + "," + record):      "repeated",
		`{"records":[` + record + `]}`:   "it needs a run",
		file(`{"question":"question1"}`): "/records/0/tao: missing",
		file(strings.Replace(record, `"tao":1`, `"tao":1.5`, 1)):                 "/records/0: tao is 1.5, expected 0 to 1",
		file(strings.Replace(record, `"tao":1`, `"tao":null`, 1)):                "/records/0/tao: missing",
		file(strings.Replace(record, `"efficiency":1`, `"efficiency":-1`, 1)):    "efficiency is -1",
		file(strings.Replace(record, `"efficiency":1`, `"efficiency":1e999`, 1)): "cannot unmarshal",
		file(strings.Replace(record, `"tao"`, `"tao":0,"tao"`, 1)):               "repeated",
		file(strings.Replace(record, `"tem"`, `"tme":0,"tem"`, 1)):               `unknown field "tme"`,
		file(strings.Replace(record, `"tem"`, `"similarity":2,"tem"`, 1)):        "similarity is 2",
	} {
		if _, err := parseScored("f", []byte(bad)); !errors.Is(err, ErrScores) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, expected %s", bad, err, want)
		}
	}
}

func FuzzScoreFile(f *testing.F) {
	text, err := json.Marshal(scored("a", .1, .9))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"run":"r","records":[{"question":"q","tao":1e999}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := parseScored("f", text)
		if err != nil {
			if !errors.Is(err, ErrScores) {
				t.Fatal(err)
			}
			return
		}
		if _, err := Compare(s, s, 1, 5); err != nil {
			t.Fatal(err)
		}
	})
}
