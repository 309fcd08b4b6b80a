package records

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"terraloom/data"
	"terraloom/data/prompt"
	"terraloom/lora/backend"
	"terraloom/lora/backend/backendtest"
	"terraloom/lora/checkpoint"
	"terraloom/lora/decoder"
	"terraloom/reward/answers"
	"terraloom/synth/compose"
)

func TestMain(m *testing.M) {
	backend.Startup()
	os.Exit(m.Run())
}

func check(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// practice is a dataset of composed records, which the bundled base was trained on the like of.
func practice(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "ds")
	w, err := data.CreateDataset(dir, data.WriterOptions{})
	check(t, err)
	m, err := compose.Run(context.Background(), compose.Options{Count: 200, Seed: 99, Style: prompt.Compact}, w, nil)
	check(t, err)
	check(t, w.Finish(m))
	return dir
}

// The bundled base writes JSON that parses, if not always: it loses itself in long lists. What is counted is what was
// written.
func TestBundledBase(t *testing.T) {
	t.Setenv("TERRALOOM_HOME", t.TempDir())
	b := backendtest.Open(t)
	dataset := practice(t)
	o := Options{Model: checkpoint.Bundled, Precision: decoder.Float32, Dataset: dataset, Split: "train", Rows: 16, MaxPrompt: 448, MaxTokens: 160}
	for role, least := range map[string]float64{answers.Planner: 0.25, answers.Executor: 1. / 16} {
		o.Role = role
		r, err := Run(context.Background(), b, o)
		check(t, err)
		if len(r.Models) != 1 || r.Models[0].Name != Base || r.Records != 16 || len(r.Models[0].Answers) != 16 || r.TooLong == 0 {
			t.Fatalf("report %+v", r)
		}
		figures := map[string]float64{}
		for _, f := range r.Models[0].Figures {
			figures[f.Name] = f.Number
		}
		exact, total := 0, 0.0
		for _, a := range r.Models[0].Answers {
			if a.Exact {
				exact++
			}
			total += a.Reward
		}
		if figures["exact_match"] != float64(exact)/16 {
			t.Errorf("%s: exact_match %v, %d of 16 answers are", role, figures["exact_match"], exact)
		}
		if role == answers.Executor && figures["reward"] != total/16 {
			t.Errorf("reward %v, the answers have %v together", figures["reward"], total)
		}
		if figures["parse_rate"] < least {
			t.Errorf("%s: %v of the answers parse", role, figures["parse_rate"])
		}
	}
}

func TestRefusals(t *testing.T) {
	good := Options{Model: checkpoint.Bundled, Dataset: "none", Split: "test", Role: answers.Planner, MaxTokens: 8}
	for want, change := range map[string]func(*Options){
		"split":   func(o *Options) { o.Split = "dev" },
		"role":    func(o *Options) { o.Role = "both" },
		"answers": func(o *Options) { o.MaxTokens = 0 },
	} {
		o := good
		change(&o)
		if err := o.Validate(); !errors.Is(err, ErrOptions) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v", want, err)
		}
	}
	if _, err := Run(context.Background(), nil, good); !errors.Is(err, data.ErrNotDataset) {
		t.Errorf("no dataset: %v", err)
	}
	good.Dataset = practice(t)
	if _, err := Run(context.Background(), nil, good); !errors.Is(err, ErrNoRecords) {
		t.Errorf("an empty split: %v", err)
	}
}
