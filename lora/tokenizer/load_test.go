package tokenizer

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// edit returns file with one piece of text changed, which must be there.
func edit(t testing.TB, file, from, to string) []byte {
	t.Helper()
	if from == "" {
		return []byte(to)
	}
	if !strings.Contains(file, from) {
		t.Fatalf("the file has no %s", from)
	}
	return []byte(strings.Replace(file, from, to, 1))
}

func TestParseErrors(t *testing.T) {
	for _, c := range []struct {
		name, file, from, to string
		is                   error
		want                 string
	}{
		// Components that are not known, each named.
		{"normalizer", "trained", `{"type":"NFC"}`, `{"type":"NFKC"}`, ErrUnsupported, `normalizer: [0]: type: not supported: got "NFKC", expected NFC`},
		{"normalizer in a sequence", "trained", `{"type":"NFC"}`, `{"type":"Sequence","normalizers":[{"type":"NFC"},{"type":"Lowercase"}]}`, ErrUnsupported, `normalizer: [1]: type: not supported: got "Lowercase"`},
		{"normalizer option", "trained", `{"type":"NFC"}`, `{"type":"NFC","x":1}`, ErrUnsupported, `normalizer: [0]: not supported: unknown field "x"`},
		{"pattern", "trained", `\\p{L}+|\\p{N}|`, `\\p{L}+|\\p{N}{1,2}|`, ErrUnsupported, `pre_tokenizer: [0] Split: pattern: not supported`},
		{"literal pattern", "trained", `{"Regex":`, `{"String":`, ErrUnsupported, `pattern: not supported: expected a Regex`},
		{"split behaviour", "trained", `"Isolated"`, `"Removed"`, ErrUnsupported, `behavior: not supported: got "Removed"`},
		{"inverted split", "trained", `"invert":false`, `"invert":true`, ErrUnsupported, `invert`},
		{"pre-tokenizer", "holes", `{"type":"Digits","individual_digits":true}`, `{"type":"Whitespace"}`, ErrUnsupported, `pre_tokenizer: [0]: type: not supported: got "Whitespace"`},
		{"whole digits", "holes", `"individual_digits":true`, `"individual_digits":false`, ErrUnsupported, `Digits: individual_digits`},
		{"prefix space", "holes", `"add_prefix_space":false`, `"add_prefix_space":true`, ErrUnsupported, `ByteLevel: add_prefix_space`},
		{"pattern twice", "trained", `"use_regex":false}]`, `"use_regex":true}]`, ErrUnsupported, `ByteLevel: use_regex: not supported: got true, expected false`},
		{"no pattern", "holes", `"use_regex":true}]`, `"use_regex":false}]`, ErrUnsupported, `ByteLevel: use_regex: not supported: got false, expected true`},
		{"no ByteLevel", "holes", `,{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true}]`, `]`, ErrUnsupported, `pre_tokenizer: [0]: type`},
		{"no pre-tokenizer", "trained", `"pre_tokenizer":{`, `"pre_tokenizer":null,"xpre":{`, ErrUnsupported, `unknown field "xpre"`},
		{"decoder", "trained", `"decoder":{"type":"ByteLevel"`, `"decoder":{"type":"Fuse"`, ErrUnsupported, `decoder: type: not supported: got "Fuse"`},
		{"post-processor", "trained", `"post_processor":null`, `"post_processor":{"type":"BertProcessing"}`, ErrUnsupported, `post_processor: [0] BertProcessing`},
		{"template of two", "llama3", `{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":false,"use_regex":true}`, `{"type":"TemplateProcessing","single":[{"Sequence":{"id":"A","type_id":0}}],"pair":[],"special_tokens":{}}`, ErrUnsupported, `more than one TemplateProcessing`},
		{"template without the text", "llama3", `,{"Sequence":{"id":"A","type_id":0}}]`, `]`, ErrUnsupported, `contains the text 0 times`},
		{"template token", "llama3", `"special_tokens":{"<|begin_of_text|>"`, `"special_tokens":{"<|begin|>"`, ErrInvalid, `"<|begin_of_text|>" is not in special_tokens`},
		{"template id", "llama3", `"ids":[701]`, `"ids":[70000]`, ErrInvalid, `adds id 70000`},
		{"model", "unigram", `{`, `{`, ErrUnsupported, `model: type: not supported: got "Unigram", expected BPE`},
		{"WordPiece", "wordpiece", `{`, `{`, ErrUnsupported, `model: type: not supported: got "WordPiece"`},
		{"dropout", "trained", `"dropout":null`, `"dropout":0.1`, ErrUnsupported, `model: dropout`},
		{"subword prefix", "trained", `"continuing_subword_prefix":null`, `"continuing_subword_prefix":"##"`, ErrUnsupported, `continuing_subword_prefix: not supported: got "##"`},
		{"word suffix", "trained", `"end_of_word_suffix":null`, `"end_of_word_suffix":"</w>"`, ErrUnsupported, `end_of_word_suffix`},
		{"fused unknowns", "trained", `"fuse_unk":false`, `"fuse_unk":true`, ErrUnsupported, `fuse_unk`},
		{"byte fallback", "trained", `"byte_fallback":false`, `"byte_fallback":true`, ErrUnsupported, `byte_fallback`},
		{"truncation", "trained", `"truncation":null`, `"truncation":{"max_length":5}`, ErrUnsupported, `truncation: not supported: expected null`},
		{"padding", "trained", `"padding":null`, `"padding":{"pad_id":0}`, ErrUnsupported, `padding`},
		{"version", "trained", `"version":"1.0"`, `"version":"2.0"`, ErrUnsupported, `version: not supported: got "2.0"`},
		{"extra key", "trained", `"version":"1.0"`, `"version":"1.0","extra":1`, ErrUnsupported, `unknown field "extra"`},
		{"lstrip", "trained", `"lstrip":false`, `"lstrip":true`, ErrUnsupported, `added_tokens: [0] "<pad>": lstrip`},
		{"rstrip", "trained", `"rstrip":false`, `"rstrip":true`, ErrUnsupported, `rstrip`},
		{"single word", "trained", `"single_word":false`, `"single_word":true`, ErrUnsupported, `single_word`},
		// Files that are broken or contradict themselves.
		{"empty", "trained", "", "", ErrInvalid, "EOF"},
		{"not JSON", "trained", "", "{", ErrInvalid, "EOF"},
		{"empty object", "trained", "", "{}", ErrUnsupported, `version: not supported: got ""`},
		{"no model type", "trained", "", `{"version":"1.0"}`, ErrUnsupported, `model: type: not supported: got ""`},
		{"no vocab", "trained", "", `{"version":"1.0","model":{"type":"BPE"}}`, ErrInvalid, `model: vocab: invalid tokenizer: missing`},
		{"null", "trained", "", "null", ErrUnsupported, `version`},
		{"bad UTF-8", "trained", `"<pad>"`, "\"\xff\"", ErrInvalid, "is not UTF-8"},
		{"added id", "trained", `"id":1,`, `"id":5,`, ErrInvalid, `"<|im_start|>": invalid tokenizer: has id 5, expected 1`},
		{"added id outside", "llama3", `"id":704,`, `"id":800,`, ErrInvalid, `"<tool_call>": invalid tokenizer: has id 800, expected 704`},
		{"added twice", "llama3", `"content":"<tool_call>"`, `"content":"<|begin"`, ErrInvalid, "listed twice"},
		{"unknown token", "holes", `"unk_token":"<pad>"`, `"unk_token":"<none>"`, ErrInvalid, `"<none>" is not in the vocabulary`},
		{"vocab null", "trained", "", `{"version":"1.0","model":{"type":"BPE","vocab":null}}`, ErrInvalid, `vocab: expected an object`},
		{"vocab kind", "trained", `"vocab":{"<pad>":0`, `"vocab":{"<pad>":"0"`, ErrInvalid, `vocab: "<pad>": expected a 32-bit id`},
		{"vocab twice", "trained", `"vocab":{"<pad>":0`, `"vocab":{"<pad>":0,"<pad>":0`, ErrInvalid, `vocab: "<pad>" is listed twice`},
		{"shared id", "trained", `"!":3`, `"!":4`, ErrInvalid, `tokens "!" and "\"" share id 4`},
		{"negative id", "trained", `"!":3`, `"!":-3`, ErrInvalid, `token "!" has id -3`},
		{"huge id", "trained", `"!":3`, `"!":2000000000`, ErrInvalid, `token "!" has id 2000000000`},
		{"id over 32 bits", "trained", `"!":3`, `"!":4294967296`, ErrInvalid, `expected a 32-bit id`},
		{"merge of unknown", "trained", `["h","e"]`, `["h","zzz"]`, ErrInvalid, `merge 0 ("h", "zzz"): "zzz" is not in the vocabulary`},
		{"merge product", "trained", `["h","e"]`, `["é","é"]`, ErrInvalid, `merge 0 makes "éé"`},
		{"merge twice", "trained", `["Ġ","t"]`, `["h","e"]`, ErrInvalid, `merge 1 repeats merge 0 ("h", "e")`},
		{"merge of three", "trained", `["h","e"]`, `["h","e","x"]`, ErrInvalid, `merge 0: expected two tokens`},
		{"merge of one", "trained", `["h","e"]`, `"he"`, ErrInvalid, `merge 0: expected two tokens with one space between them, got "he"`},
		{"merge kind", "trained", `["h","e"]`, `7`, ErrInvalid, `merge 0: expected a string`},
	} {
		_, err := ParseJSON(edit(t, string(testdata(t, c.file+".json")), c.from, c.to))
		if err == nil || !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %v with %q", c.name, err, c.is, c.want)
		}
	}
	if _, err := ParseJSON(append(testdata(t, "trained.json"), "{}"...)); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "more text after the JSON value") {
		t.Errorf("trailing text: got %v", err)
	}
}

