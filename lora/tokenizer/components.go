package tokenizer

import (
	"encoding/json"
	"fmt"
)

// Every component of tokenizer.json says its kind in "type". Each function below knows the kinds that it does exactly and
// refuses all others.

type byteLevelJSON struct {
	Type           string `json:"type"`
	AddPrefixSpace *bool  `json:"add_prefix_space"`
	TrimOffsets    *bool  `json:"trim_offsets"` // offsets are not computed here
	UseRegex       *bool  `json:"use_regex"`
}

type digitsJSON struct {
	Type       string `json:"type"`
	Individual bool   `json:"individual_digits"`
}

type splitJSON struct {
	Type    string `json:"type"`
	Pattern struct {
		Regex  *string `json:"Regex"`
		String *string `json:"String"`
	} `json:"pattern"`
	Behavior string `json:"behavior"`
	Invert   bool   `json:"invert"`
}

type templateJSON struct {
	Type          string                       `json:"type"`
	Single        []templatePiece              `json:"single"`
	Pair          []templatePiece              `json:"pair"` // two texts at once are not encoded here
	SpecialTokens map[string]templateTokenJSON `json:"special_tokens"`
}

type templatePiece struct {
	Sequence *struct {
		ID     string `json:"id"`
		TypeID int    `json:"type_id"`
	} `json:"Sequence"`
	SpecialToken *struct {
		ID     string `json:"id"`
		TypeID int    `json:"type_id"`
	} `json:"SpecialToken"`
}

type templateTokenJSON struct {
	ID     string   `json:"id"`
	IDs    []int32  `json:"ids"`
	Tokens []string `json:"tokens"`
}

// kind returns the type of a component.
func kind(raw json.RawMessage) (string, error) {
	var c struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		return "", fmt.Errorf("%w: expected an object with a type: %v", ErrInvalid, err)
	}
	return c.Type, nil
}

// flatten returns the members of a Sequence, or the component alone.
func flatten(raw json.RawMessage, members string) ([]json.RawMessage, error) {
	if isNull(raw) {
		return nil, nil
	}
	switch typ, err := kind(raw); {
	case err != nil:
		return nil, err
	case typ != "Sequence":
		return []json.RawMessage{raw}, nil
	}
	var seq map[string]json.RawMessage
	if err := json.Unmarshal(raw, &seq); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrInvalid, err)
	}
	for key := range seq {
		if key != "type" && key != members {
			return nil, fmt.Errorf("%w: unknown field %q", ErrUnsupported, key)
		}
	}
	var list []json.RawMessage
	if err := json.Unmarshal(seq[members], &list); err != nil {
		return nil, fmt.Errorf("%s: %w: %v", members, ErrInvalid, err)
	}
	return list, nil
}

// parseNormalizer returns whether text is brought into NFC.
func parseNormalizer(raw json.RawMessage) (nfc bool, err error) {
	list, err := flatten(raw, "normalizers")
	for i, part := range list {
		typ, err := kind(part)
		if err != nil {
			return false, fmt.Errorf("[%d]: %w", i, err)
		}
		if typ != "NFC" {
			return false, unsupported(fmt.Sprintf("[%d]: type", i), typ, "NFC")
		}
		if err := strictJSON(part, &struct {
			Type string `json:"type"`
		}{}); err != nil {
			return false, fmt.Errorf("[%d]: %w", i, err)
		}
		nfc = true
	}
	return nfc, err
}

// parsePreTokenizer recognises the five ways of cutting text that published byte-level models use:
//
//	ByteLevel with its own pattern                         GPT-2
//	Digits (individual), ByteLevel with its own pattern    SmolLM2
//	Split (one of four patterns), ByteLevel without one    Qwen2, Qwen3.5, Llama-3, GPT-2
func parsePreTokenizer(raw json.RawMessage) (scheme, error) {
	list, err := flatten(raw, "pretokenizers")
	if err != nil {
		return 0, err
	}
	found, split := gpt2, false
	for i, part := range list {
		typ, err := kind(part)
		if err != nil {
			return 0, fmt.Errorf("[%d]: %w", i, err)
		}
		last := i == len(list)-1
		switch {
		case typ == "ByteLevel" && last:
			var c byteLevelJSON
			if err := strictJSON(part, &c); err != nil {
				return 0, fmt.Errorf("[%d] ByteLevel: %w", i, err)
			}
			if c.AddPrefixSpace == nil || *c.AddPrefixSpace {
				return 0, unsupported(fmt.Sprintf("[%d] ByteLevel: add_prefix_space", i), true, "false")
			}
			if ownPattern := c.UseRegex == nil || *c.UseRegex; ownPattern == split {
				return 0, unsupported(fmt.Sprintf("[%d] ByteLevel: use_regex", i), ownPattern, fmt.Sprint(!split))
			}
			return found, nil
		case typ == "Digits" && i == 0 && !last:
			var c digitsJSON
			if err := strictJSON(part, &c); err != nil {
				return 0, fmt.Errorf("[%d] Digits: %w", i, err)
			}
			if !c.Individual {
				return 0, unsupported(fmt.Sprintf("[%d] Digits: individual_digits", i), false, "true")
			}
			found = smollm
		case typ == "Split" && i == 0 && !last:
			if found, err = parseSplit(part); err != nil {
				return 0, fmt.Errorf("[%d] Split: %w", i, err)
			}
			split = true
		default:
			return 0, unsupported(fmt.Sprintf("[%d]: type", i), typ, "ByteLevel at the end, Split or Digits before it")
		}
	}
	return 0, fmt.Errorf("%w: got none, expected one that ends in ByteLevel", ErrUnsupported)
}

