// Command terraloom regenerates the training data of an Earth-observation
// agent, trains its adapters, and runs and evaluates the agent with them.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"terraloom/agent/memory"
	"terraloom/data"
	"terraloom/data/strictyaml"
	"terraloom/lora/backend"
	"terraloom/lora/checkpoint"
	"terraloom/slots"
	"terraloom/synth"
)

// Exit codes.
const (
	exitError       = 1   // anything without a code of its own
	exitUsage       = 2   // a flag or argument is wrong
	exitInput       = 3   // an input file is wrong
	exitIncomplete  = 4   // the work is done, but less than was asked for
	exitExists      = 5   // the output exists, or another run is writing it
	exitInterrupted = 130 // cancelled by a signal
)

func main() {
	if code, done := backend.Startup(); done {
		os.Exit(code)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:]))
}

func run(ctx context.Context, args []string) int {
	root := newRootCmd()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, "terraloom:", err)
	return exitCode(ctx, err)
}

// usageError is a wrong flag or argument.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func exitCode(ctx context.Context, err error) int {
	var usage usageError
	var input inputError
	trained := trainExitCode(err)
	switch {
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return exitInterrupted
	case errors.As(err, &usage):
		return exitUsage
	case trained != 0:
		return trained
	case errors.Is(err, synth.ErrShort), errors.Is(err, errUnscored), errors.Is(err, errUnanswered):
		return exitIncomplete
	case errors.Is(err, data.ErrExists), errors.Is(err, data.ErrLocked), errors.Is(err, checkpoint.ErrExists), errors.Is(err, memory.ErrExists), errors.Is(err, memory.ErrLocked):
		return exitExists
	case errors.As(err, &input), errors.Is(err, checkpoint.ErrFormat), errors.Is(err, checkpoint.ErrUnsupported), errors.Is(err, checkpoint.ErrTensors), errors.Is(err, data.ErrNotFound), errors.Is(err, data.ErrCorrupt), errors.Is(err, data.ErrNotDataset),
		errors.Is(err, strictyaml.ErrConfig), errors.Is(err, slots.ErrProgram), errors.Is(err, slots.ErrStaleReview), errors.Is(err, synth.ErrUnreviewed), errors.Is(err, synth.ErrSeed):
		return exitInput
	}
	return exitError
}

func newRootCmd() *cobra.Command {
	var verbose bool
	root := &cobra.Command{
		Use:           "terraloom",
		Short:         "Post-training pipeline for Earth-observation agents",
		Long:          "terraloom regenerates training data from seed trajectories, trains Planner and Executor adapters,\nand runs and evaluates the agent with them.",
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			level := slog.LevelInfo
			if verbose {
				level = slog.LevelDebug
			}
			slog.SetDefault(slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: level})))
			// Cobra checks these too, but gives them no type.
			if err := errors.Join(cmd.ValidateRequiredFlags(), cmd.ValidateFlagGroups()); err != nil {
				return usageError{err}
			}
			return nil
		},
	}
	root.PersistentFlags().BoolVarP(&verbose, "verbose", "v", false, "log more")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddCommand(newDataCmd(), newSlotsCmd(), newSynthCmd(), newRewardCmd(), newToolsCmd(), newEvalCmd(), newAgentCmd(),
		newBackendCmd(), newModelCmd(), newTokenizeCmd(), newChatCmd(), newGenerateCmd(), newServeCmd(), newSftCmd(), newGrpoCmd(), newReportCmd())
	for _, c := range append(root.Commands(), root) {
		if !c.Runnable() {
			needVerb(c)
		}
	}
	return root
}

// needVerb makes a command that only holds verbs refuse an unknown one; cobra
// would print help and succeed.
func needVerb(cmd *cobra.Command) {
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		names := cmd.SuggestionsFor(args[0])
		if len(names) == 0 {
			for _, c := range cmd.Commands() {
				if c.IsAvailableCommand() {
					names = append(names, c.Name())
				}
			}
		}
		return usageError{fmt.Errorf("unknown command %q for %q; did you mean %s?", args[0], cmd.CommandPath(), strings.Join(names, ", "))}
	}
}

// exactArgs is cobra.ExactArgs with the usage exit code.
func exactArgs(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := cobra.ExactArgs(n)(cmd, args); err != nil {
			return usageError{err}
		}
		return nil
	}
}
