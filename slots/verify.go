package slots

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"terraloom/data"
	"terraloom/data/strictjson"
	"terraloom/slots/gazetteer"
)

// Reasons for which an instance is refused. A Refusal wraps one of them.
var (
	ErrSkeleton  = errors.New("skeleton changed")              // tools, keys or JSON types differ from the seed's
	ErrEdge      = errors.New("dependency lost")               // an edge of the seed's graph does not hold
	ErrStale     = errors.New("old value left")                // a root value of the seed is still there
	ErrRecompute = errors.New("pure tool disagrees")           // an observation is not what its tool returns
	ErrAnswer    = errors.New("answer inconsistent")           // the answer does not follow from the observations
	ErrCollapsed = errors.New("distinct values fell together") // drawn values that differed in the seed are equal
)

// Refusal says why an instance was not taken.
type Refusal struct {
	Seed    string
	Slot    string // "" where no slot is to blame
	Step    int    // -1 outside the steps
	Pointer string
	Reason  error
	Detail  string
}

func (r *Refusal) Error() string {
	at := r.Pointer
	if r.Step >= 0 {
		at = fmt.Sprintf("step %d %s", r.Step, r.Pointer)
	}
	slot := ""
	if r.Slot != "" {
		slot = ", slot " + r.Slot
	}
	return fmt.Sprintf("%s%s, %s: %v: %s", r.Seed, slot, at, r.Reason, r.Detail)
}

func (r *Refusal) Unwrap() error { return r.Reason }

// Verify analyses a composed instance again, from its JSON alone, and returns a
// *Refusal unless κ(z) = κ(seed) (Eq. 11): same tools, argument keys and JSON
// types, every edge of the seed's graph, arguments that the question gives as it
// gives them, no old root value anywhere, and every pure observation what its
// tool returns.
func (c *Compiled) Verify(t *data.Trajectory, v Values, tools Tools) error {
	refuse := func(step int, pointer string, reason error, format string, args ...any) error {
		return &Refusal{Seed: c.Seed.ID, Step: step, Pointer: pointer, Reason: reason, Detail: fmt.Sprintf(format, args...)}
	}
	if len(t.Steps) != len(c.Seed.Steps) {
		return refuse(-1, "/steps", ErrSkeleton, "%d steps, the seed has %d", len(t.Steps), len(c.Seed.Steps))
	}
	for i := range t.Steps {
		s, seed := &t.Steps[i], &c.Seed.Steps[i]
		if s.Tool != seed.Tool {
			return refuse(i, "/tool", ErrSkeleton, "tool %s, the seed has %s", s.Tool, seed.Tool)
		}
		if p, d := differentShape("", seed.Arguments, s.Arguments); d != "" {
			return refuse(i, "/arguments"+p, ErrSkeleton, "%s", d)
		}
		if c.steps[i].computed {
			want, err := tools.Call(s.Tool, s.Arguments)
			if err != nil || !want.Equal(s.Observation) {
				return refuse(i, "/observation", ErrRecompute, "the tool returns %s (%v), recorded is %s", clip(want.JSON(), 60), err, clip(s.Observation.JSON(), 60))
			}
		}
	}
	for _, l := range c.Analysis.Leaves {
		if l.Use.From < 0 {
			continue
		}
		u := l.Use
		if to, ok := c.steps[u.From].remap[u.Observation]; ok {
			u.Observation = to
		}
		if d := holds(t, l.Step, u); d != "" {
			return refuse(l.Step, "/arguments"+u.Argument, ErrEdge, "%s", d)
		}
	}
	if l, d := c.asked(t); d != "" {
		return refuse(l.Step, "/arguments"+l.Pointer, ErrEdge, "%s", d)
	}
	if err := c.collapsed(t); err != nil {
		return err
	}
	if err := c.answered(t, v); err != nil {
		return err
	}
	return c.stale(t, v)
}

// asked finds an argument that the seed takes from its question and the
// instance does not.
func (c *Compiled) asked(t *data.Trajectory) (leaf Leaf, fault string) {
	query := strings.ToLower(t.Query)
	var numbers []queryNumber
	for _, l := range c.Analysis.Leaves {
		if l.Origin != FromQuery {
			continue
		}
		v, _ := t.Steps[l.Step].Arguments.At(l.Pointer)
		f, err := floatArg(v)
		if err != nil {
			if !strings.Contains(query, strings.ToLower(strings.TrimSpace(v.Text()))) {
				return l, fmt.Sprintf("%s is not in the question", clip(v.JSON(), 60))
			}
			continue
		}
		if was, _ := l.Value.Float(); !isSetting(topKey(l.Pointer)) && l.Value.IsInteger() && math.Abs(was) < 100 {
			continue // small whole numbers meet by chance
		}
		if numbers == nil {
			numbers = queryNumbers(t.Query)
		}
		said := false
		for _, q := range numbers {
			said = said || q.f == f || q.percent && math.Abs(q.f/100-f) <= 1e-12*math.Abs(f)
		}
		if !said {
			return l, fmt.Sprintf("%s is not in the question", v.Text())
		}
	}
	return Leaf{}, ""
}

