package data

import (
	"io/fs"
	"strings"
	"testing"
)

func TestBundledSeeds(t *testing.T) {
	res, err := Seeds("")
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Trajectories) == 0 || len(res.Inputs) != 3 || len(res.Report.Irregularities) != 0 {
		t.Errorf("%d seeds from %d files, irregularities %v", len(res.Trajectories), len(res.Inputs), res.Report.Irregularities)
	}
	last := ""
	for _, s := range res.Trajectories {
		if s.ID <= last || s.ID != s.SeedID || s.Source != "own" || s.Regime != "ow" {
			t.Errorf("%s after %s: seed %s, source %s, regime %s", s.ID, last, s.SeedID, s.Source, s.Regime)
		}
		last = s.ID
		if _, err := fs.Stat(SeedPrograms(), s.ID+".yaml"); err != nil {
			t.Errorf("%s has no program: %v", s.ID, err)
		}
	}
	for _, regime := range []string{"if", "ap"} {
		other, err := Seeds(regime)
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range other.Trajectories {
			ow := res.Trajectories[i]
			if s.Regime != regime || s.Query == ow.Query || s.Query != ow.Provenance.Get("question_"+regime).Text() || s.ID != ow.ID {
				t.Errorf("%s: regime %s asks %q", s.ID, regime, s.Query)
			}
		}
	}
	if _, err := Seeds("user"); err == nil || !strings.Contains(err.Error(), `"user" is none of ow, ap, if`) {
		t.Errorf("%v", err)
	}
}
