package slots

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"terraloom/data/strictjson"
)

// measured are the numbers that one kind of tool returned in a trajectory.
type measured struct {
	tool     string
	steps    []int
	values   []float64
	decimals int  // least decimals of a literal; integers have 0
	integers bool // every literal is an integer
	boxes    bool // pixel coordinates
}

// observations makes the measured values of each non-pure tool move together by
// v·scale + offset, which keeps their order, so that selections, comparisons and
// rankings made from them stay right.
func (d *discovery) observations() {
	var groups []*measured
	for i, s := range d.t.Steps {
		if d.isPure[i] {
			continue
		}
		m := measured{tool: s.Tool, decimals: 99, integers: true}
		m.collect(s.Observation)
		if len(m.values) == 0 {
			continue
		}
		var g *measured
		for _, old := range groups {
			if old.tool == m.tool && old.boxes == m.boxes && old.integers == m.integers && old.unit() == m.unit() {
				g = old
			}
		}
		if g == nil {
			g = &measured{tool: m.tool, decimals: 99, integers: m.integers, boxes: m.boxes}
			groups = append(groups, g)
		}
		g.steps = append(g.steps, i)
		g.values = append(g.values, m.values...)
		g.decimals = min(g.decimals, m.decimals)
	}
	for n, g := range groups {
		d.vary(n+1, g)
	}
}

func (m *measured) collect(v strictjson.Value) {
	number := func(lit string) {
		f, err := strconv.ParseFloat(lit, 64)
		if err != nil {
			return
		}
		m.values = append(m.values, f)
		m.decimals = min(m.decimals, decimals(lit))
		m.integers = m.integers && !strings.ContainsAny(lit, ".eE")
	}
	var literal func(v strictjson.Value)
	literal = func(v strictjson.Value) {
		if v.Kind() == strictjson.Array && v.Len() == 4 {
			m.boxes = true
			for i := range 4 {
				m.boxes = m.boxes && v.Index(i).Kind() == strictjson.Number
			}
		}
		if v.Kind() == strictjson.Number {
			number(v.Text())
		}
		for i := range v.Len() {
			literal(v.Index(i))
		}
	}
	if v.Kind() == strictjson.String {
		if _, n, ok := textNumber(v.Text()); ok {
			number(v.Text()[:n])
		} else if lit, ok := parseLiteral(v.Text()); ok {
			literal(lit)
		}
		return
	}
	if v.Kind() == strictjson.Number {
		number(v.Text())
	}
	if v.Kind() == strictjson.Array {
		literal(v.Rebuilt(nil0(v))) // detects a bare box
	}
	for i := range v.Len() {
		m.collect(v.Index(i))
	}
}

// nil0 returns the children of v.
func nil0(v strictjson.Value) []strictjson.Value {
	kids := make([]strictjson.Value, v.Len())
	for i := range kids {
		kids[i] = v.Index(i)
	}
	return kids
}

// unit classifies values by the range they must stay in.
func (m *measured) unit() string {
	lo, hi := span2(m.values)
	name := strings.ToLower(m.tool)
	share := strings.Contains(name, "ratio") || strings.Contains(name, "percent") || strings.Contains(name, "proportion") || strings.Contains(name, "exceed") || m.tool == "MSCN"
	switch {
	case m.boxes:
		return "pixel"
	case share && lo >= 0 && hi <= 1 && !m.integers:
		return "share"
	case share && lo >= 0 && hi <= 100:
		return "percent"
	case lo >= -1 && hi <= 1 && !m.integers:
		return "index"
	case lo >= 200 && hi <= 350:
		return "kelvin"
	}
	return "free"
}

func span2(v []float64) (lo, hi float64) {
	lo, hi = math.Inf(1), math.Inf(-1)
	for _, f := range v {
		lo, hi = math.Min(lo, f), math.Max(hi, f)
	}
	return lo, hi
}

// spread is how far measured values may be drawn apart around their mean. It
// is never below 1, so that rounding cannot merge two values.
const spread = 1.15

