package tokenizer

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// WriteJSON writes the tokenizer as a tokenizer.json that Hugging Face tokenizers (0.20 and later) and ParseJSON load with the
// same ids. The bytes depend on the tokenizer only. Roles are not part of that file: see Save.
func (b *BPE) WriteJSON(w io.Writer) error {
	out := &jsonWriter{Writer: bufio.NewWriterSize(w, 1<<16)}
	b.writeJSON(out)
	if out.err == nil {
		out.err = out.Flush() // which also reports what any write before it met
	}
	if out.err != nil {
		return fmt.Errorf("write tokenizer: %w", out.err)
	}
	return nil
}

// Save writes tokenizer.json and tokenizer_config.json into dir, which must exist. transformers' AutoTokenizer loads the
// folder.
func (b *BPE) Save(dir string) error {
	var file bytes.Buffer
	if err := b.WriteJSON(&file); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, tokenizerFile), file.Bytes(), 0o644); err != nil {
		return fmt.Errorf("save tokenizer: %w", err)
	}
	r := b.spec.roles
	config, err := marshal(struct {
		Class   string `json:"tokenizer_class"`
		BOS     string `json:"bos_token,omitempty"`
		EOS     string `json:"eos_token,omitempty"`
		PAD     string `json:"pad_token,omitempty"`
		UNK     string `json:"unk_token,omitempty"`
		CleanUp bool   `json:"clean_up_tokenization_spaces"` // true would take spaces out of decoded text
	}{"PreTrainedTokenizerFast", r.BOS, r.EOS, r.PAD, r.UNK, false})
	if err != nil {
		return fmt.Errorf("save tokenizer: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, configFile), append(config, '\n'), 0o644); err != nil {
		return fmt.Errorf("save tokenizer: %w", err)
	}
	return nil
}

// Hash returns the SHA-256 of what WriteJSON writes, in hexadecimal. It does not depend on how the file that was loaded is
// laid out.
func (b *BPE) Hash() (string, error) {
	h := sha256.New()
	if err := b.WriteJSON(h); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func (b *BPE) writeJSON(w *jsonWriter) {
	s := &b.spec
	w.text("{\n \"version\": \"1.0\",\n \"truncation\": null,\n \"padding\": null,\n \"added_tokens\": [")
	for i, a := range s.added {
		w.item(i, "  ")
		w.value(addedJSON{ID: a.ID, Content: a.Content, Normalized: a.Normalized, Special: a.Special})
	}
	w.text("\n ],\n \"normalizer\": ")
	if s.nfc {
		w.text(`{"type":"NFC"}`)
	} else {
		w.text("null")
	}
	w.text(",\n \"pre_tokenizer\": ")
	w.value(s.scheme.preTokenizer())
	w.text(",\n \"post_processor\": ")
	w.value(b.postProcessor())
	w.text(",\n \"decoder\": ")
	w.value(byteLevel(false))
	w.text(",\n \"model\": {\n  \"type\": \"BPE\",\n  \"dropout\": null,\n  \"unk_token\": ")
	if s.unk == "" {
		w.text("null")
	} else {
		w.value(s.unk)
	}
	w.text(",\n  \"continuing_subword_prefix\": null,\n  \"end_of_word_suffix\": null,\n  \"fuse_unk\": false,\n" +
		"  \"byte_fallback\": false,\n  \"ignore_merges\": ")
	w.value(s.ignoreMerges)
	w.text(",\n  \"vocab\": {")
	n := 0
	for id, token := range b.tokens {
		if own, ok := s.vocab[token]; !ok || own != int32(id) {
			continue // an id that does not exist, or an added token outside the model's vocabulary
		}
		w.item(n, "   ")
		n++
		w.string(token)
		w.text(": " + strconv.Itoa(id))
	}
	w.text("\n  },\n  \"merges\": [")
	for rank, m := range s.merges {
		w.item(rank, "   ")
		w.text("[")
		w.string(b.tokens[m[0]])
		w.text(",")
		w.string(b.tokens[m[1]])
		w.text("]")
	}
	w.text("\n  ]\n }\n}\n")
}

// preTokenizer returns the pre_tokenizer that parsePreTokenizer recognises as s.
func (s scheme) preTokenizer() any {
	type sequence struct {
		Type    string `json:"type"`
		Members []any  `json:"pretokenizers"`
	}
	if s == gpt2 {
		return byteLevel(true)
	}
	if s == smollm {
		return sequence{"Sequence", []any{digitsJSON{"Digits", true}, byteLevel(true)}}
	}
	split := map[string]any{"type": "Split", "behavior": "Isolated", "invert": false}
	for pattern, of := range patterns {
		if of == s {
			split["pattern"] = map[string]string{"Regex": pattern}
		}
	}
	return sequence{"Sequence", []any{split, byteLevel(false)}}
}

// postProcessor returns null or the template that puts the prefix and the suffix around a text.
func (b *BPE) postProcessor() any {
	if len(b.spec.prefix)+len(b.spec.suffix) == 0 {
		return nil
	}
	type object = map[string]any
	special := object{}
	var before, after []any
	piece := func(id int32) any {
		token := b.tokens[id]
		special[token] = object{"id": token, "ids": []int32{id}, "tokens": []string{token}}
		return object{"SpecialToken": object{"id": token, "type_id": 0}}
	}
	for _, id := range b.spec.prefix {
		before = append(before, piece(id))
	}
	for _, id := range b.spec.suffix {
		after = append(after, piece(id))
	}
	around := func(sequence string, typeID int) []any {
		list := append([]any{}, before...)
		list = append(list, object{"Sequence": object{"id": sequence, "type_id": typeID}})
		return append(list, after...)
	}
	return object{
		"type":           "TemplateProcessing",
		"single":         around("A", 0),
		"pair":           append(around("A", 0), around("B", 1)...),
		"special_tokens": special,
	}
}

func byteLevel(ownPattern bool) byteLevelJSON {
	no, yes := false, true
	return byteLevelJSON{Type: "ByteLevel", AddPrefixSpace: &no, TrimOffsets: &yes, UseRegex: &ownPattern}
}

// jsonWriter writes JSON by pieces and keeps the first error of encoding a value.
type jsonWriter struct {
	*bufio.Writer
	err error
}

func (w *jsonWriter) text(s string) { w.WriteString(s) }

// item starts member n of a list on a line of its own.
func (w *jsonWriter) item(n int, indent string) {
	if n > 0 {
		w.text(",")
	}
	w.text("\n" + indent)
}

func (w *jsonWriter) value(v any) {
	data, err := marshal(v)
	if err != nil && w.err == nil {
		w.err = err
	}
	w.Write(data)
}

// string writes a string; most need no escapes, and a vocabulary has hundreds of thousands.
func (w *jsonWriter) string(s string) {
	if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == '"' || r == '\\' }) {
		w.value(s)
		return
	}
	w.text(`"`)
	w.text(s)
	w.text(`"`)
}

// marshal is json.Marshal without HTML escapes, so that "<think>" reads as it is.
func marshal(v any) ([]byte, error) {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimRight(buf.Bytes(), "\n"), err
}
