package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"terraloom/agent/tools"
	"terraloom/data"
	"terraloom/data/catalogue"
	"terraloom/data/strictjson"
)

// The checker reads a dataset and the raw seed file and knows neither slot
// programs nor synthesis: what an instance owes its seed is written here a second
// time, from the definition, with encoding/json values.

// rawSeed is a worked question as its file has it.
type rawSeed struct {
	id, query, answer string
	inputs            any
	steps             []rawStep
}

type rawStep struct {
	tool   string
	args   any
	obs    any
	hasObs bool
}

// rawEarthBench reads question.json; the query is the autonomous-planning text.
func rawEarthBench(t testing.TB, path string) map[string]*rawSeed {
	t.Helper()
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var file map[string]struct {
		Dialogs []struct {
			Role      string
			Content   any
			ToolCalls []struct {
				Function struct {
					Name      string
					Arguments any
				}
			} `json:"tool_calls"`
		}
		Choices    []any
		Evaluation []struct {
			Question, Type, Data string
			Gold                 struct{ Whitelist any } `json:"gt_answer"`
		}
	}
	d := json.NewDecoder(bytes.NewReader(src))
	d.UseNumber()
	if err := d.Decode(&file); err != nil {
		t.Fatal(err)
	}
	seeds := map[string]*rawSeed{}
	for n, e := range file {
		s := &rawSeed{id: "earth-bench-" + n}
		for _, v := range e.Evaluation {
			if strings.HasPrefix(strings.ToLower(v.Type), "autonomous") {
				s.query = v.Question
				gold := v.Gold.Whitelist
				if list, ok := gold.([]any); ok && len(list) == 1 {
					gold = list[0]
				}
				if letter, ok := gold.(string); ok && len(letter) == 1 && int(letter[0]-'A') < len(e.Choices) {
					s.answer = strings.TrimPrefix(fmt.Sprint(e.Choices[letter[0]-'A']), letter+".")
				}
			}
			if v.Data != "" {
				s.inputs = map[string]any{"data_path": strings.TrimSpace(v.Data)}
			}
		}
		for _, m := range e.Dialogs {
			switch {
			case len(m.ToolCalls) > 0:
				s.steps = append(s.steps, rawStep{tool: m.ToolCalls[0].Function.Name, args: m.ToolCalls[0].Function.Arguments})
			case m.Role == "tool":
				if last := len(s.steps) - 1; last >= 0 && !s.steps[last].hasObs { // else an observation without a call
					s.steps[last].obs, s.steps[last].hasObs = m.Content.(map[string]any)["content"], true
				}
			}
		}
		seeds[s.id] = s
	}
	return seeds
}

// rawOwn reads terraloom's own JSONL.
func rawOwn(t testing.TB, path string) map[string]*rawSeed {
	t.Helper()
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	seeds := map[string]*rawSeed{}
	for line := range bytes.Lines(src) {
		s := rawOf(t, line)
		seeds[s.id] = s
	}
	return seeds
}

// rawOf decodes one trajectory object.
func rawOf(t testing.TB, src []byte) *rawSeed {
	t.Helper()
	var v struct {
		ID, Query string
		Inputs    any
		Answer    struct{ Text string }
		Steps     []struct {
			Tool        string
			Arguments   any
			Observation any
		}
	}
	d := json.NewDecoder(bytes.NewReader(src))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	s := &rawSeed{id: v.ID, query: v.Query, inputs: v.Inputs, answer: v.Answer.Text}
	for _, st := range v.Steps {
		s.steps = append(s.steps, rawStep{st.Tool, st.Arguments, st.Observation, st.Observation != nil})
	}
	return s
}

// leafOf is a string or number of a JSON value and where it stands.
type leafOf struct {
	at string
	v  any // string or json.Number
}

