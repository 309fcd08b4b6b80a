package run

import (
	"errors"
	"io/fs"
	"path/filepath"
	"testing"

	"terraloom/agent/llm"
	"terraloom/data"
	"terraloom/data/prompt"
	"terraloom/synth"
)

// rows keeps what the extractor of the training data makes of one trajectory.
type rows struct {
	trajectory *data.Trajectory
	planner    data.PlannerRow
	executor   []data.ExecutorRow
}

func (r *rows) Add(_ string, t *data.Trajectory, planner data.PlannerRow, executor []data.ExecutorRow) error {
	r.trajectory, r.planner, r.executor = t, planner, executor
	return nil
}

// DATA-14 on real data: what the agent asks Planner and Executor of question 213,
// after the reference steps as accepted prefix, equals the training records byte
// for byte, down to its fourth and last node.
func TestDATA14Question213(t *testing.T) {
	res, err := data.Import(filepath.Join(shared(t), "earth-bench", "question.json"), "", data.ImportOptions{})
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("no real data: %v; set TERRALOOM_SHARED", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	q := res.Trajectories[213-1] // questions are numbered from 1
	var record rows
	mixed := &synth.Report{Trajectories: 1, Split: map[string]int{}} // one trajectory, as it is
	if err := mixed.Mix(&synth.Mix{Ratio: 1, Trajectories: []*data.Trajectory{q}}, &record, synth.Default()); err != nil {
		t.Fatal(err)
	}
	if len(record.executor) != 4 {
		t.Fatalf("%d executor records: %v", len(record.executor), mixed.Refusals)
	}

	var plan []string
	lines := append(answers("x"), llm.Line{Role: "router", Reply: record.trajectory.Skill})
	results := map[string][]string{}
	for _, step := range q.Steps {
		plan = append(plan, step.Tool)
		lines = append(lines, llm.Line{Role: "executor", Reply: step.Arguments.JSON()})
		results[step.Tool] = []string{step.Observation.JSON()}
	}
	s := newScene(t, append(lines, planner(plan...))...)
	s.agent.Config.Routing, s.agent.Config.Style = ByModel, prompt.Full
	s.task, s.tools.results = Task{ID: q.ID, Question: q.Query, Inputs: q.Inputs}, results
	s.run().must(t, Answered)

	equal := func(what string, got llm.Request, want []data.Message) {
		if len(got.Messages) != len(want) {
			t.Fatalf("%s: %d messages, the record has %d", what, len(got.Messages), len(want))
		}
		for i, m := range want {
			if got.Messages[i].Role != m.Role || got.Messages[i].Content != m.Content {
				t.Errorf("%s: the agent asks\n%s\nthe record has\n%s", what, got.Messages[i].Content, m.Content)
			}
		}
	}
	equal("planner", s.script.Asked("planner")[0], record.planner.Prompt)
	asked := s.script.Asked("executor")
	if len(asked) != len(q.Steps) {
		t.Fatalf("%d executor prompts", len(asked))
	}
	for i, r := range record.executor {
		equal("node "+r.Tool, asked[i], r.Prompt)
	}
}
