package chat

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"terraloom/lora/chat/jinja"
)

// goldenDir finds the chat goldens, or skips the test.
func goldenDir(t testing.TB) string {
	t.Helper()
	root := os.Getenv("TERRALOOM_SHARED")
	if root == "" {
		dir, err := os.Getwd()
		if err != nil {
			t.Fatal(err)
		}
		for dir != filepath.Dir(dir) {
			if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
				break
			}
			dir = filepath.Dir(dir)
		}
		root = filepath.Join(dir, "..", "shared")
	}
	dir := filepath.Join(root, "model-golden", "chat")
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("no golden data: %v (set TERRALOOM_SHARED to the folder that holds model-golden)", err)
	}
	return dir
}

type families struct {
	Now      string
	Families map[string]struct {
		TemplateVariables map[string]string `json:"template_variables"`
		Records, Errors   int
		WithSpans         int `json:"with_assistant_spans"`
	}
}

func readFamilies(t testing.TB, dir string) (families, time.Time) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "families.json"))
	if err != nil {
		t.Fatal(err)
	}
	var f families
	if err := json.Unmarshal(data, &f); err != nil {
		t.Fatal(err)
	}
	now, err := time.Parse("2006-01-02T15:04:05", f.Now)
	if err != nil {
		t.Fatal(err)
	}
	return f, now
}

// readTemplate parses a template of the goldens with its family's tokens.
func readTemplate(t testing.TB, family string) *Template {
	t.Helper()
	dir := goldenDir(t)
	f, _ := readFamilies(t, dir)
	source, err := os.ReadFile(filepath.Join(dir, family+".jinja"))
	if err != nil {
		t.Fatal(err)
	}
	tpl, err := Parse(string(source), f.Families[family].TemplateVariables)
	if err != nil {
		t.Fatalf("%s: %v", family, err)
	}
	return tpl
}

type goldenRecord struct {
	Name     string
	Messages []Message
	Tools    json.RawMessage
	Kwargs   map[string]json.RawMessage
	Rendered *string
	Error    *struct{ Kind, Type, Message string }
	Spans    [][2]int `json:"assistant_spans_utf8"`
}

func (r goldenRecord) arguments(t testing.TB) (Conversation, Options) {
	t.Helper()
	c := Conversation{Messages: r.Messages}
	o := Options{Variables: map[string]Value{}}
	parse := func(data []byte) Value {
		v, err := ParseValue(data)
		if err != nil {
			t.Fatalf("%s: %v", r.Name, err)
		}
		return v
	}
	if list, ok := parse(r.Tools).(*jinja.List); ok {
		c.Tools = append([]Value{}, list.Items()...)
	}
	for name, data := range r.Kwargs {
		v := parse(data)
		if name == "add_generation_prompt" {
			o.AddGenerationPrompt = bool(v.(jinja.Bool))
			continue
		}
		o.Variables[name] = v
	}
	return c, o
}

func readGoldens(t testing.TB, dir, family string) []goldenRecord {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, family+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []goldenRecord
	for dec := json.NewDecoder(bufio.NewReader(f)); dec.More(); {
		var r goldenRecord
		if err := dec.Decode(&r); err != nil {
			t.Fatalf("%s: %v", family, err)
		}
		out = append(out, r)
	}
	return out
}

// TestGoldens compares every family's template on every conversation with transformers: text, assistant spans, and refusals.
func TestGoldens(t *testing.T) {
	dir := goldenDir(t)
	f, now := readFamilies(t, dir)
	if len(f.Families) < 22 {
		t.Fatalf("%d families, want at least 22", len(f.Families))
	}
	for family, want := range f.Families {
		t.Run(family, func(t *testing.T) {
			tpl := readTemplate(t, family)
			var records, refused, withSpans int
			for _, r := range readGoldens(t, dir, family) {
				records++
				c, o := r.arguments(t)
				o.Now = now
				got, err := tpl.Render(context.Background(), c, o)
				if r.Error != nil {
					refused++
					checkRefusal(t, r, got, err)
					continue
				}
				if err != nil {
					t.Errorf("%s: %v", r.Name, err)
					continue
				}
				if got.Text != *r.Rendered {
					t.Errorf("%s:\n got %q\nwant %q", r.Name, got.Text, *r.Rendered)
				}
				checkSegments(t, r.Name, got)
				if r.Spans != nil {
					withSpans++
					if spans := joined(r.Spans); !slices.Equal(got.AssistantSpans(), spans) {
						t.Errorf("%s: assistant spans %v, want %v", r.Name, got.AssistantSpans(), spans)
					}
				}
			}
			if records != want.Records || refused != want.Errors || withSpans != want.WithSpans {
				t.Errorf("%d records, %d errors, %d with spans; want %+v", records, refused, withSpans, want)
			}
		})
	}
}

func checkRefusal(t *testing.T, r goldenRecord, got Rendering, err error) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: rendered %q, want the error %s", r.Name, got.Text, r.Error.Message)
		return
	}
	var e *jinja.Error
	switch isTemplate := errors.As(err, &e); {
	case r.Name == "no_messages":
		if !errors.Is(err, ErrEmpty) {
			t.Errorf("%s: %v, want ErrEmpty", r.Name, err)
		}
	case !isTemplate || errors.Is(err, jinja.ErrInternal) || errors.Is(err, jinja.ErrUnsupported) || errors.Is(err, jinja.ErrLimit):
		t.Errorf("%s: %v, want the error %s", r.Name, err, r.Error.Message)
	case r.Error.Kind == "template" && (!errors.Is(err, ErrRefused) || e.Message != r.Error.Message):
		t.Errorf("%s: %v, want the template's %q", r.Name, err, r.Error.Message)
	case r.Error.Kind == "undefined" && (!errors.Is(err, jinja.ErrUndefined) || e.Message != r.Error.Message):
		t.Errorf("%s: %v, want the undefined value %q", r.Name, err, r.Error.Message)
	}
}

// checkSegments checks that the segments are the text, and that data segments come from where they say.
func checkSegments(t *testing.T, name string, r Rendering) {
	t.Helper()
	var all strings.Builder
	for _, s := range r.Segments {
		all.WriteString(s.Text)
		if s.Text == "" || s.Template && s.Message >= 0 || (s.Message >= 0) != (s.Role != "") {
			t.Errorf("%s: bad segment %+v", name, s)
		}
	}
	if all.String() != r.Text {
		t.Errorf("%s: the segments give %q, want %q", name, all.String(), r.Text)
	}
}

// joined drops empty spans and joins neighbours.
func joined(spans [][2]int) []Span {
	var out []Span
	for _, s := range spans {
		if n := len(out); s[0] == s[1] {
			continue
		} else if n > 0 && out[n-1].End == s[0] {
			out[n-1].End = s[1]
			continue
		}
		out = append(out, Span{s[0], s[1]})
	}
	return out
}

// BenchmarkRender renders a conversation with tools and calls with the longest of the templates.
func BenchmarkRender(b *testing.B) {
	dir := goldenDir(b)
	tpl := readTemplate(b, "qwen3_5_think")
	for _, r := range readGoldens(b, dir, "qwen3_5_think") {
		if r.Name != "tool_chain" {
			continue
		}
		c, o := r.arguments(b)
		b.SetBytes(int64(len(*r.Rendered)))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := tpl.Render(context.Background(), c, o); err != nil {
				b.Fatal(err)
			}
		}
	}
}
