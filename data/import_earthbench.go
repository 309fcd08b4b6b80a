package data

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"terraloom/data/strictjson"
)

// importEarthBench reads Earth-Bench's question.json: one object whose keys are
// entry numbers and whose entries hold dialogs, choices and two evaluations.
func importEarthBench(res *ImportResult, name string, r io.Reader, o ImportOptions) error {
	text, err := io.ReadAll(r)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	root, err := strictjson.Parse(text)
	if err != nil {
		return fmt.Errorf("%s:%w", name, err)
	}
	if root.Kind() != strictjson.Object {
		return fmt.Errorf("%s: expected an object of numbered entries, found %s", name, root.Kind())
	}
	for i := range root.Len() {
		e := benchEntry{decoder: decoder{}, at: "/" + strictjson.EscapePointer(root.Key(i)), report: res.Report, regime: o.Regime}
		t := e.trajectory(root.Key(i), root.Index(i))
		if e.err != nil {
			return fmt.Errorf("%s: %w", name, e.err)
		}
		res.Trajectories = append(res.Trajectories, t)
	}
	return nil
}

// benchEntry turns one entry into a trajectory.
type benchEntry struct {
	decoder
	at     string // JSON pointer of the entry
	number string
	seed   string
	regime string
	report *ImportReport
}

func (e *benchEntry) note(kind string, step int, format string, args ...any) {
	e.report.add(kind, e.seed, step, format, args...)
}

var (
	entryKeys = []string{"tools", "files", "dialogs", "choices", "evaluation"}
	turnKeys  = []string{"role", "content", "thought", "tool_calls", "name"}
	evalKeys  = []string{"question", "gt_answer", "data", "metric", "type"}
	goldKeys  = []string{"whitelist", "blacklist"}
	callKeys  = []string{"type", "function"}
	funcKeys  = []string{"name", "arguments"}
	valueKeys = []string{"type", "content"}
)

// benchDomain is the modality of an entry number; "" outside 1–248.
func benchDomain(n int) string {
	switch {
	case 1 <= n && n <= 100:
		return "spectrum"
	case 101 <= n && n <= 188:
		return "products"
	case 189 <= n && n <= 248:
		return "rgb"
	}
	return ""
}

func (e *benchEntry) trajectory(number string, v strictjson.Value) *Trajectory {
	n, err := strconv.Atoi(number)
	domain := benchDomain(n)
	if err != nil || domain == "" || strconv.Itoa(n) != number {
		e.fail(e.at, "entries are numbered 1 to 248")
		return nil
	}
	e.number, e.seed = number, FormatEarthBench+"-"+number
	o := e.object(v, e.at, entryKeys)
	t := &Trajectory{ID: e.seed, SeedID: e.seed, Source: FormatEarthBench, Domain: domain}

	userTurn, finalAnswer, orphans := e.dialog(t, o)
	ev := e.evaluation(o)
	choices := e.choices(o)
	gold := e.gold(ev)
	t.Answer = e.answer(choices, gold, finalAnswer)
	t.Query, t.Regime = e.query(t, ev, userTurn)

	path := strings.TrimSpace(ev.data)
	if path != ev.data {
		e.note(OuterBlanks, -1, "data path")
	}
	if last := path[strings.LastIndexByte(path, '/')+1:]; strings.Contains(last, ".") {
		e.note(FileAsDataPath, -1, "%s", path)
	}
	t.Inputs = strictjson.Obj(strictjson.Member{Key: "data_path", Value: strictjson.Text(path)})
	t.Provenance = strictjson.Obj(
		strictjson.Member{Key: "dataset", Value: strictjson.Text(FormatEarthBench)},
		strictjson.Member{Key: "entry", Value: strictjson.Int(n)},
		strictjson.Member{Key: "question_if", Value: strictjson.Text(ev.question["if"])},
		strictjson.Member{Key: "question_ap", Value: strictjson.Text(ev.question["ap"])},
		strictjson.Member{Key: "user_turn", Value: strictjson.Text(userTurn)},
		strictjson.Member{Key: "choices", Value: o.Get("choices")},
		strictjson.Member{Key: "gold", Value: strictjson.Text(gold)},
		strictjson.Member{Key: "final_answer", Value: optional(finalAnswer)},
		strictjson.Member{Key: "orphan_observations", Value: nonEmpty(orphans)})
	return t
}