func leavesOf(v any) []leafOf {
	var out []leafOf
	var walk func(at string, v any)
	walk = func(at string, v any) {
		switch x := v.(type) {
		case map[string]any:
			keys := make([]string, 0, len(x))
			for k := range x {
				keys = append(keys, k)
			}
			slices.Sort(keys)
			for _, k := range keys {
				walk(at+"/"+k, x[k])
			}
		case []any:
			for i, y := range x {
				walk(at+"/"+strconv.Itoa(i), y)
			}
		case string, json.Number:
			out = append(out, leafOf{at, x})
		}
	}
	walk("", v)
	return out
}

// shapeFault compares keys, JSON types and list lengths.
func shapeFault(at string, a, b any) string {
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok || len(x) != len(y) {
			return at
		}
		for k := range x {
			if _, ok := y[k]; !ok {
				return at + "/" + k
			}
			if f := shapeFault(at+"/"+k, x[k], y[k]); f != "" {
				return f
			}
		}
	case []any:
		y, ok := b.([]any)
		if !ok || len(x) != len(y) {
			return at + "[]"
		}
		for i := range x {
			if f := shapeFault(at+"/"+strconv.Itoa(i), x[i], y[i]); f != "" {
				return f
			}
		}
	default:
		if fmt.Sprintf("%T", a) != fmt.Sprintf("%T", b) {
			return at + " " + fmt.Sprintf("%T, was %T", b, a)
		}
	}
	return ""
}

func asNumber(v any) (float64, bool) {
	switch x := v.(type) {
	case json.Number:
		f, err := x.Float64()
		return f, err == nil
	case string:
		if len(x) > 32 || !strings.ContainsAny(x, "0123456789") {
			return 0, false
		}
		f, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(x), "%"), 64)
		return f, err == nil
	}
	return 0, false
}