// vary adds the slots and occurrences of one group of measured values: free
// positive values and pixels are scaled, bounded ones are spread around their
// mean and moved within their bounds.
func (d *discovery) vary(n int, g *measured) {
	lo, hi := span2(g.values)
	step := math.Pow(10, -float64(min(g.decimals, 6)))
	grid := func(min, max, step, except float64) *Source {
		return &Source{Range: &RangeSource{Min: roundTo(min, 9), Max: roundTo(max, 9), Step: step, Except: []float64{except}}}
	}
	var scale, offset *Source
	mean := 0.0 // around which values are spread
	between := func(low, high, reach float64) {
		widest := 1.0
		if hi > lo && !g.integers {
			mean, widest = roundTo((lo+hi)/2, 6), spread
		}
		a, b := math.Max(low-(mean+widest*(lo-mean)), -reach), math.Min(high-(mean+widest*(hi-mean)), reach)
		s := math.Max(step, math.Pow(10, math.Floor(math.Log10(reach/20))))
		a, b = math.Ceil(a/s)*s, math.Floor(b/s)*s
		if (b-a)/s < 4 {
			mean = 0
			return
		}
		offset = grid(a, b, s, 0)
		if widest > 1 {
			scale = grid(1, widest, 0.01, 1)
		}
	}
	switch g.unit() {
	case "pixel":
		offset, scale = grid(2, 60, 1, 0), grid(0.80, 0.97, 0.005, 1)
	case "share":
		between(0.0005, 0.9995, 0.12)
	case "percent":
		between(0.01, 99.99, 12)
	case "index":
		between(-0.98, 0.98, 0.1)
	case "kelvin":
		between(220, 348, 8)
	}
	switch {
	case offset != nil:
	case g.integers && g.unit() == "percent":
		offset = grid(math.Ceil(-lo), math.Max(math.Ceil(-lo)+1, 100-hi), 1, 0)
	case g.integers:
		offset = grid(1, math.Max(6, math.Ceil(math.Abs(hi)*0.2)), 1, 0)
	case g.unit() == "free" && lo >= 0:
		scale = grid(1.02, 1.30, 0.0025, 1)
	default: // bounded on both sides, or of mixed sign: shrink towards 0
		scale = grid(0.80, 0.98, 0.0025, 1)
	}
	s, o := "1", "0"
	if scale != nil {
		s = d.add(Slot{Name: fmt.Sprintf("scale%d", n), Type: NumberType, Role: Root, Group: g.tool, Seed: 1.0, Source: scale})
	}
	if offset != nil {
		o = d.add(Slot{Name: fmt.Sprintf("offset%d", n), Type: NumberType, Role: Root, Group: g.tool, Seed: 0.0, Source: offset})
	}
	if mean != 0 && scale != nil {
		o = fmt.Sprintf("%s - (%s - 1) * %v", o, s, mean)
	}
	for _, i := range g.steps {
		at := fmt.Sprintf("/steps/%d/observation", i)
		mixed := false // with names that move by templates
		for p := range d.spans {
			mixed = mixed || strings.HasPrefix(p, at) && p != at
		}
		if !mixed {
			delete(d.spans, at)
			d.varied(fmt.Sprintf("o%d", i), at, g.tool, s, o)
			continue
		}
		n := 0
		d.t.Steps[i].Observation.Leaves(at, func(p string, leaf strictjson.Value) {
			if m := (&measured{}); leaf.Kind() == strictjson.Number || leaf.Kind() == strictjson.String && d.spans[p] == nil {
				if m.collect(leaf); len(m.values) > 0 {
					n++
					d.varied(fmt.Sprintf("o%d_%d", i, n), p, g.tool, s, o)
				}
			}
		})
	}
}

// varied makes the seed's value at a pointer an observation slot.
func (d *discovery) varied(name, at, group, scale, offset string) {
	d.add(Slot{Name: name, Type: Observation, Role: Derived, Group: group, Expr: fmt.Sprintf("vary(was(%q), %s, %s)", at, scale, offset)})
	d.p.Occurrences = append(d.p.Occurrences, Occurrence{At: at, Slot: name})
}

