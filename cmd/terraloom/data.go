package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"terraloom/data"
	"terraloom/data/strictjson"
	"terraloom/synth"
)

func newDataCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "data", Short: "Import trajectories, inspect, merge and convert datasets"}
	cmd.AddCommand(newDataImportCmd(), newDataExplainCmd(), newDataMergeCmd(), newDataInfoCmd(), newDataExportCmd(), newDataLoadCmd(), newDataSeedsCmd())
	return cmd
}

func newDataImportCmd() *cobra.Command {
	var from seedFlags
	var out string
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "import",
		Short:   "Read foreign trajectories, report what is odd, write own JSONL",
		Example: "  terraloom data import --seeds question.json\n  terraloom data import --seeds question.json --regime if --out seeds.jsonl --json",
		Args:    exactArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			res, err := from.load()
			if err != nil {
				return err
			}
			if out != "" {
				var text []byte
				for _, t := range res.Trajectories {
					text = append(t.Value().AppendJSON(text), '\n')
				}
				if err := data.WriteFile(out, text); err != nil {
					return err
				}
				slog.Info("trajectories written", "file", out, "count", len(res.Trajectories))
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(res.Report)
			}
			fmt.Fprint(cmd.OutOrStdout(), res.Report)
			return nil
		},
	}
	from.add(cmd.Flags())
	cmd.Flags().StringVar(&out, "out", "", "JSONL file to write the trajectories to")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the report as JSON")
	return cmd
}

func newDataExplainCmd() *cobra.Command {
	var dir string
	var from seedFlags
	var programs string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "explain ID",
		Short: "Tell where a row of a dataset came from",
		Long: `Prints the seed, slot values, program hash, filters passed and split of a trajectory.
With --seeds the instance is made again and compared with the recorded one, bit for bit.`,
		Example: "  terraloom data explain --dataset out/ds earth-bench-112-3\n  terraloom data explain --dataset out/ds --seeds question.json earth-bench-112-3",
		Args:    exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ds, err := data.OpenDataset(dir)
			if err != nil {
				return err
			}
			found, err := ds.Find(args[0])
			if err != nil {
				return err
			}
			t := found.Trajectory
			e := strictjson.Obj(
				strictjson.Member{Key: "id", Value: strictjson.Text(t.ID)},
				strictjson.Member{Key: "seed_id", Value: strictjson.Text(t.SeedID)},
				strictjson.Member{Key: "split", Value: strictjson.Text(found.Split)},
				strictjson.Member{Key: "source", Value: strictjson.Text(t.Source)},
				strictjson.Member{Key: "domain", Value: strictjson.Text(t.Domain)},
				strictjson.Member{Key: "skill", Value: strictjson.Text(t.Skill)},
				strictjson.Member{Key: "slots", Value: t.Slots},
				strictjson.Member{Key: "provenance", Value: t.Provenance},
				strictjson.Member{Key: "filters_passed", Value: strictjson.Text(strings.Join(synth.Filters(), ", "))},
				strictjson.Member{Key: "executor_rows", Value: strictjson.Int(len(found.Executor))})
			if asJSON {
				fmt.Fprintln(cmd.OutOrStdout(), e.JSON())
			} else {
				for i := range e.Len() {
					v := e.Index(i)
					text := v.Text()
					if v.Kind() == strictjson.Object {
						text = ""
						for k := range v.Len() {
							text += fmt.Sprintf("\n    %-20s %s", v.Key(k), v.Index(k).JSON())
						}
					}
					fmt.Fprintf(cmd.OutOrStdout(), "%-16s %s\n", e.Key(i), text)
				}
			}
			if from.path == "" && found.Trajectory.Provenance.Get("mode").Text() != synth.Execute {
				return nil
			}
			if err := rebuild(cmd.Context(), ds, found, &from, programs); err != nil {
				return err
			}
			slog.Info("made again from its seed: identical", "id", t.ID)
			return nil
		},
	}
	cmd.Flags().StringVar(&dir, "dataset", "", "dataset folder")
	from.add(cmd.Flags())
	cmd.Flags().StringVar(&programs, "programs", "", "with --seeds: folder of the slot programs that were used")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	must(cmd.MarkFlagRequired("dataset"))
	return cmd
}

