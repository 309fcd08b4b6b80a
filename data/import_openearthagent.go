package data

import (
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"terraloom/data/strictjson"
)

// importOpenEarthAgent reads OpenEarthAgent conversations: a JSON array of
// records or one record a line. A record that is no trajectory is left out and
// listed in the report with the reason.
func importOpenEarthAgent(res *ImportResult, name string, r io.Reader, array bool) error {
	add := func(position int, v strictjson.Value) {
		c := &conversation{file: name, position: position, report: res.Report}
		if t := c.trajectory(v); t != nil {
			res.Trajectories = append(res.Trajectories, t)
		}
	}
	if !array {
		return strictjson.Lines(r, name, func(line int, v strictjson.Value) error {
			add(line, v)
			return nil
		})
	}
	text, err := io.ReadAll(r)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	root, err := strictjson.Parse(text)
	if err != nil {
		return fmt.Errorf("%s:%w", name, err)
	}
	for i := range root.Len() {
		add(i, root.Index(i))
	}
	return nil
}

// conversation turns one record into a trajectory.
type conversation struct {
	file     string
	position int // line, or index in the array
	id       string
	report   *ImportReport
}

var (
	gisTools = []string{
		"GetAreaBoundary", "AddPoisLayer", "ComputeDistance", "DisplayOnMap", "AddIndexLayer",
		"ComputeIndexChange", "ShowIndexLayer", "GetBboxFromGeotiff", "DisplayOnGeotiff",
	}
	logicTools = []string{"Calculator", "Solver", "Plot"}
)

const terminate = "Terminate" // the action that carries the answer

func (c *conversation) trajectory(v strictjson.Value) *Trajectory {
	id := v.Get("idx").Text()
	if id == "" {
		id = fmt.Sprintf("%s-%d", strings.TrimSuffix(filepath.Base(c.file), filepath.Ext(c.file)), c.position)
	}
	c.id = FormatOpenEarthAgent + "-" + id
	t := &Trajectory{
		ID: c.id, SeedID: c.id, Source: FormatOpenEarthAgent,
		Inputs: strictjson.Obj(strictjson.Member{Key: "images", Value: v.Get("images")}),
	}
	refuse := func(step int, err error) *Trajectory {
		c.report.add(RefusedRecord, c.id, step, "%s record %d: %s", filepath.Base(c.file), c.position, err)
		return nil
	}
	if v.Kind() != strictjson.Object {
		return refuse(-1, fmt.Errorf("expected an object, found %s", v.Kind()))
	}
	turns := v.Get("conversation")
	if turns.Kind() != strictjson.Array || turns.Len() < 2 {
		return refuse(-1, errors.New("conversation: expected a list of at least two turns"))
	}
	for i := range turns.Len() {
		if err := c.turn(t, i, turns.Index(i)); err != nil {
			return refuse(len(t.Steps)-1, fmt.Errorf("conversation/%d: %w", i, err))
		}
	}
	if len(t.Steps) == 0 {
		return refuse(-1, errors.New("it calls no tool"))
	}
	for i := range t.Steps {
		if t.Steps[i].Observation.IsAbsent() {
			c.report.add(MissingObservation, c.id, i, "%s", t.Steps[i].Tool)
		}
	}
	if t.Answer.IsAbsent() {
		c.report.add(MissingAnswer, c.id, -1, "")
		t.Answer = v.Get("label")
	}
	t.Domain = conversationDomain(t)
	split := c.split(v)
	if split == "test" {
		c.report.add(TestSplit, c.id, -1, "")
	}
	t.Provenance = strictjson.Obj(
		strictjson.Member{Key: "dataset", Value: strictjson.Text(FormatOpenEarthAgent)},
		strictjson.Member{Key: "idx", Value: v.Get("idx")},
		strictjson.Member{Key: "split", Value: optional(split)},
		strictjson.Member{Key: "label", Value: v.Get("label")})
	return t
}