// thresholds lets a limit that the query names move, with all its occurrences.
func (d *discovery) thresholds() {
	type limit struct {
		value   float64
		percent bool // the query gives it as a percentage of the argument
		at      []string
		lit     string
	}
	limits := map[string]*limit{}
	inQuery := queryNumbers(d.t.Query)
	for _, l := range d.a.Leaves {
		if l.Origin != FromQuery || l.Value.Kind() != strictjson.Number || !strings.Contains(strings.ToLower(topKey(l.Pointer)), "threshold") {
			continue
		}
		f, _ := l.Value.Float()
		key := strconv.FormatFloat(f, 'g', -1, 64)
		if limits[key] == nil {
			limits[key] = &limit{value: f, lit: l.Value.Text()}
		}
		limits[key].at = append(limits[key].at, fmt.Sprintf("/steps/%d/arguments%s", l.Step, l.Pointer))
	}
	if len(limits) != 1 {
		if len(limits) > 1 {
			d.note("%d thresholds stay: their order must not change", len(limits))
		}
		return
	}
	key := sortedKeys(limits)[0]
	l := limits[key]
	var spans []queryNumber
	for _, q := range inQuery {
		if q.f == l.value || q.percent && q.f/100 == l.value {
			l.percent = q.f != l.value
			spans = append(spans, q)
		}
	}
	if len(spans) == 0 || l.value == 0 || l.value < 0 {
		return
	}
	for _, q := range inQuery {
		if mixed := (q.f == l.value) == l.percent && (q.f == l.value || q.f/100 == l.value); mixed {
			d.note("threshold %s stays: the query writes it in two ways", key)
			return
		}
		if q.f != spans[0].f && sameUnit(d.t.Query, q, spans[0]) {
			d.note("threshold %s stays: the query has another limit in the same unit", key)
			return
		}
	}
	for _, p := range d.pointers { // elsewhere in words: it could be the same limit
		if p == "/answer/text" || strings.HasSuffix(p, "/thought") {
			for _, q := range queryNumbers(d.texts[p]) {
				if q.f == spans[0].f {
					d.note("threshold %s stays: %s names it too", key, p)
					return
				}
			}
		}
	}
	dec := decimals(l.lit)
	step := math.Pow(10, -float64(dec))
	lo, hi := l.value*0.7, l.value*1.3
	if l.value >= 200 && l.value <= 350 {
		lo, hi = l.value-8, l.value+8
	}
	if l.value <= 1 {
		hi = math.Min(hi, 0.95)
		step = math.Min(step, 0.05)
	}
	if l.percent || spans[0].percent {
		hi = math.Min(hi, map[bool]float64{true: 0.95, false: 95}[l.percent])
	}
	lo, hi = math.Ceil(lo/step)*step, math.Floor(hi/step)*step
	if (hi-lo)/step < 2 {
		return
	}
	slot := d.add(Slot{Name: "threshold", Type: Threshold, Role: Root, Group: "threshold", Seed: l.value, Source: &Source{Range: &RangeSource{Min: roundTo(lo, 9), Max: roundTo(hi, 9), Step: roundTo(step, 9), Except: []float64{l.value}}}})
	for _, at := range l.at {
		d.p.Occurrences = append(d.p.Occurrences, Occurrence{At: at, Slot: slot})
	}
	text := slot
	if l.percent {
		text = d.add(Slot{Name: "thresholdPercent", Type: NumberType, Role: Derived, Group: "threshold", Expr: "round(threshold * 100, 6)"})
	}
	for _, q := range spans {
		format := ""
		if n := decimals(d.t.Query[q.start:q.end]); n > 0 && strings.HasSuffix(d.t.Query[q.start:q.end], "0") {
			format = fmt.Sprintf(".%df", n)
		}
		d.claim("/query", span{q.start, q.end, text, format})
	}
}

// sameUnit reports whether two numbers of a question are followed by the same unit word.
func sameUnit(q string, a, b queryNumber) bool {
	unit := func(n queryNumber) string {
		f := strings.FieldsFunc(q[n.end:min(len(q), n.end+12)], func(r rune) bool { return strings.ContainsRune(" ,.;:?!)–-", r) })
		if len(f) == 0 {
			return ""
		}
		return f[0]
	}
	return unit(a) == unit(b)
}

var answerNumber = regexp.MustCompile(`[-−–]?\d+(?:\.\d+)?`)

