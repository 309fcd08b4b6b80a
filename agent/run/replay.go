package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"

	"terraloom/agent/rsure"
	"terraloom/agent/tools"
	"terraloom/data/strictjson"
)

// ErrMiss is returned by a Replay for a call that was not recorded.
var ErrMiss = errors.New("the call was not recorded")

// Replay is an environment of recorded calls: the same tool with the same
// arguments gives the same observation, whatever the order of keys and the
// spelling of numbers; every other call is ErrMiss. It is safe for concurrent use.
type Replay struct {
	known map[string]strictjson.Value
}

// ReadReplay reads a JSONL file of {"tool", "input", "output"}. Two lines for one
// call with different outputs are an error.
func ReadReplay(path string) (*Replay, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r := &Replay{known: map[string]strictjson.Value{}}
	err = strictjson.Lines(bytes.NewReader(text), path, func(line int, v strictjson.Value) error {
		tool, input, output := v.Get("tool"), v.Get("input"), v.Get("output")
		if tool.Kind() != strictjson.String || input.Kind() != strictjson.Object || output.IsAbsent() {
			return fmt.Errorf(`%s:%d: expected {"tool", "input", "output"}`, path, line)
		}
		key := rsure.Canonical(rsure.Action{Tool: tool.Text(), Args: input})
		if old, ok := r.known[key]; ok && !old.Equal(output) {
			return fmt.Errorf("%s:%d: %s was recorded before with these arguments and another output", path, line, tool.Text())
		}
		r.known[key] = output
		return nil
	})
	return r, err
}

// Len is the number of different calls.
func (r *Replay) Len() int { return len(r.known) }

// Invoke implements Tools.
func (r *Replay) Invoke(_ context.Context, name string, args strictjson.Value) (tools.Result, error) {
	v, ok := r.known[rsure.Canonical(rsure.Action{Tool: name, Args: args})]
	if !ok {
		return tools.Result{}, &tools.Error{Tool: name, Kind: tools.ErrUnavailable, Cause: ErrMiss, Msg: ErrMiss.Error()}
	}
	return tools.Result{Value: v, Evidence: tools.Evidence{Family: tools.Execute, Status: tools.OK, Operator: name, Parameters: args, Formula: "recorded",
		Nodes: []tools.Node{{Name: name, Output: v, Status: tools.OK}}}}, nil
}
