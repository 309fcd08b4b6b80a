package eval

import (
	"fmt"

	"terraloom/data"
	"terraloom/data/skills"
	"terraloom/data/strictjson"
)

// Question is one question of a benchmark or of a reference file.
type Question struct {
	ID     string // "question190", or the trajectory's id outside Earth-Bench
	Calls  []Call // the reference trace, never empty
	Gold   Gold
	Query  string // "" where the file has none
	Domain string // "" where unknown
	Skill  string // the bundled skill that covers the reference tools, "" where none does
}

// ReadBenchmark reads questions with their traces and answers: Earth-Bench's
// question.json, or any file of trajectories that data.Import knows.
func ReadBenchmark(path string) ([]Question, error) {
	res, err := data.Import(path, "", data.ImportOptions{})
	if err != nil {
		return nil, err
	}
	return Questions(res.Trajectories, path)
}

// Questions are trajectories as a benchmark; name stands in errors.
func Questions(trajectories []*data.Trajectory, name string) (questions []Question, err error) {
	questions = make([]Question, len(trajectories))
	for i, t := range trajectories {
		q := Question{ID: t.ID, Query: t.Query, Domain: t.Domain, Skill: t.Skill}
		if t.Source == data.FormatEarthBench {
			q.ID = questionID(t.Provenance.Get("entry").Text())
		}
		for _, s := range t.Steps {
			q.Calls = append(q.Calls, Call{s.Tool, s.Arguments, s.Observation})
		}
		if q.Gold, err = goldOf(t.Answer); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", name, t.ID, err)
		}
		if q.Skill == "" {
			if s := skills.Route(skills.Default(), t.Query, Names(q.Calls)); s != nil {
				q.Skill = s.Name
			}
		}
		questions[i] = q
	}
	return questions, nil
}

// goldOf reads a trajectory's answer: an object with "letter" or "text", a
// text, a number, or nothing.
func goldOf(answer strictjson.Value) (Gold, error) {
	switch answer.Kind() {
	case strictjson.Absent, strictjson.Null:
		return Gold{}, nil
	case strictjson.String:
		return NewGold(answer.Text()), nil
	case strictjson.Number:
		return Gold{Text: answer.Text()}, nil
	case strictjson.Object:
		letter, text := answer.Get("letter"), answer.Get("text")
		if letter.Kind() == strictjson.String || text.Kind() == strictjson.String {
			return Gold{Letter: letter.Text(), Text: text.Text()}, nil
		}
	}
	return Gold{}, fmt.Errorf(`/answer: expected a text, a number or an object with "letter" or "text", found %s`, clip(answer.JSON()))
}

// ReadReference reads extracted_tool_calls_GT.json, or its .gz: a list of
// {question_index, tool_calls [{name, input, output}], final_answer}.
func ReadReference(path string) ([]Question, error) {
	records, err := readRecords(path, "question_index")
	if err != nil {
		return nil, err
	}
	questions := make([]Question, len(records))
	for i, r := range records {
		q := Question{ID: r.id}
		if q.Calls, err = r.calls(); err != nil {
			return nil, err
		}
		if len(q.Calls) == 0 {
			return nil, r.fault("/tool_calls", "a reference needs at least one call")
		}
		switch answer := r.value.Get("final_answer"); answer.Kind() {
		case strictjson.String, strictjson.Number:
			q.Gold = NewGold(answer.Text())
		case strictjson.Null:
		default:
			return nil, r.fault("/final_answer", "expected a text or null, found %s", shape(answer))
		}
		questions[i] = q
	}
	return questions, nil
}