// rebuild makes a found instance again and compares it.
func rebuild(ctx context.Context, ds *data.Dataset, found *data.Found, from *seedFlags, programs string) error {
	o, err := synth.OptionsOf(ds.Manifest)
	if err != nil {
		return err
	}
	if from.path == "" && from.regime == "" {
		from.regime = found.Trajectory.Regime
	}
	res, err := from.load()
	if err != nil {
		return err
	}
	seeds, err := pick(res, []string{found.Trajectory.SeedID})
	if err != nil {
		return err
	}
	world, err := openWorld(o.Mode, "")
	if err != nil {
		return err
	}
	defer world.close()
	t, planner, executor, err := synth.Rebuild(ctx, seeds[0], found.Trajectory, world.programs(programs, false), world.env, o)
	if err != nil {
		return err
	}
	same := t.Value().JSON() == found.Trajectory.Value().JSON() && len(executor) == len(found.Executor) &&
		found.Planner != nil && equalMessages(planner.Prompt, found.Planner.Prompt)
	for i := range executor {
		same = same && executor[i].Reference == found.Executor[i].Reference && equalMessages(executor[i].Prompt, found.Executor[i].Prompt)
	}
	if !same {
		return fmt.Errorf("%s: made again from its seed it differs; the dataset was made by another version of the program (%s)", t.ID, ds.Manifest.Code.Version)
	}
	return nil
}

func equalMessages(a, b []data.Message) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

func newDataMergeCmd() *cobra.Command {
	var out string
	var force bool
	cmd := &cobra.Command{
		Use:     "merge SHARD…",
		Short:   "Join the shards of a run into the dataset of the whole run",
		Example: "  terraloom data merge --out out/ds out/part-0 out/part-1 out/part-2 out/part-3",
		RunE: func(cmd *cobra.Command, dirs []string) error {
			if len(dirs) == 0 {
				return usageError{errors.New("name the shard folders")}
			}
			m, err := data.Merge(dirs, out, data.WriterOptions{Force: force})
			if err != nil {
				return inputError{err}
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%d trajectories from %d shards in %s\n", m.Rows(data.ConfigTrajectories), len(dirs), out)
			return nil
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "dataset folder to make")
	cmd.Flags().BoolVar(&force, "force", false, "replace an existing dataset folder")
	must(cmd.MarkFlagRequired("out"))
	return cmd
}

func newDataInfoCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "info DATASET",
		Short:   "Verify a dataset's files and print its counts",
		Example: "  terraloom data info out/ds\n  terraloom data info --json out/ds",
		Args:    exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ds, err := data.OpenDataset(args[0])
			if err != nil {
				return err
			}
			m := ds.Manifest
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(m)
			}
			for _, c := range append(m.Counts, m.RefusalsByReason()...) {
				fmt.Fprintf(cmd.OutOrStdout(), "%-42s %8d\n", c.Name, c.Count)
			}
			for _, t := range m.Tables {
				fmt.Fprintf(cmd.OutOrStdout(), "%-30s %8d rows in %d files\n", t.Config+"/"+t.Split, t.Rows, len(t.Files))
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the manifest")
	return cmd
}

func newDataExportCmd() *cobra.Command {
	var out string
	var force bool
	cmd := &cobra.Command{
		Use:     "export DATASET",
		Short:   "Write a dataset as JSONL files",
		Example: "  terraloom data export --out out/jsonl out/ds",
		Args:    exactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			ds, err := data.OpenDataset(args[0])
			if err != nil {
				return err
			}
			return data.ExportJSONL(ds, out, force)
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "folder to make")
	cmd.Flags().BoolVar(&force, "force", false, "replace an existing export")
	must(cmd.MarkFlagRequired("out"))
	return cmd
}

func newDataLoadCmd() *cobra.Command {
	var out string
	var force bool
	cmd := &cobra.Command{
		Use:     "load JSONL-FOLDER",
		Short:   "Make a dataset from exported JSONL files",
		Example: "  terraloom data load --out out/ds out/jsonl",
		Args:    exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			m, err := data.ImportJSONL(args[0], out, data.WriterOptions{Force: force})
			if err != nil {
				return inputError{err}
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%d trajectories in %s\n", m.Rows(data.ConfigTrajectories), out)
			return nil
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "dataset folder to make")
	cmd.Flags().BoolVar(&force, "force", false, "replace an existing dataset folder")
	must(cmd.MarkFlagRequired("out"))
	return cmd
}
