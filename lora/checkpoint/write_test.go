package checkpoint

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestWriteIsAtomic: a source that fails, writes too little or too much leaves the old file and nothing else.
func TestWriteIsAtomic(t *testing.T) {
	broken := errors.New("broken source")
	spec := TensorSpec{"w", F32, []int{4}}
	for _, c := range []struct {
		name  string
		write func(io.Writer) error
		says  string
	}{
		{"fails", func(w io.Writer) error { w.Write(make([]byte, 8)); return broken }, "broken source"},
		{"too short", func(w io.Writer) error { _, err := w.Write(make([]byte, 12)); return err }, "wrote 12 bytes"},
		{"too long", func(w io.Writer) error { _, err := w.Write(make([]byte, 17)); return err }, "more bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "model.safetensors")
			write(t, path, []byte("old"))
			err := WriteSafetensors(path, nil, []Source{{spec, c.write}})
			if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), `"w"`) {
				t.Errorf("error %v, expected one that says %q", err, c.says)
			}
			if string(read(t, path)) != "old" {
				t.Error("the old file is gone")
			}
			entries, _ := os.ReadDir(filepath.Dir(path))
			if len(entries) != 1 {
				t.Errorf("left behind: %v", entries)
			}
		})
	}
}

func TestWriteRefuses(t *testing.T) {
	one := func(name string, dtype DType, shape ...int) Source {
		return Source{TensorSpec{name, dtype, shape}, func(io.Writer) error { return nil }}
	}
	for name, tensors := range map[string][]Source{
		"used twice":             {one("a", F32, 1), one("a", F32, 1)},
		"reserved":               {one("__metadata__", F32, 1)},
		"empty":                  {one("", F32, 1)},
		"invalid":                {one("\xff", F32, 1)},
		"Q4_0[32] cannot":        {one("a", Q4_0, 32)},
		"F32[-1] cannot":         {one("a", F32, -1)},
		"F32[4294967296 4294967": {one("a", F32, 1<<32, 1<<32)},
	} {
		err := WriteSafetensors(filepath.Join(t.TempDir(), "x"), nil, tensors)
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("error %v, expected one that says %q", err, name)
		}
	}
	if err := WriteSafetensors(filepath.Join(t.TempDir(), "no", "folder"), nil, nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing folder: %v", err)
	}
	err := WriteSafetensors(filepath.Join(t.TempDir(), "x"), nil, []Source{FromFloat32("a", I8, []int{1}, []float32{1})})
	wantError(t, err, ErrUnsupported, "I8")
}

// TestWriteHTML: names keep their characters (Go's own encoder would escape them).
func TestWriteHTML(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	if err := WriteSafetensors(path, map[string]string{"note": "<&>"}, []Source{FromFloat32("a<b>&\"\\é", BF16, nil, []float32{1})}); err != nil {
		t.Fatal(err)
	}
	if raw := string(read(t, path)); !strings.Contains(raw, `"a<b>&\"\\é":{"dtype":"BF16","shape":[],"data_offsets":[0,2]}`) || !strings.Contains(raw, `{"format":"pt","note":"<&>"}`) {
		t.Errorf("header %q", raw)
	}
	s, err := OpenSafetensors(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if got, err := s.Float32("a<b>&\"\\é"); err != nil || got[0] != 1 {
		t.Errorf("%v, %v", got, err)
	}
}
