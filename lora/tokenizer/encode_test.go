package tokenizer

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// TestOrdinaryTextHoldsNoControlTokens: markers that a user writes stay text, whether flagged special or not.
func TestOrdinaryTextHoldsNoControlTokens(t *testing.T) {
	toks := map[string]*BPE{}
	for _, name := range small {
		toks[name] = smallTokenizer(t, name)
	}
	for _, family := range families {
		toks[family] = goldenTokenizer(t, family)
	}
	for name, b := range toks {
		all := ""
		for _, a := range b.AddedTokens() {
			for _, text := range []string{a.Content, "x" + a.Content + "y", a.Content + a.Content, " " + a.Content + "\n"} {
				for _, id := range b.EncodeOrdinary(text) {
					if b.isAdded[id] {
						t.Errorf("%s: EncodeOrdinary(%q) holds the added token %q", name, text, b.tokens[id])
					}
				}
				if ids := b.Encode(text); !slices.Contains(ids, a.ID) {
					t.Errorf("%s: Encode(%q) = %v does not hold %d", name, text, ids, a.ID)
				}
			}
			all += a.Content
		}
		// The text survives, but for what the vocabulary cannot spell.
		if got, err := b.Decode(b.EncodeOrdinary(all)); len(b.MissingBytes()) == 0 && (err != nil || got != b.normal(all)) {
			t.Errorf("%s: ordinary text came back as %q, %v", name, got, err)
		}
	}
}

// normal is the text that decoding gives back.
func (b *BPE) normal(text string) string {
	if b.spec.nfc {
		return normalize(text)
	}
	return text
}

func TestOrdinaryTextWithoutMarkers(t *testing.T) {
	b := goldenTokenizer(t, "qwen3")
	for _, row := range goldenRows(t, "qwen3") {
		if plain := b.Encode(row.Text); !slices.ContainsFunc(plain, func(id int32) bool { return b.isAdded[id] }) {
			if got := b.EncodeOrdinary(row.Text); !slices.Equal(got, plain) {
				t.Errorf("EncodeOrdinary(%q) = %v, Encode = %v", row.Text, got, plain)
			}
		}
	}
}

// TestUnknownBytes: Encode follows the reference, ordinary text never becomes the unknown token if that is a control token.
func TestUnknownBytes(t *testing.T) {
	b := smallTokenizer(t, "holes")
	if got, want := string(b.MissingBytes()), "\x06q\x92"; got != want {
		t.Fatalf("missing bytes %q, want %q", got, want)
	}
	pad, _ := b.TokenID("<pad>")
	a, _ := b.TokenID("!")
	if got := b.Encode("q!q"); !slices.Equal(got, []int32{pad, a, pad}) {
		t.Errorf("Encode: got %v, want the unknown token around %d", got, a)
	}
	if got := b.EncodeOrdinary("q!q"); !slices.Equal(got, []int32{a}) {
		t.Errorf("EncodeOrdinary: got %v, want %d alone", got, a)
	}
	if got := b.Encode("q!q"); !slices.Equal(got, []int32{pad, a, pad}) {
		t.Errorf("Encode after EncodeOrdinary: got %v", got)
	}
}

// TestNormalForms: text in NFC and in NFD has the same ids where the tokenizer normalises, and others where it does not.
func TestNormalForms(t *testing.T) {
	for family, same := range map[string]bool{"qwen3": true, "qwen35like": true, "gpt2": false, "smollm2like": false} {
		b := goldenTokenizer(t, family)
		for _, text := range []string{"Montréal", "Å ṩ é", "한글", "naïve café"} {
			nfc, nfd := b.Encode(norm.NFC.String(text)), b.Encode(norm.NFD.String(text))
			if slices.Equal(nfc, nfd) != same {
				t.Errorf("%s: %q: ids of NFC %v and NFD %v, want equal: %v", family, text, nfc, nfd, same)
			}
		}
	}
}

// TestMergersAgree: both ways of merging give the same ids, around and above the length where one takes over.
func TestMergersAgree(t *testing.T) {
	b := goldenTokenizer(t, "qwen3")
	r := rand.New(rand.NewPCG(5, 6))
	byScan, byHeap := newEncoder(b), newEncoder(b)
	for n := range 3000 {
		letters := []string{"ab", "etaoin shrdlu", "a", "0123456789", "=-", "\x80\xe4\xb8\xad\xff"}[n%6]
		word := make([]byte, 2+r.IntN(3*maxScan))
		for i := range word {
			word[i] = letters[r.IntN(len(letters))]
		}
		byScan.out, byHeap.out = byScan.out[:0], byHeap.out[:0]
		for _, e := range []*encoder{byScan, byHeap} {
			e.syms = e.syms[:0]
			for _, c := range word {
				e.syms = append(e.syms, b.byteIDs[c])
			}
		}
		byScan.mergeByScan()
		byHeap.mergeByHeap()
		if !slices.Equal(byScan.out, byHeap.out) {
			t.Fatalf("%q: by scan %v, by heap %v", word, byScan.out, byHeap.out)
		}
	}
}

// TestLongWord: one word of 200,000 letters, where a quadratic merge takes minutes.
func TestLongWord(t *testing.T) {
	b := goldenTokenizer(t, "gpt2")
	r := rand.New(rand.NewPCG(7, 8))
	word := make([]byte, 200_000)
	for i := range word {
		word[i] = byte('a' + r.IntN(26))
	}
	if got, err := b.Decode(b.Encode(string(word))); err != nil || got != string(word) {
		t.Errorf("a long word does not come back: %v", err)
	}
}

