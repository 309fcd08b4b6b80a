package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"terraloom/data"
	"terraloom/data/prompt"
	"terraloom/synth"
)

func newSynthCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "synth", Short: "Make datasets from seeds, and practice records from the tool catalogue"}
	cmd.AddCommand(newSynthRunCmd(), newSynthComposeCmd())
	return cmd
}

func newSynthRunCmd() *cobra.Command {
	o := synth.Default()
	o.Mode = "" // by the seeds
	o.Workers = runtime.GOMAXPROCS(0)
	var from seedFlags
	var out, style, shard, programs, mix, cache string
	var mixRatio float64
	var approvedOnly, force, asJSON bool
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Instantiate seeds, verify, split and extract Planner and Executor records",
		Long: `Makes --per-seed instances of every seed with its slot program, verifies each, filters, deduplicates,
splits by seed, extracts Planner and Executor records and writes a dataset folder that
datasets.load_dataset(OUT, "planner") and "executor" read. The same options give the same bytes,
whatever the number of workers, and merged shards are the unsharded run.

With --mode execute every observation is what the real tool returned on the instance's own data in the synthetic
world; with --mode propagate the observations of raster tools are drawn and carried through later steps. An
interrupted execution goes on where it stopped: its sessions are kept in OUT.resume until the dataset is complete.`,
		Example: `  terraloom synth run --out out/ds
  terraloom synth run --seeds question.json --out out/ds --per-seed 10 --seed 7
  terraloom synth run --seeds question.json --out out/part-0 --shard 0/4
  terraloom synth run --seeds question.json --programs programs/ --approved-only --style compact --out out/ds`,
		Args: exactArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if o.Style, err = prompt.ParseStyle(style); err != nil {
				return usageError{err}
			}
			if o.Shard, err = parseShard(shard); err != nil {
				return usageError{err}
			}
			if o.Mode == "" {
				if o.Mode = synth.Execute; from.path != "" {
					o.Mode = synth.Propagate
				}
			}
			if err := o.Validate(); err != nil {
				return usageError{err}
			}
			res, err := from.load()
			if err != nil {
				return err
			}
			slog.Info("seeds read", "trajectories", len(res.Trajectories), "irregularities", len(res.Report.Irregularities))
			world, err := openWorld(o.Mode, cmp.Or(cache, out+".resume"))
			if err != nil {
				return err
			}
			defer world.close()
			source := world.programs(programs, approvedOnly)
			inputs := res.Inputs
			var extra *synth.Mix
			if mix != "" {
				if extra, err = loadMix(mix, mixRatio); err != nil {
					return err
				}
				inputs = append(inputs, extra.Inputs...)
			}
			w, err := data.CreateDataset(out, data.WriterOptions{Force: force})
			if err != nil {
				return err
			}
			defer w.Abort()
			bar := newProgress("instantiating", "seeds")
			rep, err := synth.Run(cmd.Context(), res.Trajectories, source, world.env, w, o, bar.at)
			bar.finish()
			short := errors.Is(err, synth.ErrShort)
			if err != nil && !short {
				return err
			}
			shortage := err
			if extra != nil {
				if err := rep.Mix(extra, w, o); err != nil {
					return err
				}
			}
			m := rep.Manifest(o, inputs)
			if err := w.Finish(m); err != nil {
				return err
			}
			if cache == "" { // nothing to resume any more
				if err := os.RemoveAll(out + ".resume"); err != nil {
					return err
				}
			}
			if asJSON {
				if err := json.NewEncoder(cmd.OutOrStdout()).Encode(m); err != nil {
					return err
				}
			} else {
				for _, c := range m.Counts {
					fmt.Fprintf(cmd.OutOrStdout(), "%-42s %8d\n", c.Name, c.Count)
				}
				for _, r := range m.RefusalsByReason() {
					fmt.Fprintf(cmd.OutOrStdout(), "refused: %-33s %8d\n", r.Name, r.Count)
				}
				fmt.Fprintln(cmd.OutOrStdout(), "dataset in", out)
			}
			return shortage
		},
	}
	f := cmd.Flags()
	from.add(f)
	f.StringVar(&out, "out", "", "dataset folder to make")
	f.IntVar(&o.PerSeed, "per-seed", o.PerSeed, "instances per seed")
	f.Uint64Var(&o.Seed, "seed", o.Seed, "seed of all randomness")
	f.StringVar(&style, "style", string(o.Style), "tool descriptions in prompts: full (JSON Schema), compact (one line) or brief (names and summaries)")
	f.StringVar(&programs, "programs", "", "folder of reviewed slot programs (default: discover and check them)")
	f.BoolVar(&approvedOnly, "approved-only", false, "with --programs: take only programs that a person approved")
	f.StringVar(&shard, "shard", "0/1", "make part i of n (i counts from 0); join the parts with data merge")
	f.IntVar(&o.Workers, "workers", o.Workers, "goroutines; the rows do not depend on it")
	f.IntVar(&o.MaxTarget, "max-target", o.MaxTarget, "bytes; an Executor target that is longer gives no row and is counted")
	f.IntVar(&o.MaxTrajectory, "max-trajectory", o.MaxTrajectory, "bytes of JSON; longer instances are refused (0: no limit)")
	f.Float64Var(&o.NearDuplicate, "near-duplicate", o.NearDuplicate, "similarity from which two instances count as one")
	f.StringVar(&o.Mode, "mode", "", "execute (the default without --seeds) or propagate (the default with --seeds)")
	f.StringVar(&cache, "cache", "", "with --mode execute: folder that keeps downloads by content and carried-out sessions for later runs")
	f.StringVar(&mix, "mix", "", "openearthagent=PATH: add training examples of that data set")
	f.Float64Var(&mixRatio, "mix-ratio", 1, "mixed-in trajectories per instance, balanced over their domains")
	f.BoolVar(&force, "force", false, "replace an existing dataset folder")
	f.BoolVar(&asJSON, "json", false, "print the manifest instead of a summary")
	must(cmd.MarkFlagRequired("out"))
	return cmd
}

func must(err error) {
	if err != nil {
		panic(err) // a flag that was just declared
	}
}

func parseShard(s string) (synth.Shard, error) {
	i, n, ok := strings.Cut(s, "/")
	index, err1 := strconv.Atoi(i)
	count, err2 := strconv.Atoi(n)
	if !ok || err1 != nil || err2 != nil {
		return synth.Shard{}, fmt.Errorf("shard %q: write i/n, such as 0/4", s)
	}
	return synth.Shard{Index: index, Count: count}, nil
}

func loadMix(spec string, ratio float64) (*synth.Mix, error) {
	name, path, ok := strings.Cut(spec, "=")
	if !ok || name != data.FormatOpenEarthAgent {
		return nil, usageError{fmt.Errorf("mix %q: write %s=PATH", spec, data.FormatOpenEarthAgent)}
	}
	res, err := data.Import(path, data.FormatOpenEarthAgent, data.ImportOptions{})
	if err != nil {
		return nil, inputError{err}
	}
	return &synth.Mix{Name: name, Ratio: ratio, Trajectories: res.Trajectories, Inputs: res.Inputs}, nil
}
