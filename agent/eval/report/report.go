// Package report writes score files beside the published tables of the papers:
// for people as Markdown and as an HTML page without scripts and outside
// resources, for programs as JSON.
package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"terraloom/agent/eval"
	"terraloom/data"
)

// Report is everything that is written.
type Report struct {
	Runs      []RunRow `json:"runs"`
	Regimes   []Cell   `json:"regimes"` // models with several regimes, on the questions of all their runs
	Domains   []Group  `json:"domains"`
	Skills    []Group  `json:"skills"`
	Failures  []Causes `json:"failures"`
	Published []Table  `json:"published"`
}

// RunRow is a run over all its questions.
type RunRow struct {
	Run     string       `json:"run"`
	Regime  string       `json:"regime,omitempty"`
	Setting string       `json:"setting"`
	Summary eval.Summary `json:"summary"`
}

// Group is the part of a run's questions with a domain or a skill.
type Group struct {
	Run   string     `json:"run"`
	Name  string     `json:"name"`
	Means eval.Means `json:"means"`
}

// Cell is one model in one regime, over the questions that all regimes of that
// model have (EAP §III-B compares regimes on matched questions).
type Cell struct {
	Model   string     `json:"model"`
	Setting string     `json:"setting"`
	Regime  string     `json:"regime"`
	Means   eval.Means `json:"means"`
}

// Causes counts a run's questions by why they are not right.
type Causes struct {
	Run    string         `json:"run"`
	Right  int            `json:"right"`
	Causes map[string]int `json:"causes"`
	// ToolErrors counts calls that returned an error, in right and wrong questions.
	ToolErrors int `json:"tool_errors"`
}

// ErrSameRun is returned where two score files are of runs with one name.
var ErrSameRun = errors.New("two score files of one run")

// New makes a report of score files, in their order.
func New(runs []*eval.Scored) (*Report, error) {
	r := &Report{Regimes: matched(runs), Domains: []Group{}, Skills: []Group{}}
	seen := map[string]bool{}
	for _, run := range runs {
		if seen[run.Run] {
			return nil, fmt.Errorf("%w: %s; rename one, rows could not be told apart", ErrSameRun, run.Run)
		}
		seen[run.Run] = true
		r.Runs = append(r.Runs, RunRow{run.Run, run.Regime, run.Setting, run.Summary})
		r.Domains = append(r.Domains, groups(run, func(r *eval.Record) string { return r.Domain })...)
		r.Skills = append(r.Skills, groups(run, func(r *eval.Record) string { return r.Skill })...)
		c := Causes{Run: run.Run, Right: len(run.Records), Causes: run.Summary.Failures}
		for _, n := range c.Causes {
			c.Right -= n
		}
		for _, q := range run.Records {
			c.ToolErrors += q.ToolErrors
		}
		r.Failures = append(r.Failures, c)
	}
	for _, t := range Published() {
		r.Published = append(r.Published, t.with(runs))
	}
	return r, nil
}

// groups averages a run's records by a name; records without one are "none".
func groups(run *eval.Scored, name func(*eval.Record) string) []Group {
	byName := map[string][]eval.Record{}
	for i := range run.Records {
		n := name(&run.Records[i])
		if n == "" {
			n = "none"
		}
		byName[n] = append(byName[n], run.Records[i])
	}
	var out []Group
	for _, n := range slices.Sorted(maps.Keys(byName)) {
		out = append(out, Group{run.Run, n, eval.Average(byName[n], byName[n])})
	}
	return out
}

// matched averages models that ran in several regimes over their common questions.
func matched(runs []*eval.Scored) []Cell {
	type key struct{ model, setting string }
	byModel := map[key][]*eval.Scored{}
	for _, run := range runs {
		if run.Regime != "" {
			k := key{run.Model(), run.Setting}
			byModel[k] = append(byModel[k], run)
		}
	}
	cells := []Cell{}
	for _, k := range slices.SortedFunc(maps.Keys(byModel), func(a, b key) int {
		return strings.Compare(a.model+"\x00"+a.setting, b.model+"\x00"+b.setting)
	}) {
		group := byModel[k]
		if len(group) < 2 {
			continue
		}
		times := map[string]int{}
		for _, run := range group {
			for i := range run.Records {
				times[run.Records[i].Question]++
			}
		}
		for _, run := range group {
			common := slices.DeleteFunc(slices.Clone(run.Records), func(r eval.Record) bool { return times[r.Question] < len(group) })
			cells = append(cells, Cell{k.model, k.setting, run.Regime, eval.Average(common, common)})
		}
	}
	return cells
}

// Write writes report.md, report.json and report.html into a folder that exists.
func (r *Report) Write(dir string) error {
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	page, err := r.HTML()
	if err != nil {
		return err
	}
	return errors.Join(
		data.WriteFile(filepath.Join(dir, "report.json"), append(text, '\n')),
		data.WriteFile(filepath.Join(dir, "report.md"), []byte(r.Markdown())),
		data.WriteFile(filepath.Join(dir, "report.html"), page))
}