// answer derives the numbers of the answer's text from the observations. An
// answer with a number that cannot be derived is dropped: the row then trains
// the Planner and the Executor only.
func (d *discovery) answer() {
	const at = "/answer/text"
	text := d.texts[at]
	if text == "" {
		d.p.Answer = AnswerNone
		return
	}
	d.p.Answer = AnswerFixed
	known := map[uint64]bool{}
	for _, q := range queryNumbers(d.t.Query) {
		known[key64(q.f)] = true
	}
	matches := d.answerNumbers(at, text)
	for n, m := range matches {
		i, j := m[0], m[1]
		lit := strings.NewReplacer("−", "-", "–", "-").Replace(text[i:j])
		f, err := strconv.ParseFloat(lit, 64)
		if err != nil {
			continue
		}
		dec := decimals(lit)
		from, ok := d.answerSource(f, dec, len(matches) == 1)
		if !ok {
			if known[key64(f)] || wholeSmall(text, i, j, f) || d.onlyLabels() {
				continue
			}
			d.note("the answer is left out: nothing observed gives its %s", lit)
			d.p.Answer = AnswerNone
			delete(d.spans, at)
			d.p.Slots = slices.DeleteFunc(d.p.Slots, func(s Slot) bool { return s.Group == "answer" })
			return
		}
		d.p.Answer = AnswerDerived
		name := d.add(Slot{Name: fmt.Sprintf("answer%d", n+1), Type: NumberType, Role: Derived, Group: "answer", Expr: from})
		d.claim(at, span{i, j, name, fmt.Sprintf(".%df", dec)})
	}
}

// answerNumbers are the spans of an answer's numbers with their signs. A hyphen
// after a letter or digit is no sign, and a whole number behind it (Sentinel-2)
// no number.
func (d *discovery) answerNumbers(at, text string) [][2]int {
	var found [][2]int
	for _, m := range answerNumber.FindAllStringIndex(text, -1) {
		i, j := m[0], m[1]
		if _, width := utf8.DecodeRuneInString(text[i:]); !digit(text[i]) && i > 0 && (digit(text[i-1]) || letter(text[i-1])) {
			named := letter(text[i-1])
			if i += width; named && !strings.Contains(text[i:j], ".") {
				continue
			}
		}
		if d.free(at, i, j) && !inWord(text, i, j) {
			found = append(found, [2]int{i, j})
		}
	}
	return found
}

// onlyLabels reports whether scene classes are all that the trajectory observed:
// they stay, so what is counted from them stays.
func (d *discovery) onlyLabels() bool {
	for i, s := range d.t.Steps {
		if s.Tool != "get_filelist" && s.Tool != "MSCN" && !d.isPure[i] {
			return false
		}
	}
	return true
}

// wholeSmall accepts small whole numbers that label things (zone 1, band 10).
func wholeSmall(text string, i, j int, f float64) bool {
	return f == math.Trunc(f) && i > 0 && text[i-1] == ' ' && f < 20 && j < len(text) && text[j] != '%' && text[j] != '.' && regexp.MustCompile(`(?i)(band|zone|region|polygon|level|class) $`).MatchString(text[:i])
}

func inWord(s string, i, j int) bool {
	return i > 0 && (letter(s[i-1]) || s[i-1] == '_' || s[i-1] == '^') || j < len(s) && s[j] == '_'
}

func (d *discovery) free(pointer string, start, end int) bool {
	for _, o := range d.spans[pointer] {
		if start < o.end && o.start < end {
			return false
		}
	}
	return true
}

// answerSource finds the observation that an answer's number states: the last
// one that rounds to it, up to sign, or with loose the final number if it is
// within 15 % (the accuracy rule of Earth-Agent-Pro §VI-A).
func (d *discovery) answerSource(f float64, dec int, loose bool) (expr string, ok bool) {
	for i := len(d.t.Steps) - 1; i >= 0; i-- {
		values := []strictjson.Value{d.t.Steps[i].Observation}
		if d.isPure[i] {
			values = append(values, d.own[i])
		}
		for _, v := range values {
			v.Leaves("", func(p string, leaf strictjson.Value) {
				x, err := floatArg(leaf)
				if ok || err != nil {
					return
				}
				read := fmt.Sprintf("num(observed(%d, %q))", i, p)
				for _, form := range [...]struct {
					value float64
					expr  string
				}{{x, read}, {-x, "0 - " + read}, {x * 100, read + " * 100"}} {
					if roundTo(form.value, dec) == f {
						expr, ok = fmt.Sprintf("round(%s, %d)", form.expr, dec), true
						return
					}
				}
			})
		}
		if ok {
			return expr, ok
		}
	}
	if last := len(d.t.Steps) - 1; loose {
		v := d.t.Steps[last].Observation
		if d.isPure[last] {
			v = d.own[last]
		}
		if x, err := floatArg(v); err == nil && x != 0 && math.Abs(f-x) < 0.15*math.Abs(x) {
			return fmt.Sprintf("round(num(observed(%d, %q)), %d)", last, "", dec), true
		}
	}
	return "", false
}
