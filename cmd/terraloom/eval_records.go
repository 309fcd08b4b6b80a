package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"terraloom/agent/eval/records"
	"terraloom/lora/generate"
)

func newEvalRecordsCmd() *cobra.Command {
	var engine backendFlags
	var adapters []string
	var asJSON bool
	o := records.Options{Split: "test", MaxTokens: 512}
	cmd := &cobra.Command{
		Use:   "records",
		Short: "Measure a base and its adapters on the records of a dataset, side by side",
		Long: `Every model answers the same prompts greedily. Planner: the share of plans that parse and that equal the reference, tools
in any order, in order and as a prefix, and the length. Executor: mean reward (Eq. 13), key and value accuracy, and the
share of argument objects that are right as a whole.`,
		Example: `  terraloom eval records --model tiny --adapter sft=out/planner/adapter --dataset out/ds --role planner
  terraloom eval records --model smollm2-135m --adapter warm=A --adapter grpo=B --dataset out/ds --role executor --rows 64 --max-prompt 1024`,
		Args: exactArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, a := range adapters {
				name, dir, ok := strings.Cut(a, "=")
				if !ok {
					return usageError{fmt.Errorf("--adapter %s: write NAME=FOLDER", a)}
				}
				o.Adapters = append(o.Adapters, generate.Named{Name: name, Dir: dir})
			}
			o.Precision = engine.precision()
			if err := o.Validate(); err != nil {
				return usageError{err}
			}
			b, err := engine.open()
			if err != nil {
				return err
			}
			r, err := records.Run(cmd.Context(), b, o)
			if errors.Is(err, records.ErrNoRecords) {
				return inputError{err}
			}
			if err != nil {
				return err
			}
			if asJSON {
				e := json.NewEncoder(cmd.OutOrStdout())
				e.SetEscapeHTML(false)
				return e.Encode(r)
			}
			printRecords(cmd.OutOrStdout(), r)
			return nil
		},
	}
	engine.add(cmd.Flags())
	f := cmd.Flags()
	f.StringVar(&o.Model, "model", "", "base model: folder, GGUF file or name")
	f.StringArrayVar(&adapters, "adapter", nil, "NAME=FOLDER of an adapter to measure beside the base; may be repeated")
	f.StringVar(&o.Dataset, "dataset", "", "dataset folder")
	f.StringVar(&o.Split, "split", o.Split, "train, validation or test")
	f.StringVar(&o.Role, "role", "", "planner or executor")
	f.IntVar(&o.Rows, "rows", 0, "records, drawn by a hash of their ids (0: all)")
	f.IntVar(&o.MaxPrompt, "max-prompt", 0, "tokens; records with longer prompts are left out and counted (0: what the model takes)")
	f.IntVar(&o.MaxTokens, "max-tokens", o.MaxTokens, "of an answer")
	f.BoolVar(&asJSON, "json", false, "print the figures and every answer as JSON")
	for _, name := range []string{"model", "dataset", "role"} {
		must(cmd.MarkFlagRequired(name))
	}
	return cmd
}

func printRecords(out io.Writer, r *records.Report) {
	fmt.Fprintf(out, "%s, %s records of the split %s: %d measured, %d left out for their length\n", r.Model, r.Role, r.Split, r.Records, r.TooLong)
	fmt.Fprintf(out, "%-20s", "")
	for _, m := range r.Models {
		fmt.Fprintf(out, " %12s", m.Name)
	}
	fmt.Fprintln(out)
	for i, f := range r.Models[0].Figures {
		fmt.Fprintf(out, "%-20s", f.Name)
		for _, m := range r.Models {
			fmt.Fprintf(out, " %12.4f", m.Figures[i].Number)
		}
		fmt.Fprintln(out)
	}
}
