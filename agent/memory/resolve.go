package memory

import (
	"fmt"
	"math"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"terraloom/data/catalogue"
	"terraloom/data/strictjson"
)

// Known is what arguments may refer to: the task's texts and the evidence.
type Known struct {
	texts   []knownText
	files   map[string]string   // path as accepted steps and inputs give it -> where it is from
	byBase  map[string][]string // file name -> paths
	numbers []knownNumber
	exists  func(path string) bool
}

type knownText struct{ from, text string }

type knownNumber struct {
	value float64
	text  string // its spelling
	from  string
}

// saved begins the message of a tool that wrote a file.
var saved = regexp.MustCompile(`^Result saved? at `)

// figure finds numbers in texts.
var figure = regexp.MustCompile(`[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?`)

// NewKnown gathers the question, the inputs, the guidance and the evidence.
// exists tells whether a path is in the workspace; nil where there is none.
func NewKnown(question string, inputs strictjson.Value, guidance string, evidence []Record, exists func(string) bool) *Known {
	k := &Known{files: map[string]string{}, byBase: map[string][]string{}, exists: exists}
	k.text("question", question)
	k.value("inputs", inputs)
	k.text("guidance", guidance)
	for i := range evidence {
		r := &evidence[i]
		from := fmt.Sprintf("record %d", r.Seq)
		for _, f := range r.Provenance.Files {
			k.file(f.Path, from)
		}
		r.Arguments.Leaves("", func(_ string, leaf strictjson.Value) { // its paths are known already, or are where it meant to write
			if leaf.Kind() == strictjson.Number {
				k.number(leaf.Text(), from)
			}
		})
		dir := r.Arguments.Get("dir_path")
		if dir.Kind() != strictjson.String {
			k.value(from, r.Observation)
			continue
		}
		for j := range r.Observation.Len() { // a listing gives names alone
			if name := r.Observation.Index(j); name.Kind() == strictjson.String {
				k.file(path.Join(strings.TrimSpace(dir.Text()), name.Text()), from)
			}
		}
	}
	return k
}

func (k *Known) text(from, text string) {
	k.texts = append(k.texts, knownText{from, text})
	for _, m := range figure.FindAllString(text, -1) {
		k.number(m, from)
	}
}

func (k *Known) number(text, from string) {
	if f, err := strconv.ParseFloat(text, 64); err == nil && !math.IsInf(f, 0) {
		k.numbers = append(k.numbers, knownNumber{f, text, from})
	}
}

func (k *Known) file(p, from string) {
	if _, seen := k.files[p]; !seen {
		k.files[p] = from
		k.byBase[path.Base(p)] = append(k.byBase[path.Base(p)], p)
	}
}

func (k *Known) value(from string, v strictjson.Value) {
	v.Leaves("", func(_ string, leaf strictjson.Value) {
		switch leaf.Kind() {
		case strictjson.Number:
			k.number(leaf.Text(), from)
		case strictjson.String:
			k.text(from, leaf.Text())
			if p := saved.ReplaceAllString(leaf.Text(), ""); strings.Contains(path.Base(p), ".") && !strings.ContainsAny(p, "\n") {
				k.file(p, from)
			}
		}
	})
}

// Resolve checks the references of a call's arguments. A path that names a known
// file by its last part alone becomes that file's path; a number that is an
// observed one rounded becomes the observed one. What is found nowhere is a
// problem: an argument must not be invented.
//
// Numbers are checked for tools of numbers alone, which get theirs from earlier
// observations; the constants of raster tools are settings.
func (k *Known) Resolve(t *catalogue.Tool, args strictjson.Value) (resolved strictjson.Value, sources []Source, problems []string) {
	members := make([]strictjson.Member, args.Len())
	for i := range members {
		key, v := args.Key(i), args.Index(i)
		p, ok := paramOf(t, key)
		at := "/" + strictjson.EscapePointer(key)
		switch {
		case ok && p.IO == "in":
			v = k.each(at, v, func(pointer string, leaf strictjson.Value) strictjson.Value {
				return k.path(pointer, leaf, &sources, &problems)
			})
		case ok && p.IO == "" && t.Pure && p.Enum == nil && p.Required():
			v = k.each(at, v, func(pointer string, leaf strictjson.Value) strictjson.Value {
				return k.figure(pointer, leaf, &sources, &problems)
			})
		}
		members[i] = strictjson.Member{Key: key, Value: v}
	}
	return strictjson.Obj(members...), sources, problems
}

// paramOf finds a parameter by its name or another key for it.
func paramOf(t *catalogue.Tool, key string) (*catalogue.Param, bool) {
	for i := range t.Params {
		if p := &t.Params[i]; p.Name == key || slices.Contains(p.Aliases, key) {
			return p, true
		}
	}
	return nil, false
}

// each maps the leaves of a value.
func (k *Known) each(at string, v strictjson.Value, f func(string, strictjson.Value) strictjson.Value) strictjson.Value {
	if n := v.Len(); n > 0 {
		kids := make([]strictjson.Value, n)
		for i := range n {
			token := strconv.Itoa(i)
			if v.Kind() == strictjson.Object {
				token = strictjson.EscapePointer(v.Key(i))
			}
			kids[i] = k.each(at+"/"+token, v.Index(i), f)
		}
		return v.Rebuilt(kids)
	}
	return f(at, v)
}