// differentShape compares keys, JSON types and the lengths of lists of arguments.
func differentShape(pointer string, seed, v strictjson.Value) (string, string) {
	if seed.Kind() != v.Kind() {
		return pointer, fmt.Sprintf("%s, the seed has %s", v.Kind(), seed.Kind())
	}
	if seed.Len() != v.Len() {
		return pointer, fmt.Sprintf("%d children, the seed has %d", v.Len(), seed.Len())
	}
	for i := range v.Len() {
		token := strconv.Itoa(i)
		if v.Kind() == strictjson.Object {
			if v.Key(i) != seed.Key(i) {
				return pointer, fmt.Sprintf("key %q, the seed has %q", v.Key(i), seed.Key(i))
			}
			token = v.Key(i)
		}
		if p, d := differentShape(pointer+"/"+token, seed.Index(i), v.Index(i)); d != "" {
			return p, d
		}
	}
	return "", ""
}

// holds reports what is wrong with an edge in t, "" where it holds.
func holds(t *data.Trajectory, step int, u data.Use) string {
	arg, ok := t.Steps[step].Arguments.At(u.Argument)
	if !ok {
		return "no such argument"
	}
	producer := &t.Steps[u.From]
	obs, ok := producer.Observation.At(u.Observation)
	if !ok && u.Transform != outputEffect {
		return fmt.Sprintf("the observation of step %d has nothing at %q", u.From, u.Observation)
	}
	a, o := strings.TrimSpace(arg.Text()), strings.TrimSpace(obs.Text())
	same := false
	switch u.Transform {
	case join:
		same = strings.HasSuffix(a, "/"+o)
	case rebase:
		same = baseName(a) == baseName(messagePath(o))
	case pathIn:
		same = a == messagePath(o)
	case outputEffect:
		producer.Arguments.Leaves("", func(_ string, v strictjson.Value) {
			same = same || v.Kind() == strictjson.String && baseName(strings.TrimSpace(v.Text())) == baseName(a)
		})
	case identity:
		if arg.Kind() == strictjson.String {
			same = a == o
			break
		}
		fallthrough
	default:
		want, err := carry(u.Transform, obs, arg)
		if err != nil {
			return err.Error()
		}
		x, errX := floatArg(arg)
		y, errY := floatArg(want)
		same = errX == nil && errY == nil && (x == y || strings.HasPrefix(u.Transform, scalePrefix) && math.Abs(x-y) <= 1e-11*math.Abs(y))
	}
	if !same {
		return fmt.Sprintf("%s is not %s of %s in step %d", clip(arg.JSON(), 60), u.Transform, clip(obs.JSON(), 60), u.From)
	}
	return ""
}

// stale looks for root values of the seed that were to change.
func (c *Compiled) stale(t *data.Trajectory, v Values) error {
	w := c.watch(v)
	var found *Refusal
	see := func(step int, pointer, text string) {
		if found == nil {
			if slot, what := w.find(text); what != "" {
				found = &Refusal{Seed: c.Seed.ID, Slot: slot, Step: step, Pointer: pointer, Reason: ErrStale, Detail: fmt.Sprintf("%q in %q", what, clip(text, 80))}
			}
		}
	}
	eachText(t, see)
	if found != nil {
		return found
	}
	return nil
}

// eachText calls f for every string of a trajectory that an instance composes;
// pointers are relative to the step, or to the trajectory where step is -1.
func eachText(t *data.Trajectory, f func(step int, pointer, text string)) {
	visit := func(step int, prefix string, v strictjson.Value) {
		v.Leaves(prefix, func(p string, leaf strictjson.Value) {
			if leaf.Kind() == strictjson.String {
				f(step, p, leaf.Text())
			}
		})
	}
	f(-1, "/query", t.Query)
	visit(-1, "/inputs", t.Inputs)
	visit(-1, "/answer", t.Answer)
	for i := range t.Steps {
		visit(i, "/arguments", t.Steps[i].Arguments)
		visit(i, "/observation", t.Steps[i].Observation)
		if s := t.Steps[i].Thought; s != "" {
			f(i, "/thought", s)
		}
	}
}

// watcher knows the old values that must be gone from one instance.
type watcher struct {
	words []watched       // lower case
	dates map[string]bool // allowed dates; nil where dates did not move
	years map[int]bool    // allowed bare years
	slot  string          // of the dates
}

type watched struct{ slot, text string }

