package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"terraloom/agent/eval"
	"terraloom/agent/eval/report"
	"terraloom/agent/llm"
)

func newEvalCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "eval", Short: "Score recorded runs, compare and report them; measure models on records"}
	cmd.AddCommand(newEvalRunCmd(), newEvalScoreCmd(), newEvalCompareCmd(), newEvalReportCmd(), newEvalRecordsCmd())
	return cmd
}

// modelFlags name a model on an OpenAI-compatible server.
type modelFlags struct{ url, model string }

func (m *modelFlags) add(cmd *cobra.Command, name, what string) {
	cmd.Flags().StringVar(&m.url, name, "", "base URL of an OpenAI-compatible server "+what)
	cmd.Flags().StringVar(&m.model, name+"-model", "", "model name for --"+name)
	cmd.MarkFlagsRequiredTogether(name, name+"-model")
}

func (m *modelFlags) server() *llm.Server {
	return &llm.Server{URL: m.url, Model: m.model, Key: os.Getenv("TERRALOOM_LLM_KEY"), Timeout: 2 * time.Minute, Tries: 4, Pause: time.Second}
}

func newEvalScoreCmd() *cobra.Command {
	var benchmark, reference, dir, slice string
	var judge, embed modelFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "score",
		Short: "Score a recorded run against reference traces and answers",
		Long: `Reads extracted_tool_calls.json and results_summary_polished.json of the run's folder, each plain or
with .gz, and nothing else. Questions without a record score 0; the summary's "peer" leaves them out, as
the published Earth-Agent code does. The slice takes questions by their position in the reference.

Without --reference, traces and answers are the benchmark's own. A judge or an embedding server is asked
only where its flag is given; the key is read from TERRALOOM_LLM_KEY.`,
		Example: `  terraloom eval score --benchmark question.json --reference extracted_tool_calls_GT.json --run runs/gpt5_AP --slice 188: --json
  terraloom eval score --benchmark question.json --run out/run_AP --judge http://127.0.0.1:8000/v1 --judge-model qwen`,
		Args: exactArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			part, err := eval.ParseSlice(slice)
			if err != nil {
				return usageError{err}
			}
			questions, err := eval.ReadBenchmark(benchmark)
			if err != nil {
				return inputError{err}
			}
			var golden []eval.Question
			if reference != "" {
				if golden, err = eval.ReadReference(reference); err != nil {
					return inputError{err}
				}
			}
			run, err := eval.ReadRun(dir)
			if err != nil {
				return inputError{err}
			}
			scored, err := eval.Score(run, questions, golden, part)
			if err != nil {
				return inputError{err}
			}
			items := eval.Items(scored.Records, questions, run)
			if judge.url != "" {
				verdicts, err := eval.Judge(cmd.Context(), judge.server(), items)
				if err != nil {
					return err
				}
				scored.AddVerdicts(judge.model, verdicts)
				if n := scored.Summary.Judge.Failed; n > 0 {
					slog.Warn("the judge failed; these answers are in no denominator of its accuracy", "answers", n, "of", len(verdicts))
				}
			}
			if embed.url != "" {
				similarities, err := eval.Similarities(cmd.Context(), embed.server(), items)
				if err != nil {
					return err
				}
				scored.AddSimilarities(embed.model, similarities)
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(scored)
			}
			printScored(cmd.OutOrStdout(), scored)
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&benchmark, "benchmark", "", "questions with their own traces and answers: question.json, or any file of trajectories")
	f.StringVar(&reference, "reference", "", "reference traces and answers: extracted_tool_calls_GT.json (default: the benchmark's own)")
	f.StringVar(&dir, "run", "", "folder of the run")
	f.StringVar(&slice, "slice", "", "questions by position, FROM:TO as in Python (default: all)")
	f.BoolVar(&asJSON, "json", false, "print the records and the summary as JSON, which is the score file of compare and report")
	judge.add(cmd, "judge", "that judges answers")
	embed.add(cmd, "embed", "that embeds answers")
	must(cmd.MarkFlagRequired("benchmark"))
	must(cmd.MarkFlagRequired("run"))
	return cmd
}

