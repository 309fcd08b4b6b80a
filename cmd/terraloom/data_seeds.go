package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"terraloom/agent/environment"
	"terraloom/agent/seeds"
	"terraloom/data"
)

func newDataSeedsCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "seeds", Short: "Build the bundled open-world seeds from their specifications"}
	cmd.AddCommand(newDataSeedsBuildCmd())
	return cmd
}

func newDataSeedsBuildCmd() *cobra.Command {
	var dir string
	var cores []int
	var dry, quick bool
	cmd := &cobra.Command{
		Use:   "build",
		Short: "Carry out every seed specification and write the seeds and their programs",
		Long: `Reads the specifications (*.yaml) of a folder, carries each seed out in the synthetic world with the real tools, finds
and checks its slot program, and writes spectrum.jsonl, products.jsonl, rgb.jsonl and programs/ beside them. The same
specifications give the same bytes.`,
		Example: `  terraloom data seeds build
  terraloom data seeds build --core 2,4 --dry-run`,
		Args: exactArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			spec, err := seeds.Load(os.DirFS(dir))
			if err != nil {
				return inputError{err}
			}
			env, err := spec.Environment(environment.Options{})
			if err != nil {
				return inputError{err}
			}
			defer func() { _ = env.Close() }()
			bar := newProgress("executing", "seeds")
			built, err := seeds.BuildAll(cmd.Context(), spec, env, seeds.Options{Cores: cores, Workers: runtime.GOMAXPROCS(0), Check: !quick}, bar.at)
			bar.finish()
			if err != nil {
				return inputError{err}
			}
			for _, b := range built {
				if len(cores) > 0 {
					fmt.Fprintln(cmd.OutOrStdout(), b.Trajectory.Value().JSON())
				}
			}
			if dry || len(cores) > 0 || quick {
				fmt.Fprintf(cmd.OutOrStdout(), "%d seeds carried out, nothing written\n", len(built))
				return nil
			}
			return writeSeeds(dir, seeds.Files(built), cmd)
		},
	}
	f := cmd.Flags()
	f.StringVar(&dir, "dir", filepath.Join("data", "seeds"), "folder of the specifications")
	f.IntSliceVar(&cores, "core", nil, "build and print the seeds of these task cores only, and write nothing")
	f.BoolVar(&dry, "dry-run", false, "write nothing")
	f.BoolVar(&quick, "quick", false, "do not try the programs on sample instances; write nothing")
	return cmd
}

// writeSeeds writes what changed and removes programs without a seed.
func writeSeeds(dir string, files map[string][]byte, cmd *cobra.Command) error {
	changed, err := seeds.Differences(files, os.DirFS(dir))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dir, "programs"), 0o755); err != nil {
		return err
	}
	for _, name := range changed {
		path := filepath.Join(dir, filepath.FromSlash(name))
		text, ok := files[name]
		switch {
		case ok:
			err = errors.Join(err, data.WriteFile(path, text))
		case strings.HasPrefix(name, "programs/"):
			err = errors.Join(err, os.Remove(path))
		}
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%d files, %d changed\n", len(files), len(changed))
	return err
}