// dialog reads the turns: user, then calls with their observations in pairs,
// then the final answer. It returns the user's text, the final answer ("" where
// missing) and observations that no call asked for.
func (e *benchEntry) dialog(t *Trajectory, o strictjson.Value) (user, final string, orphans []strictjson.Value) {
	turns := e.kind(o, e.at, "dialogs", strictjson.Array)
	open := false // the last step waits for its observation
	closed := func() {
		if open {
			e.note(MissingObservation, len(t.Steps)-1, "%s", t.Steps[len(t.Steps)-1].Tool)
			open = false
		}
	}
	for i := range turns.Len() {
		at := fmt.Sprintf("%s/dialogs/%d", e.at, i)
		turn := e.object(turns.Index(i), at, turnKeys)
		role := e.text(turn, at, "role", true)
		switch {
		case e.err != nil:
			return
		case role == "user" && i == 0:
			user = e.text(turn, at, "content", true)
		case role == "assistant" && !turn.Get("tool_calls").IsAbsent():
			closed()
			t.Steps = append(t.Steps, e.call(turn, at, len(t.Steps)))
			open = true
		case role == "tool":
			c := e.object(turn.Get("content"), at+"/content", valueKeys)
			value := c.Get("content")
			if value.IsAbsent() {
				e.fail(at+"/content/content", "missing")
			}
			tool := e.text(turn, at, "name", true)
			if !open {
				e.note(OrphanObservation, len(t.Steps)-1, "a tool turn of %s follows this step and no call", tool)
				orphans = append(orphans, strictjson.Obj(
					strictjson.Member{Key: "after_step", Value: strictjson.Int(len(t.Steps) - 1)},
					strictjson.Member{Key: "tool", Value: strictjson.Text(tool)},
					strictjson.Member{Key: "observation", Value: value}))
				break
			}
			open = false
			step := &t.Steps[len(t.Steps)-1]
			step.Observation = value
			if tool != step.Tool {
				e.note(MisnamedToolTurn, len(t.Steps)-1, "call %s, tool turn %s", step.Tool, tool)
			}
			e.checkObservation(len(t.Steps)-1, step, c.Get("type"))
		case role == "assistant" && i == turns.Len()-1:
			final = e.text(turn, at, "content", true)
		default:
			e.fail(at, "a turn of role %q is not expected here", role)
		}
	}
	closed()
	if len(t.Steps) == 0 || user == "" {
		e.fail(e.at+"/dialogs", "needs a user turn and at least one call")
	}
	return user, final, orphans
}

func (e *benchEntry) call(turn strictjson.Value, at string, step int) Step {
	calls := e.kind(turn, at, "tool_calls", strictjson.Array)
	if calls.Len() != 1 {
		e.fail(at+"/tool_calls", "expected exactly one call, found %d", calls.Len())
		return Step{}
	}
	at += "/tool_calls/0"
	c := e.object(calls.Index(0), at, callKeys)
	if kind := e.text(c, at, "type", true); kind != "function" {
		e.note(CallType, step, "%q", kind)
	}
	f := e.object(c.Get("function"), at+"/function", funcKeys)
	s := Step{Tool: e.text(f, at+"/function", "name", true), Arguments: e.kind(f, at+"/function", "arguments", strictjson.Object)}
	if s.Arguments.IsAbsent() {
		e.fail(at+"/function/arguments", "missing")
	}
	if turn.Get("thought").Kind() != strictjson.Null {
		s.Thought = e.text(turn, at, "thought", false)
	}
	e.checkArguments(step, &s)
	return s
}

type benchEvaluation struct {
	question map[string]string // by regime
	gold     strictjson.Value
	data     string
}

// evaluation reads the two evaluation texts by their type, never by position.
func (e *benchEntry) evaluation(o strictjson.Value) benchEvaluation {
	ev := benchEvaluation{question: map[string]string{}}
	list := e.kind(o, e.at, "evaluation", strictjson.Array)
	for i := range list.Len() {
		at := fmt.Sprintf("%s/evaluation/%d", e.at, i)
		item := e.object(list.Index(i), at, evalKeys)
		regime := map[string]string{"instruction following": "if", "autonomous planning": "ap"}[strings.ToLower(e.text(item, at, "type", true))]
		if regime == "" || ev.question[regime] != "" {
			e.fail(at+"/type", "expected one text each of instruction following and autonomous planning")
		}
		if i == 0 && regime == "ap" {
			e.note(EvaluationOrder, -1, "autonomous planning comes first")
		}
		ev.question[regime] = e.text(item, at, "question", true)
		if d := e.text(item, at, "data", false); d != "" {
			ev.data = d
		}
		answer := e.object(item.Get("gt_answer"), at+"/gt_answer", goldKeys)
		gold := answer.Get("whitelist")
		if i > 0 && !gold.Equal(ev.gold) {
			e.fail(at+"/gt_answer", "differs from that of the other evaluation")
		}
		ev.gold = gold
	}
	if len(ev.question) != 2 || ev.data == "" {
		e.fail(e.at+"/evaluation", "expected two texts and a data path")
	}
	return ev
}

