package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"terraloom/lora/chat"
	"terraloom/lora/generate"
)

// promptFlags say what a model is to go on with.
type promptFlags struct {
	prompt, messages string
	raw              bool
}

func (p *promptFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&p.prompt, "prompt", "", "text of the user's turn; may also be given as the argument")
	f.StringVar(&p.messages, "messages", "", "JSON file of a conversation: a list of messages, or an object with messages and tools")
	f.BoolVar(&p.raw, "raw", false, "take the prompt as it is, without the chat template")
	cmd.MarkFlagsMutuallyExclusive("prompt", "messages")
	cmd.MarkFlagsMutuallyExclusive("messages", "raw")
}

// ids are the ids of the prompt for a model.
func (p *promptFlags) ids(cmd *cobra.Command, l *generate.Loaded, model string, args []string) ([]int32, error) {
	text := p.prompt
	if len(args) == 1 {
		text = args[0]
	}
	switch {
	case (text == "") == (p.messages == ""):
		return nil, usageError{errors.New("give one prompt: --prompt TEXT, --messages FILE or an argument")}
	case p.raw:
		return generate.RawPrompt(l.Tokenizer, text), nil
	case p.messages == "":
		return l.Prompt(cmd.Context(), model, chat.Conversation{Messages: []chat.Message{chat.NewMessage("user", text)}}, time.Now())
	}
	c, err := readConversation(p.messages)
	if err != nil {
		return nil, err
	}
	return l.Prompt(cmd.Context(), model, c, time.Now())
}

// readConversation reads a JSON file: a list of messages, or an object with messages and, perhaps, tools.
func readConversation(path string) (chat.Conversation, error) {
	var c chat.Conversation
	src, err := os.ReadFile(path)
	if err != nil {
		return c, inputError{err}
	}
	if c.Messages, err = chat.ParseMessages(src); err == nil {
		return c, nil
	}
	var object struct {
		Messages json.RawMessage
		Tools    []json.RawMessage
	}
	if json.Unmarshal(src, &object) != nil || object.Messages == nil {
		return c, inputError{fmt.Errorf("%s: %w", path, err)}
	}
	if c.Messages, err = chat.ParseMessages(object.Messages); err != nil {
		return c, inputError{fmt.Errorf("%s: %w", path, err)}
	}
	if object.Tools != nil {
		c.Tools = []chat.Value{} // templates tell an empty list from none
	}
	for i, tool := range object.Tools {
		v, err := chat.ParseValue(tool)
		if err != nil {
			return c, inputError{fmt.Errorf("%s: tool %d: %w", path, i, err)}
		}
		c.Tools = append(c.Tools, v)
	}
	return c, nil
}

func newGenerateCmd() *cobra.Command {
	var engine backendFlags
	var from promptFlags
	var model, adapter, schema string
	var asJSON bool
	request := generate.Request{}
	cmd := &cobra.Command{
		Use:   "generate [PROMPT]",
		Short: "Let a model answer",
		Long: `Prints the model's answer as it is written. The prompt is one user turn of the model's chat template, or a
conversation from a file. --temperature 0 takes the likeliest token always. --json prints one object with
prompt_ids, ids, text, logprobs (natural logarithms, at the temperature) and finish_reason.`,
		Example: `  terraloom generate --model smollm2-135m "What does a thermal infrared band measure?"
  terraloom generate --model models/base --adapter runs/planner --messages query.json --temperature 0 --json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := engine.open()
			if err != nil {
				return err
			}
			var adapters []generate.Named
			if adapter != "" {
				adapters, request.Model = []generate.Named{{Name: "adapter", Dir: adapter}}, "adapter"
			}
			l, err := generate.Open(b, model, adapters, engine.precision(), generate.Options{MaxRows: 1, Chunk: 8})
			if err != nil {
				return err
			}
			defer l.Close()
			if request.Prompt, err = from.ids(cmd, l, request.Model, args); err != nil {
				return err
			}
			if schema != "" {
				if request.Schema, err = os.ReadFile(schema); err != nil {
					return inputError{err}
				}
			}
			if !asJSON {
				request.Emit = func(p generate.Piece) { io.WriteString(cmd.OutOrStdout(), p.Text) }
			}
			results, err := l.Engine.Generate(cmd.Context(), []generate.Request{request})
			if err != nil {
				return err
			}
			r := results[0]
			if !asJSON {
				fmt.Fprintln(cmd.OutOrStdout())
				return nil
			}
			e := json.NewEncoder(cmd.OutOrStdout())
			e.SetEscapeHTML(false)
			return e.Encode(struct {
				PromptIDs []int32         `json:"prompt_ids"`
				IDs       []int32         `json:"ids"`
				Text      string          `json:"text"`
				LogProbs  []float32       `json:"logprobs"`
				Finish    generate.Reason `json:"finish_reason"`
			}{request.Prompt, r.IDs(), r.Text, r.LogProbs(), r.Reason})
		},
	}
	engine.add(cmd.Flags())
	from.add(cmd)
	f := cmd.Flags()
	f.StringVar(&model, "model", "", "model folder, GGUF file or name of a pulled model")
	f.StringVar(&adapter, "adapter", "", "adapter folder")
	f.StringVar(&schema, "schema", "", "JSON schema file: the answer is a document of it")
	f.IntVar(&request.MaxTokens, "max-tokens", 256, "tokens to write at most")
	f.Float64Var(&request.Sampling.Temperature, "temperature", 0.7, "0 takes the likeliest token always")
	f.Float64Var(&request.Sampling.TopP, "top-p", 1, "draw from the likeliest tokens that have this probability together")
	f.Uint64Var(&request.Sampling.Seed, "seed", 0, "the same seed gives the same answer")
	f.StringArrayVar(&request.Stop, "stop", nil, "text that ends the answer; may be repeated")
	f.BoolVar(&asJSON, "json", false, "print one JSON object")
	must(cmd.MarkFlagRequired("model"))
	return cmd
}