func printScored(out io.Writer, s *eval.Scored) {
	for _, r := range s.Records {
		fmt.Fprintf(out, "%-14s tao %.4f  tio %.4f  tem %.4f  param %s  efficiency %s  %-8.20q %-5v %s\n", r.Question, r.TAO, r.TIO, r.TEM,
			optionalFigure(r.Param), optionalFigure(r.Efficiency), r.Predicted, r.Correct, r.Failure)
	}
	line := func(name string, m eval.Means) {
		fmt.Fprintf(out, "%-14s tao %.4f  tio %.4f  tem %.4f  param %s  efficiency %s  accuracy %.4f  (%d questions, %d answers)\n", name, m.TAO, m.TIO, m.TEM,
			optionalFigure(m.Param), optionalFigure(m.Efficiency), m.Accuracy, m.Questions, m.Answers)
	}
	line("all", s.Summary.Means)
	line("peer", s.Summary.Peer)
	fmt.Fprintf(out, "right by the benchmark's own answers: %.4f; without a trace: %d; failed: %d\n",
		s.Summary.BenchmarkAccuracy, len(s.Summary.Missing), len(s.Summary.Failed))
	if c := s.Summary.Cost; c != nil {
		fmt.Fprintf(out, "a question took %.3f model calls, %.0f tokens and %.2f s (median %.2f s) of waiting for models\n", c.ModelCalls, c.Tokens, c.MeanSeconds, c.MedianSeconds)
	}
	if j := s.Summary.Judge; j != nil {
		fmt.Fprintf(out, "judged correct by %s: %d of %d (%.4f), %d without a verdict\n", j.Model, j.Correct, j.Judged, j.Accuracy, j.Failed)
	}
	if e := s.Summary.Embedding; e != nil {
		fmt.Fprintf(out, "similarity by %s: mean %.4f, %.4f at %.1f or more\n", e.Model, e.Mean, e.Match, e.Threshold)
	}
}

func optionalFigure(f *float64) string {
	if f == nil {
		return "-"
	}
	return fmt.Sprintf("%.4f", *f)
}

func newEvalCompareCmd() *cobra.Command {
	var seed uint64
	var resamples int
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "compare A B",
		Short:   "Compare two score files question by question",
		Long:    "Prints B - A over the questions of both, with 95 % intervals of a paired bootstrap. Questions of only one file are listed and left out.",
		Example: "  terraloom eval compare base.json tuned.json --seed 7",
		Args:    exactArgs(2),
		RunE: func(cmd *cobra.Command, paths []string) error {
			if resamples < 1 {
				return usageError{fmt.Errorf("--resamples is %d; at least 1 is needed", resamples)}
			}
			both, err := readScores(paths)
			if err != nil {
				return err
			}
			c, err := eval.Compare(both[0], both[1], seed, resamples)
			if err != nil {
				return inputError{err}
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(c)
			}
			out := cmd.OutOrStdout()
			fmt.Fprintf(out, "A: %s\nB: %s\n", c.A, c.B)
			fmt.Fprintf(out, "%-20s %9s %10s %10s %10s  %-22s %8s\n", "metric", "questions", "A", "B", "B - A", "95 % interval", "p")
			for _, d := range c.Differences {
				fmt.Fprintf(out, "%-20s %9d %10.4f %10.4f %+10.4f  %-22s %8.4f\n", d.Metric, d.Questions, d.A, d.B, d.Mean, fmt.Sprintf("%+.4f to %+.4f", d.Low, d.High), d.P)
			}
			fmt.Fprintf(out, "only in A: %v\nonly in B: %v\n", c.OnlyA, c.OnlyB)
			return nil
		},
	}
	cmd.Flags().Uint64Var(&seed, "seed", 1, "seed of the resampling")
	cmd.Flags().IntVar(&resamples, "resamples", 10_000, "bootstrap resamples")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func newEvalReportCmd() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "report SCORES…",
		Short: "Write score files beside the published tables",
		Long: `Writes report.md, report.json and report.html: all runs overall, by regime on matched questions, by domain,
by skill and by cause of failure, then the tables of the papers, marked as published, with our rows under them.`,
		Example: "  terraloom eval report gpt5_AP.json ours_AP.json --out out/report",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{errors.New("name the score files")}
			}
			return nil
		},
		RunE: func(_ *cobra.Command, paths []string) error {
			runs, err := readScores(paths)
			if err != nil {
				return err
			}
			r, err := report.New(runs)
			if err != nil {
				return inputError{err}
			}
			if err := os.MkdirAll(out, 0o755); err != nil {
				return err
			}
			if err := r.Write(out); err != nil {
				return err
			}
			slog.Info("report written", "file", filepath.Join(out, "report.html"), "runs", len(runs))
			return nil
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "folder of the report")
	must(cmd.MarkFlagRequired("out"))
	return cmd
}

// readScores reads score files and reports all faults at once.
func readScores(paths []string) ([]*eval.Scored, error) {
	var out []*eval.Scored
	var faults []error
	for _, path := range paths {
		s, err := eval.ReadScored(path)
		if err != nil {
			faults = append(faults, err)
		}
		out = append(out, s)
	}
	if err := errors.Join(faults...); err != nil {
		return nil, inputError{err}
	}
	return out, nil
}
