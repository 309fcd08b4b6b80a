package generate

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"terraloom/data/strictjson"
	"terraloom/lora/backend/backendtest"
	"terraloom/lora/checkpoint"
	"terraloom/lora/decoder"
	"terraloom/lora/tokenizer"
)

// smallTokenizer has multi-byte tokens of English, JSON and accents, and two control tokens.
func smallTokenizer(t testing.TB) *tokenizer.BPE {
	t.Helper()
	texts := []string{"the stop word and the other words stop here, été naïve 東京 stop stop",
		`{"name": "value", "items": [1, 2, 3], "flag": true, "none": null}`, "land surface temperature of the lake", "0.5 12.25 -7 1e5"}
	tok, err := tokenizer.Train(func(yield func(string) bool) {
		for _, s := range texts {
			for range 3 {
				if !yield(s) {
					return
				}
			}
		}
	}, 340, []string{"<|im_start|>", "<|im_end|>"})
	if err != nil {
		t.Fatal(err)
	}
	if tok, err = tok.WithRoles(tokenizer.Roles{EOS: "<|im_end|>"}); err != nil {
		t.Fatal(err)
	}
	return tok
}

// randomModel writes nonsense with the tokens of a tokenizer; the last rows of its embedding belong to no token.
func randomModel(t testing.TB, vocab int) *decoder.Model {
	t.Helper()
	c := dense(2, 32, 2, 1, 64, vocab)
	c.MaxPositions = 1024
	m, err := decoder.Load(backendtest.Open(t), c, decoder.RandomWeights{Config: c, Seed: 9, Std: 0.3}, decoder.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

// TestStopTexts: wherever a stop text falls among tokens and pieces, the text ends before it, and what was streamed is
// the text.
func TestStopTexts(t *testing.T) {
	tok := smallTokenizer(t)
	const whole = "the lake and the été stop here, the stop word 東京"
	ids := tok.EncodeOrdinary(whole)
	if len(ids) > len(whole)*3/4 {
		t.Fatalf("%d tokens for %d bytes: the tokenizer has no long tokens", len(ids), len(whole))
	}
	spellings := map[string][]int32{"tokens": ids, "bytes": nil}
	for _, b := range []byte(whole) {
		found := false
		for id := range int32(tok.VocabSize()) {
			if s := tok.TokenBytes(id); len(s) == 1 && s[0] == b && !found {
				spellings["bytes"], found = append(spellings["bytes"], id), true
			}
		}
	}
	for name, ids := range spellings {
		for _, stops := range [][]string{nil, {"stop"}, {"stop here"}, {"top"}, {"here", "stop h"}, {"word", "stop"}, {"é"}, {" 東"}, {"京"},
			{"the lake"}, {"absent"}, {"stopped"}, {"st", "stop"}, {"s", "the"}, {"here, the stop word 東京"}} {
			want, stop := whole, ""
			for _, s := range stops { // what comes first; the text is cut there even if another stop begins earlier but ends later
				if at := strings.Index(whole, s); at >= 0 && (stop == "" || at+len(s) < len(want)+len(stop)) {
					want, stop = whole[:at], s
				}
			}
			s := newTextStream(tok, stops)
			var streamed, hit string
			for _, id := range ids {
				text, found, err := s.push(id)
				if err != nil {
					t.Fatal(err)
				}
				streamed += text
				if !utf8.ValidString(streamed) {
					t.Fatalf("%s %q: streamed a part of a character: %q", name, stops, streamed)
				}
				if hit = found; hit != "" {
					break
				}
			}
			if hit == "" {
				streamed += s.flush()
			}
			if name == "bytes" || len(stops) < 2 { // a token may hold several stops
				if streamed != want || hit != stop {
					t.Errorf("%s %q: %q ended by %q, expected %q ended by %q", name, stops, streamed, hit, want, stop)
				}
			} else if strings.Contains(streamed, stop) && stop != "" || !strings.HasPrefix(whole, streamed) {
				t.Errorf("%s %q: %q", name, stops, streamed)
			}
		}
	}
}

// TestEngineText: streamed pieces add up to the result, whose text is that of its tokens up to the stop text.
func TestEngineText(t *testing.T) {
	tok := smallTokenizer(t)
	e := newEngine(t, randomModel(t, 352), Options{Tokenizer: tok, Chunk: 5})
	if !slices.Equal(e.opts.StopIDs, []int32{1}) {
		t.Fatalf("stop ids %v", e.opts.StopIDs)
	}
	prompt := tok.Encode("<|im_start|>the lake")
	free := generate(t, e, Request{Prompt: prompt, MaxTokens: 60, StopIDs: none, Sampling: Sampling{Temperature: 1, Seed: 3}})[0]
	want, err := tok.DecodeSkipSpecial(free.IDs())
	if err != nil {
		t.Fatal(err)
	}
	if free.Text != want || len(free.Tokens) != 60 {
		t.Fatalf("%d tokens with the text %q, expected %q", len(free.Tokens), free.Text, want)
	}
	for _, token := range free.Tokens {
		if int(token.ID) >= tok.VocabSize() {
			t.Fatalf("drew %d, the tokenizer has %d tokens", token.ID, tok.VocabSize())
		}
	}
	middle := len(want) / 2
	for !utf8.RuneStart(want[middle]) {
		middle++
	}
	stop := want[middle : middle+strings.IndexFunc(want[middle+4:], func(rune) bool { return true })+4]
	var text string
	var tokens []Token
	var reason Reason
	cut := generate(t, e, Request{Prompt: prompt, MaxTokens: 60, StopIDs: none, Stop: []string{stop}, Sampling: Sampling{Temperature: 1, Seed: 3},
		Emit: func(p Piece) { text, tokens, reason = text+p.Text, append(tokens, p.Tokens...), p.Reason }})[0]
	if at := strings.Index(want, stop); cut.Text != want[:at] || cut.StopText != stop || cut.Reason != Stop {
		t.Errorf("%q (%s %q), expected %q", cut.Text, cut.Reason, cut.StopText, want[:at])
	}
	if text != cut.Text || reason != Stop || len(tokens) != len(cut.Tokens) {
		t.Errorf("streamed %q, %d tokens (%s); the result has %q, %d", text, len(tokens), reason, cut.Text, len(cut.Tokens))
	}
	if len(cut.Tokens) >= 60 || !slices.Equal(cut.IDs(), free.IDs()[:len(cut.Tokens)]) {
		t.Errorf("tokens %v, without the stop %v", cut.IDs(), free.IDs())
	}
}

// TestConstrained: a model of random weights writes documents of the schema, greedy or sampled, in a batch with free rows,
// and however few tokens it may use.
func TestConstrained(t *testing.T) {
	tok := smallTokenizer(t)
	e := newEngine(t, randomModel(t, 352), Options{Tokenizer: tok, MaxRows: 8})
	prompt := tok.Encode("<|im_start|>the lake")
	for name, schema := range map[string]string{
		"plan":   `{"type":"object","properties":{"tool_sequence":{"type":"array","items":{"enum":["ndvi","tvdi","lst"]},"minItems":1}},"required":["tool_sequence"],"additionalProperties":false}`,
		"call":   `{"type":"object","properties":{"name":{"type":"string"},"box":{"type":"array","items":{"type":"number"},"minItems":4,"maxItems":4},"unit":{"enum":["K","C"]},"deep":{"type":"object","additionalProperties":{"type":"boolean"}}},"required":["name","box"],"additionalProperties":false}`,
		"number": `{"type":"integer"}`,
		"free":   `{"type":"object"}`,
	} {
		t.Run(name, func(t *testing.T) {
			compiler := jsonschema.NewCompiler()
			parsed, err := jsonschema.UnmarshalJSON(strings.NewReader(schema))
			if err != nil {
				t.Fatal(err)
			}
			if err := compiler.AddResource("s.json", parsed); err != nil {
				t.Fatal(err)
			}
			valid := compiler.MustCompile("s.json")
			var requests []Request
			for i := range 24 {
				r := Request{Prompt: prompt, MaxTokens: 70 + 10*(i%4), Schema: json.RawMessage(schema), Sampling: Sampling{Temperature: float64(i%3) * 0.7, Seed: uint64(i)}}
				if i%5 == 4 {
					r.Sampling.TopP = 0.9
				}
				requests = append(requests, r, Request{Prompt: prompt, MaxTokens: 5, StopIDs: none})
			}
			for i, r := range generate(t, e, requests...) {
				if i%2 == 1 {
					if len(r.Tokens) != 5 {
						t.Errorf("a free row gave %d tokens", len(r.Tokens))
					}
					continue
				}
				if _, err := strictjson.Parse([]byte(r.Text)); err != nil {
					t.Fatalf("row %d: %q (%s): %v", i, r.Text, r.Reason, err)
				}
				v, err := jsonschema.UnmarshalJSON(strings.NewReader(r.Text))
				if err != nil {
					t.Fatal(err)
				}
				if err := valid.Validate(v); err != nil {
					t.Errorf("row %d: %q: %v", i, r.Text, err)
				}
				if len(r.Tokens) > requests[i].MaxTokens {
					t.Errorf("row %d: %d tokens of %d", i, len(r.Tokens), requests[i].MaxTokens)
				}
			}
		})
	}
	if _, err := e.Generate(context.Background(), []Request{{Prompt: prompt, Schema: json.RawMessage(`{"type":"string","pattern":"x"}`)}}); err == nil || !strings.Contains(err.Error(), "pattern") {
		t.Errorf("a schema that cannot be kept: %v", err)
	}
}

// TestSmolLM2 is the real model: greedy answers equal those of transformers.
func TestSmolLM2(t *testing.T) {
	if testing.Short() {
		t.Skip("loads 500 MB of weights")
	}
	want := readSmolGolden(t, filepath.Join(goldenDir(t), "smollm2", "golden.json"))
	m, tok := openSmol(t)
	e := newEngine(t, m, Options{Tokenizer: tok})
	var requests []Request
	for _, item := range want {
		requests = append(requests, Request{Prompt: item.IDs, MaxTokens: len(item.Greedy)})
	}
	for i, r := range generate(t, e, requests...) {
		sure := slices.IndexFunc(want[i].Margins, func(m float64) bool { return m < nearTie })
		if sure < 0 {
			sure = len(want[i].Greedy)
		}
		got := r.IDs()
		n := min(sure, len(got))
		if !slices.Equal(got[:n], want[i].Greedy[:n]) || len(got) < sure && r.Reason != Stop {
			t.Errorf("%s: %v, expected %v (%d sure)", want[i].Question, got, want[i].Greedy, sure)
		}
		if sure == len(want[i].Greedy) && r.Text != want[i].Text {
			t.Errorf("%s: %q, expected %q", want[i].Question, r.Text, want[i].Text)
		}
	}
}

// smolItem is one prompt of the golden file of SmolLM2-135M-Instruct.
type smolItem struct {
	Question string
	IDs      []int32
	Greedy   []int32   `json:"greedy_ids"`
	Margins  []float64 `json:"greedy_margins"`
	Text     string    `json:"greedy_text"`
}

func readSmolGolden(t testing.TB, path string) []smolItem {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Items []smolItem }
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	return file.Items
}

// openSmol loads the pulled SmolLM2-135M, or skips the test.
func openSmol(t testing.TB) (*decoder.Model, *tokenizer.BPE) {
	t.Helper()
	base, err := checkpoint.Open("smollm2-135m")
	if err != nil {
		t.Skipf("the model is not here (`terraloom model pull smollm2-135m` fetches it): %v", err)
	}
	defer base.Close()
	tok, err := tokenizer.FromGGUF(*base.Vocab)
	if err != nil {
		t.Fatal(err)
	}
	m, err := decoder.Load(backendtest.Open(t), base.Config, base, decoder.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m, tok
}
