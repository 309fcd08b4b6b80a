package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"terraloom/agent/tools"
	"terraloom/data"
	"terraloom/slots"
)

func newSlotsCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "slots", Short: "Dependency analysis, slot programs and their review"}
	cmd.AddCommand(newSlotsAnalyzeCmd(), newSlotsDiscoverCmd(), newSlotsLintCmd(), newSlotsShowCmd(), newSlotsApproveCmd(), newSlotsStatusCmd())
	return cmd
}

func newSlotsAnalyzeCmd() *cobra.Command {
	var from seedFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "analyze [SEED…]",
		Short:   "Show where every argument value comes from",
		Example: "  terraloom slots analyze --seeds question.json\n  terraloom slots analyze --seeds question.json --json earth-bench-213",
		RunE: func(cmd *cobra.Command, ids []string) error {
			res, err := from.load()
			if err != nil {
				return err
			}
			seeds, err := pick(res, ids)
			if err != nil {
				return err
			}
			a := slots.Summarize(seeds)
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(a)
			}
			fmt.Fprint(cmd.OutOrStdout(), a)
			return nil
		},
	}
	from.add(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, with every leaf when seeds are named")
	return cmd
}

func newSlotsDiscoverCmd() *cobra.Command {
	var from seedFlags
	var out string
	p := slots.Proposer{Tries: 3, Timeout: 2 * time.Minute}
	cmd := &cobra.Command{
		Use:   "discover [SEED…]",
		Short: "Propose a slot program for each seed and check it",
		Long: `Writes OUT/<seed>.yaml for every seed: by analysis alone, or with --llm by a language model whose
proposal passes the same checks. A model's exchange is kept beside the program, with the reasons
where proposals were refused. The key is read from TERRALOOM_LLM_KEY.`,
		Example: "  terraloom slots discover --seeds question.json --out programs\n  terraloom slots discover --seeds question.json --out programs --llm http://127.0.0.1:8000/v1 --model qwen earth-bench-112",
		RunE: func(cmd *cobra.Command, ids []string) error {
			res, err := from.load()
			if err != nil {
				return err
			}
			seeds, err := pick(res, ids)
			if err != nil {
				return err
			}
			kit, err := tools.New(tools.Correct)
			if err != nil {
				return err
			}
			if err := os.MkdirAll(out, 0o755); err != nil {
				return err
			}
			p.Key = os.Getenv("TERRALOOM_LLM_KEY")
			bar := newProgress("discovering", "seeds")
			defer bar.finish()
			var failed []error
			for i, seed := range seeds {
				if err := cmd.Context().Err(); err != nil {
					return err
				}
				program, err := discover(cmd, &p, seed, kit, out)
				if err == nil {
					err = data.WriteFile(filepath.Join(out, seed.ID+".yaml"), program.YAML())
				}
				if err != nil {
					failed = append(failed, err)
				}
				bar.at(i+1, len(seeds))
			}
			slog.Info("programs written", "folder", out, "valid", len(seeds)-len(failed), "refused", len(failed))
			return errors.Join(failed...)
		},
	}
	from.add(cmd.Flags())
	cmd.Flags().StringVar(&out, "out", "programs", "folder of the programs")
	cmd.Flags().StringVar(&p.URL, "llm", "", "base URL of an OpenAI-compatible server (default: analysis alone)")
	cmd.Flags().StringVar(&p.Model, "model", "", "model name for --llm")
	cmd.Flags().IntVar(&p.Tries, "tries", p.Tries, "requests for one seed, corrections included")
	cmd.MarkFlagsRequiredTogether("llm", "model")
	return cmd
}

func discover(cmd *cobra.Command, p *slots.Proposer, seed *data.Trajectory, kit *tools.Registry, out string) (*slots.Program, error) {
	if p.URL == "" {
		program, err := slots.Discover(seed, kit)
		if err != nil {
			return nil, err
		}
		_, err = slots.Check(program, seed, kit)
		return program, err
	}
	program, log, err := p.Propose(cmd.Context(), seed, kit)
	if text, e := json.MarshalIndent(log, "", " "); e == nil {
		err = errors.Join(err, data.WriteFile(filepath.Join(out, seed.ID+".exchange.json"), append(text, '\n')))
	}
	return program, err
}

// programFlags are the flags of verbs that read seeds and their programs.
type programFlags struct {
	seedFlags
	programs string
}

func (p *programFlags) add(cmd *cobra.Command) {
	p.seedFlags.add(cmd.Flags())
	cmd.Flags().StringVar(&p.programs, "programs", "programs", "folder of the programs")
}

// each calls f with every named seed and its program; all seeds without names.
func (p *programFlags) each(ids []string, f func(seed *data.Trajectory, path string, program *slots.Program, kit *tools.Registry) error) error {
	res, err := p.load()
	if err != nil {
		return err
	}
	seeds, err := pick(res, ids)
	if err != nil {
		return err
	}
	kit, err := tools.New(tools.Correct)
	if err != nil {
		return err
	}
	var failed []error
	for _, seed := range seeds {
		path := filepath.Join(p.programs, seed.ID+".yaml")
		program, err := slots.ReadProgram(path)
		if err == nil {
			err = f(seed, path, program, kit)
		}
		if err != nil {
			failed = append(failed, inputError{err})
		}
	}
	return errors.Join(failed...)
}

