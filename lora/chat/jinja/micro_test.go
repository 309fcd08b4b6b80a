package jinja

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// sharedDir is the folder of the shared test data: TERRALOOM_SHARED, or ../shared beside the repository.
func sharedDir(t testing.TB) string {
	t.Helper()
	if dir := os.Getenv("TERRALOOM_SHARED"); dir != "" {
		return dir
	}
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for !exists(filepath.Join(dir, "go.mod")) && dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
	}
	return filepath.Join(dir, "..", "shared")
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// microClock is the time at which the micro templates were rendered.
var microClock = time.Date(2026, 1, 5, 4, 3, 2, 0, time.UTC)

// outsideSubset lists every micro template that Python renders and this package refuses, with the reason.
var outsideSubset = map[string]string{
	`{{ self }}`:                   "the template's own blocks",
	`{% block a %}x{% endblock %}`: "inheritance",
	`{% autoescape true %}{{ html }}{% endautoescape %}`: "HTML escaping of all output",
	`{{ cycler("a","b").next() }}`:                       "global cycler",
	`{{ joiner(",")() }}`:                                "global joiner",
	`{{ n.real }}`:                                       "attributes of int",
	`{{ n.bit_length() }}`:                               "attributes of int",
	`{{ s.swapcase() }}`:                                 "str.swapcase",
	`{{ "5".zfill(3) }}`:                                 "str.zfill",
	`{{ "-5".zfill(4) }}`:                                "str.zfill",
	`{{ "a".rjust(3) }}`:                                 "str.rjust",
	`{{ "a".center(5,"*") }}`:                            "str.center",
	`{{ "ab".center(5,"*") }}`:                           "str.center",
	`{{ "{}".format(1) }}`:                               "str.format",
	`{{ s.encode() }}`:                                   "bytes",
	`{{ html|forceescape }}`:                             "filter forceescape",
	`{{ s|wordcount }}`:                                  "filter wordcount",
	`{{ nums|batch(2)|list }}`:                           "filter batch",
	`{{ nums|batch(2,"x")|list }}`:                       "filter batch",
	`{{ nums|slice(2)|list }}`:                           "filter slice",
	`{{ nums|slice(2,"x")|list }}`:                       "filter slice",
	`{{ d|attr("b") }}`:                                  "filter attr",
	`{{ s|center(15) }}`:                                 "filter center",
	`{{ s|truncate(5) }}`:                                "filter truncate",
	`{{ n|filesizeformat }}`:                             "filter filesizeformat",
	`{{ "a b"|urlencode }}`:                              "filter urlencode",
	`{{ [3,1]|pprint }}`:                                 "filter pprint",
	`{{ s|striptags }}`:                                  "filter striptags",
	`{{ {"a":1}|xmlattr }}`:                              "filter xmlattr",
	`{{ s|wordwrap(3) }}`:                                "filter wordwrap",
	`{{ objs|groupby("on")|list }}`:                      "filter groupby",
	`{{ strs|random is string }}`:                        "filter random",
}

type microRecord struct {
	Template   string
	Out        *string
	Error      string
	Generation [][2]int
}

// TestMicroGoldens compares one-feature, whitespace-grid and random templates with jinja2.
func TestMicroGoldens(t *testing.T) {
	f, err := os.Open(filepath.Join(sharedDir(t), "model-golden", "chat", "micro.jsonl.gz"))
	if err != nil {
		t.Skipf("no golden data: %v (set TERRALOOM_SHARED to the folder that holds model-golden)", err)
	}
	defer f.Close()
	gz, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(gz)
	lines.Buffer(nil, 1<<20)
	lines.Scan()
	header, err := ParseJSON(lines.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	context, _ := header.(*Dict).Get("context")
	var templates, refused int
	seen := map[string]bool{}
	for lines.Scan() {
		var r microRecord
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		templates++
		if _, ok := outsideSubset[r.Template]; ok {
			seen[r.Template] = true
			refused++
		}
		checkMicro(t, r, WithOrigin(context, 7).(*Dict))
	}
	if lines.Err() != nil || templates != 6355 {
		t.Fatalf("read %d templates, want 6355 (%v)", templates, lines.Err())
	}
	for template := range outsideSubset {
		if !seen[template] {
			t.Errorf("outsideSubset lists %q, which is not in the goldens", template)
		}
	}
	t.Logf("%d templates, %d outside the subset", templates, refused)
}

func checkMicro(t *testing.T, r microRecord, vars *Dict) {
	t.Helper()
	var out Text
	tpl, err := Parse(r.Template)
	if err == nil {
		out, err = tpl.Render(context.Background(), vars, Clock(microClock))
	}
	_, outside := outsideSubset[r.Template]
	switch {
	case errors.Is(err, ErrInternal):
		t.Errorf("%q: %v", r.Template, err)
	case outside:
		if !errors.Is(err, ErrUnsupported) {
			t.Errorf("%q is listed as outside the subset, but gave %q, %v", r.Template, out.s, err)
		}
	case r.Out == nil && err == nil:
		t.Errorf("%q gave %q, want the error %s", r.Template, out.s, r.Error)
	case r.Out != nil && err != nil:
		t.Errorf("%q: %v, want %q", r.Template, err, *r.Out)
	case r.Out != nil && *r.Out != out.s:
		t.Errorf("%q gave\n%q, want\n%q", r.Template, out.s, *r.Out)
	}
	if err != nil || outside {
		if strings.HasPrefix(r.Error, "TemplateError: ") {
			if e := new(Error); !errors.As(err, &e) || e.Kind != ErrRaised || "TemplateError: "+e.Message != r.Error {
				t.Errorf("%q: %v, want %s", r.Template, err, r.Error)
			}
		}
		return
	}
	checkMarks(t, r.Template, out)
	if got, want := generated(out), mergeSpans(r.Generation); !slices.Equal(got, want) && !misplaced.MatchString(r.Template) {
		t.Errorf("%q: generated %v, want %v in %q", r.Template, got, want, out.s)
	}
}

// misplaced matches templates that capture a generation block in a variable. transformers notes the position of the capture, this
// package the position where the text ends up.
var misplaced = regexp.MustCompile(`^{% set x %}{% generation %}`)

func checkMarks(t *testing.T, template string, out Text) {
	t.Helper()
	at := 0
	for _, m := range out.marks {
		if m.Start < at || m.End <= m.Start || m.End > len(out.s) || m.plain() || !utf8.ValidString(out.s[m.Start:m.End]) {
			t.Errorf("%q: bad marks %v in %q", template, out.marks, out.s)
		}
		at = m.End
	}
}

// generated returns the spans written in generation blocks, in code points, neighbours merged.
func generated(t Text) [][2]int {
	var spans [][2]int
	for _, m := range t.marks {
		if m.Generated {
			spans = append(spans, [2]int{t.runeIndex(m.Start), t.runeIndex(m.End)})
		}
	}
	return mergeSpans(spans)
}

func mergeSpans(spans [][2]int) [][2]int {
	slices.SortFunc(spans, func(a, b [2]int) int { return a[0] - b[0] })
	var out [][2]int
	for _, s := range spans {
		if n := len(out); s[0] == s[1] {
			continue
		} else if n > 0 && s[0] <= out[n-1][1] {
			out[n-1][1] = max(out[n-1][1], s[1])
			continue
		}
		out = append(out, s)
	}
	return out
}
