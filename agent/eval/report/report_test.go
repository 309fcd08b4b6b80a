package report

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"terraloom/agent/eval"
)

var update = flag.Bool("update", false, "write testdata/report.md anew")

// run makes a score file of three questions, one of each domain.
func run(name, regime, setting string, tao float64, questions ...string) *eval.Scored {
	s := &eval.Scored{Run: name, Regime: regime, Setting: setting}
	domains := []string{"spectrum", "products", "rgb"}
	for i, q := range questions {
		param, efficiency := tao/2, 1+float64(i)/4
		r := eval.Record{Question: q, Domain: domains[i%3], Skill: "earth-rgb-perception", TAO: tao, TIO: tao, TEM: tao, Param: &param, Efficiency: &efficiency,
			Predicted: "A", Correct: i == 0, BenchmarkCorrect: i == 0, RougeL: .25, Traced: i < 2, Answered: true, ToolErrors: i}
		if i > 0 {
			r.Failure = eval.FailureWrong
		}
		if setting == eval.PlanningOnly {
			r.Param, r.Efficiency = nil, nil
		}
		s.Records = append(s.Records, r)
	}
	s.Summary = eval.Summarize(s.Records)
	return s
}

// TestEVAL26GoldenReport compares the Markdown with testdata/report.md; go test
// -update writes that anew after a change that was meant.
func TestEVAL26GoldenReport(t *testing.T) {
	one := run("ours_AP", "ap", eval.EndToEnd, .5, "question1", "question101", "question190")
	verdicts := []eval.Verdict{{Correct: true, Reply: `{"correct": true}`}, {Failure: "down"}, {}}
	one.AddVerdicts("judge", verdicts)
	one.AddSimilarities("embedder", []float64{.95, .5, 0})
	r, err := New([]*eval.Scored{one,
		run("ours_IF", "if", eval.EndToEnd, .75, "question1", "question101", "question191"),
		run("plans", "ow", eval.PlanningOnly, .9, "question1")})
	if err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "report.md")
	if *update {
		if err := os.WriteFile(golden, []byte(r.Markdown()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if r.Markdown() != string(want) {
		t.Errorf("the report differs from %s:\n%s", golden, r.Markdown())
	}
	for _, row := range []string{
		"| GPT-5 | published | 66.13 | 21.68 | 13.31 | 1.0911 | 87.61 | 71.97 | 60.14 | 27.28 |",
		"| ours_AP | ours | 50.00 | 25.00 | 33.33 | 1.2500 | 50.00 | 50.00 | 50.00 | 25.00 |",
		"| plans (ow) | ours | 90.00 | 90.00 | 90.00 |",
		"| Earth-Agent GPT-5 | published | 3.551 | 1.7154 | 1.5312 | 2.4146 |",
		"| ours_AP | ours | 1.0000 | 1.2500 | 1.5000 | 1.2500 |",
	} {
		if !strings.Contains(r.Markdown(), row) {
			t.Errorf("no row %s", row)
		}
	}
	if strings.Contains(r.Markdown(), "| ours_IF | ours | 1.0000 | 1.2500 | 1.5000") {
		t.Error("a run of another regime stands in a table of autonomous planning")
	}
}

// TestEVAL1MatchedRegimes holds that regimes are compared on common questions.
func TestEVAL1MatchedRegimes(t *testing.T) {
	r, err := New([]*eval.Scored{
		run("m_IF", "if", eval.EndToEnd, .25, "question1"), run("m_AP", "ap", eval.EndToEnd, .5, "question1", "question2"),
		run("m_OW", "ow", eval.EndToEnd, .75, "question1", "question3"), run("alone_AP", "ap", eval.EndToEnd, 1, "question1")})
	if err != nil || len(r.Regimes) != 3 {
		t.Fatalf("%+v, %v", r, err)
	}
	for i, regime := range []string{"if", "ap", "ow"} {
		c := r.Regimes[i]
		if c.Model != "m" || c.Regime != regime || c.Means.Questions != 1 || c.Means.TAO != .25*float64(i+1) {
			t.Errorf("%+v", c)
		}
	}
}

func TestHostileNames(t *testing.T) {
	r, err := New([]*eval.Scored{run("<script>alert(1)</script>|x\n# y", "", eval.EndToEnd, .5, "question1")})
	if err != nil {
		t.Fatal(err)
	}
	page, err := r.HTML()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(page), "<script") || strings.Contains(r.Markdown(), "<script") || strings.Contains(r.Markdown(), "\n# y") {
		t.Error("a run's name left its cell")
	}
	if !strings.Contains(r.Markdown(), `&lt;script&gt;alert(1)&lt;/script&gt;\|x # y`) || !strings.Contains(string(page), "<svg") || strings.Contains(string(page), "http") {
		t.Error("the name is lost, the plots are missing, or the page has outside resources")
	}
}

func TestWriteAndRefuse(t *testing.T) {
	s := run("r", "", eval.EndToEnd, .5, "question1")
	if _, err := New([]*eval.Scored{s, s}); err == nil || !strings.Contains(err.Error(), "two score files of one run: r") {
		t.Errorf("%v", err)
	}
	r, err := New([]*eval.Scored{s})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := r.Write(dir); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "report.json"))
	if err != nil {
		t.Fatal(err)
	}
	var back Report
	if err := json.Unmarshal(text, &back); err != nil || len(back.Published) != len(Published()) || back.Runs[0].Run != "r" {
		t.Errorf("%v", err)
	}
	for _, name := range []string{"report.md", "report.html"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() < 1000 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := r.Write(filepath.Join(dir, "missing")); err == nil {
		t.Error("a missing folder was written to")
	}
}

func TestPublishedTables(t *testing.T) {
	ids, cells := map[string]bool{}, 0
	for _, table := range Published() {
		if ids[table.ID] || table.Source == "" || table.Title == "" || len(table.Rows) == 0 {
			t.Errorf("%+v", table)
		}
		ids[table.ID] = true
		for _, r := range table.Rows {
			cells += len(r.Values)
			if r.Ours {
				t.Errorf("%s: %s is ours", table.ID, r.Name)
			}
		}
	}
	if len(ids) != 19 || cells != 384 {
		t.Errorf("%d tables, %d cells", len(ids), cells)
	}
	for bad, want := range map[string]string{
		`[{"id":"x","columns":[{"name":"a","metric":"nope"}]}]`:                      `unknown metric "nope"`,
		`[{"id":"x","columns":[{"name":"a"}],"rows":[{"name":"r","values":[1,2]}]}]`: "2 values for 1 columns",
		`[{"idd":"x"}]`: "unknown field",
	} {
		if _, err := parsePublished([]byte(bad)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v", err)
		}
	}
}
