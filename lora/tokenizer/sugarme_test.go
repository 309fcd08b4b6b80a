package tokenizer

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

func toInts(ids []int32) []int {
	out := make([]int, len(ids))
	for i, id := range ids {
		out[i] = int(id)
	}
	return out
}

// TestSugarmeGolden shows that both engines give the reference's ids.
func TestSugarmeGolden(t *testing.T) {
	check := func(t *testing.T, b *BPE, rows []goldenRow) {
		s := NewSugarme(b)
		for i, row := range rows {
			enc, err := s.Encode(row.Text)
			if err != nil {
				t.Fatalf("row %d: Encode(%q): %v", i, row.Text, err)
			}
			if !slices.Equal(enc.Ids, toInts(row.IDs)) {
				t.Errorf("row %d: Encode(%q)\n got %v\nwant %v", i, row.Text, enc.Ids, row.IDs)
			}
			checkEncoding(t, b, row.Text, enc.Ids, enc.Offsets, enc.SpecialTokenMask)
		}
	}
	for _, family := range families {
		t.Run(family, func(t *testing.T) { check(t, goldenTokenizer(t, family), goldenRows(t, family)) })
	}
	for _, name := range small {
		t.Run(name, func(t *testing.T) {
			check(t, smallTokenizer(t, name), parseRows(t, testdata(t, name+".ids.jsonl"), 250))
		})
	}
}

// checkEncoding checks that offsets go forward through the text, that they give the token's bytes where nothing was normalised
// or unknown, and that exactly the special tokens are marked.
func checkEncoding(t *testing.T, b *BPE, text string, ids []int, offsets [][]int, special []int) {
	t.Helper()
	at := 0
	exact := !b.spec.nfc || normalize(text) == text
	for i, id := range ids {
		start, end := offsets[i][0], offsets[i][1]
		if start < 0 || end > len(text) || start > end || exact && start < at {
			t.Fatalf("%q: token %d has offsets %d to %d after %d", text, i, start, end, at)
		}
		at = end
		if token := string(b.TokenBytes(int32(id))); exact && len(b.MissingBytes()) == 0 && text[start:end] != token && !b.isAdded[id] {
			t.Errorf("%q: token %d has offsets %d to %d, %q, want %q", text, i, start, end, text[start:end], token)
		}
		if want := b.IsSpecial(int32(id)); (special[i] == 1) != want && int32(id) != b.unk {
			t.Errorf("%q: token %d: special mask %d, want %v", text, i, special[i], want)
		}
	}
}

func TestSugarmeOffsetsAfterNormalisation(t *testing.T) {
	b := smallTokenizer(t, "llama3")
	nfc := smallTokenizer(t, "trained")
	for _, c := range []struct {
		b    *BPE
		text string
		last []int // offsets of the last token
	}{
		{b, "<|begin_of_text|>abc", []int{19, 20}},
		{nfc, "e\u0301!", []int{3, 4}},                                       // é is two bytes after normalisation, three before
		{nfc, "<pad>e\u0301<pad>", []int{8, 13}},                             // added tokens on both sides
		{nfc, "!s" + strings.Repeat("\u0307\u0323", 20) + "!", []int{0, 83}}, // too many marks to place
	} {
		enc, err := NewSugarme(c.b).Encode(c.text)
		if err != nil {
			t.Fatal(err)
		}
		if last := enc.Offsets[len(enc.Offsets)-1]; !slices.Equal(last, c.last) {
			t.Errorf("%q: last offsets %v of %v, want %v", c.text, last, enc.Offsets, c.last)
		}
	}
}

