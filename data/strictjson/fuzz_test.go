package strictjson

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

var seeds = []string{
	`{"a":1,"a":2}`, `[1.0,9007199254740993,1e5,-0]`, `"\ud83d\ude00<think>&"`, `"\ud800"`, "\xef\xbb\xbf{}\r\n", `{"a":{"b":[null,true,"\u0000"]}}`,
	"\"\xff\"", `NaN`, `[1,]`, `{"x":01}`, strings.Repeat("[", 600), `"\`, `{"k~/":[[],{}]}`,
}

// FuzzParse: what is accepted is valid JSON for encoding/json too, and comes
// back equal, byte-stable and leaf by leaf; nothing panics.
func FuzzParse(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		v, err := Parse(text)
		if err != nil {
			return
		}
		if !json.Valid(bytes.TrimPrefix(text, bom)) {
			t.Fatalf("accepts what encoding/json refuses: %q", text)
		}
		out := v.AppendJSON(nil)
		w, err := Parse(out)
		if err != nil {
			t.Fatalf("%q is written as %q, which is refused: %v", text, out, err)
		}
		if !v.Equal(w) {
			t.Fatalf("%q comes back as %q", text, out)
		}
		if again := w.AppendJSON(nil); !bytes.Equal(out, again) {
			t.Fatalf("%q is written as %q, then as %q", text, out, again)
		}
		v.Leaves("", func(pointer string, leaf Value) {
			if got, ok := v.At(pointer); !ok || !got.Equal(leaf) {
				t.Fatalf("%q: leaf %q is not found again", text, pointer)
			}
		})
	})
}

// FuzzLines: a stream is split like its lines one by one.
func FuzzLines(f *testing.F) {
	f.Add([]byte(strings.Join(seeds, "\n")))
	f.Add([]byte("1\r\n\r\n{\"a\":[2]}\n\n3"))
	f.Fuzz(func(t *testing.T, text []byte) {
		var got []Value
		err := Lines(bytes.NewReader(text), "f", func(_ int, v Value) error {
			got = append(got, v)
			return nil
		})
		var want []Value
		bad := false
		for i, line := range bytes.Split(text, []byte("\n")) {
			if i == 0 {
				line = bytes.TrimPrefix(line, bom)
			}
			if line = bytes.TrimRight(line, "\r"); len(bytes.Trim(line, " \t\r")) == 0 {
				continue
			}
			v, err := Parse(line)
			if bad = err != nil; bad {
				break
			}
			want = append(want, v)
		}
		if bad != (err != nil) || len(got) != len(want) {
			t.Fatalf("%d lines and %v; one by one %d, bad %t", len(got), err, len(want), bad)
		}
		for i := range got {
			if !got[i].Equal(want[i]) {
				t.Fatalf("line %d: %s, one by one %s", i, got[i].JSON(), want[i].JSON())
			}
		}
	})
}
