package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"terraloom/data/strictjson"
	"terraloom/lora/generate"
)

func newTokenizeCmd() *cobra.Command {
	var model, file string
	var ordinary bool
	cmd := &cobra.Command{
		Use:     "tokenize",
		Short:   "Print the token ids of texts",
		Long:    `Reads JSONL rows {"text": …} and prints {"ids": […]} for each. Nothing is added before or after a text.`,
		Example: "  terraloom tokenize --model models/base --file texts.jsonl",
		Args:    exactArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			t, err := generate.OpenTokenizer(model)
			if err != nil {
				return inputError{err}
			}
			f, err := os.Open(file)
			if err != nil {
				return inputError{err}
			}
			defer f.Close()
			out := bufio.NewWriter(cmd.OutOrStdout())
			rows := json.NewEncoder(out)
			encode := t.Encode
			if ordinary {
				encode = t.EncodeOrdinary
			}
			err = strictjson.Lines(f, file, func(line int, v strictjson.Value) error {
				text := v.Get("text")
				if text.Kind() != strictjson.String {
					return fmt.Errorf("%s:%d: expected an object with the member \"text\"", file, line)
				}
				return rows.Encode(struct {
					IDs []int32 `json:"ids"`
				}{append([]int32{}, encode(text.Text())...)})
			})
			if err != nil {
				return inputError{err}
			}
			return out.Flush()
		},
	}
	f := cmd.Flags()
	f.StringVar(&model, "model", "", "model folder, GGUF file or name of a pulled model")
	f.StringVar(&file, "file", "", "JSONL file of texts")
	f.BoolVar(&ordinary, "ordinary", false, "take control tokens in a text as plain characters")
	must(cmd.MarkFlagRequired("model"))
	must(cmd.MarkFlagRequired("file"))
	return cmd
}