// lastPart is what follows the last slash or backslash.
func lastPart(s string) string {
	s = strings.TrimSpace(s)
	for _, mark := range []string{"saved at ", "save at ", "saved to ", "created: "} {
		if i := strings.LastIndex(s, mark); i >= 0 {
			s = s[i+len(mark):]
		}
	}
	return s[strings.LastIndexAny(s, `/\`)+1:]
}

// sameLeaf says whether an argument leaf repeats an observed one: the same
// informative number, also as numeric text, or the same text or file.
func sameLeaf(arg, obs any) bool {
	if x, ok := asNumber(arg); ok {
		y, ok := asNumber(obs)
		return ok && x == y && (x != math.Trunc(x) || math.Abs(x) >= 100)
	}
	a, ok1 := arg.(string)
	b, ok2 := obs.(string)
	if !ok1 || !ok2 || len(a) < 5 {
		return false
	}
	a, b = strings.TrimSpace(a), strings.TrimSpace(b)
	return a == b || strings.Contains(lastPart(a), ".") && lastPart(a) == lastPart(b)
}

// producer is a place in an earlier observation.
type producer struct {
	step int
	at   string
}

// valueEdges are the argument leaves of step i that repeat something observed
// earlier, with everything they could have come from.
func valueEdges(s *rawSeed, i int) map[string][]producer {
	edges := map[string][]producer{}
	inQuery := numbersIn(s.query)
	observed := make([][]leafOf, i)
	for j := range observed {
		observed[j] = leavesOf(s.steps[j].obs)
	}
	for _, a := range leavesOf(s.steps[i].args) {
		if x, ok := asNumber(a.v); ok && slices.ContainsFunc(inQuery, func(y float64) bool { return x == y || x == y/100 }) {
			continue // the question gives it
		}
		key := a.at[1:]
		if j := strings.IndexByte(key, '/'); j >= 0 {
			key = key[:j]
		}
		if strings.HasPrefix(key, "output") || strings.HasPrefix(key, "save") {
			continue // a new file
		}
		for j := range i {
			for _, o := range observed[j] {
				if sameLeaf(a.v, o.v) {
					edges[a.at] = append(edges[a.at], producer{j, o.at})
				}
			}
		}
	}
	return edges
}

var plainNumber = regexp.MustCompile(`\d+(?:\.\d+)?`)

func numbersIn(s string) []float64 {
	var out []float64
	for _, m := range plainNumber.FindAllString(s, -1) {
		if f, err := strconv.ParseFloat(m, 64); err == nil {
			out = append(out, f)
		}
	}
	return out
}

// dated is a day or a bare year found in a text.
type dated struct {
	day  time.Time
	full bool
}

const monthWords = `January|February|March|April|May|June|July|August|September|October|November|December|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sep|Oct|Nov|Dec`

var (
	monthDay = regexp.MustCompile(`(?i)\b(` + monthWords + `)\.? (\d{1,2}),? ((?:19|20)\d\d)\b`)
	dayMonth = regexp.MustCompile(`(?i)\b(\d{1,2}) (` + monthWords + `) ((?:19|20)\d\d)\b`)
	digitRun = regexp.MustCompile(`\d+`)
)

// datesIn lists the days and bare years of a text: numeric days with one
// separator or none, with or without a clock time behind; months in words; years
// from 1980 to 2039 that are no part of a decimal.
func datesIn(s string) []dated {
	if len(s) < 4 {
		return nil
	}
	var out []dated
	rest := []byte(s)
	add := func(from, to int, y, mo, d string) bool {
		year, _ := strconv.Atoi(y)
		month, _ := strconv.Atoi(mo)
		day, _ := strconv.Atoi(d)
		when := time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC)
		if when.Day() != day || int(when.Month()) != month {
			return false
		}
		out = append(out, dated{when, true})
		for i := from; i < to; i++ {
			rest[i] = ' '
		}
		return true
	}
	month := func(name string) string {
		when, _ := time.Parse("Jan", strings.ToUpper(name[:1])+strings.ToLower(name[1:3]))
		return strconv.Itoa(int(when.Month()))
	}
	if strings.Contains(s, " ") {
		for _, m := range monthDay.FindAllStringSubmatchIndex(s, -1) {
			add(m[0], m[1], s[m[6]:m[7]], month(s[m[2]:m[3]]), s[m[4]:m[5]])
		}
		for _, m := range dayMonth.FindAllStringSubmatchIndex(s, -1) {
			add(m[0], m[1], s[m[6]:m[7]], month(s[m[4]:m[5]]), s[m[2]:m[3]])
		}
	}
	runs := digitRun.FindAllIndex(rest, -1)
	text := func(k int) string { return string(rest[runs[k][0]:runs[k][1]]) }
	clock := func(k int) int { // where the clock time in run k ends, if it is one
		if k < len(runs) && len(text(k)) == 4 && runs[k][0] > 0 && strings.IndexByte("_T", rest[runs[k][0]-1]) >= 0 && text(k) < "2400" {
			return 1
		}
		return 0
	}
	for k := 0; k < len(runs); k++ {
		r := text(k)
		if len(r) == 8 && r[:2] >= "19" && r[:2] <= "20" && add(0, 0, r[:4], r[4:6], r[6:]) {
			k += clock(k + 1)
			continue
		}
		if len(r) != 4 || r < "1980" || r > "2039" {
			continue
		}
		at := runs[k][1]
		if k+2 < len(runs) && len(text(k+1)) == 2 && len(text(k+2)) == 2 && runs[k+1][0] == at+1 && runs[k+2][0] == at+4 &&
			rest[at] == rest[at+3] && strings.IndexByte("-_/", rest[at]) >= 0 && add(0, 0, r, text(k+1), text(k+2)) {
			k += 2
			k += clock(k + 1)
			continue
		}
		decimal := at+1 < len(rest) && rest[at] == '.' && '0' <= rest[at+1] && rest[at+1] <= '9' || runs[k][0] > 1 && rest[runs[k][0]-1] == '.' && '0' <= rest[runs[k][0]-2] && rest[runs[k][0]-2] <= '9'
		if !decimal {
			year, _ := strconv.Atoi(r)
			out = append(out, dated{time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC), false})
		}
	}
	return out
}

// moved is how an instance's dates differ from its seed's: whole years, then days.
type moved struct{ years, days int }

func (m moved) apply(d time.Time) time.Time { return d.AddDate(m.years, 0, m.days) }

var folderNumber = regexp.MustCompile(`(?i)question[-_]?0*(\d+)`)

// checker holds what is counted over a dataset.
type checker struct {
	t        testing.TB
	say      func(fault string)
	kit      *tools.Registry
	seeds    map[string]*rawSeed
	edges    map[string][]map[string][]producer // by seed, by step
	faults   int
	values   int // exact value edges seen
	computed int // observations computed again
	answers  int // answers that state the last observation
	known    map[string][]dated
}

// datesOf is datesIn, remembered by the last part of a path: folders have no dates.
func (c *checker) datesOf(s string) []dated {
	if i := strings.LastIndexByte(s, '/'); i >= 0 && len(s) < 200 {
		if _, ok := c.known[s[:i]]; !ok {
			c.known[s[:i]] = datesIn(s[:i])
		}
		if len(c.known[s[:i]]) == 0 {
			s = s[i+1:]
		}
	}
	d, ok := c.known[s]
	if !ok {
		d = datesIn(s)
		c.known[s] = d
	}
	return d
}

// newChecker reports at most maxFaults faults to t and counts the rest.
func newChecker(t testing.TB, seeds map[string]*rawSeed) *checker {
	t.Helper()
	kit, err := tools.New(tools.Correct)
	if err != nil {
		t.Fatal(err)
	}
	c := &checker{t: t, kit: kit, seeds: seeds, edges: map[string][]map[string][]producer{}, known: map[string][]dated{}}
	c.say = func(fault string) {
		if c.faults <= maxFaults {
			t.Error(fault)
		}
	}
	return c
}

const maxFaults = 25

func (c *checker) fault(format string, args ...any) {
	c.faults++
	c.say(fmt.Sprintf(format, args...))
}

// instance checks one trajectory against its seed.
func (c *checker) instance(tr *data.Trajectory) *rawSeed {
	seed := c.seeds[tr.SeedID]
	if seed == nil {
		c.fault("%s: its seed %q is not in the file", tr.ID, tr.SeedID)
		return nil
	}
	in := rawOf(c.t, []byte(tr.Value().JSON()))
	if len(in.steps) != len(seed.steps) {
		c.fault("%s: %d steps, the seed has %d", tr.ID, len(in.steps), len(seed.steps))
		return nil
	}
	for i := range in.steps {
		if in.steps[i].tool != seed.steps[i].tool {
			c.fault("%s step %d: tool %s, the seed has %s", tr.ID, i, in.steps[i].tool, seed.steps[i].tool)
		}
		if f := shapeFault("", seed.steps[i].args, in.steps[i].args); f != "" {
			c.fault("%s step %d: arguments differ in keys or types at %s", tr.ID, i, f)
		}
	}
	c.dependencies(seed, in, tr.ID)
	c.recompute(seed, tr)
	c.oldNames(seed, in, tr.ID)
	c.dates(seed, in, tr.ID)
	c.limits(seed, in, tr.ID)
	c.answer(seed, in, tr.ID)
	if len(c.known) > 1<<16 {
		clear(c.known)
	}
	return in
}

// dependencies: every value that a seed's argument took from an earlier
// observation, the instance's argument takes from there too.
func (c *checker) dependencies(seed, in *rawSeed, id string) {
	if c.edges[seed.id] == nil {
		for i := range seed.steps {
			c.edges[seed.id] = append(c.edges[seed.id], valueEdges(seed, i))
		}
	}
	observed := make([]map[string]any, len(in.steps))
	for i := range in.steps {
		observed[i] = map[string]any{}
		for _, o := range leavesOf(in.steps[i].obs) {
			observed[i][o.at] = o.v
		}
	}
	for i := range in.steps {
		edges := c.edges[seed.id][i]
		if len(edges) == 0 {
			continue
		}
		for _, a := range leavesOf(in.steps[i].args) {
			from := edges[a.at]
			if len(from) == 0 {
				continue
			}
			c.values++
			if slices.ContainsFunc(from, func(p producer) bool {
				o, ok := observed[p.step][p.at]
				return ok && sameValueAs(a.v, o)
			}) {
				continue
			}
			// A pure tool's own output can have another shape than the record.
			if slices.ContainsFunc(from, func(p producer) bool {
				if !c.kit.Pure(in.steps[p.step].tool) {
					return false
				}
				for _, o := range observed[p.step] {
					if sameValueAs(a.v, o) {
						return true
					}
				}
				return false
			}) {
				continue
			}
			c.fault("%s step %d %s: %v comes from none of %v as in the seed (%v)", id, i, a.at, a.v, from, observed[from[0].step][from[0].at])
		}
	}
}

// sameValueAs is sameLeaf without the demand that a number be informative.
func sameValueAs(arg, obs any) bool {
	x, ok1 := asNumber(arg)
	y, ok2 := asNumber(obs)
	return ok1 && ok2 && x == y || sameLeaf(arg, obs)
}

// recompute: what a pure tool returned is what it returns.
func (c *checker) recompute(seed *rawSeed, tr *data.Trajectory) {
	for i := range tr.Steps {
		s := &tr.Steps[i]
		if !c.kit.Pure(s.Tool) {
			continue
		}
		args, err := json.Marshal(seed.steps[i].args)
		if err != nil {
			c.t.Fatal(err)
		}
		seedArgs, err := strictjson.Parse(args)
		if err != nil {
			c.t.Fatal(err)
		}
		if _, err := c.kit.Call(s.Tool, seedArgs); err != nil {
			continue // the seed's own call has no result
		}
		want, err := c.kit.Call(s.Tool, s.Arguments)
		if err != nil || want.JSON() != s.Observation.JSON() {
			c.fault("%s step %d: %s returns %s (%v), recorded is %s", tr.ID, i, s.Tool, want.JSON(), err, s.Observation.JSON())
		}
		c.computed++
	}
}

// textsOf lists every text of a question that an instance composes.
func textsOf(s *rawSeed) []string {
	texts := []string{s.query, s.answer}
	add := func(v any) {
		for _, l := range leavesOf(v) {
			if x, ok := l.v.(string); ok {
				texts = append(texts, x)
			}
		}
	}
	add(s.inputs)
	for i := range s.steps {
		add(s.steps[i].args)
		add(s.steps[i].obs)
	}
	return texts
}

var properWord = regexp.MustCompile(`\b[A-Z][a-z]{3,}\b`)

// common are capitalised words that no place has for itself.
var common = regexp.MustCompile(`^(?i:january|february|march|april|june|july|august|september|october|november|december|` +
	`lake|river|basin|delta|desert|forest|mountain|mountains|plain|plains|plateau|island|islands|national|park|city|province|state|region|north|south|east|west|northern|southern|eastern|western|central)$`)

// oldNames: no folder number of the seed, and no name that left its question or
// its file list, is anywhere in the instance.
func (c *checker) oldNames(seed, in *rawSeed, id string) {
	numbers := map[string]bool{}
	for _, s := range textsOf(seed) {
		for _, m := range folderNumber.FindAllStringSubmatch(s, -1) {
			numbers[m[1]] = true
		}
	}
	gone := map[string]bool{}
	leave := func(old, now string) {
		low := strings.ToLower(now)
		for _, w := range properWord.FindAllString(old, -1) {
			if !common.MatchString(w) && !strings.Contains(low, strings.ToLower(w)) {
				gone[strings.ToLower(w)] = true
			}
		}
	}
	leave(seed.query, in.query)
	for i := range seed.steps {
		old, now := leavesOf(seed.steps[i].obs), leavesOf(in.steps[i].obs)
		if seed.steps[i].tool != "get_filelist" || len(old) != len(now) {
			continue
		}
		for k := range old {
			a, ok1 := old[k].v.(string)
			b, ok2 := now[k].v.(string)
			if ok1 && ok2 {
				leave(a, b)
			}
		}
	}
	texts := textsOf(in)
	for _, s := range texts {
		for _, m := range folderNumber.FindAllStringSubmatch(s, -1) {
			if numbers[m[1]] {
				c.fault("%s: the seed's folder number %s in %.120q", id, m[1], s)
			}
		}
	}
	all := strings.ToLower(strings.Join(texts, "\n"))
	for w := range gone {
		if at := regexp.MustCompile(`(?:^|[^a-z])` + w + `(?:$|[^a-z])`).FindStringIndex(all); strings.Contains(all, w) && at != nil {
			c.fault("%s: the old name %q in %q (question now: %.120q)", id, w, all[max(0, at[0]-40):min(len(all), at[1]+40)], in.query)
		}
	}
}

// dates: all dates of an instance moved by the same years and days, and those of
// the arguments stand in its own listing where the seed's do.
func (c *checker) dates(seed, in *rawSeed, id string) {
	if strings.HasPrefix(seed.id, "earth-bench-") {
		if n, _ := strconv.Atoi(seed.id[len("earth-bench-"):]); n > 188 {
			return // images without dates; numbers in their names are tiles
		}
	}
	var m moved
	known, modis := false, strings.Contains(seed.query, "MODIS")
	listed := map[time.Time]bool{}
	seedListed := map[time.Time]bool{}
	compare := func(where, old, now string) {
		a, b := c.datesOf(old), c.datesOf(now)
		if len(a) != len(b) {
			c.fault("%s %s: %d dates in %.160q, the seed has %d in %.160q", id, where, len(b), now, len(a), old)
			return
		}
		for k := range a {
			if a[k].full != b[k].full {
				c.fault("%s %s: %.100q and %.100q have other kinds of dates", id, where, old, now)
				return
			}
			if !known && a[k].full {
				m.years = b[k].day.Year() - a[k].day.Year()
				m.days = int(math.Round(b[k].day.Sub(a[k].day.AddDate(m.years, 0, 0)).Hours() / 24))
				if m.days > 180 {
					m.years, m.days = m.years+1, int(math.Round(b[k].day.Sub(a[k].day.AddDate(m.years+1, 0, 0)).Hours()/24))
				} else if m.days < -180 {
					m.years, m.days = m.years-1, int(math.Round(b[k].day.Sub(a[k].day.AddDate(m.years-1, 0, 0)).Hours()/24))
				}
				known = true
			}
			want := m.apply(a[k].day)
			if !a[k].full {
				want = a[k].day.AddDate(m.years, 0, 0)
				if !known { // bare years before any full date
					m.years, known = b[k].day.Year()-a[k].day.Year(), true
					want = b[k].day
				}
			}
			if first := time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC); b[k].day.Year() > 2025 && a[k].day.Year() <= 2025 || b[k].day.Before(first) && !a[k].day.Before(first) {
				c.fault("%s %s: %s is outside the years 1980 to 2025", id, where, b[k].day.Format(time.DateOnly))
			}
			if terra := time.Date(2000, 2, 1, 0, 0, 0, 0, time.UTC); modis && b[k].day.Before(terra) && !a[k].day.Before(terra) {
				c.fault("%s %s: %s is before the first MODIS image", id, where, b[k].day.Format(time.DateOnly))
			}
			if !b[k].day.Equal(want) {
				c.fault("%s %s: %s became %s, other dates moved by %d years and %d days: %.120q", id, where, a[k].day.Format(time.DateOnly), b[k].day.Format(time.DateOnly), m.years, m.days, now)
				return
			}
		}
	}
	both := func(where string, x, y any, f func(old, now string)) {
		a, b := leavesOf(x), leavesOf(y)
		for k := range a {
			old, ok := a[k].v.(string)
			if !ok || k >= len(b) {
				continue
			}
			now, _ := b[k].v.(string)
			compare(where, old, now)
			if f != nil {
				f(old, now)
			}
		}
	}
	for i := range seed.steps {
		if seed.steps[i].tool == "get_filelist" {
			both("listing", seed.steps[i].obs, in.steps[i].obs, func(old, now string) {
				for _, d := range c.datesOf(old) {
					seedListed[d.day] = true
				}
				for _, d := range c.datesOf(now) {
					listed[d.day] = true
				}
			})
		}
	}
	compare("question", seed.query, in.query)
	for i := range seed.steps {
		where := fmt.Sprintf("step %d", i)
		both(where, seed.steps[i].args, in.steps[i].args, func(old, now string) {
			a, b := c.datesOf(old), c.datesOf(now)
			for k := range b {
				if b[k].full && k < len(a) && seedListed[a[k].day] && !listed[b[k].day] {
					c.fault("%s %s: %s is not in the instance's listing: %.120q", id, where, b[k].day.Format(time.DateOnly), now)
				}
			}
		})
		if !c.kit.Pure(seed.steps[i].tool) {
			both(where, seed.steps[i].obs, in.steps[i].obs, nil)
		}
	}
}

// limits: a threshold that the seed's question names, the instance's names too.
func (c *checker) limits(seed, in *rawSeed, id string) {
	for i := range seed.steps {
		old, now := leavesOf(seed.steps[i].args), leavesOf(in.steps[i].args)
		for k := range old {
			if !strings.Contains(old[k].at, "threshold") || k >= len(now) {
				continue
			}
			x, ok := asNumber(old[k].v)
			y, _ := asNumber(now[k].v)
			named := func(q string, f float64) bool {
				return slices.ContainsFunc(numbersIn(q), func(g float64) bool { return f == g || math.Abs(f-g/100) < 1e-9 })
			}
			if ok && named(seed.query, x) && !named(in.query, y) {
				c.fault("%s step %d: threshold %v is not in the question %.200q", id, i, now[k].v, in.query)
			}
		}
	}
}

// answer: a number that states the last observation in the seed states it in the instance.
func (c *checker) answer(seed, in *rawSeed, id string) {
	last := len(seed.steps) - 1
	old, ok := asNumber(seed.steps[last].obs)
	now, ok2 := asNumber(in.steps[last].obs)
	if !ok || !ok2 || in.answer == "" || seed.answer == "" {
		return
	}
	m := plainNumber.FindString(seed.answer)
	if m == "" || m != lastNumber(seed.answer) {
		return
	}
	decimals := 0
	if dot := strings.IndexByte(m, '.'); dot >= 0 {
		decimals = len(m) - dot - 1
	}
	f, _ := strconv.ParseFloat(m, 64)
	if strconv.FormatFloat(math.Abs(old), 'f', decimals, 64) != strconv.FormatFloat(f, 'f', decimals, 64) {
		return
	}
	c.answers++
	if got, want := lastNumber(in.answer), strconv.FormatFloat(math.Abs(now), 'f', decimals, 64); got != want {
		c.fault("%s: the answer %q does not state the last observation %v", id, in.answer, now)
	}
}

func lastNumber(s string) string {
	all := plainNumber.FindAllString(s, -1)
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1]
}

// executorPrompt checks what one node's prompt shows: an Executor prompt shows every
// observed value that its target repeats and nothing of its own or a later step.
func (c *checker) executorPrompt(in *rawSeed, seedID string, node int, prompt string) {
	for at, from := range c.edges[seedID][node] {
		v := leafAt(in.steps[node].args, at)
		shown := false
		if text, ok := v.(string); ok {
			if _, number := asNumber(v); !number {
				shown = strings.Contains(prompt, lastPart(text))
			}
		}
		for _, p := range from {
			if o := leafAt(in.steps[p.step].obs, p.at); !shown && o != nil {
				shown = strings.Contains(prompt, fmt.Sprint(o))
			}
		}
		for k := 0; !shown && k < node; k++ { // a pure tool's own output has another shape
			for _, o := range leavesOf(in.steps[k].obs) {
				shown = shown || sameValueAs(v, o.v) && strings.Contains(prompt, fmt.Sprint(o.v))
			}
		}
		if !shown {
			c.fault("%s node %d: the prompt does not show %v, which %s takes from %v", in.id, node, v, at, from)
		}
	}
	earlier := func(text string) bool {
		if strings.Contains(in.query, text) || strings.Contains(fmt.Sprint(in.inputs), text) {
			return true
		}
		for k := range node {
			for _, v := range []any{in.steps[k].args, in.steps[k].obs} {
				for _, l := range leavesOf(v) {
					if strings.Contains(fmt.Sprint(l.v), text) {
						return true
					}
				}
			}
		}
		return false
	}
	hidden := func(what string, v any) {
		looked := 0
		for _, l := range leavesOf(v) {
			text := fmt.Sprint(l.v)
			if len(text) < 6 {
				continue // too short to tell
			}
			if looked++; looked > 6 {
				break
			}
			if strings.Contains(prompt, text) && !earlier(text) {
				c.fault("%s node %d: the prompt shows %s, %q", in.id, node, what, text)
			}
		}
	}
	for k := node; k < min(node+2, len(in.steps)); k++ {
		hidden(fmt.Sprintf("what step %d returned", k), in.steps[k].obs)
		for key, v := range in.steps[k].args.(map[string]any) {
			if strings.HasPrefix(key, "output") || strings.HasPrefix(key, "save") {
				hidden(fmt.Sprintf("%s of step %d", key, k), v)
			}
		}
	}
}

func leafAt(v any, at string) any {
	for _, token := range strings.Split(at, "/")[1:] {
		switch x := v.(type) {
		case map[string]any:
			v = x[token]
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i >= len(x) {
				return nil
			}
			v = x[i]
		}
	}
	return v
}

// plannerPrompt checks the candidates of a prompt in the full style: 20 to 30,
// the plan's tools among them, in the order of the catalogue, which says nothing
// of the plan.
func (c *checker) plannerPrompt(in *rawSeed, prompt string) {
	_, list, ok := strings.Cut(prompt, "\n# Tools\n")
	if !ok {
		c.fault("%s: the planner prompt has no tools", in.id)
		return
	}
	cat := catalogue.Default()
	position := map[string]int{}
	for i, t := range cat.Tools() {
		position[t.Name] = i
	}
	shown := map[string]bool{}
	last := -1
	for line := range strings.Lines(list) {
		var tool struct {
			Name, Description string
			Parameters        map[string]any
		}
		if err := json.Unmarshal([]byte(line), &tool); err != nil || tool.Description == "" || tool.Parameters["type"] != "object" {
			c.fault("%s: the planner prompt has the tool line %.80q (%v)", in.id, line, err)
			return
		}
		r, err := cat.Resolve(tool.Name)
		if err != nil {
			c.fault("%s: candidate %v", in.id, err)
			return
		}
		if position[r.Tool.Name] < last {
			c.fault("%s: candidate %s is out of the catalogue's order", in.id, tool.Name)
		}
		last = position[r.Tool.Name]
		shown[tool.Name] = true
	}
	if len(shown) < 20 || len(shown) > 30 {
		c.fault("%s: %d candidates, want 20 to 30", in.id, len(shown))
	}
	for i, s := range in.steps {
		if !shown[s.tool] {
			c.fault("%s: the plan's %s is no candidate", in.id, s.tool)
		}
		for k, l := range leavesOf(s.obs) {
			if text := fmt.Sprint(l.v); k < 3 && len(text) > 8 && strings.Contains(prompt, text) && !strings.Contains(in.query, text) && !strings.Contains(fmt.Sprint(in.inputs), text) {
				c.fault("%s: the planner prompt shows what step %d returned, %q", in.id, i, text)
			}
		}
	}
}
