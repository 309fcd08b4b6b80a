package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"terraloom/agent/environment"
	"terraloom/agent/eval"
	"terraloom/agent/eval/suite"
	"terraloom/agent/rsure"
	agent "terraloom/agent/run"
	"terraloom/agent/tools"
	"terraloom/agent/tools/workspace"
	"terraloom/data"
	"terraloom/data/strictjson"
)

func newEvalRunCmd() *cobra.Command {
	var from agentFlags
	var questions suiteQuestions
	var modes, compositions, skillsOn, protocols, regimes []string
	var out string
	var workers int
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the agent over the questions of a benchmark and score it",
		Long: `Runs every cell of regimes × modes × compositions × skills × protocols, each into a folder of its own below --out that eval
score, compare and report read. A finished question is one line of the cell's records.jsonl; the same command goes on after
an interruption. Failed questions stay in the denominator.

Modes: end-to-end; planning-only (the plan as proposed); oracle-plan (the reference plan, executed); arguments (the
reference plan and reference steps, no tool is called); and the loops without plan react, critic (checks its answer with
tools and revises it) and tools-fail (judges every tool output by a checklist). Compositions say which adapters are used:
none, planner, executor, both; a loop without plan uses that of the executor. Without --seeds the questions are the
bundled ones, which run in the bundled environment; those of a file run on the prepared files of --data.`,
		Example: `  terraloom eval run --out out/eval --base models/base --adapter planner=P --adapter executor=E --modes planning-only,oracle-plan,end-to-end --compositions none,planner,executor,both
  terraloom eval run --out out/loops --modes react,critic,tools-fail --llm http://127.0.0.1:8000/v1 --model qwen
  terraloom eval run --out out/eb --seeds question.json --regimes ap --modes planning-only,arguments --llm http://127.0.0.1:8000/v1 --model base`,
		Args: exactArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			on := []bool{}
			for _, s := range skillsOn {
				if s != "on" && s != "off" {
					return usageError{fmt.Errorf("--with-skills %q is neither on nor off", s)}
				}
				on = append(on, s == "on")
			}
			cells, err := suite.Cells(regimes, kinds[agent.Mode](modes), kinds[suite.Composition](compositions), on, kinds[rsure.Level](protocols))
			if err != nil {
				return usageError{err}
			}
			list, err := questions.load(regimes)
			if err != nil {
				return err
			}
			from.llm.rows = workers
			a, done, err := from.agent(cmd.Context())
			if err != nil {
				return err
			}
			defer done()
			open, closeWorld, err := questions.world()
			if err != nil {
				return err
			}
			defer closeWorld()
			names := a.Config.Models
			s := &suite.Suite{Out: out, Agent: *a, Questions: list, Workers: workers, Open: open,
				Names: suite.Names{Base: names.Other, Planner: names.Planner, Executor: names.Executor}}
			var bar *progress
			cell := ""
			s.Progress = func(p suite.Progress) {
				if p.Cell != cell {
					if bar != nil {
						bar.finish()
					}
					cell, bar = p.Cell, newProgress(p.Cell, "questions")
				}
				bar.at(p.Done, p.Total)
				bar.say(fmt.Sprintf("%s tao %.3f tio %.3f tem %.3f acc %.3f", p.Cell, p.Means.TAO, p.Means.TIO, p.Means.TEM, p.Means.Accuracy))
			}
			scored, err := s.Run(cmd.Context(), cells)
			if bar != nil {
				bar.finish()
			}
			if errors.Is(err, suite.ErrSuite) || errors.Is(err, suite.ErrRecords) {
				return usageError{err}
			}
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(summaries(scored))
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%-56s %9s %7s %7s %7s %7s %7s %9s %7s\n", "cell", "questions", "TAO", "TIO", "TEM", "param", "eff", "accuracy", "failed")
			for _, r := range scored {
				m := r.Summary
				fmt.Fprintf(cmd.OutOrStdout(), "%-56s %9d %7.4f %7.4f %7.4f %7s %7s %9.4f %7d\n", r.Run, m.Questions, m.TAO, m.TIO, m.TEM, optionalFigure(m.Param), optionalFigure(m.Efficiency), m.BenchmarkAccuracy, len(m.Failed))
			}
			return nil
		},
	}
	from.add(cmd)
	questions.add(cmd)
	f := cmd.Flags()
	f.StringSliceVar(&regimes, "regimes", []string{"ow"}, "if, ap, ow")
	f.StringSliceVar(&modes, "modes", []string{string(agent.EndToEnd)}, "end-to-end, planning-only, oracle-plan, arguments, react, critic, tools-fail")
	f.StringSliceVar(&compositions, "compositions", []string{string(suite.Both)}, "none, planner, executor, both")
	f.StringSliceVar(&skillsOn, "with-skills", []string{"on"}, "on, off")
	f.StringSliceVar(&protocols, "protocols", []string{string(rsure.Off)}, "off, deterministic, full")
	f.StringVar(&out, "out", "", "folder of the cells")
	f.IntVar(&workers, "workers", 4, "questions at a time")
	f.BoolVar(&asJSON, "json", false, "print the summaries as JSON")
	must(f.MarkHidden("protocol")) // --protocols names those of the cells
	must(cmd.MarkFlagRequired("out"))
	return cmd
}

