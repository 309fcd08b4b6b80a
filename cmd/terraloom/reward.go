package main

import (
	"bufio"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"terraloom/data/catalogue"
	"terraloom/data/strictjson"
	"terraloom/reward"
)

// errUnscored is the end of a run in which reward functions failed.
var errUnscored = errors.New("completions without a reward")

func newRewardCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "reward", Short: "Score completions as training does"}
	cmd.AddCommand(newRewardScoreCmd())
	return cmd
}

func newRewardScoreCmd() *cobra.Command {
	var predictions, config string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "score",
		Short: "Score completions against reference arguments",
		Long: `Reads JSONL rows {"completion": text, "reference": object or its JSON text} and prints the reward of each
with its parts and the reason. A row may have an id, which is printed again, and the tool and source of
its Executor row: then 1 and 1.0 are the same where the tool's schema says number.

Without --config the reward is Eq. 13 of Earth-Agent-Pro: -2 for what is not JSON, -1 for what is no
non-empty object, else max(-1, (common keys - discrepant keys + equivalent values) / reference keys).`,
		Example: `  terraloom reward score --predictions predictions.jsonl
  terraloom reward score --predictions predictions.jsonl --config reward.yaml --json`,
		Args: exactArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			scorer, err := newScorer(config)
			if err != nil {
				return inputError{err}
			}
			rows, err := readPredictions(predictions)
			if err != nil {
				return inputError{err}
			}
			items := make([]reward.Item, len(rows))
			for i := range rows {
				items[i] = rows[i].Item
			}
			results := scorer.Score(cmd.Context(), items)
			if err := cmd.Context().Err(); err != nil {
				return err
			}
			out := bufio.NewWriter(cmd.OutOrStdout())
			for i, r := range results {
				if asJSON {
					fmt.Fprintln(out, rows[i].Value(r).JSON())
				} else {
					fmt.Fprintf(out, "%6d %8.4f  %-13s  %s\n", i+1, r.Reward, r.Score.Status, r.Score.Reason)
				}
			}
			if err := out.Flush(); err != nil {
				return err
			}
			s := reward.Summarize(results)
			slog.Info("scored", "completions", s.Items, "mean_reward", s.Mean, "exact", s.Exact, "key_accuracy", s.KeyAccuracy,
				"value_accuracy", s.ValueAccuracy, "parse_failures", s.ParseFailures, "not_objects", s.NotObjects)
			for i, r := range results {
				if err := r.Err(); err != nil {
					return fmt.Errorf("%w: row %d is the first: %w", errUnscored, i+1, err)
				}
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&predictions, "predictions", "", "JSONL file of completions and references")
	f.StringVar(&config, "config", "", "YAML file with rules and weighted reward functions (default: Eq. 13 alone)")
	f.BoolVar(&asJSON, "json", false, "print one JSON object a row")
	must(cmd.MarkFlagRequired("predictions"))
	return cmd
}

func newScorer(path string) (*reward.Scorer, error) {
	if path == "" {
		return reward.New(reward.Default())
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	c, err := reward.ParseConfig(path, text)
	if err != nil {
		return nil, err
	}
	return reward.New(c)
}

func readPredictions(path string) ([]reward.Prediction, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	schema := func(source, tool string) (string, error) {
		r, err := catalogue.For(source).Resolve(tool)
		if err != nil {
			return "", err
		}
		return r.Tool.Schema(), nil
	}
	var rows []reward.Prediction
	err = strictjson.Lines(f, path, func(line int, v strictjson.Value) error {
		p, err := reward.DecodePrediction(v, schema)
		if err != nil {
			return fmt.Errorf("%s:%d: %w", path, line, err)
		}
		rows = append(rows, p)
		return nil
	})
	if err == nil && len(rows) == 0 {
		err = fmt.Errorf("%s: no rows", path)
	}
	return rows, err
}
