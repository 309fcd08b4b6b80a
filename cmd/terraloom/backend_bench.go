package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"terraloom/grpo"
	"terraloom/lora/backend"
	"terraloom/lora/bench"
)

func newBackendBenchCmd() *cobra.Command {
	var engine backendFlags
	var goldens string
	o := bench.Options{Limit: 8 * time.Minute, Out: "bench.json"}
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Check and time a device in a few minutes: products, reference models, SFT, decoding, GRPO",
		Long: `Checks the backend, compares the reference models with their recorded results in float32, and times LoRA SFT
steps and decoding of models with random bfloat16 weights and one GRPO step. It needs no network and no model
files. Every part has a share of the time; one that fails leaves its error in the report and the next one begins.

The report is written anew after each part. Its MFU is against the bfloat16 product that the check measured, its share
of bandwidth against the copy that was measured.`,
		Example: "  terraloom backend bench --backend cuda --goldens model-golden --out gpu.json\n  terraloom backend bench --backend cpu --shapes small",
		Args:    exactArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Limit <= 0 {
				return fmt.Errorf("--limit %v: use a time above 0, such as 8m", o.Limit)
			}
			b, err := engine.open()
			if err != nil {
				return err
			}
			toy := grpo.TRLToy
			if o.Shapes == "" {
				o.Shapes = bench.Small
				if b.Name == backend.CUDA {
					o.Shapes = bench.Full
				}
			}
			if o.Shapes == bench.Small {
				toy = grpo.Toy{Layers: 2, Hidden: 64, Prompts: 2, PromptTokens: 16, Samples: 2, Answer: 16}
			}
			parts, err := bench.Parts(b, o.Shapes, goldens)
			if err != nil {
				return err
			}
			parts = append(parts, bench.Part{Name: "grpo step", Share: 60, Run: func(ctx context.Context) (any, error) { return toy.Time(ctx, b, 3) }})
			o.Progress = func(e bench.Entry) {
				state := "ok"
				if e.Error != "" {
					state = e.Error
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%-22s %6.1f s  %s\n", e.Name, e.Seconds, state)
			}
			r, err := bench.Run(cmd.Context(), b, parts, o)
			if err == nil {
				fmt.Fprintf(cmd.OutOrStdout(), "%s: %s, %.0f s\n", o.Out, r.Device, r.Seconds)
			}
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&engine.name, "backend", backend.Auto, "auto, cuda, cpu or go")
	f.StringVar(&goldens, "goldens", defaultGoldens(), "folder of the reference models")
	f.StringVar(&o.Out, "out", o.Out, "report, JSON")
	f.StringVar(&o.Shapes, "shapes", "", "small, or full: Qwen3.5-0.8B and 4B (default: full on cuda, else small)")
	f.DurationVar(&o.Limit, "limit", o.Limit, "time of all parts together")
	return cmd
}

// defaultGoldens is model-golden of $TERRALOOM_SHARED, or of the folder "shared" beside the working one.
func defaultGoldens() string {
	shared := os.Getenv("TERRALOOM_SHARED")
	if shared == "" {
		shared = filepath.Join("..", "shared")
	}
	return filepath.Join(shared, "model-golden")
}
