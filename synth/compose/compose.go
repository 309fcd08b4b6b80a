// Package compose makes practice records out of the tool catalogue alone: tasks in which tools follow each other by what
// they take and return, with prompts and answers of the form that seeds give. Their questions describe the calls one by
// one, in the words of the catalogue. They teach a new base model JSON, tool names, paths and how values are carried from
// step to step, and nothing of any seed, so whatever is trained on them may be measured on every seed.
package compose

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"terraloom/data"
	"terraloom/data/catalogue"
	"terraloom/data/prompt"
	"terraloom/data/skills"
	"terraloom/data/strictjson"
)

// Source is the source of composed trajectories.
const Source = "composed"

// Options of a run; all of them stand in the manifest.
type Options struct {
	Count int          // trajectories
	Seed  uint64       // of all randomness
	Style prompt.Style // of the prompts
}

// Default are the options of a run without flags.
func Default() Options { return Options{Count: 1000, Seed: 1, Style: prompt.Brief} }

// Validate reports every bad option at once.
func (o Options) Validate() error {
	var errs []error
	if o.Count < validationEvery {
		errs = append(errs, fmt.Errorf("count is %d; at least %d, of which one is for validation", o.Count, validationEvery))
	}
	if _, err := prompt.ParseStyle(string(o.Style)); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// validationEvery trajectories, one goes to the validation split.
const validationEvery = 50

// executorRows is how many steps of a trajectory become Executor rows at most: prompts of one trajectory repeat each other.
const executorRows = 2

// Run composes the trajectories and writes them with their records into a dataset. Trajectory i depends on the seed and i
// alone. The caller finishes the writer with the manifest. progress may be nil.
func Run(ctx context.Context, o Options, w *data.Writer, progress func(done, total int)) (*data.Manifest, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	cat := catalogue.Default()
	executor := 0
	for i := range o.Count {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		r := rand.New(rand.NewPCG(o.Seed, uint64(i)))
		t := newTask(cat, r).trajectory(fmt.Sprintf("%s-%d", Source, i))
		planner, rows := records(t, cat, o.Style, r)
		split := "train"
		if i%validationEvery == validationEvery-1 {
			split = "validation"
		}
		if err := w.Add(split, t, planner, rows); err != nil {
			return nil, err
		}
		executor += len(rows)
		if progress != nil {
			progress(i+1, o.Count)
		}
	}
	return &data.Manifest{
		Seed: o.Seed,
		Options: strictjson.Obj(
			strictjson.Member{Key: "count", Value: strictjson.Int(o.Count)},
			strictjson.Member{Key: "style", Value: strictjson.Text(string(o.Style))}),
		Counts: []data.Count{{Name: "composed trajectories", Count: o.Count}, {Name: "planner rows", Count: o.Count}, {Name: "executor rows", Count: executor}},
	}, nil
}

// records makes the Planner's row and a few of the Executor's. A third of the tasks show all tools of a skill as
// candidates, with its guidance, the others a few tools and none.
func records(t *data.Trajectory, cat *catalogue.Catalogue, style prompt.Style, r *rand.Rand) (data.PlannerRow, []data.ExecutorRow) {
	task := prompt.Task{Query: t.Query, Inputs: t.Inputs}
	var names []string
	for _, s := range t.Steps {
		names = append(names, s.Tool)
	}
	skill := skills.Route(skills.Default(), t.Query, names)
	long := r.IntN(3) == 0
	if skill != nil && long {
		t.Skill = skill.Name
		task.Guidance = prompt.Guidance{Skill: skill.Name, Text: skill.Guidance}
	}
	shown := map[string]bool{}
	for _, name := range names {
		shown[name] = true
	}
	if all := cat.Tools(); long && skill != nil {
		for _, name := range skill.Tools {
			shown[name] = true
		}
	} else {
		for range 2 + r.IntN(8) {
			shown[all[r.IntN(len(all))].Name] = true
		}
	}
	var candidates []prompt.Tool
	for _, tool := range cat.Tools() {
		if shown[tool.Name] {
			candidates = append(candidates, prompt.Tool{Name: tool.Name, Spec: tool})
		}
	}
	planner := data.PlannerRow{
		Prompt: prompt.Planner(style, task, candidates), Completion: answer(prompt.PlannerCompletion(names)),
		TrajectoryID: t.ID, SeedID: t.SeedID, Domain: t.Domain, Source: t.Source,
	}
	var rows []data.ExecutorRow
	for _, i := range r.Perm(len(t.Steps))[:min(executorRows, len(t.Steps))] {
		tool, _ := cat.Tool(t.Steps[i].Tool)
		target := t.Steps[i].Arguments.JSON()
		rows = append(rows, data.ExecutorRow{
			Prompt:     prompt.Executor(style, task, prompt.Tool{Name: tool.Name, Spec: tool}, t.Steps[:i]),
			Completion: answer(target), Reference: target, Tool: tool.Name, Node: i,
			TrajectoryID: t.ID, SeedID: t.SeedID, Domain: t.Domain, Source: t.Source,
		})
	}
	return planner, rows
}

func answer(text string) []data.Message { return []data.Message{{Role: "assistant", Content: text}} }
