package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"terraloom/agent/plot"
	"terraloom/agent/tools"
	"terraloom/data"
	"terraloom/data/catalogue"
	"terraloom/data/strictjson"
)

func newToolsCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "tools", Short: "The Earth-observation tools: list, call, audit, serve"}
	cmd.AddCommand(newToolsListCmd(), newToolsShowCmd(), newToolsCallCmd(), newToolsAuditCmd(), newToolsServeCmd())
	return cmd
}

func newToolsListCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List all tools",
		Example: "  terraloom tools list\n  terraloom tools list --json",
		Args:    exactArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, t := range catalogue.Default().Tools() {
				if asJSON {
					fmt.Fprintln(cmd.OutOrStdout(), toolJSON(t).JSON())
					continue
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%-50s %-12s %s\n", t.Name, t.Family, t.Summary)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object per tool, with its schema")
	return cmd
}

// toolJSON is a tool's declaration.
func toolJSON(t *catalogue.Tool) strictjson.Value {
	schema, err := strictjson.Parse([]byte(t.Schema()))
	must(err) // the catalogue's own text
	return strictjson.Obj(
		strictjson.Member{Key: "name", Value: strictjson.Text(t.Name)},
		strictjson.Member{Key: "family", Value: strictjson.Text(t.Family)},
		strictjson.Member{Key: "origin", Value: strictjson.Text(t.Origin)},
		strictjson.Member{Key: "pure", Value: strictjson.Boolean(t.Pure)},
		strictjson.Member{Key: "returns", Value: strictjson.Text(t.Returns.String())},
		strictjson.Member{Key: "summary", Value: strictjson.Text(t.Summary)},
		strictjson.Member{Key: "parameters", Value: schema})
}

func newToolsShowCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "show NAME",
		Short:   "Print a tool's parameters",
		Example: "  terraloom tools show compute_tvdi\n  terraloom tools show --json argmax",
		Args:    exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			found, err := catalogue.Default().Resolve(args[0])
			if err != nil {
				return usageError{err}
			}
			t, out := found.Tool, cmd.OutOrStdout()
			if asJSON {
				fmt.Fprintln(out, toolJSON(t).JSON())
				return nil
			}
			fmt.Fprintf(out, "%s\n\nfamily %s, origin %s, returns %s\n", t.Signature(), t.Family, t.Origin, t.Returns)
			if args[0] != t.Name {
				fmt.Fprintf(out, "%s is another name of it\n", args[0])
			}
			for _, p := range t.Params {
				unit := ""
				if p.Unit != "" {
					unit = " [" + p.Unit + "]"
				}
				other := ""
				if len(p.Aliases) > 0 {
					other = " (also " + strings.Join(p.Aliases, ", ") + ")"
				}
				fmt.Fprintf(out, "  %-24s %-20s %s%s%s\n", p.Name, p.Type, p.Doc, unit, other)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, with the schema")
	return cmd
}

