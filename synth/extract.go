package synth

import (
	"errors"
	"fmt"
	"slices"

	"terraloom/data"
	"terraloom/data/catalogue"
	"terraloom/data/prompt"
	"terraloom/data/skills"
	"terraloom/reward"
)

// ErrSeed is returned for a seed that no records can be made of.
var ErrSeed = errors.New("seed cannot be used")

var errUnscorable = errors.New("the reward cannot score the target")

// extractor makes the Planner and Executor records of one seed's instances
// (D_P and D_E of Eq. 12). What it shows of skill and tools depends on the seed,
// not on the instance.
type extractor struct {
	style      prompt.Style
	maxTarget  int
	skill      *skills.Skill
	tools      []prompt.Tool // of the steps
	names      []string
	candidates []prompt.Tool // P_s, in catalogue order
}

func newExtractor(seed *data.Trajectory, o Options) (*extractor, error) {
	x := &extractor{style: o.Style, maxTarget: o.MaxTarget}
	cat := catalogue.For(seed.Source)
	var canonical []string
	for i, s := range seed.Steps {
		r, err := cat.Resolve(s.Tool)
		if err != nil {
			return nil, fmt.Errorf("%w: %s node %d: %w", ErrSeed, seed.ID, i, err)
		}
		if err := scorable(s.Arguments.JSON()); err != nil {
			return nil, fmt.Errorf("%w: %s node %d (%s): %w", ErrSeed, seed.ID, i, s.Tool, err)
		}
		x.tools = append(x.tools, prompt.Tool{Name: s.Tool, Spec: r.Tool})
		x.names = append(x.names, s.Tool)
		canonical = append(canonical, r.Tool.Name)
	}
	x.skill = skills.Route(skills.Default(), seed.Query, canonical)
	allowed := candidateNames(cat, x.skill, seed.Query, canonical)
	for _, t := range cat.Tools() {
		if !allowed[t.Name] {
			continue
		}
		// A tool that the seed calls by another name stands under that name.
		shown := false
		for i, c := range canonical {
			if c == t.Name && !slices.ContainsFunc(x.candidates, func(p prompt.Tool) bool { return p.Name == x.names[i] }) {
				x.candidates = append(x.candidates, x.tools[i])
				shown = true
			}
		}
		if !shown && !slices.Contains(canonical, t.Name) {
			x.candidates = append(x.candidates, prompt.Tool{Name: t.Name, Spec: t})
		}
	}
	return x, nil
}

// maxCandidates is how many tools a Planner prompt shows at most, unless the
// plan alone has more.
const maxCandidates = 30

// candidateNames are the tools a Planner may choose from: those of the skill, or
// of a small catalogue. Where no skill covers the plan they are the plan's own
// among those of the skill that comes closest.
func candidateNames(cat *catalogue.Catalogue, skill *skills.Skill, query string, plan []string) map[string]bool {
	names := map[string]bool{}
	for _, name := range plan {
		names[name] = true
	}
	var others []string
	switch all := cat.Tools(); {
	case skill != nil:
		others = skill.Tools
	case len(all) <= maxCandidates:
		for _, t := range all {
			others = append(others, t.Name)
		}
	default:
		best := -1
		for _, s := range skills.Default() {
			score := s.Score(query)
			for name := range names {
				if slices.Contains(s.Tools, name) {
					score += 100 // tools before words
				}
			}
			if score > best {
				best, others = score, s.Tools
			}
		}
	}
	for _, name := range others {
		if len(names) < maxCandidates {
			names[name] = true
		}
	}
	return names
}

// scorable refuses a target that the Executor's reward (Eq. 13) does not give
// its maximum when it is compared with itself, such as an empty object.
func scorable(target string) error {
	ref, err := reward.NewReference(target, nil)
	if err != nil {
		return fmt.Errorf("%w: %w", errUnscorable, err)
	}
	if s := reward.DefaultRules().Score(ref, target); !s.Exact() {
		return fmt.Errorf("%w: its own reward is %v, not 2: %s", errUnscorable, s.Reward, s.Reason)
	}
	return nil
}

// extract makes the records of one trajectory. A node whose target is longer
// than the limit gives no Executor row and is counted; no target is ever cut. A
// target that cannot be scored is an errUnscorable.
func (x *extractor) extract(t *data.Trajectory) (planner data.PlannerRow, executor []data.ExecutorRow, tooLong int, err error) {
	task := prompt.Task{Query: t.Query, Inputs: t.Inputs}
	if x.skill != nil {
		t.Skill = x.skill.Name
		task.Guidance = prompt.Guidance{Skill: x.skill.Name, Text: x.skill.Guidance}
	}
	planner = data.PlannerRow{
		Prompt:       prompt.Planner(x.style, task, x.candidates),
		Completion:   []data.Message{{Role: "assistant", Content: prompt.PlannerCompletion(x.names)}},
		TrajectoryID: t.ID, SeedID: t.SeedID, Domain: t.Domain, Source: t.Source,
	}
	executor = make([]data.ExecutorRow, 0, len(t.Steps))
	for i := range t.Steps {
		target := t.Steps[i].Arguments.JSON()
		if len(target) > x.maxTarget {
			tooLong++
			continue
		}
		if err := scorable(target); err != nil {
			return planner, nil, 0, fmt.Errorf("node %d (%s): %w", i, t.Steps[i].Tool, err)
		}
		executor = append(executor, data.ExecutorRow{
			Prompt:     prompt.Executor(x.style, task, x.tools[i], t.Steps[:i]),
			Completion: []data.Message{{Role: "assistant", Content: target}},
			Reference:  target, Tool: t.Steps[i].Tool, Node: i,
			TrajectoryID: t.ID, SeedID: t.SeedID, Domain: t.Domain, Source: t.Source,
		})
	}
	return planner, executor, tooLong, nil
}
