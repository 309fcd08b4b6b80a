package main

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"terraloom/lora/backend"
	"terraloom/lora/decoder"
)

func newBackendCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "backend", Short: "Engines that models run on: list, install, check"}
	cmd.AddCommand(newBackendListCmd(), newBackendInstallCmd(), newBackendCheckCmd(), newBackendBenchCmd())
	return cmd
}

// backendFlags are the flags of every verb that runs a model.
type backendFlags struct {
	name string
	tf32 bool
	bf16 bool
}

func (b *backendFlags) add(f *pflag.FlagSet) {
	f.StringVar(&b.name, "backend", backend.Auto, "auto, cuda, cpu or go")
	f.BoolVar(&b.tf32, "tf32", false, "on CUDA, round the inputs of float32 products to TF32: faster, less exact")
	f.BoolVar(&b.bf16, "bf16", false, "keep matrices in bfloat16: half the memory; slower on CPUs")
}

func (b *backendFlags) open() (*backend.Backend, error) {
	return backend.Open(b.name, backend.Options{TF32: b.tf32, Notice: func(line string) { slog.Warn(line) }})
}

func (b *backendFlags) precision() decoder.Precision {
	if b.bf16 {
		return decoder.BFloat16
	}
	return decoder.Float32
}

func newBackendListCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "Show which backends can be used, and why others cannot",
		Example: "  terraloom backend list",
		Args:    exactArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			out := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			for _, s := range backend.List() {
				state := s.Source
				if s.Err != nil {
					state = s.Err.Error()
				}
				fmt.Fprintf(out, "%s\t%s\t%s\n", s.Name, state, s.Plugin)
			}
			return out.Flush()
		},
	}
}

func newBackendInstallCmd() *cobra.Command {
	var from string
	cmd := &cobra.Command{
		Use:   "install cpu|cuda",
		Short: "Fetch the pinned plugin of a backend",
		Long: `Fetches the plugin through your own pip, whose index settings apply, checks its SHA-256 and puts it into
your data folder. --from takes a wheel that is already here, or a folder of wheels: no network is used.`,
		Example: "  terraloom backend install cpu\n  terraloom backend install cuda --from wheels/",
		Args:    exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := backend.Install(cmd.Context(), args[0], backend.InstallOptions{From: from, Progress: func(line string) { slog.Info(line) }})
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), path)
			return nil
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "wheel file, or folder of wheels")
	return cmd
}

func newBackendCheckCmd() *cobra.Command {
	var engine backendFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "check",
		Short:   "Compile and run a small gradient and time matrix products",
		Example: "  terraloom backend check\n  terraloom backend check --backend go --json",
		Args:    exactArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := engine.open()
			if err != nil {
				return err
			}
			r, err := backend.Check(b)
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]any{"backend": r.Backend, "device": r.Device, "devices": r.Devices,
					"precision": r.Precision, "gradient_error": r.GradError, "compile_seconds": r.Compile.Seconds(),
					"float32_gflops": r.Float32, "bfloat16_gflops": r.BFloat16})
			}
			fmt.Fprintf(cmd.OutOrStdout(), "backend    %s\ndevice     %s (%d)\nprecision  %s\ngradient   largest error %.1e\ncompile    %.2f s\nfloat32    %.1f GFLOP/s\nbfloat16   %.1f GFLOP/s\n",
				r.Backend, r.Device, r.Devices, r.Precision, r.GradError, r.Compile.Seconds(), r.Float32, r.BFloat16)
			return nil
		},
	}
	engine.add(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