// watch lists what must be gone when the instance has the values v.
func (c *Compiled) watch(v Values) *watcher {
	w := &watcher{}
	for i := range c.Program.Slots {
		s := &c.Program.Slots[i]
		old, now := c.seedVals[i], v[i]
		switch x := old.(type) {
		case gazetteer.Place:
			if now.(gazetteer.Place).Name != x.Name {
				for _, form := range append([]string{x.Name}, x.Aliases...) {
					w.words = append(w.words, watched{s.Name, strings.ToLower(form)})
				}
			}
		case string:
			if s.Type == TextType && now != old {
				w.words = append(w.words, watched{s.Name, strings.ToLower(x)})
			}
		case int:
			if s.Type == File && now != old {
				for _, form := range c.fileForms[i] {
					w.words = append(w.words, watched{s.Name, form})
				}
			}
			if s.Type == Period && now != old {
				w.slot = s.Name
			}
		}
	}
	if w.slot != "" {
		w.dates, w.years = map[string]bool{}, map[int]bool{}
		for i, s := range c.Program.Slots {
			if s.Type == Date {
				date := v[i].(string)
				w.dates[date] = true
				w.years[num(date[:4])] = true
			}
			if y, ok := v[i].(int); ok && s.Type == Count {
				w.years[y] = true
			}
		}
	}
	return w
}

// formsOfFiles are the seed's strings around file numbers, such as question112,
// by slot.
func (c *Compiled) formsOfFiles() map[int][]string {
	forms := map[int][]string{}
	for _, o := range c.Program.Occurrences {
		if o.Text == "" {
			continue
		}
		parts, err := parseTemplate(o.Text)
		if err != nil {
			continue // Compile refuses it
		}
		for k, p := range parts {
			i, ok := c.slotAt[p.slot]
			seed, number := 0, false
			if ok {
				seed, number = c.seedVals[i].(int)
			}
			if !number || c.Program.Slots[i].Type != File {
				continue
			}
			before := ""
			if k > 0 {
				before = parts[k-1].lit
			}
			start := len(before)
			for start > 0 && (letter(before[start-1]) || before[start-1] == '-') {
				start--
			}
			render, err := File.formatter(p.format)
			if err != nil {
				continue
			}
			text, err := render(seed, []byte(before[start:]))
			if form := strings.ToLower(string(text)); err == nil && !slices.Contains(forms[i], form) {
				forms[i] = append(forms[i], form)
			}
		}
	}
	return forms
}

// find returns the first old value in text and its slot.
func (w *watcher) find(text string) (slot, what string) {
	if len(w.words) > 0 {
		low := strings.ToLower(text)
		for _, old := range w.words {
			if i := wordIndex(low, old.text); i >= 0 {
				return old.slot, old.text
			}
		}
	}
	if w.dates != nil && len(text) >= 4 {
		for _, m := range FindDates(text) {
			if m.Full() && !w.dates[m.Date.Format("2006-01-02")] || !m.Full() && !w.years[m.Date.Year()] {
				return w.slot, text[m.Start:m.End]
			}
		}
	}
	return "", ""
}

// wordIndex finds word in s where no letter or digit continues it.
func wordIndex(s, word string) int {
	for from := 0; ; {
		i := strings.Index(s[from:], word)
		if i < 0 {
			return -1
		}
		i += from
		end := i + len(word)
		before := i == 0 || !(letter(s[i-1]) && letter(word[0])) && !(digit(s[i-1]) && digit(word[0]))
		after := end == len(s) || !(letter(s[end]) && letter(s[end-1])) && !(digit(s[end]) && digit(s[end-1]))
		if before && after {
			return i
		}
		from = i + 1
	}
}

// answered checks the answer against the observations: what was derived from
// them is derived again, from the recorded instance.
func (c *Compiled) answered(t *data.Trajectory, v Values) error {
	if c.Program.Answer != AnswerDerived {
		return nil
	}
	f := &frame{c: c, values: append(Values(nil), v...)}
	for i := range t.Steps {
		f.observations = append(f.observations, t.Steps[i].Observation)
	}
	if err := f.derive(true); err != nil {
		return &Refusal{Seed: c.Seed.ID, Step: -1, Pointer: "/answer", Reason: ErrAnswer, Detail: err.Error()}
	}
	want, err := f.render(&c.answer)
	if want = c.answerOf(want); err != nil || !want.Equal(t.Answer) {
		return &Refusal{Seed: c.Seed.ID, Step: -1, Pointer: "/answer", Reason: ErrAnswer,
			Detail: fmt.Sprintf("the observations give %s, recorded is %s", want.JSON(), t.Answer.JSON())}
	}
	return nil
}

// collapsed checks that values which a tool returned apart stayed apart.
func (c *Compiled) collapsed(t *data.Trajectory) error {
	for i := range t.Steps {
		if c.steps[i].computed || c.steps[i].observation.kind == fixed {
			continue
		}
		had, has := distinctNumbers(c.Seed.Steps[i].Observation), distinctNumbers(t.Steps[i].Observation)
		if has < had {
			return &Refusal{Seed: c.Seed.ID, Step: i, Pointer: "/observation", Reason: ErrCollapsed, Detail: fmt.Sprintf("%d distinct numbers, the seed has %d", has, had)}
		}
	}
	return nil
}

func distinctNumbers(v strictjson.Value) int {
	seen := map[string]bool{}
	v.Leaves("", func(_ string, leaf strictjson.Value) {
		if leaf.Kind() == strictjson.Number {
			seen[leaf.Text()] = true
		}
	})
	return len(seen)
}