func newSlotsLintCmd() *cobra.Command {
	var from programFlags
	var write bool
	cmd := &cobra.Command{
		Use:     "lint [SEED…]",
		Short:   "Check programs against their seeds",
		Long:    "Reports every problem. With --write, programs that pass are marked machine-checked again after an edit.",
		Example: "  terraloom slots lint --seeds question.json --programs programs\n  terraloom slots lint --seeds question.json --write earth-bench-112",
		RunE: func(cmd *cobra.Command, ids []string) error {
			return from.each(ids, func(seed *data.Trajectory, path string, program *slots.Program, kit *tools.Registry) error {
				if err := errors.Join(slots.Lint(program, seed, kit)...); err != nil {
					return err
				}
				if state, err := program.State(); write && (err != nil || state == "") {
					program.SetReview(slots.MachineChecked, "")
					return data.WriteFile(path, program.YAML())
				}
				return nil
			})
		},
	}
	from.add(cmd)
	cmd.Flags().BoolVar(&write, "write", false, "record machine-checked where a program passes and has no valid review")
	return cmd
}

func newSlotsShowCmd() *cobra.Command {
	var from programFlags
	var sample uint64
	cmd := &cobra.Command{
		Use:     "show SEED",
		Short:   "Print a seed with its slots marked beside a sample instance",
		Example: "  terraloom slots show --seeds question.json --programs programs earth-bench-112",
		Args:    exactArgs(1),
		RunE: func(cmd *cobra.Command, ids []string) error {
			return from.each(ids, func(seed *data.Trajectory, _ string, program *slots.Program, kit *tools.Registry) error {
				c, err := slots.Compile(program, seed, kit)
				if err != nil {
					return err
				}
				text, err := c.Show(kit, sample)
				if err != nil {
					return err
				}
				fmt.Fprint(cmd.OutOrStdout(), text)
				return nil
			})
		},
	}
	from.add(cmd)
	cmd.Flags().Uint64Var(&sample, "sample", 1, "number of the sample instance")
	return cmd
}

func newSlotsApproveCmd() *cobra.Command {
	var from programFlags
	var by string
	cmd := &cobra.Command{
		Use:     "approve SEED…",
		Short:   "Record a person's approval of programs",
		Long:    "The approval names the person, is bound to the program as it stands and void after any edit. Programs that do not pass lint are refused.",
		Example: "  terraloom slots approve --seeds question.json --by \"Ada Reviewer\" earth-bench-112 earth-bench-213",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{errors.New("name the seeds whose programs you approve")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, ids []string) error {
			if by == "" {
				return usageError{errors.New("--by is missing: approval is given by name")}
			}
			return from.each(ids, func(seed *data.Trajectory, path string, program *slots.Program, kit *tools.Registry) error {
				if err := errors.Join(slots.Lint(program, seed, kit)...); err != nil {
					return err
				}
				program.SetReview(slots.Approved, by)
				return data.WriteFile(path, program.YAML())
			})
		},
	}
	from.add(cmd)
	cmd.Flags().StringVar(&by, "by", "", "name of the reviewer")
	return cmd
}

func newSlotsStatusCmd() *cobra.Command {
	var from programFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "status [SEED…]",
		Short:   "List the review state of programs",
		Example: "  terraloom slots status --seeds question.json --programs programs",
		RunE: func(cmd *cobra.Command, ids []string) error {
			type row struct {
				Seed   string `json:"seed"`
				State  string `json:"state"`
				By     string `json:"by,omitempty"`
				Origin string `json:"origin"`
				Slots  int    `json:"slots"`
				Answer string `json:"answer"`
			}
			var rows []row
			err := from.each(ids, func(seed *data.Trajectory, _ string, program *slots.Program, _ *tools.Registry) error {
				state, err := program.State()
				switch {
				case err != nil:
					state = "void"
				case state == "":
					state = "not reviewed"
				}
				if program.SeedHash != slots.HashSeed(seed) {
					state = "for another version of the seed"
				}
				r := row{Seed: seed.ID, State: state, Origin: program.Origin, Slots: len(program.Slots), Answer: program.Answer}
				if program.Review != nil {
					r.By = program.Review.By
				}
				rows = append(rows, r)
				return nil
			})
			if asJSON {
				return errors.Join(err, json.NewEncoder(cmd.OutOrStdout()).Encode(rows))
			}
			for _, r := range rows {
				fmt.Fprintf(cmd.OutOrStdout(), "%-22s %-18s %-20s %5d slots, answer %s\n", r.Seed, r.State, r.By, r.Slots, r.Answer)
			}
			return err
		},
	}
	from.add(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
