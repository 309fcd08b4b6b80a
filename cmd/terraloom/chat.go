package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"terraloom/data/strictjson"
	"terraloom/lora/chat"
	"terraloom/lora/checkpoint"
	"terraloom/lora/codec"
)

func newChatCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "chat", Short: "Chat templates"}
	cmd.AddCommand(newChatRenderCmd())
	return cmd
}

func newChatRenderCmd() *cobra.Command {
	var model, messages, variables string
	opts := chat.Options{}
	cmd := &cobra.Command{
		Use:   "render",
		Short: "Print a conversation as the model's chat template renders it",
		Long: `Reads a JSON file, a list of messages or an object with messages and tools, and prints the text that
transformers' apply_chat_template gives, without a line break of its own.`,
		Example: "  terraloom chat render --model models/base --messages query.json --generation-prompt",
		Args:    exactArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := readConversation(messages)
			if err != nil {
				return err
			}
			if opts.Variables, err = readVariables(variables); err != nil {
				return usageError{err}
			}
			base, err := checkpoint.Open(model)
			if err != nil {
				return inputError{err}
			}
			defer base.Close()
			text, err := codec.Open(base, codec.Options{})
			if err != nil {
				return inputError{err}
			}
			opts.Now = time.Now()
			r, err := text.Template.Render(cmd.Context(), c, opts)
			if err != nil {
				return inputError{err}
			}
			_, err = io.WriteString(cmd.OutOrStdout(), r.Text)
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&model, "model", "", "model folder, GGUF file or name of a pulled model")
	f.StringVar(&messages, "messages", "", "JSON file of the conversation")
	f.BoolVar(&opts.AddGenerationPrompt, "generation-prompt", false, "end with the header of the assistant's next turn")
	f.StringVar(&variables, "variables", "{}", `further variables of the template as JSON, such as {"enable_thinking": false}`)
	must(cmd.MarkFlagRequired("model"))
	must(cmd.MarkFlagRequired("messages"))
	return cmd
}

func readVariables(text string) (map[string]chat.Value, error) {
	v, err := strictjson.Parse([]byte(text))
	if err != nil || v.Kind() != strictjson.Object {
		return nil, fmt.Errorf("--variables %s: expected a JSON object", text)
	}
	out := map[string]chat.Value{}
	for i := range v.Len() {
		if out[v.Key(i)], err = chat.ParseValue([]byte(v.Index(i).JSON())); err != nil {
			return nil, fmt.Errorf("--variables: %w", err)
		}
	}
	return out, nil
}