// TestConcurrent encodes and decodes from many goroutines; run with -race.
func TestConcurrent(t *testing.T) {
	b := smallTokenizer(t, "llama3")
	rows := parseRows(t, testdata(t, "llama3.ids.jsonl"), 250)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range rows {
				row := rows[(i+31*g)%len(rows)]
				if got := b.Encode(row.Text); !slices.Equal(got, row.IDs) {
					t.Errorf("Encode(%q) = %v, want %v", row.Text, got, row.IDs)
				}
				b.EncodeOrdinary(row.Text)
				if got, err := b.Decode(row.IDs); err != nil || got != row.Decoded {
					t.Errorf("Decode(%v) = %q, %v", row.IDs, got, err)
				}
			}
		})
	}
	wg.Wait()
}

func TestDecodeUnknownID(t *testing.T) {
	b := smallTokenizer(t, "trained")
	for _, id := range []int32{-1, -100, 700, 1 << 30} {
		if _, err := b.Decode([]int32{5, id}); !errors.Is(err, ErrUnknownID) || !strings.Contains(err.Error(), "position 1 of 2") {
			t.Errorf("Decode(%d): got %v", id, err)
		}
		if _, err := b.NewStreamDecoder(false).Push(id); !errors.Is(err, ErrUnknownID) {
			t.Errorf("Push(%d): got %v", id, err)
		}
		if _, ok := b.Token(id); ok || b.TokenBytes(id) != nil || b.IsSpecial(id) {
			t.Errorf("id %d has a token", id)
		}
	}
}

func TestStreamDecoder(t *testing.T) {
	b := smallTokenizer(t, "trained")
	push := func(d *StreamDecoder, raw string) (out []string) {
		for i := range len(raw) {
			piece, err := d.Push(b.byteIDs[raw[i]])
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, piece)
		}
		return append(out, d.Flush())
	}
	const bad = "\ufffd"
	for _, c := range []struct {
		raw  string
		want []string // after every byte, and at the end
	}{
		{"ab", []string{"a", "b", ""}},
		{"é", []string{"", "é", ""}},
		{"😀", []string{"", "", "", "😀", ""}},
		{"\xf0\x9f\x98", []string{"", "", "", bad}},
		{"\xf0\x9fa", []string{"", "", bad + "a", ""}},
		{"\xf0\xe9a", []string{"", bad, bad + "a", ""}},
		{"\xc3\xc3\xa9", []string{"", bad, "é", ""}},
		{"\x80\xff", []string{bad, bad, ""}},
		{"\xed\xa0\x80", []string{"", bad + bad, bad, ""}}, // a surrogate: three ill-formed parts
		{"", []string{""}},
	} {
		d := b.NewStreamDecoder(false)
		for range 2 { // Flush leaves the decoder as new
			if got := push(d, c.raw); !slices.Equal(got, c.want) {
				t.Errorf("%q: got %q, want %q", c.raw, got, c.want)
			}
		}
	}
	d := b.NewStreamDecoder(true)
	end, _ := b.TokenID("<|im_end|>")
	if piece, err := d.Push(end); piece != "" || err != nil {
		t.Errorf("a special token gave %q, %v", piece, err)
	}
}

func checkRoundTrip(t *testing.T, b *BPE, text string) {
	t.Helper()
	valid := strings.ToValidUTF8(text, "") == text
	for name, ids := range map[string][]int32{"Encode": b.Encode(text), "EncodeOrdinary": b.EncodeOrdinary(text)} {
		var raw []byte
		for _, id := range ids {
			raw = append(raw, b.TokenBytes(id)...)
		}
		decoded, err := b.Decode(ids)
		if err != nil {
			t.Fatalf("%s(%q) = %v: %v", name, text, ids, err)
		}
		if streamed := stream(t, b, ids); streamed != decoded {
			t.Errorf("%s(%q): streamed %q, decoded %q", name, text, streamed, decoded)
		}
		if !utf8.ValidString(decoded) {
			t.Errorf("%s(%q): decoded %q is not UTF-8", name, text, decoded)
		}
		// An added token in the letters of the byte alphabet ("état") decodes to those bytes, in the reference too.
		misread := func(id int32) bool { return b.isAdded[id] && string(b.bytes(id)) != b.normal(b.tokens[id]) }
		if len(b.MissingBytes()) > 0 || slices.ContainsFunc(ids, misread) {
			continue
		}
		// Normalisation stops at added tokens, and one matched after it is already normal.
		if name == "EncodeOrdinary" && string(raw) != b.normal(text) {
			t.Errorf("%s(%q) spells %q", name, text, raw)
		}
		if name == "Encode" && b.normal(string(raw)) != b.normal(text) {
			t.Errorf("%s(%q) spells %q", name, text, raw)
		}
		if valid && decoded != string(raw) {
			t.Errorf("%s(%q) decodes to %q", name, text, decoded)
		}
	}
}

func FuzzEncodeDecode(f *testing.F) {
	f.Add("Hello, world!  It's 2026.\n\n  x=1")
	f.Add("<|im_start|>user\n<|im_end|><|im_end|")
	f.Add("e\u0301tat s\u0307\u0323 <tool_call>\u0c3c\u0334")
	f.Add("\xff\xf0\x9f <pad>")
	f.Add(strings.Repeat("ab", maxScan))
	var toks []*BPE
	for _, name := range small {
		toks = append(toks, smallTokenizer(f, name))
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, b := range toks {
			checkRoundTrip(t, b, text)
		}
	})
}

func TestRoundTrip(t *testing.T) {
	for _, family := range families {
		b := goldenTokenizer(t, family)
		for _, row := range goldenRows(t, family) {
			checkRoundTrip(t, b, row.Text)
		}
	}
}
