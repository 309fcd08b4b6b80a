package main

import (
	"github.com/spf13/cobra"

	"terraloom/grpo"
)

func newGrpoCmd() *cobra.Command {
	var from trainFlags
	cmd := &cobra.Command{
		Use:   "grpo",
		Short: "Optimise the Executor's adapter by the reward of its own answers",
		Long: `Draws a group of answers to every prompt of a dataset's Executor records, scores them against the reference
arguments and makes likelier what scored above its group's mean. It starts from a new adapter, or from one of a short
fine-tuning (adapter: FOLDER) where the base alone never answers well enough to be rewarded. Answers are drawn in this
process, or by a vLLM server (rollout.engine: vllm). Settings, run folder, signals and --resume are as in terraloom sft.`,
		Example: `  terraloom grpo --config configs/smollm2-executor.yaml --dry-run
  terraloom grpo --config configs/smollm2-executor.yaml --set adapter=out/warm/adapter --set objective.kl=exact
  terraloom grpo --config configs/smollm2-executor.yaml --resume auto`,
		Args: exactArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, origins, err := grpo.LoadConfig(from.config, from.sets)
			if err != nil {
				return inputError{err}
			}
			p, err := grpo.Prepare(cmd.Context(), c, origins)
			if err != nil && trainExitCode(err) == 0 {
				err = inputError{err}
			}
			if err != nil {
				return err
			}
			defer p.Close()
			if from.dryRun {
				return p.DryRun(cmd.Context(), cmd.OutOrStdout(), from.resume)
			}
			return carryOut(cmd, p, p.Base, c.Out, from.resume)
		},
	}
	from.add(cmd)
	return cmd
}