// kinds are texts as values of a named type.
func kinds[T ~string](list []string) []T {
	out := make([]T, len(list))
	for i, s := range list {
		out[i] = T(s)
	}
	return out
}

func summaries(scored []*eval.Scored) map[string]eval.Summary {
	out := map[string]eval.Summary{}
	for _, s := range scored {
		out[s.Run] = s.Summary
	}
	return out
}

// suiteQuestions say which questions are run, and in what.
type suiteQuestions struct {
	seeds, format, slice, heldOut, split, dataDir, cache string
}

func (q *suiteQuestions) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&q.seeds, "seeds", "", "questions with their reference trajectories: a file or folder (default: the bundled ones)")
	f.StringVar(&q.format, "format", "", "earth-bench, openearthagent or own (default: by content)")
	f.StringVar(&q.slice, "slice", "", "questions by position, FROM:TO as in Python (default: all)")
	f.StringVar(&q.heldOut, "dataset", "", "dataset folder: only questions whose seed is in its --split")
	f.StringVar(&q.split, "split", "test", "split of --dataset")
	f.StringVar(&q.dataDir, "data", "", "folder of prepared files for --seeds; without it tools of files are not available")
	f.StringVar(&q.cache, "cache", "", "folder that keeps downloads of the bundled environment")
}

// load gives the questions of each regime.
func (q *suiteQuestions) load(regimes []string) (map[string][]*data.Trajectory, error) {
	part, err := eval.ParseSlice(q.slice)
	if err != nil {
		return nil, usageError{err}
	}
	var seeds map[string]bool
	if q.heldOut != "" {
		if seeds, err = seedsOf(q.heldOut, q.split); err != nil {
			return nil, err
		}
	}
	out := map[string][]*data.Trajectory{}
	for _, regime := range regimes {
		if q.seeds != "" && regime == "ow" {
			return nil, usageError{errors.New("--seeds has no questions of the regime ow: give --regimes if,ap")}
		}
		from := seedFlags{path: q.seeds, format: q.format, regime: regime}
		res, err := from.load()
		if err != nil {
			return nil, err
		}
		list := res.Trajectories
		ids := make([]eval.Question, len(list))
		for i, t := range list {
			ids[i].ID = t.ID
		}
		kept := map[string]bool{}
		for _, k := range part.Of(ids) {
			kept[k.ID] = true
		}
		list = slices.DeleteFunc(slices.Clone(list), func(t *data.Trajectory) bool { return !kept[t.ID] || seeds != nil && !seeds[t.SeedID] })
		if len(list) == 0 {
			return nil, usageError{fmt.Errorf("no question of the regime %s is left by --slice and --dataset", regime)}
		}
		out[regime] = list
	}
	return out, nil
}