func newToolsCallCmd() *cobra.Command {
	var from toolsFlags
	var args, batch, picture string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "call [NAME]",
		Short: "Call a tool, or many",
		Long: `Calls the tool NAME with the arguments --args and prints its observation as a model sees it, or with --json
the observation, the files made and the evidence.

With --plot the outcome is drawn: the rasters it made with a colour bar or a legend, boxes on the image, a series, or
for a single value what it was computed from.

With --batch a file (- is standard input) holds one call per line, {"tool": NAME, "input": ARGUMENTS}, and one line
per call is printed: {"output": OBSERVATION}, or {"error": REASON} where there is none. A failed call does not stop the others.`,
		Example: `  terraloom tools call mean --args '{"x": [1, 2, 4]}'
  terraloom tools call calc_batch_image_mean --workspace DIR --args '{"file_list": ["benchmark/data/question1/a.tif"]}' --json
  terraloom tools call compute_tvdi --workspace DIR --plot tvdi.png --args '{"ndvi_path": "ndvi.tif", "lst_path": "lst.tif", "output_path": "tvdi.tif"}'
  terraloom tools call --batch calls.jsonl --compat earth-agent`,
		Args: func(_ *cobra.Command, names []string) error {
			switch {
			case batch == "" && len(names) != 1:
				return usageError{errors.New("name one tool, or give --batch FILE")}
			case batch != "" && (len(names) != 0 || args != "" || picture != ""):
				return usageError{errors.New("--batch takes tools and arguments from its file; leave NAME, --args and --plot out")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, names []string) error {
			env, err := from.open(cmd.Context())
			if err != nil {
				return err
			}
			defer env.close()
			if batch != "" {
				return callBatch(cmd, env.kit, batch, asJSON)
			}
			if args == "" {
				args = "{}"
			}
			input, err := strictjson.Parse([]byte(args))
			if err != nil {
				return usageError{fmt.Errorf("--args: %w", err)}
			}
			res, err := env.kit.Invoke(cmd.Context(), names[0], input)
			if errors.Is(err, tools.ErrUnknownTool) {
				return usageError{err}
			}
			if asJSON {
				fmt.Fprintln(cmd.OutOrStdout(), res.JSON().JSON())
			} else if err == nil {
				fmt.Fprintln(cmd.OutOrStdout(), res.Text())
			}
			if errors.Is(err, tools.ErrBadArguments) {
				return inputError{err}
			}
			if err == nil && picture != "" {
				err = plotResult(picture, env, names[0], input, &res)
			}
			return err
		},
	}
	from.add(cmd)
	cmd.Flags().StringVar(&picture, "plot", "", "draw the outcome into this PNG file")
	cmd.Flags().StringVar(&args, "args", "", "arguments as a JSON object")
	cmd.Flags().StringVar(&batch, "batch", "", "JSONL file of calls; - is standard input")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the whole result: observation, artefacts, evidence")
	return cmd
}

// plotResult draws the outcome of a call into a file.
func plotResult(name string, env *toolsEnv, tool string, args strictjson.Value, res *tools.Result) error {
	var png bytes.Buffer
	if err := plot.Result(&png, env.files, tool, args, res); err != nil {
		return inputError{fmt.Errorf("--plot: %w", err)}
	}
	if err := os.WriteFile(name, png.Bytes(), 0o666); err != nil {
		return inputError{fmt.Errorf("--plot: %w", err)}
	}
	return nil
}

// callBatch runs the calls of a JSONL file in order.
func callBatch(cmd *cobra.Command, kit *tools.Registry, name string, whole bool) error {
	in := cmd.InOrStdin()
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return inputError{err}
		}
		defer file.Close()
		in = file
	}
	return batchLines(cmd.Context(), kit, in, name, cmd.OutOrStdout(), whole)
}

func batchLines(ctx context.Context, kit *tools.Registry, in io.Reader, name string, out io.Writer, whole bool) error {
	var failed error // of the context or the output, which say nothing about the file
	err := strictjson.Lines(in, name, func(line int, v strictjson.Value) error {
		tool := v.Get("tool")
		if tool.Kind() != strictjson.String {
			return fmt.Errorf("%s:%d: expected {\"tool\": NAME, \"input\": ARGUMENTS}, got no tool", name, line)
		}
		res, err := kit.Invoke(ctx, tool.Text(), v.Get("input"))
		if failed = ctx.Err(); failed != nil {
			return failed
		}
		key, value := "output", res.Value
		switch {
		case err != nil:
			key, value = "error", strictjson.Text(err.Error())
		case res.Evidence.Status == tools.Insufficient:
			key, value = "error", strictjson.Text(res.Text())
		case whole:
			value = res.JSON()
		}
		_, failed = fmt.Fprintln(out, strictjson.Obj(strictjson.Member{Key: key, Value: value}).JSON())
		return failed
	})
	if err != nil && failed == nil {
		return inputError{err}
	}
	return failed
}

func newToolsAuditCmd() *cobra.Command {
	var from seedFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "audit QUESTIONS",
		Short: "Tell which calls of recorded trajectories the kit can run",
		Long: `Classifies every call of a file of trajectories: native (as it stands), by alias (another name or key, a list where a path
is declared, a number written as text) or impossible, with the reason. Files are taken to be there.`,
		Example: "  terraloom tools audit question.json\n  terraloom tools audit --json question.json",
		Args:    exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			from.path, from.regime = args[0], "ap"
			res, err := from.load()
			if err != nil {
				return err
			}
			a, err := tools.Audit(res.Trajectories)
			if err != nil {
				return err
			}
			if asJSON {
				fmt.Fprintln(cmd.OutOrStdout(), a.Value().JSON())
				return nil
			}
			fmt.Fprint(cmd.OutOrStdout(), a)
			return nil
		},
	}
	cmd.Flags().StringVar(&from.format, "format", "", strings.Join([]string{data.FormatEarthBench, data.FormatOpenEarthAgent, data.FormatOwn}, ", ")+" (default: by content)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, with every call")
	return cmd
}
