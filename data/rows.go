package data

import (
	"fmt"

	"terraloom/data/strictjson"
)

// trajectoryRow is a Trajectory as the trajectories table stores it. Values of
// free shape are JSON text, "" where absent, so no column is ever null and all
// files of a table have one schema whatever the rows hold.
type trajectoryRow struct {
	ID         string    `parquet:"id"`
	SeedID     string    `parquet:"seed_id"`
	Source     string    `parquet:"source"`
	Domain     string    `parquet:"domain"`
	Regime     string    `parquet:"regime"`
	Query      string    `parquet:"query"`
	Inputs     string    `parquet:"inputs"`
	Skill      string    `parquet:"skill"`
	Steps      []stepRow `parquet:"steps,list"`
	Answer     string    `parquet:"answer"`
	Slots      string    `parquet:"slots"`
	Provenance string    `parquet:"provenance"`
}

type stepRow struct {
	Tool        string   `parquet:"tool"`
	Arguments   string   `parquet:"arguments"`
	Observation string   `parquet:"observation"`
	Thought     string   `parquet:"thought"`
	Uses        []useRow `parquet:"uses,list"`
}

type useRow struct {
	Argument    string `parquet:"argument"`
	From        int    `parquet:"from"`
	Observation string `parquet:"observation"`
	Transform   string `parquet:"transform"`
}

func (r *trajectoryRow) trajectoryID() string { return r.ID }
func (r *PlannerRow) trajectoryID() string    { return r.TrajectoryID }
func (r *ExecutorRow) trajectoryID() string   { return r.TrajectoryID }

// rowBytes is the length of the row's texts, which decides where row groups end.
func (r *trajectoryRow) rowBytes() int {
	n := len(r.ID) + len(r.SeedID) + len(r.Source) + len(r.Domain) + len(r.Regime) + len(r.Query) +
		len(r.Inputs) + len(r.Skill) + len(r.Answer) + len(r.Slots) + len(r.Provenance)
	for _, s := range r.Steps {
		n += len(s.Tool) + len(s.Arguments) + len(s.Observation) + len(s.Thought)
		for _, u := range s.Uses {
			n += len(u.Argument) + 8 + len(u.Observation) + len(u.Transform)
		}
	}
	return n
}

func (r *PlannerRow) rowBytes() int {
	return messageBytes(r.Prompt) + messageBytes(r.Completion) + len(r.TrajectoryID) + len(r.SeedID) + len(r.Domain) + len(r.Source)
}

func (r *ExecutorRow) rowBytes() int {
	return messageBytes(r.Prompt) + messageBytes(r.Completion) + len(r.Reference) + len(r.Tool) + 8 +
		len(r.TrajectoryID) + len(r.SeedID) + len(r.Domain) + len(r.Source)
}

func messageBytes(ms []Message) int {
	n := 0
	for _, m := range ms {
		n += len(m.Role) + len(m.Content)
	}
	return n
}

func rowOf(t *Trajectory) *trajectoryRow {
	buf := make([]byte, 0, 8<<10)
	text := func(v strictjson.Value) string {
		buf = v.AppendJSON(buf[:0])
		return string(buf)
	}
	r := &trajectoryRow{
		ID: t.ID, SeedID: t.SeedID, Source: t.Source, Domain: t.Domain, Regime: t.Regime, Query: t.Query,
		Inputs: text(t.Inputs), Skill: t.Skill, Steps: make([]stepRow, len(t.Steps)),
		Answer: text(t.Answer), Slots: text(t.Slots), Provenance: text(t.Provenance),
	}
	for i := range t.Steps {
		s := &t.Steps[i]
		sr := stepRow{Tool: s.Tool, Arguments: text(s.Arguments), Observation: text(s.Observation), Thought: s.Thought, Uses: make([]useRow, 0, len(s.Uses))}
		for _, u := range s.Uses {
			sr.Uses = append(sr.Uses, useRow(u))
		}
		r.Steps[i] = sr
	}
	return r
}

// Value is the JSON object of the trajectory.
func (r *trajectoryRow) Value() strictjson.Value {
	t, err := r.trajectory()
	if err != nil {
		return strictjson.Text(err.Error()) // cannot happen: the text comes from rowOf or was parsed before
	}
	return t.Value()
}

// trajectory is the inverse of rowOf. An error names the column.
func (r *trajectoryRow) trajectory() (*Trajectory, error) {
	var err error
	parse := func(text, format string, args ...any) strictjson.Value {
		if text == "" || err != nil {
			return strictjson.Value{}
		}
		v, e := strictjson.Parse([]byte(text))
		if e != nil {
			err = fmt.Errorf("column %s: %w", fmt.Sprintf(format, args...), e)
		}
		return v
	}
	t := &Trajectory{
		ID: r.ID, SeedID: r.SeedID, Source: r.Source, Domain: r.Domain, Regime: r.Regime, Query: r.Query,
		Inputs: parse(r.Inputs, "inputs"), Skill: r.Skill, Steps: make([]Step, len(r.Steps)),
		Answer: parse(r.Answer, "answer"), Slots: parse(r.Slots, "slots"), Provenance: parse(r.Provenance, "provenance"),
	}
	for i, s := range r.Steps {
		t.Steps[i] = Step{
			Tool: s.Tool, Thought: s.Thought,
			Arguments:   parse(s.Arguments, "steps[%d].arguments", i),
			Observation: parse(s.Observation, "steps[%d].observation", i),
		}
		for _, u := range s.Uses {
			t.Steps[i].Uses = append(t.Steps[i].Uses, Use(u))
		}
	}
	return t, err
}