// seedsOf are the seeds of a dataset's split.
func seedsOf(dir, split string) (map[string]bool, error) {
	ds, err := data.OpenDataset(dir)
	if err != nil {
		return nil, inputError{err}
	}
	seeds := map[string]bool{}
	for t, err := range ds.Trajectories(split) {
		if err != nil {
			return nil, inputError{err}
		}
		seeds[t.SeedID] = true
	}
	return seeds, nil
}

type opener = func(ctx context.Context, t *data.Trajectory, dir string) (agent.Environment, func() error, error)

// world is where questions run: the bundled environment, or the prepared files of
// --data, each question with its own in a workspace of its own.
func (q *suiteQuestions) world() (opener, func(), error) {
	if q.seeds == "" {
		env, err := environment.OpenBundled(environment.Options{Cache: q.cache})
		if err != nil {
			return nil, nil, err
		}
		return bundledWorld(env), func() { _ = env.Close() }, nil // the system clears what is left of it
	}
	return func(_ context.Context, t *data.Trajectory, dir string) (agent.Environment, func() error, error) {
		if q.dataDir != "" {
			if err := linkData(q.dataDir, dir, t); err != nil {
				return agent.Environment{}, nil, err
			}
		}
		w, err := workspace.Open(dir, workspace.DefaultLimits)
		if err != nil {
			return agent.Environment{}, nil, err
		}
		kit, err := tools.New(tools.Correct, tools.WithWorkspace(w))
		if err != nil {
			return agent.Environment{}, nil, errors.Join(err, w.Close())
		}
		return inWorkspace(kit, w), w.Close, nil
	}, func() {}, nil
}

func bundledWorld(env *environment.Environment) opener {
	return func(ctx context.Context, _ *data.Trajectory, _ string) (agent.Environment, func() error, error) {
		session, err := env.Session(ctx, "")
		if err != nil {
			return agent.Environment{}, nil, err
		}
		w, err := workspace.Open(session.Dir(), workspace.DefaultLimits)
		if err != nil {
			return agent.Environment{}, nil, errors.Join(err, session.Close())
		}
		return inWorkspace(sessionTools{session}, w), func() error { return errors.Join(w.Close(), session.Close()) }, nil
	}
}

// sessionTools is a session, which has its context already, as the agent calls tools.
type sessionTools struct{ *environment.Session }

// Invoke implements agent.Tools.
func (s sessionTools) Invoke(_ context.Context, name string, args strictjson.Value) (tools.Result, error) {
	return s.Session.Invoke(name, args)
}

// linkData puts the files that a question's inputs name into its workspace, as
// hard links where the file system allows.
func linkData(from, to string, t *data.Trajectory) error {
	root, err := os.OpenRoot(from)
	if err != nil {
		return err
	}
	defer root.Close()
	var failed error
	t.Inputs.Leaves("", func(_ string, leaf strictjson.Value) {
		name := path.Clean(strings.TrimSpace(leaf.Text()))
		if failed != nil || leaf.Kind() != strictjson.String || !filepath.IsLocal(name) {
			return
		}
		info, err := root.Stat(name)
		if err != nil || name == "." {
			return // no path, or one of files that are made later
		}
		if !info.IsDir() {
			failed = linkFile(from, to, name)
			return
		}
		failed = fs.WalkDir(root.FS(), name, func(p string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			return linkFile(from, to, p)
		})
	})
	return failed
}

func linkFile(from, to, name string) error {
	src, dst := filepath.Join(from, filepath.FromSlash(name)), filepath.Join(to, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(dst), 0o755); err != nil {
		return err
	}
	if os.Link(src, dst) == nil {
		return nil
	}
	text, err := os.ReadFile(src)
	if err != nil {
		return err
	}
	return os.WriteFile(dst, text, 0o644)
}