func (e *benchEntry) gold(ev benchEvaluation) string {
	g := ev.gold
	if g.Kind() == strictjson.Array && g.Len() == 1 {
		e.note(ListedAnswer, -1, "")
		g = g.Index(0)
	}
	if g.Kind() != strictjson.String || strings.TrimSpace(g.Text()) == "" {
		e.fail(e.at+"/evaluation/0/gt_answer/whitelist", "expected a text or a list of one text, found %s", describe(ev.gold))
	}
	return strings.TrimSpace(g.Text())
}

// choices returns the texts of the choices; nil for an open question.
func (e *benchEntry) choices(o strictjson.Value) []string {
	list := o.Get("choices")
	if list.Kind() == strictjson.Null {
		e.note(NoChoices, -1, "")
		return nil
	}
	if list.Kind() != strictjson.Array || list.Len() == 0 {
		e.fail(e.at+"/choices", "expected a list or null, found %s", describe(list))
	}
	texts := make([]string, list.Len())
	integers := false
	for i := range texts {
		c := list.Index(i)
		if c.Kind() != strictjson.String && c.Kind() != strictjson.Number {
			e.fail(fmt.Sprintf("%s/choices/%d", e.at, i), "expected a text or a number, found %s", describe(c))
		}
		integers = integers || c.Kind() == strictjson.Number
		texts[i] = strings.TrimSpace(c.Text())
		if texts[i] != c.Text() {
			e.note(OuterBlanks, -1, "choice %d", i)
		}
	}
	if integers {
		e.note(IntegerChoices, -1, "")
	}
	return texts
}

// answer is {"letter","text"} for a question with choices, else {"text"} with
// "number" where the text is one.
func (e *benchEntry) answer(choices []string, gold, final string) strictjson.Value {
	switch final {
	case "":
		e.note(MissingAnswer, -1, "the gold answer is %s", gold)
	case gold:
	default:
		e.note(OtherAnswer, -1, "final answer %s, gold answer %s", final, gold)
	}
	if choices == nil {
		number, _ := strictjson.Literal(gold)
		return strictjson.Obj(
			strictjson.Member{Key: "text", Value: strictjson.Text(gold)},
			strictjson.Member{Key: "number", Value: number})
	}
	i := len(choices)
	if len(gold) == 1 {
		i = int(gold[0]) - 'A'
	}
	if i < 0 || i >= len(choices) {
		e.fail(e.at+"/evaluation/0/gt_answer/whitelist", "%q is the letter of none of the %d choices", gold, len(choices))
		return strictjson.Value{}
	}
	return strictjson.Obj(
		strictjson.Member{Key: "letter", Value: strictjson.Text(gold)},
		strictjson.Member{Key: "text", Value: strictjson.Text(choices[i])})
}

var (
	dataSentence = regexp.MustCompile(`\s*The relevant data is stored in [A-Za-z]:?[^\s]*[0-9]\.$`)
	yearInText   = regexp.MustCompile(`\b(?:19|20)[0-9]{2}\b`)
	yearInName   = regexp.MustCompile(`(?:^|[^0-9])((?:19|20)[0-9]{2})(?:[-_.]|[0-9]{4}[^0-9])`)
)

// query chooses the text of the wanted regime. A user turn about other years
// than both evaluation texts is not used where the file names side with them.
func (e *benchEntry) query(t *Trajectory, ev benchEvaluation, user string) (query, regime string) {
	sentence := dataSentence.FindString(user)
	if sentence != "" {
		e.note(DataSentence, -1, "%s", strings.TrimSpace(sentence))
	}
	years := yearInText.FindAllString(ev.question["if"]+" "+ev.question["ap"], -1)
	other := false
	for _, y := range yearInText.FindAllString(user, -1) {
		other = other || !slices.Contains(years, y)
	}
	if other {
		files := fileYears(t)
		supported := len(files) > 0 && len(years) > 0 && files[0] == slices.Min(years) && files[len(files)-1] == slices.Max(years)
		e.note(OtherSubject, -1, "years in the user turn that the evaluation texts do not name; the file names support the evaluation texts: %t", supported)
		other = supported
	}
	regime = e.regime
	if regime == "user" && !other {
		query, regime = strings.TrimSuffix(user, sentence), ""
	} else {
		if regime == "user" {
			regime = "ap"
		}
		query = ev.question[regime]
	}
	if trimmed := strings.TrimSpace(query); trimmed != query {
		e.note(OuterBlanks, -1, "query")
		query = trimmed
	}
	return query, regime
}

// fileYears are the years in the names of the first listing, in order.
func fileYears(t *Trajectory) []string {
	var years []string
	for _, s := range t.Steps {
		if s.Tool != "get_filelist" {
			continue
		}
		s.Observation.Leaves("", func(_ string, leaf strictjson.Value) {
			if m := yearInName.FindStringSubmatch(leaf.Text()); m != nil {
				years = append(years, m[1])
			}
		})
		break
	}
	slices.Sort(years)
	return slices.Compact(years)
}
