package tokenizer

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
)

// configJSON holds the keys of tokenizer_config.json that change ids or roles. The file has many others, which belong to
// transformers' classes, so unknown keys are no error here.
type configJSON struct {
	BOS                roleToken            `json:"bos_token"`
	EOS                roleToken            `json:"eos_token"`
	PAD                roleToken            `json:"pad_token"`
	UNK                roleToken            `json:"unk_token"`
	AddPrefixSpace     bool                 `json:"add_prefix_space"`
	SplitSpecialTokens bool                 `json:"split_special_tokens"`
	AddedTokens        map[string]addedJSON `json:"added_tokens_decoder"`
}

// roleToken is a token written as a string, as an object with its content, or null.
type roleToken string

// UnmarshalJSON implements json.Unmarshaler.
func (t *roleToken) UnmarshalJSON(data []byte) error {
	var object struct {
		Content *string `json:"content"`
	}
	if data[0] != '{' {
		return json.Unmarshal(data, (*string)(t))
	}
	if err := json.Unmarshal(data, &object); err != nil {
		return err
	}
	if object.Content == nil {
		return fmt.Errorf("expected a token object with content, got %s", data)
	}
	*t = roleToken(*object.Content)
	return nil
}

// applyConfig adds what tokenizer_config.json says to the tokenizer of the tokenizer.json beside it. As in transformers, the
// flags that added_tokens_decoder gives a token win; a token or id that tokenizer.json does not have is an error.
func applyConfig(s *spec, file []byte) error {
	if at := invalidUTF8(file); at >= 0 {
		return fmt.Errorf("%w: byte %d is not UTF-8", ErrInvalid, at)
	}
	var c configJSON
	if err := json.Unmarshal(file, &c); err != nil {
		return fmt.Errorf("%w: %v", ErrInvalid, err)
	}
	if c.AddPrefixSpace {
		return unsupported("add_prefix_space", true, "false")
	}
	if c.SplitSpecialTokens {
		return unsupported("split_special_tokens", true, "false")
	}
	s.roles = Roles{BOS: string(c.BOS), EOS: string(c.EOS), PAD: string(c.PAD), UNK: string(c.UNK)}

	keys := make([]string, 0, len(c.AddedTokens))
	for key := range c.AddedTokens {
		keys = append(keys, key)
	}
	slices.Sort(keys) // the first error is the same every time
	for _, key := range keys {
		token := c.AddedTokens[key]
		name := fmt.Sprintf("added_tokens_decoder %q", key)
		id, err := strconv.ParseInt(key, 10, 32)
		if err != nil {
			return fmt.Errorf("%s: %w: expected an id", name, ErrInvalid)
		}
		at := slices.IndexFunc(s.added, func(a AddedToken) bool { return a.ID == int32(id) })
		switch {
		case at < 0 || s.added[at].Content != token.Content:
			return fmt.Errorf("%s: %w: %q is not an added token with this id in %s", name, ErrInvalid, token.Content, tokenizerFile)
		case token.SingleWord:
			return unsupported(name+": single_word", true, "false")
		case token.LStrip:
			return unsupported(name+": lstrip", true, "false")
		case token.RStrip:
			return unsupported(name+": rstrip", true, "false")
		}
		s.added[at].Special, s.added[at].Normalized = token.Special, token.Normalized
	}
	return nil
}
