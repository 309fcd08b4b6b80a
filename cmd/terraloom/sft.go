package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"terraloom/grpo"
	"terraloom/lora/backend"
	"terraloom/lora/train"
	trainrun "terraloom/lora/train/run"
	"terraloom/lora/train/setup"
	"terraloom/sft"
)

// Exit codes of training verbs.
const (
	exitNothingToTrain = 6  // no labelled token, no trainable parameter, or no step
	exitUnchanged      = 7  // training left the parameters as they were
	exitNonFinite      = 8  // losses or gradients were not finite too often
	exitNoSpread       = 9  // no group of answers differed in reward for too many steps
	exitSampler        = 10 // answers came from other weights than those that are trained
)

// trainExitCode is the exit code of a training error; 0 if it has none of its own.
func trainExitCode(err error) int {
	switch {
	case errors.Is(err, train.ErrNothingToTrain), errors.Is(err, train.ErrComplete):
		return exitNothingToTrain
	case errors.Is(err, train.ErrUnchanged):
		return exitUnchanged
	case errors.Is(err, train.ErrNonFinite):
		return exitNonFinite
	case errors.Is(err, grpo.ErrNoSpread):
		return exitNoSpread
	case errors.Is(err, grpo.ErrStale), errors.Is(err, grpo.ErrSampler):
		return exitSampler
	case errors.Is(err, train.ErrResume), errors.Is(err, train.ErrNoCheckpoint), errors.Is(err, train.ErrCorrupt), errors.Is(err, train.ErrOptions):
		return exitInput
	}
	return 0
}

func newSftCmd() *cobra.Command {
	var from trainFlags
	cmd := &cobra.Command{
		Use:   "sft",
		Short: "Fine-tune an adapter on the Planner's or the Executor's records",
		Long: `Learns the answers of a dataset's records: prompts are masked, the end-of-turn token is learned. Every setting has
a default, a configuration file is over the defaults, --set over the file; what was resolved, and from where, is printed
and kept in the run folder. A signal ends the run after saving; --resume auto goes on as if it had not been stopped.`,
		Example: `  terraloom sft --config configs/smollm2-planner.yaml --dry-run
  terraloom sft --config configs/smollm2-planner.yaml --set lora.r=8 --set out=out/r8
  terraloom sft --config configs/smollm2-planner.yaml --resume auto`,
		Args: exactArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, origins, err := sft.LoadConfig(from.config, from.sets)
			if err != nil {
				return inputError{err}
			}
			p, err := sft.Prepare(cmd.Context(), c, origins)
			if err != nil && trainExitCode(err) == 0 {
				err = inputError{err}
			}
			if err != nil {
				return err
			}
			defer p.Close()
			if from.dryRun {
				return p.DryRun(cmd.OutOrStdout(), from.resume)
			}
			return carryOut(cmd, p, p.Base, c.Out, from.resume)
		},
	}
	from.add(cmd)
	return cmd
}

// trainer is a prepared run of a verb that trains.
type trainer interface {
	Banner() (string, error)
	Run(ctx context.Context, engine *backend.Backend, resume string, progress func(train.Status)) (*setup.Result, error)
}

// carryOut prints the run's banner, trains with progress, and prints what was measured last and where the result is.
func carryOut(cmd *cobra.Command, p trainer, base *setup.Base, out, resume string) error {
	banner, err := p.Banner()
	if err != nil {
		return err
	}
	fmt.Fprint(cmd.OutOrStdout(), banner)
	engine, err := base.Backend()
	if err != nil {
		return err
	}
	bar := newTrainProgress()
	res, err := p.Run(cmd.Context(), engine, resume, bar.at)
	bar.finish()
	if err != nil {
		return err
	}
	for _, v := range res.Summary.Last {
		fmt.Fprintf(cmd.OutOrStdout(), "%-28s %.6g\n", v.Name, v.Number)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "result in %s, report in %s\n", res.Path, filepath.Join(out, trainrun.ReportFile))
	return nil
}

// trainFlags are the flags of every verb that trains.
type trainFlags struct {
	config string
	sets   []string
	dryRun bool
	resume string
}

func (t *trainFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&t.config, "config", "", "YAML file over the defaults")
	f.StringArrayVar(&t.sets, "set", nil, "key=value over the file, such as lora.r=8; may be repeated")
	f.BoolVar(&t.dryRun, "dry-run", false, "tokenise, mask and lay everything out, print it, and refuse what would fail later")
	f.StringVar(&t.resume, "resume", "never", "never, auto (from the newest checkpoint that is whole), or a checkpoint's name")
}

// trainProgress shows a training run: a bar with the loss on a terminal, else a log line every few seconds.
type trainProgress struct{ *progress }

func newTrainProgress() trainProgress { return trainProgress{newProgress("training", "steps")} }

func (p trainProgress) at(s train.Status) {
	if p.bar != nil {
		p.bar.Describe(fmt.Sprintf("loss %.4f, %.0f tokens/s", s.Loss, s.PerSecond))
		p.progress.at(s.Done, s.Total)
		return
	}
	if now := time.Now(); now.After(p.next) || s.Done == s.Total {
		p.next = now.Add(logEvery)
		slog.Info("training", "step", s.Done, "of", s.Total, "loss", fmt.Sprintf("%.4f", s.Loss),
			"tokens/s", fmt.Sprintf("%.0f", s.PerSecond), "left", s.Left.Round(time.Second))
	}
}

func newReportCmd() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:     "report RUN…",
		Short:   "Write a page with the curves of one training run, or of several side by side",
		Example: "  terraloom report out/smollm2-planner\n  terraloom report out/r8 out/r16 --out compare.html",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{errors.New("name the folders of one run or more")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, dirs []string) error {
			if out == "" {
				if len(dirs) > 1 {
					return usageError{errors.New("--out is missing: several runs have no common folder")}
				}
				out = filepath.Join(dirs[0], trainrun.ReportFile)
			}
			if err := trainrun.WritePage(dirs, out); err != nil {
				return inputError{err}
			}
			fmt.Fprintln(cmd.OutOrStdout(), out)
			return nil
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "HTML file (default: report.html of the run)")
	return cmd
}
