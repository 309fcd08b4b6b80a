package slots

import (
	"math"
	"regexp"
	"strconv"
	"strings"

	"terraloom/data"
	"terraloom/data/strictjson"
)

// ref is a place in an earlier observation.
type ref struct {
	step    int
	pointer string // into the observation
	parsed  string // pointer into the Python literal that the string there holds
	text    bool   // the number is written as a string
}

// index knows everything said before the step under analysis. Later values
// replace earlier ones, so a reference names the nearest producer.
type index struct {
	t            *data.Trajectory
	query        string // lower case
	queryNumbers map[uint64]bool
	inputs       map[string]bool
	texts        map[string]ref // observed strings
	messages     map[string]ref // paths at the end of observed messages
	entries      map[string]ref // folder + "/" + entry of listings
	bases        map[string]ref // base names of observed paths and entries
	made         map[string]ref // base names of output arguments
	numbers      map[uint64]ref
	ordered      []numbered // numbers in order, for rounding and scaling
	args         map[string]bool
	argNumbers   map[uint64]bool
}

type numbered struct {
	f float64
	r ref
}

func newIndex(t *data.Trajectory) *index {
	ix := &index{
		t: t, query: strings.ToLower(t.Query), queryNumbers: map[uint64]bool{}, inputs: map[string]bool{},
		texts: map[string]ref{}, messages: map[string]ref{}, entries: map[string]ref{}, bases: map[string]ref{},
		made: map[string]ref{}, numbers: map[uint64]ref{}, args: map[string]bool{}, argNumbers: map[uint64]bool{},
	}
	for _, q := range queryNumbers(t.Query) {
		ix.queryNumbers[key64(q.f)] = true
		if q.percent {
			ix.queryNumbers[key64(q.f/100)] = true
		}
	}
	t.Inputs.Leaves("", func(_ string, v strictjson.Value) {
		if v.Kind() == strictjson.String {
			ix.inputs[strings.TrimRight(strings.TrimSpace(v.Text()), "/")] = true
		}
	})
	return ix
}

// add makes step i known to later steps.
func (ix *index) add(i int, s data.Step) {
	folder := ""
	s.Arguments.Leaves("", func(p string, v strictjson.Value) {
		switch v.Kind() {
		case strictjson.String:
			text := strings.TrimSpace(v.Text())
			ix.args[text] = true
			if key := topKey(p); isOutput(key) || strings.HasPrefix(p[1:], "input_pairs/") && strings.Contains(p, "/output") {
				ix.made[baseName(text)] = ref{step: i}
			} else if key == "dir_path" {
				folder = strings.TrimRight(text, "/")
			}
		case strictjson.Number:
			if f, ok := v.Float(); ok {
				ix.argNumbers[key64(f)] = true
			}
		}
	})
	s.Observation.Leaves("", func(p string, v strictjson.Value) {
		r := ref{step: i, pointer: p}
		switch v.Kind() {
		case strictjson.String:
			ix.observedText(r, strings.TrimSpace(v.Text()), folder)
		case strictjson.Number:
			if f, ok := v.Float(); ok {
				ix.number(f, r)
			}
		}
	})
}

func (ix *index) observedText(r ref, s, folder string) {
	if looksLikePath(s) && !strings.Contains(s, ": ") && messagePath(s) == s {
		ix.texts[s] = r
		ix.bases[baseName(s)] = r
		if folder != "" {
			ix.entries[folder+"/"+s] = r
		}
		return
	}
	if p := messagePath(s); p != s && looksLikePath(p) {
		ix.messages[p] = r
		ix.bases[baseName(p)] = r
		return
	}
	ix.texts[s] = r
	if f, err := strconv.ParseFloat(strings.TrimSuffix(s, "%"), 64); err == nil {
		r.text = true
		ix.number(f, r)
		return
	}
	if lit, ok := parseLiteral(s); ok {
		lit.Leaves("", func(p string, v strictjson.Value) {
			if f, ok := v.Float(); ok {
				r.parsed = p
				if p == "" {
					r.parsed = "/"
				}
				ix.number(f, r)
			}
		})
	}
}

func (ix *index) number(f float64, r ref) {
	ix.numbers[key64(f)] = r
	ix.ordered = append(ix.ordered, numbered{f, r})
}

// plain reports whether a reference is to a bare JSON number.
func (r ref) plain() bool { return r.parsed == "" && !r.text }

func (ix *index) rounded(f float64, d int) (ref, bool) {
	for i := len(ix.ordered) - 1; i >= 0; i-- {
		if o := ix.ordered[i]; o.r.plain() && o.f != f && roundTo(o.f, d) == f {
			return o.r, true
		}
	}
	return ref{}, false
}

func (ix *index) scaled(f float64) (ref, float64, bool) {
	for i := len(ix.ordered) - 1; i >= 0; i-- {
		o := ix.ordered[i]
		if !o.r.plain() || o.f == 0 || math.Abs(o.f) == 1 {
			continue
		}
		for _, k := range scales {
			if p := o.f * k; p == f || math.Abs(p-f) <= 1e-12*math.Abs(f) {
				return o.r, k, true
			}
		}
	}
	return ref{}, 0, false
}

func roundTo(f float64, d int) float64 {
	r, _ := strconv.ParseFloat(strconv.FormatFloat(f, 'f', d, 64), 64)
	return r
}

func topKey(pointer string) string {
	p := pointer[1:]
	if i := strings.IndexByte(p, '/'); i >= 0 {
		p = p[:i]
	}
	return p
}

// messagePath returns the path that ends a message such as
// "Result save at out/x.tif", or s itself.
func messagePath(s string) string {
	for _, mark := range [...]string{"Result save at ", "Result saved at ", "saved at ", "saved to ", "created: "} {
		if i := strings.LastIndex(s, mark); i >= 0 {
			return strings.TrimSpace(s[i+len(mark):])
		}
	}
	return s
}

// queryNumber is a number in a question.
type queryNumber struct {
	start, end int
	f          float64
	percent    bool
}

var numberInText = regexp.MustCompile(`\d+(?:\.\d+)?`)

// queryNumbers finds the numbers of a question that are not parts of words,
// dates or file names.
func queryNumbers(q string) []queryNumber {
	dates := FindDates(q)
	var found []queryNumber
	for _, m := range numberInText.FindAllStringIndex(q, -1) {
		i, j := m[0], m[1]
		if i > 0 && (letter(q[i-1]) || q[i-1] == '_' || digit(q[i-1])) || j < len(q) && (letter(q[j]) && j+1 < len(q) && letter(q[j+1]) || q[j] == '_') {
			continue
		}
		inDate := false
		for _, d := range dates {
			inDate = inDate || i < d.End && d.Start < j
		}
		if inDate {
			continue
		}
		f, err := strconv.ParseFloat(q[i:j], 64)
		if err != nil {
			continue
		}
		if i > 0 && q[i-1] == '-' && (i == 1 || q[i-2] == ' ' || q[i-2] == '(') {
			i, f = i-1, -f
		}
		rest := strings.TrimLeft(q[j:], " ")
		found = append(found, queryNumber{i, j, f, strings.HasPrefix(rest, "%") || strings.HasPrefix(rest, "percent")})
	}
	return found
}