// TestLoadSugarme compares the library's WordPiece and Unigram models with the reference.
func TestLoadSugarme(t *testing.T) {
	for _, name := range []string{"wordpiece", "unigram"} {
		t.Run(name, func(t *testing.T) {
			s, err := LoadSugarme(filepath.Join("testdata", name+".json"))
			if err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(strings.TrimSpace(string(testdata(t, name+".ids.jsonl"))), "\n")
			if len(lines) != 150 {
				t.Fatalf("%d golden rows, expected 150", len(lines))
			}
			for _, line := range lines {
				var row struct {
					Text    string
					IDs     []int
					Offsets [][]int
				}
				if err := json.Unmarshal([]byte(line), &row); err != nil {
					t.Fatal(err)
				}
				enc, err := s.Encode(row.Text)
				if err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(enc.Ids, row.IDs) {
					t.Errorf("Encode(%q)\n got %v %q\nwant %v", row.Text, enc.Ids, enc.Tokens, row.IDs)
				} else if !slices.EqualFunc(enc.Offsets, row.Offsets, slices.Equal) {
					t.Errorf("Encode(%q): offsets\n got %v %q\nwant %v", row.Text, enc.Offsets, enc.Tokens, row.Offsets)
				}
			}
		})
	}
}

func TestLoadSugarmeErrors(t *testing.T) {
	for _, c := range []struct {
		file, old, new, want string
	}{
		{"wordpiece", `"type":"WordPiece","unk_token":"[UNK]"`, `"type":"WordPiece","unk_token":"[NONE]"`, `unk_token: invalid tokenizer: "[NONE]"`},
		{"wordpiece", `{"type":"BertNormalizer"`, `{"type":"StripAccents"`, `normalizer: type: not supported: got "StripAccents"`},
		{"wordpiece", `{"type":"BertPreTokenizer"}`, `{"type":"Whitespace"}`, `pre_tokenizer: type: not supported: got "Whitespace"`},
		{"wordpiece", `"max_input_chars_per_word":100`, `"max_input_chars_per_word":0`, "max_input_chars_per_word"},
		{"wordpiece", `"type":"WordPiece","unk_token"`, `"type":"WordLevel","unk_token"`, `model: type: not supported: got "WordLevel"`},
		{"unigram", `"unk_id":0`, `"unk_id":null`, "unk_id"},
		{"unigram", `"unk_id":0`, `"unk_id":4000`, "unk_id: invalid tokenizer: 4000"},
		{"unigram", `"byte_fallback":false`, `"byte_fallback":true`, "byte_fallback: not supported"},
		{"unigram", `["▁",`, `["abcdefghijklmnopqrstuvwxyz",`, "at most 20 bytes"},
		{"unigram", `"prepend_scheme":"always"`, `"prepend_scheme":"maybe"`, `Metaspace: prepend_scheme: not supported: got "maybe"`},
		{"trained", "", "", "which Load and NewSugarme handle"},
	} {
		file := string(testdata(t, c.file+".json"))
		changed := strings.Replace(file, c.old, c.new, 1)
		if c.old != "" && changed == file {
			t.Errorf("%s.json has no %s", c.file, c.old)
			continue
		}
		_, err := parseSugarme([]byte(changed))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s with %s: got %v, want an error with %q", c.file, c.new, err, c.want)
		}
		if err != nil && !errors.Is(err, ErrUnsupported) && !errors.Is(err, ErrInvalid) {
			t.Errorf("%v wraps neither ErrUnsupported nor ErrInvalid", err)
		}
	}
}

func TestSugarmeConcurrent(t *testing.T) {
	s := NewSugarme(smallTokenizer(t, "trained"))
	rows := parseRows(t, testdata(t, "trained.ids.jsonl"), 250)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for _, row := range rows {
				if enc, err := s.Encode(row.Text); err != nil || !slices.Equal(enc.Ids, toInts(row.IDs)) {
					t.Errorf("Encode(%q): %v", row.Text, err)
				}
			}
		})
	}
	wg.Wait()
}

func TestSugarmeRefusesBadUTF8(t *testing.T) {
	if _, err := NewSugarme(smallTokenizer(t, "trained")).Encode("ab\xff"); err == nil || !strings.Contains(err.Error(), "byte 2") {
		t.Errorf("got %v, want an error naming byte 2", err)
	}
}
