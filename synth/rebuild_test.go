package synth

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"terraloom/data"
	"terraloom/data/strictjson"
	"terraloom/slots"
)

// SYN-5: every row is made again from its seed and its provenance, bit for bit.
func TestRebuildEqualsTheRow(t *testing.T) {
	o := Default()
	o.PerSeed = 9 // an index beyond one chunk
	seeds := map[string]*data.Trajectory{}
	for _, s := range sampleSeeds(t) {
		seeds[s.ID] = s
	}
	sink := &memory{}
	if _, err := runAll(t, sampleSeeds(t), sink, o); err != nil {
		t.Fatal(err)
	}
	reg := kit(t)
	again := func(r row, o Options) (*row, error) {
		tr, p, e, err := Rebuild(context.Background(), seeds[r.t.SeedID], r.t, Discovered{reg}, Shared{reg}, o)
		return &row{r.split, tr, p, e}, err
	}
	for i, r := range sink.rows {
		if i%3 != 0 {
			continue
		}
		got, err := again(r, o)
		if err != nil {
			t.Fatal(err)
		}
		if got.text() != r.text() {
			t.Errorf("%s is\n%.400s\nmade again\n%.400s", r.t.ID, r.text(), got.text())
		}
	}
	r := sink.rows[0]
	other := o
	other.Seed++
	if got, err := again(r, other); err == nil && got.text() == r.text() {
		t.Error("the run's seed does not matter")
	}
	wrong := *r.t
	for key, value := range map[string]strictjson.Value{"seed_hash": strictjson.Text("sha256:0"), "program_hash": strictjson.Text("sha256:0"), "index": strictjson.Text("three")} {
		var members []strictjson.Member
		for i := range r.t.Provenance.Len() {
			m := strictjson.Member{Key: r.t.Provenance.Key(i), Value: r.t.Provenance.Index(i)}
			if m.Key == key {
				m.Value = value
			}
			members = append(members, m)
		}
		wrong.Provenance = strictjson.Obj(members...)
		if _, err := again(row{t: &wrong}, o); err == nil || !strings.Contains(err.Error(), r.t.ID) {
			t.Errorf("provenance with another %s: error %v", key, err)
		}
	}
	for _, key := range []string{"seed", "seed_hash", "program_hash", "program_origin", "review", "run_seed", "index", "attempt", "mode", "drawn_observations", "answer"} {
		if r.t.Provenance.Get(key).IsAbsent() {
			t.Errorf("the provenance lacks %s", key)
		}
	}
}

// SLOT-12: a folder of programs gives only what its review allows.
func TestFolderOfPrograms(t *testing.T) {
	reg := kit(t)
	seed := sampleSeed(t, "sample-3")
	dir := t.TempDir()
	path := filepath.Join(dir, "sample-3.yaml")
	folder := func(approved bool) error {
		_, err := Folder{Path: dir, Tools: reg, ApprovedOnly: approved}.For(seed)
		return err
	}
	if err := folder(false); !errors.Is(err, slots.ErrProgram) || !strings.Contains(err.Error(), path) {
		t.Errorf("no program: %v", err)
	}
	p, err := slots.Discover(seed, reg)
	if err != nil {
		t.Fatal(err)
	}
	save := func() {
		t.Helper()
		if err := os.WriteFile(path, p.YAML(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	save()
	if err := folder(false); !errors.Is(err, ErrUnreviewed) || !strings.Contains(err.Error(), "terraloom slots lint") {
		t.Errorf("not reviewed: %v", err)
	}
	p.SetReview(slots.MachineChecked, "")
	save()
	if err := folder(false); err != nil {
		t.Error(err)
	}
	if err := folder(true); !errors.Is(err, ErrUnreviewed) || !strings.Contains(err.Error(), "machine-checked") {
		t.Errorf("only checked: %v", err)
	}
	p.SetReview(slots.Approved, "Ada Reviewer")
	save()
	if err := folder(true); err != nil {
		t.Error(err)
	}
	p.Notes = append(p.Notes, "one more")
	save()
	if err := folder(true); !errors.Is(err, slots.ErrStaleReview) || !strings.Contains(err.Error(), path) {
		t.Errorf("edited: %v", err)
	}
	seed.Query += " Please."
	p.SetReview(slots.Approved, "Ada Reviewer")
	save()
	if err := folder(true); !errors.Is(err, slots.ErrProgram) || !strings.Contains(err.Error(), "another version of the seed") {
		t.Errorf("another seed: %v", err)
	}
}