func (k *Known) path(at string, leaf strictjson.Value, sources *[]Source, problems *[]string) strictjson.Value {
	if leaf.Kind() != strictjson.String {
		return leaf
	}
	p := leaf.Text()
	trimmed := strings.TrimSpace(p)
	if trimmed == "" {
		*problems = append(*problems, at+": the path is empty")
		return leaf
	}
	if from, ok := k.files[trimmed]; ok {
		*sources = append(*sources, Source{Argument: at, From: from})
		return leaf
	}
	var same []string // files whose path ends in this one, or the other way round
	for _, q := range k.byBase[path.Base(trimmed)] {
		if strings.HasSuffix(q, "/"+trimmed) || strings.HasSuffix(trimmed, "/"+q) || !strings.Contains(trimmed, "/") {
			same = append(same, q)
		}
	}
	if len(same) > 1 { // what a step made comes before the bare name in its message
		same = slices.DeleteFunc(same, func(q string) bool { return !strings.Contains(q, "/") })
	}
	if len(same) == 1 {
		*sources = append(*sources, Source{Argument: at, From: k.files[same[0]], Change: "named"})
		if strings.HasSuffix(trimmed, "/"+same[0]) {
			return leaf
		}
		return strictjson.Text(same[0])
	}
	for _, t := range k.texts {
		if strings.Contains(t.text, trimmed) && strings.ContainsAny(trimmed, "/.") {
			*sources = append(*sources, Source{Argument: at, From: t.from})
			return leaf
		}
	}
	if k.exists != nil && k.exists(trimmed) {
		*sources = append(*sources, Source{Argument: at, From: "workspace"})
		return leaf
	}
	*problems = append(*problems, fmt.Sprintf("%s: no accepted step made %q and no input has it; use a path from the steps done or the inputs", at, p))
	return leaf
}

// Digits from which a number is looked up at all, and from which it must be found.
const (
	lookedUp  = 3
	mustExist = 4
)

// changes are what a model may do to a number on the way, by name.
var changes = []struct {
	name string
	undo func(float64) float64
}{
	{"negated", func(f float64) float64 { return -f }},
	{"scaled", func(f float64) float64 { return f / 100 }},
	{"scaled", func(f float64) float64 { return f * 100 }},
	{"scaled", func(f float64) float64 { return f / 1000 }},
	{"scaled", func(f float64) float64 { return f * 1000 }},
	{"kelvin", func(f float64) float64 { return f - 273.15 }},
	{"celsius", func(f float64) float64 { return f + 273.15 }},
}

func (k *Known) figure(at string, leaf strictjson.Value, sources *[]Source, problems *[]string) strictjson.Value {
	f, ok := leaf.Float()
	digits := significant(leaf.Text())
	if !ok || digits < lookedUp {
		return leaf
	}
	var rounded []knownNumber
	for _, n := range k.numbers {
		if n.value == f {
			*sources = append(*sources, Source{Argument: at, From: n.from})
			return leaf
		}
		if significant(n.text) > digits && sameRounded(n.value, f, digits) && !slices.ContainsFunc(rounded, func(m knownNumber) bool { return m.value == n.value }) {
			rounded = append(rounded, n)
		}
	}
	if len(rounded) == 1 {
		*sources = append(*sources, Source{Argument: at, From: rounded[0].from, Change: "rounded"})
		if v, ok := strictjson.Literal(strings.TrimPrefix(rounded[0].text, "+")); ok {
			return v
		}
		return leaf
	}
	for _, c := range changes {
		back := c.undo(f)
		for _, n := range k.numbers {
			if math.Abs(n.value-back) <= 1e-6*math.Max(math.Abs(back), 1e-12) {
				*sources = append(*sources, Source{Argument: at, From: n.from, Change: c.name})
				return leaf
			}
		}
	}
	switch {
	case len(rounded) > 1:
		*sources = append(*sources, Source{Argument: at, From: rounded[0].from, Change: "ambiguous"})
	case digits >= mustExist:
		*problems = append(*problems, fmt.Sprintf("%s: the number %s is in no observation, input or question; take it from the steps done", at, leaf.Text()))
	}
	return leaf
}

// significant counts the significant digits of a literal.
func significant(text string) int {
	mantissa, _, _ := strings.Cut(strings.ToLower(strings.TrimLeft(text, "+-")), "e")
	whole, fraction, point := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	if !point || strings.Trim(fraction, "0") == "" {
		digits = strings.TrimRight(strings.TrimLeft(whole, "0"), "0")
	}
	return len(digits)
}

// sameRounded reports whether a, rounded to some digits, is b.
func sameRounded(a, b float64, digits int) bool {
	r, err := strconv.ParseFloat(strconv.FormatFloat(a, 'e', digits-1, 64), 64)
	return err == nil && math.Abs(r-b) <= 1e-12*math.Abs(b)
}
