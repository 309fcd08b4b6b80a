package strictjson

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// document is a text of the kind the project reads: the real question.json
// where the shared folder has it, else a made-up list of records.
func document(tb testing.TB) []byte {
	dir := os.Getenv("TERRALOOM_SHARED")
	if dir == "" {
		_, here, _, _ := runtime.Caller(0)
		dir = filepath.Join(filepath.Dir(here), "..", "..", "..", "shared")
	}
	if text, err := os.ReadFile(filepath.Join(dir, "earth-bench", "question.json")); err == nil {
		return text
	}
	record := `{"tool":"mean","arguments":{"x":[0.25,1.0,-3e-7],"path":"in/question1/Riga_2019-01-01_LST.tif"},"observation":null},`
	return []byte("[" + strings.Repeat(record, 30_000) + "0]")
}

func BenchmarkParse(b *testing.B) {
	text := document(b)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(text); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendJSON(b *testing.B) {
	v, err := Parse(document(b))
	if err != nil {
		b.Fatal(err)
	}
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = v.AppendJSON(buf[:0])
	}
	b.SetBytes(int64(len(buf)))
}