// TestMergeSpelling: files write a merge as one string or as two.
func TestMergeSpelling(t *testing.T) {
	want := smallTokenizer(t, "trained")
	var file map[string]any
	if err := json.Unmarshal(testdata(t, "trained.json"), &file); err != nil {
		t.Fatal(err)
	}
	model := file["model"].(map[string]any)
	merges := model["merges"].([]any)
	for i, m := range merges {
		pair := m.([]any)
		merges[i] = pair[0].(string) + " " + pair[1].(string)
	}
	data, err := json.MarshalIndent(file, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParseJSON(data)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got.spec.merges, want.spec.merges) || !slices.Equal(got.tokens, want.tokens) {
		t.Error("the same merges as strings give another tokenizer")
	}
}

func writeFiles(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestLoad(t *testing.T) {
	file := string(testdata(t, "llama3.json"))
	b, err := Load(writeFiles(t, map[string]string{tokenizerFile: file, configFile: `{
		"bos_token": {"__type": "AddedToken", "content": "<|begin_of_text|>", "lstrip": false},
		"eos_token": "<|im_end|>", "pad_token": "<|im_end|>", "unk_token": null, "model_max_length": 1e30,
		"chat_template": "{{ x }}", "add_prefix_space": false,
		"added_tokens_decoder": {"704": {"content": "<tool_call>", "special": true, "normalized": false}}}`}))
	if err != nil {
		t.Fatal(err)
	}
	s := b.Special()
	if s.BOS != 701 || s.EOS != 2 || s.UNK != NoToken {
		t.Errorf("roles: got %+v", s)
	}
	if s.PAD != s.EOS { // legal: whoever masks padding must go by length
		t.Errorf("pad %d, want the end-of-text id %d", s.PAD, s.EOS)
	}
	if !slices.Equal(s.Prefix, []int32{701}) || s.Suffix != nil {
		t.Errorf("the template puts %v and %v around a text, want [701] and none", s.Prefix, s.Suffix)
	}
	if got := b.Encode("a"); slices.Contains(got, 701) {
		t.Errorf("Encode added a token: %v", got)
	}
	if !b.IsSpecial(704) {
		t.Error("tokenizer_config.json makes <tool_call> special; it is not")
	}
	if added := b.AddedTokens(); len(added) != 7 || added[6] != (AddedToken{ID: 704, Content: "<tool_call>", Special: true}) {
		t.Errorf("added tokens: %+v", added)
	}

	alone, err := Load(writeFiles(t, map[string]string{tokenizerFile: file}))
	if err != nil {
		t.Fatal(err)
	}
	if s := alone.Special(); s.BOS != NoToken || s.EOS != NoToken || s.PAD != NoToken || alone.IsSpecial(704) {
		t.Errorf("without tokenizer_config.json: %+v", s)
	}
}

func TestLoadErrors(t *testing.T) {
	file := string(testdata(t, "llama3.json"))
	if _, err := Load(t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: got %v", err)
	}
	if _, err := Load(writeFiles(t, map[string]string{tokenizerFile: `{"version":"9"}`})); err == nil || !strings.Contains(err.Error(), "tokenizer.json: ") {
		t.Errorf("the error does not name the file: %v", err)
	}
	for _, c := range []struct {
		config string
		is     error
		want   string
	}{
		{`{`, ErrInvalid, "tokenizer_config.json: "},
		{"{\"a\":\"\xff\"}", ErrInvalid, "byte 6 is not UTF-8"},
		{`{"eos_token":"<eos>"}`, ErrInvalid, `eos_token "<eos>" is not in the vocabulary`},
		{`{"eos_token":{"text":"<eos>"}}`, ErrInvalid, "expected a token object with content"},
		{`{"eos_token":7}`, ErrInvalid, "tokenizer_config.json: "},
		{`{"add_prefix_space":true}`, ErrUnsupported, "add_prefix_space"},
		{`{"split_special_tokens":true}`, ErrUnsupported, "split_special_tokens"},
		{`{"added_tokens_decoder":{"x":{"content":"<pad>"}}}`, ErrInvalid, `added_tokens_decoder "x": invalid tokenizer: expected an id`},
		{`{"added_tokens_decoder":{"0":{"content":"<bad>"}}}`, ErrInvalid, `"<bad>" is not an added token with this id`},
		{`{"added_tokens_decoder":{"900":{"content":"<new>"}}}`, ErrInvalid, `"<new>" is not an added token with this id`},
		{`{"added_tokens_decoder":{"0":{"content":"<pad>","lstrip":true}}}`, ErrUnsupported, "lstrip"},
		{`{"added_tokens_decoder":{"0":{"content":"<pad>","rstrip":true}}}`, ErrUnsupported, "rstrip"},
		{`{"added_tokens_decoder":{"0":{"content":"<pad>","single_word":true}}}`, ErrUnsupported, "single_word"},
	} {
		_, err := Load(writeFiles(t, map[string]string{tokenizerFile: file, configFile: c.config}))
		if err == nil || !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %v with %q", c.config, err, c.is, c.want)
		}
	}
}

