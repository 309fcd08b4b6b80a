package main

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"terraloom/agent/tools"
	"terraloom/data"
	"terraloom/data/strictjson"
)

// The checker reads a dataset and the raw seed file and knows neither slot
// programs nor synthesis: what an instance owes its seed is written here a second
// time, from the definition, with encoding/json values.

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

// leafKeys are equal for leaves that sameLeaf takes for the same.
func leafKeys(v any) []string {
	if x, ok := asNumber(v); ok {
		if x == math.Trunc(x) && math.Abs(x) < 100 {
			return nil
		}
		return []string{strconv.FormatFloat(x, 'g', -1, 64)}
	}
	s, ok := v.(string)
	if !ok || len(s) < 5 {
		return nil
	}
	s = strings.TrimSpace(s)
	if file := lastPart(s); strings.Contains(file, ".") && file != s {
		return []string{s, "file " + file}
	} else if strings.Contains(file, ".") {
		return []string{s, "file " + s}
	}
	return []string{s}
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
	known := map[string][]producer{} // by what sameLeaf compares
	for j := range i {
		for _, o := range leavesOf(s.steps[j].obs) {
			for _, key := range leafKeys(o.v) {
				known[key] = append(known[key], producer{j, o.at})
			}
		}
	}
	for _, a := range leavesOf(s.steps[i].args) {
		if x, ok := asNumber(a.v); ok && slices.ContainsFunc(inQuery, func(y float64) bool { return x == y || x == y/100 }) {
			continue // the question gives it
		}
		key, _, _ := strings.Cut(a.at[1:], "/")
		if strings.HasPrefix(key, "output") || strings.HasPrefix(key, "save") {
			continue // a new file
		}
		for _, key := range leafKeys(a.v) {
			for _, p := range known[key] {
				if !slices.Contains(edges[a.at], p) {
					edges[a.at] = append(edges[a.at], p)
				}
			}
		}
	}
	return edges
}

var folderNumber = regexp.MustCompile(`^(?i:question)[-_]?0*(\d+)`)

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
		for at := strings.Index(s, "question"); at >= 0; {
			if m := folderNumber.FindStringSubmatch(s[at:]); m != nil {
				numbers[m[1]] = true
			}
			next := strings.Index(s[at+1:], "question")
			if next < 0 {
				break
			}
			at += 1 + next
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
	all := strings.ToLower(strings.Join(textsOf(in), "\n"))
	around := func(from, to int) string { return all[max(0, from-40):min(len(all), to+40)] }
	for at := 0; ; {
		i := strings.Index(all[at:], "question")
		if i < 0 {
			break
		}
		at += i
		if m := folderNumber.FindStringSubmatch(all[at:min(len(all), at+24)]); m != nil && numbers[m[1]] {
			c.fault("%s: the seed's folder number %s in %q", id, m[1], around(at, at))
		}
		at += len("question")
	}
	for w := range gone {
		if !strings.Contains(all, w) {
			continue
		}
		if at := regexp.MustCompile(`(?:^|[^a-z])` + w + `(?:$|[^a-z])`).FindStringIndex(all); at != nil {
			c.fault("%s: the old name %q in %q (question now: %.120q)", id, w, around(at[0], at[1]), in.query)
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
