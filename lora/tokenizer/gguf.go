package tokenizer

import (
	"fmt"
	"unicode/utf8"
)

// GGUFVocab is the tokenizer metadata of a GGUF file (keys tokenizer.ggml.*).
type GGUFVocab struct {
	Model      string   // model: "gpt2" is byte-level BPE
	Pre        string   // pre: how text is cut into words
	Tokens     []string // tokens, by id
	TokenTypes []int32  // token_type, one per token (see ggufNormal and the others)
	Merges     []string // merges: "left right", best first
	// bos_token_id and so on; NoToken where the file does not say.
	BOS, EOS, PAD, UNK int32
	// add_bos_token, add_eos_token: they end up in Special.Prefix and Special.Suffix.
	AddBOS, AddEOS bool
}

// Token types of GGUF.
const (
	ggufNormal      = 1
	ggufUnknown     = 2
	ggufControl     = 3
	ggufUserDefined = 4
	ggufUnused      = 5
)

// ggufSchemes maps the names that llama.cpp gives to pre-tokenizers. Normalisation and ignore_merges are not in the file: they
// are what the tokenizer.json of the same models says.
var ggufSchemes = map[string]spec{
	"gpt-2":     {scheme: gpt2},
	"default":   {scheme: gpt2},
	"smollm":    {scheme: smollm},
	"llama-bpe": {scheme: llama3, ignoreMerges: true},
	"qwen2":     {scheme: qwen2, nfc: true},
	"qwen35":    {scheme: qwen35, nfc: true},
}

// FromGGUF makes a tokenizer of the vocabulary in a GGUF file. Control tokens become special added tokens, user-defined ones
// added tokens that are not special, unused ones ids that do not exist. Errors wrap ErrUnsupported or ErrInvalid and name the
// key.
func FromGGUF(v GGUFVocab) (*BPE, error) {
	if v.Model != "gpt2" {
		return nil, unsupported("tokenizer.ggml.model", v.Model, `"gpt2" (byte-level BPE)`)
	}
	s, ok := ggufSchemes[v.Pre]
	if !ok {
		return nil, unsupported("tokenizer.ggml.pre", v.Pre, "gpt-2, default, smollm, llama-bpe, qwen2 or qwen35")
	}
	if len(v.TokenTypes) != len(v.Tokens) {
		return nil, fmt.Errorf("tokenizer.ggml.token_type: %w: got %d entries for %d tokens", ErrInvalid, len(v.TokenTypes), len(v.Tokens))
	}
	s.vocab = make(map[string]int32, len(v.Tokens))
	for i, token := range v.Tokens {
		id := int32(i)
		switch v.TokenTypes[i] {
		case ggufNormal:
		case ggufControl, ggufUnknown:
			s.added = append(s.added, AddedToken{ID: id, Content: token, Special: true})
		case ggufUserDefined:
			s.added = append(s.added, AddedToken{ID: id, Content: token})
		case ggufUnused:
			continue
		default:
			return nil, unsupported(fmt.Sprintf("tokenizer.ggml.token_type[%d] (%q)", i, token), v.TokenTypes[i], "1 to 5")
		}
		if !utf8.ValidString(token) {
			return nil, fmt.Errorf("tokenizer.ggml.tokens[%d]: %w: %q is not UTF-8", i, ErrInvalid, token)
		}
		if first, ok := s.vocab[token]; ok {
			return nil, fmt.Errorf("tokenizer.ggml.tokens[%d]: %w: %q is token %d already", i, ErrInvalid, token, first)
		}
		s.vocab[token] = id
	}
	s.merges = make([][2]int32, len(v.Merges))
	for rank, merge := range v.Merges {
		pair, err := splitMerge(merge)
		if err != nil {
			return nil, fmt.Errorf("tokenizer.ggml.merges[%d]: %w: %v", rank, ErrInvalid, err)
		}
		for side, token := range pair {
			id, ok := s.vocab[token]
			if !ok {
				return nil, fmt.Errorf("tokenizer.ggml.merges[%d]: %w: %q is not in the vocabulary", rank, ErrInvalid, token)
			}
			s.merges[rank][side] = id
		}
	}
	for _, role := range []struct {
		key   string
		id    int32
		token *string
	}{
		{"bos_token_id", v.BOS, &s.roles.BOS}, {"eos_token_id", v.EOS, &s.roles.EOS},
		{"padding_token_id", v.PAD, &s.roles.PAD}, {"unknown_token_id", v.UNK, &s.roles.UNK},
	} {
		if role.id == NoToken {
			continue
		}
		if role.id < 0 || int(role.id) >= len(v.Tokens) || v.TokenTypes[role.id] == ggufUnused {
			return nil, fmt.Errorf("tokenizer.ggml.%s: %w: %d is not the id of a token (%d tokens)", role.key, ErrInvalid, role.id, len(v.Tokens))
		}
		*role.token = v.Tokens[role.id]
	}
	if v.AddBOS {
		if v.BOS == NoToken {
			return nil, fmt.Errorf("tokenizer.ggml.add_bos_token: %w: true without bos_token_id", ErrInvalid)
		}
		s.prefix = []int32{v.BOS}
	}
	if v.AddEOS {
		if v.EOS == NoToken {
			return nil, fmt.Errorf("tokenizer.ggml.add_eos_token: %w: true without eos_token_id", ErrInvalid)
		}
		s.suffix = []int32{v.EOS}
	}
	b, err := build(s)
	if err != nil {
		return nil, fmt.Errorf("tokenizer.ggml: %w", err)
	}
	return b, nil
}