func FuzzParseJSON(f *testing.F) {
	// Small seeds: the fuzzer shrinks what it finds, which for the files of testdata takes all its time.
	const head = `{"version":"1.0","added_tokens":[{"id":3,"content":"<a>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true}],"normalizer":`
	const bpe = `"post_processor":null,"decoder":{"type":"ByteLevel"},"model":{"type":"BPE","vocab":{"a":0,"aa":2,"e":1},"merges":["a a"]}}`
	byteLevel := func(own string) string {
		return `{"type":"ByteLevel","add_prefix_space":false,"use_regex":` + own + `}`
	}
	f.Add([]byte(head + `{"type":"NFC"},"pre_tokenizer":` + byteLevel("true") + "," + bpe))
	f.Add([]byte(head + `null,"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Digits","individual_digits":true},` + byteLevel("true") + "]}," + bpe))
	f.Add([]byte(head + `null,"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":` + strconv.Quote(llama3Pattern) +
		`},"behavior":"Isolated","invert":false},` + byteLevel("false") + "]}," +
		`"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"a","type_id":0}},{"Sequence":{"id":"A","type_id":0}}],"special_tokens":{"a":{"id":"a","ids":[0],"tokens":["a"]}}},` +
		`"decoder":{"type":"ByteLevel"},"model":{"type":"BPE","ignore_merges":true,"unk_token":"e","vocab":{"a":0,"\u0065":1,"ae":2},"merges":[["a","e"]]}}`))
	f.Add([]byte(`{"version":"1.0","pre_tokenizer":{"type":"BertPreTokenizer"},"normalizer":{"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,"strip_accents":null,"lowercase":true},` +
		`"model":{"type":"WordPiece","unk_token":"u","continuing_subword_prefix":"##","max_input_chars_per_word":9,"vocab":{"u":0,"a":1,"##a":2}}}`))
	f.Add([]byte(`{"version":"1.0","pre_tokenizer":{"type":"Metaspace","replacement":"▁","prepend_scheme":"first"},"model":{"type":"Unigram","unk_id":0,"byte_fallback":false,"vocab":[["u",0],["▁",-1.5],["a",-2]]}}`))
	const text = "Hello, world!  It's 2026.\n\n <a> aaa e\u0301 ae \u4e2da"
	f.Fuzz(func(t *testing.T, file []byte) {
		sentinel := func(err error) {
			if !errors.Is(err, ErrInvalid) && !errors.Is(err, ErrUnsupported) {
				t.Errorf("%v wraps no sentinel", err)
			}
		}
		if s, err := parseSugarme(file); err != nil {
			sentinel(err)
		} else if _, err := s.Encode(text); err != nil {
			t.Errorf("sugarme: %v", err)
		}
		b, err := ParseJSON(file)
		if err != nil {
			sentinel(err)
			return
		}
		checkRoundTrip(t, b, text)
		checkWritten(t, b)
		if enc, err := NewSugarme(b).Encode(text); err != nil || !slices.Equal(enc.Ids, toInts(b.Encode(text))) {
			t.Errorf("sugarme: %v, differs from Encode", err)
		}
	})
}
