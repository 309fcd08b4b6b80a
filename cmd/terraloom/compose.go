package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"terraloom/data"
	"terraloom/data/prompt"
	"terraloom/synth/compose"
)

func newSynthComposeCmd() *cobra.Command {
	o := compose.Default()
	var out, style string
	var force bool
	cmd := &cobra.Command{
		Use:   "compose",
		Short: "Compose practice records from the tool catalogue alone, for training a new base",
		Long: `Chains tools by what they take and return, and writes tasks that describe the calls in the catalogue's words:
Planner and Executor records with prompts of the form that seeds give, but nothing of any seed. A base that is trained
on them knows JSON, tool names and paths, and may be measured on every seed.`,
		Example: "  terraloom synth compose --count 20000 --out out/practice",
		Args:    exactArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.Style, err = prompt.ParseStyle(style); err != nil {
				return usageError{err}
			}
			if err := o.Validate(); err != nil {
				return usageError{err}
			}
			w, err := data.CreateDataset(out, data.WriterOptions{Force: force})
			if err != nil {
				return err
			}
			defer w.Abort()
			bar := newProgress("composing", "trajectories")
			m, err := compose.Run(cmd.Context(), o, w, bar.at)
			bar.finish()
			if err != nil {
				return err
			}
			if err := w.Finish(m); err != nil {
				return err
			}
			for _, c := range m.Counts {
				fmt.Fprintf(cmd.OutOrStdout(), "%-42s %8d\n", c.Name, c.Count)
			}
			fmt.Fprintln(cmd.OutOrStdout(), "dataset in", out)
			return nil
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.Count, "count", o.Count, "trajectories")
	f.Uint64Var(&o.Seed, "seed", o.Seed, "seed of all randomness")
	f.StringVar(&style, "style", string(o.Style), "tool descriptions in prompts: full (JSON Schema), compact (one line) or brief (names and summaries)")
	f.StringVar(&out, "out", "", "dataset folder to make")
	f.BoolVar(&force, "force", false, "replace an existing dataset folder")
	must(cmd.MarkFlagRequired("out"))
	return cmd
}
