package tokenizer

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// toGGUF lays out a tokenizer as GGUF metadata does.
func toGGUF(b *BPE, pre string) GGUFVocab {
	v := GGUFVocab{Model: "gpt2", Pre: pre, BOS: NoToken, EOS: NoToken, PAD: NoToken, UNK: NoToken}
	for id, token := range b.tokens {
		kind := int32(ggufNormal)
		switch {
		case token == "":
			token, kind = "[PAD]", ggufUnused
		case b.IsSpecial(int32(id)):
			kind = ggufControl
		case b.isAdded[id]:
			kind = ggufUserDefined
		}
		v.Tokens = append(v.Tokens, token)
		v.TokenTypes = append(v.TokenTypes, kind)
	}
	for _, m := range b.spec.merges {
		v.Merges = append(v.Merges, b.tokens[m[0]]+" "+b.tokens[m[1]])
	}
	return v
}

// TestGGUFGolden: a vocabulary in GGUF's layout gives the ids of the tokenizer.json it was made from.
func TestGGUFGolden(t *testing.T) {
	for family, pre := range map[string][]string{"gpt2": {"gpt-2", "default"}, "qwen3": {"qwen2"}, "qwen35like": {"qwen35"}, "smollm2like": {"smollm"}} {
		for _, name := range pre {
			t.Run(name, func(t *testing.T) {
				b, err := FromGGUF(toGGUF(goldenTokenizer(t, family), name))
				if err != nil {
					t.Fatal(err)
				}
				checkGolden(t, b, goldenRows(t, family))
			})
		}
	}
	t.Run("llama-bpe", func(t *testing.T) {
		v := toGGUF(smallTokenizer(t, "llama3"), "llama-bpe")
		b, err := FromGGUF(v)
		if err != nil {
			t.Fatal(err)
		}
		// The one token that is matched after normalisation has no counterpart in GGUF.
		rows := slices.DeleteFunc(parseRows(t, testdata(t, "llama3.ids.jsonl"), 250), func(r goldenRow) bool { return slices.Contains(r.IDs, 703) })
		var texts []goldenRow
		for _, row := range rows {
			if normalize(row.Text) == row.Text { // the small file normalises, Llama-3 does not
				texts = append(texts, row)
			}
		}
		if len(texts) < 100 {
			t.Fatalf("only %d rows left", len(texts))
		}
		checkGolden(t, b, texts)
	})
}

func TestGGUFRoles(t *testing.T) {
	v := toGGUF(smallTokenizer(t, "holes"), "smollm")
	v.BOS, v.EOS, v.PAD, v.UNK = 1, 2, 2, 0
	v.AddBOS, v.AddEOS = true, true
	v.Tokens = append(v.Tokens, "[PAD0]", "[PAD0]")
	v.TokenTypes = append(v.TokenTypes, ggufUnused, ggufUnused)
	b, err := FromGGUF(v)
	if err != nil {
		t.Fatal(err)
	}
	s := b.Special()
	if s.BOS != 1 || s.EOS != 2 || s.PAD != 2 || s.UNK != 0 || !slices.Equal(s.Prefix, []int32{1}) || !slices.Equal(s.Suffix, []int32{2}) {
		t.Errorf("got %+v", s)
	}
	if got := b.VocabSize(); got != len(v.Tokens)-2 {
		t.Errorf("vocabulary size %d, want %d: unused ids are no tokens", got, len(v.Tokens)-2)
	}
	if _, err := b.Decode([]int32{int32(len(v.Tokens) - 1)}); !errors.Is(err, ErrUnknownID) {
		t.Errorf("an unused id decodes: %v", err)
	}
	if got := b.Encode("q"); len(got) != 0 { // no unknown token in GGUF
		t.Errorf("a byte without a token became %v", got)
	}
	checkWritten(t, b)
}

func TestGGUFErrors(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(v *GGUFVocab)
		is     error
		want   string
	}{
		{"model", func(v *GGUFVocab) { v.Model = "llama" }, ErrUnsupported, `tokenizer.ggml.model: not supported: got "llama"`},
		{"pre", func(v *GGUFVocab) { v.Pre = "tekken" }, ErrUnsupported, `tokenizer.ggml.pre: not supported: got "tekken"`},
		{"no pre", func(v *GGUFVocab) { v.Pre = "" }, ErrUnsupported, `tokenizer.ggml.pre`},
		{"types", func(v *GGUFVocab) { v.TokenTypes = v.TokenTypes[1:] }, ErrInvalid, "got 699 entries for 700 tokens"},
		{"byte token", func(v *GGUFVocab) { v.TokenTypes[5] = 6 }, ErrUnsupported, "tokenizer.ggml.token_type[5]"},
		{"repeated token", func(v *GGUFVocab) { v.Tokens[9] = v.Tokens[8] }, ErrInvalid, "is token 8 already"},
		{"bad UTF-8", func(v *GGUFVocab) { v.Tokens[9] = "\xff" }, ErrInvalid, "tokenizer.ggml.tokens[9]"},
		{"empty token", func(v *GGUFVocab) { v.Tokens[0] = "" }, ErrInvalid, "token 0 is empty"},
		{"merge", func(v *GGUFVocab) { v.Merges[3] = "abc" }, ErrInvalid, "tokenizer.ggml.merges[3]"},
		{"merge of unknown", func(v *GGUFVocab) { v.Merges[3] = "a zzz" }, ErrInvalid, `"zzz" is not in the vocabulary`},
		{"repeated merge", func(v *GGUFVocab) { v.Merges[3] = v.Merges[2] }, ErrInvalid, "merge 3 repeats merge 2"},
		{"role", func(v *GGUFVocab) { v.EOS = 700 }, ErrInvalid, "tokenizer.ggml.eos_token_id: invalid tokenizer: 700"},
		{"negative role", func(v *GGUFVocab) { v.PAD = -7 }, ErrInvalid, "tokenizer.ggml.padding_token_id"},
		{"add_bos_token", func(v *GGUFVocab) { v.AddBOS = true }, ErrInvalid, "add_bos_token"},
		{"add_eos_token", func(v *GGUFVocab) { v.AddEOS = true }, ErrInvalid, "add_eos_token"},
		{"nothing", func(v *GGUFVocab) { v.Tokens, v.TokenTypes, v.Merges = nil, nil, nil }, ErrInvalid, "the vocabulary is empty"},
	} {
		v := toGGUF(smallTokenizer(t, "trained"), "qwen2")
		c.change(&v)
		_, err := FromGGUF(v)
		if err == nil || !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %v with %q", c.name, err, c.is, c.want)
		}
	}
}
