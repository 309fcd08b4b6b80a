package provenance

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"terraloom/lora/train/settings"
)

func write(t *testing.T, content any) string {
	t.Helper()
	dir := t.TempDir()
	text, ok := content.([]byte)
	if !ok {
		var err error
		if text, err = json.Marshal(content); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, File), text, 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestRecordRoundTrip(t *testing.T) {
	want := New(Record{Method: "sft", Role: "planner", Name: "models/x", Identity: Identity{"b", "k", "t"}, Step: 3,
		Variables: map[string]any{"enable_thinking": false}, Config: []settings.Entry{{Key: "lora.r", Value: "8", Origin: "--set"}}})
	got, err := Read(write(t, want))
	if err != nil {
		t.Fatal(err)
	}
	if got.Identity != want.Identity || got.Step != 3 || got.Config[0] != want.Config[0] || got.Variables["enable_thinking"] != false || got.Code.Go == "" {
		t.Errorf("read %+v", got)
	}
}

// T12: an adapter under another base, tokenizer or template than it was trained with is refused, and all of it is named.
func TestCheck(t *testing.T) {
	r := Record{Name: "models/x", Identity: Identity{"b", "k", "t"}}
	for _, c := range []struct {
		have  Identity
		names []string
	}{
		{Identity{"b", "k", "t"}, nil}, {Identity{}, nil}, {Identity{Template: "t"}, nil},
		{Identity{"b", "k", "other"}, []string{"chat template"}},
		{Identity{"x", "y", "z"}, []string{"base", "tokenizer", "chat template", "models/x"}},
	} {
		err := r.Check(c.have)
		if (err == nil) != (c.names == nil) || err != nil && !errors.Is(err, ErrMismatch) {
			t.Errorf("%+v: %v", c.have, err)
		}
		for _, n := range c.names {
			if !strings.Contains(err.Error(), n) {
				t.Errorf("%+v: no %q in %v", c.have, n, err)
			}
		}
	}
}

func TestReadErrors(t *testing.T) {
	if _, err := Read(t.TempDir()); !errors.Is(err, ErrNone) {
		t.Errorf("no file: %v", err)
	}
	for name, content := range map[string]any{"not JSON": []byte("{"), "other format": map[string]string{"format": "x/1"}, "empty": []byte("{}")} {
		if _, err := Read(write(t, content)); !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