// turn adds turn number i: the question, an action, or an observation.
func (c *conversation) turn(t *Trajectory, i int, turn strictjson.Value) error {
	from, value := turn.Get("from").Text(), turn.Get("value")
	switch {
	case value.Kind() != strictjson.String:
		return fmt.Errorf("value: expected a text, found %s", describe(value))
	case i == 0 && from == "human":
		t.Query = question(value.Text())
		if t.Query == "" {
			return errors.New("the question is empty")
		}
		return nil
	case i > 0 && from == "gpt":
		return c.action(t, value.Text())
	case i > 0 && from == "human":
		return c.observation(t, value.Text())
	}
	return fmt.Errorf("a turn from %q is not expected here", from)
}

// question cuts the agent's instructions off the first turn.
func question(text string) string {
	const mark = "Question:"
	if rest, ok := strings.CutPrefix(text, "<AGENT_PROMPT>"); ok {
		text = strings.TrimPrefix(strings.TrimSpace(rest), mark)
	} else if i := strings.LastIndex(text, "\n\n"+mark); i >= 0 {
		text = text[i+2+len(mark):]
	}
	return strings.TrimSpace(text)
}

func (c *conversation) action(t *Trajectory, text string) error {
	if !t.Answer.IsAbsent() {
		return fmt.Errorf("an action follows %s", terminate)
	}
	v, err := strictjson.Parse([]byte(text))
	if err != nil {
		return fmt.Errorf("not a JSON action: %w", err)
	}
	actions := v.Get("actions")
	if actions.Kind() != strictjson.Array || actions.Len() != 1 {
		return fmt.Errorf("expected exactly one action, found %d", actions.Len())
	}
	name, args := actions.Index(0).Get("name"), actions.Index(0).Get("arguments")
	if name.Kind() != strictjson.String || name.Text() == "" || args.Kind() != strictjson.Object {
		return errors.New("an action needs a name and an object of arguments")
	}
	if name.Text() == terminate {
		if t.Answer = args.Get("ans"); t.Answer.IsAbsent() {
			return fmt.Errorf("%s has no ans", terminate)
		}
		return nil
	}
	t.Steps = append(t.Steps, Step{Tool: name.Text(), Arguments: args, Thought: v.Get("thought").Text()})
	return nil
}

// observation unwraps "OBSERVATION:\n<tool> model outputs: <text>\nPlease summarize …".
func (c *conversation) observation(t *Trajectory, text string) error {
	last := len(t.Steps) - 1
	if last < 0 || !t.Steps[last].Observation.IsAbsent() || !t.Answer.IsAbsent() {
		return errors.New("an observation follows no action")
	}
	step := &t.Steps[last]
	text = strings.TrimSpace(strings.TrimPrefix(text, "OBSERVATION:"))
	if i := strings.LastIndex(text, "\nPlease summarize the model outputs"); i >= 0 {
		text = text[:i]
	}
	if tool, rest, ok := strings.Cut(text, " model outputs:"); ok && !strings.ContainsAny(tool, " \n") {
		if tool != step.Tool {
			c.report.add(MisnamedToolTurn, c.id, last, "call %s, tool turn %s", step.Tool, tool)
		}
		text = rest
	}
	step.Observation = strictjson.Text(strings.TrimSpace(text))
	return nil
}

// conversationDomain is "gis" where a GIS tool is called, else "geometry"
// where a calculating tool is, else "perception".
func conversationDomain(t *Trajectory) string {
	domain := "perception"
	for i := range t.Steps {
		switch tool := t.Steps[i].Tool; {
		case slices.Contains(gisTools, tool):
			return "gis"
		case slices.Contains(logicTools, tool):
			domain = "geometry"
		}
	}
	return domain
}

// split tells train from test by the image folders, else by the file's name;
// "" where neither says.
func (c *conversation) split(v strictjson.Value) string {
	images := v.Get("images")
	for i := range images.Len() {
		switch path.Base(path.Dir(images.Index(i).Text())) {
		case "test_image":
			return "test"
		case "train_image":
			return "train"
		}
	}
	switch base := filepath.Base(c.file); {
	case strings.HasPrefix(base, "test."):
		return "test"
	case strings.HasPrefix(base, "train."):
		return "train"
	}
	return ""
}