func parseSplit(raw json.RawMessage) (scheme, error) {
	var c splitJSON
	if err := strictJSON(raw, &c); err != nil {
		return 0, err
	}
	switch {
	case c.Behavior != "Isolated":
		return 0, unsupported("behavior", c.Behavior, "Isolated")
	case c.Invert:
		return 0, unsupported("invert", true, "false")
	case c.Pattern.Regex == nil:
		return 0, fmt.Errorf("pattern: %w: expected a Regex", ErrUnsupported)
	}
	found, ok := patterns[*c.Pattern.Regex]
	if !ok {
		return 0, unsupported("pattern", *c.Pattern.Regex, "the pattern of Qwen2, Qwen3.5, Llama-3 or GPT-2")
	}
	return found, nil
}

// parseDecoder accepts the one decoder of byte-level models; its options do not change the text.
func parseDecoder(raw json.RawMessage) error {
	if isNull(raw) {
		return fmt.Errorf("%w: got null, expected ByteLevel", ErrUnsupported)
	}
	typ, err := kind(raw)
	if err != nil {
		return err
	}
	if typ != "ByteLevel" {
		return unsupported("type", typ, "ByteLevel")
	}
	return strictJSON(raw, &byteLevelJSON{})
}

// parsePostProcessor returns the ids that a TemplateProcessing puts around a single text.
func parsePostProcessor(raw json.RawMessage) (prefix, suffix []int32, err error) {
	list, err := flatten(raw, "processors")
	if err != nil {
		return nil, nil, err
	}
	templates := 0
	for i, part := range list {
		typ, err := kind(part)
		if err != nil {
			return nil, nil, fmt.Errorf("[%d]: %w", i, err)
		}
		switch typ {
		case "ByteLevel": // moves offsets only
			err = strictJSON(part, &byteLevelJSON{})
		case "TemplateProcessing":
			if templates++; templates > 1 {
				return nil, nil, fmt.Errorf("[%d]: %w: more than one TemplateProcessing", i, ErrUnsupported)
			}
			prefix, suffix, err = parseTemplate(part)
		default:
			err = unsupported("type", typ, "ByteLevel or TemplateProcessing")
		}
		if err != nil {
			return nil, nil, fmt.Errorf("[%d] %s: %w", i, typ, err)
		}
	}
	return prefix, suffix, nil
}

func parseTemplate(raw json.RawMessage) (prefix, suffix []int32, err error) {
	var c templateJSON
	if err := strictJSON(raw, &c); err != nil {
		return nil, nil, err
	}
	texts := 0
	for i, piece := range c.Single {
		switch {
		case piece.Sequence != nil && piece.SpecialToken == nil:
			texts++
		case piece.SpecialToken != nil && piece.Sequence == nil:
			token, ok := c.SpecialTokens[piece.SpecialToken.ID]
			if !ok {
				return nil, nil, fmt.Errorf("single[%d]: %w: %q is not in special_tokens", i, ErrInvalid, piece.SpecialToken.ID)
			}
			if texts == 0 {
				prefix = append(prefix, token.IDs...)
			} else {
				suffix = append(suffix, token.IDs...)
			}
		default:
			return nil, nil, fmt.Errorf("single[%d]: %w: expected a Sequence or a SpecialToken", i, ErrInvalid)
		}
	}
	if texts != 1 {
		return nil, nil, fmt.Errorf("single: %w: contains the text %d times, expected once", ErrUnsupported, texts)
	}
	return prefix, suffix, nil
}
