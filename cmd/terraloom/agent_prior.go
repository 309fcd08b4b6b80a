package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"terraloom/agent/eval"
	"terraloom/agent/llm"
	"terraloom/agent/rsure"
)

func newAgentPriorFitCmd() *cobra.Command {
	var benchmark, exclude, out string
	var classifier modelFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "fit RUN…",
		Short: "Learn how reliable tool configurations are on each type of task, from recorded runs",
		Long: `Counts, for each of the 21 task types and each tool configuration, the calls of recorded runs and those whose observation
matches the reference, and writes the counts with their smoothed shares. The runs should be of the base loop, and none of
their questions in the set that is tested later: --exclude names it, and an overlap is an error. Task types come from
keyword rules; with --classifier a model places the rest, else they are left out.`,
		Example: "  terraloom agent prior fit runs/calibration_AP --benchmark calibration.json --exclude question.json --out prior.json",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{errors.New("name the folders of the runs")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, dirs []string) error {
			questions, err := eval.ReadBenchmark(benchmark)
			if err != nil {
				return inputError{err}
			}
			var test []string
			if exclude != "" {
				held, err := eval.ReadBenchmark(exclude)
				if err != nil {
					return inputError{err}
				}
				for _, q := range held {
					test = append(test, q.ID)
				}
			}
			var runs []*eval.Run
			var faults []error
			for _, dir := range dirs {
				r, err := eval.ReadRun(dir)
				faults = append(faults, err)
				runs = append(runs, r)
			}
			if err := errors.Join(faults...); err != nil {
				return inputError{err}
			}
			var model llm.Model
			if classifier.url != "" {
				model = classifier.server()
			}
			samples, tasks, err := eval.Calibrate(cmd.Context(), model, classifier.model, runs, questions)
			if err != nil {
				return err
			}
			prior, err := rsure.Fit(samples, tasks, test)
			if err != nil {
				return inputError{err}
			}
			if err := prior.Write(out); err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(prior)
			}
			for _, c := range prior.Coarse {
				fmt.Fprintf(cmd.OutOrStdout(), "%-26s %-50s %5d of %5d  %.3f\n", c.Task, c.Config, c.Valid, c.Calls, c.Reliability())
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%d calls of %d questions; sha256 %s\n", len(samples), len(tasks), prior.Hash())
			return nil
		},
	}
	cmd.Flags().StringVar(&benchmark, "benchmark", "", "questions of the runs with their reference traces")
	cmd.Flags().StringVar(&exclude, "exclude", "", "questions that will be tested; they may not be in the runs")
	cmd.Flags().StringVar(&out, "out", "", "file of the prior")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the prior as JSON")
	classifier.add(cmd, "classifier", "that places questions which no keyword rule knows")
	must(cmd.MarkFlagRequired("benchmark"))
	must(cmd.MarkFlagRequired("out"))
	return cmd
}
