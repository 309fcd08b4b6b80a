package environment

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"terraloom/agent/tools"
	"terraloom/agent/tools/workspace"
	"terraloom/data"
	"terraloom/data/strictjson"
)

// Session carries out one trajectory. It implements slots.Tools: every tool is
// computed, and a call that was made before gives the same observation without
// being made again. It is for one goroutine.
type Session struct {
	ctx       context.Context
	dir       string
	workspace *workspace.Workspace
	kit       *tools.Registry
	eye       eye
	scenes    Collections

	order  []*call
	known  map[string]*call // by tool and arguments
	record string           // file; "" for none
	fresh  bool             // the record lacks a call
	broken error            // what failed that was not the fault of a call
}

// call is one call and what came of it.
type call struct {
	tool      string
	arguments strictjson.Value
	value     strictjson.Value
	failure   error
	made      bool // in this session's workspace
}

// Computes reports whether the kit has the tool.
func (s *Session) Computes(tool string) bool { return s.kit.Computes(tool) }

// Call returns the observation of a call. The error of a call without an
// estimate is tools.ErrInsufficient.
func (s *Session) Call(tool string, arguments strictjson.Value) (strictjson.Value, error) {
	key := tool + "\x00" + arguments.JSON()
	if c := s.known[key]; c != nil {
		return c.value, c.failure
	}
	for _, c := range s.order { // what was recorded made files that this call may read
		if !c.made {
			if _, err := s.Invoke(c.tool, c.arguments); s.fails(err) {
				return strictjson.Value{}, err
			}
			c.made = true
		}
	}
	res, err := s.Invoke(tool, arguments)
	if s.fails(err) {
		return strictjson.Value{}, err
	}
	if err == nil && res.Evidence.Status == tools.Insufficient {
		err = &tools.Error{Tool: tool, Kind: tools.ErrInsufficient, Msg: res.Evidence.Reason}
	}
	c := &call{tool: tool, arguments: arguments, value: res.Value, failure: err, made: true}
	s.order, s.known[key], s.fresh = append(s.order, c), c, true
	return c.value, c.failure
}

// fails notes an error that says nothing about the call: the session ends.
func (s *Session) fails(err error) bool {
	if err != nil && (s.ctx.Err() != nil || errors.Is(err, tools.ErrEnvironment) || errors.Is(err, tools.ErrInternal)) {
		s.broken = errors.Join(s.broken, err)
		return true
	}
	return false
}

// Invoke makes a call and returns the whole result, with its files and evidence.
func (s *Session) Invoke(tool string, arguments strictjson.Value) (tools.Result, error) {
	if err := s.prepare(arguments); err != nil {
		return tools.Result{}, err
	}
	return s.kit.Invoke(s.ctx, tool, arguments)
}

// Made is the number of calls that were made here, not answered from the record.
func (s *Session) Made() int {
	n := 0
	for _, c := range s.order {
		if c.made {
			n++
		}
	}
	return n
}

// Dir is the folder of the session's files.
func (s *Session) Dir() string { return s.dir }

// Close records the session and removes its files. It returns what failed in the
// session that was not the fault of a call's arguments.
func (s *Session) Close() error {
	err := s.broken
	if err == nil && s.record != "" && s.fresh {
		err = s.write()
	}
	return errors.Join(err, s.workspace.Close(), os.RemoveAll(s.dir))
}

// openRecords makes the folder of the records of one version.
func openRecords(cache, version string) (string, error) {
	sum := sha256.Sum256([]byte(version))
	dir := filepath.Join(cache, "sessions", hex.EncodeToString(sum[:8]))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("environment: %w", err)
	}
	return dir, nil
}

func recordPath(dir, name string) string {
	sum := sha256.Sum256([]byte(name))
	text := hex.EncodeToString(sum[:16])
	return filepath.Join(dir, text[:2], text+".json")
}

// write puts the calls into the record, a JSON list.
func (s *Session) write() error {
	items := make([]strictjson.Value, len(s.order))
	for i, c := range s.order {
		failure := strictjson.Value{}
		if c.failure != nil {
			failure = strictjson.Text(c.failure.Error())
		}
		items[i] = strictjson.Obj(strictjson.Member{Key: "tool", Value: strictjson.Text(c.tool)}, strictjson.Member{Key: "arguments", Value: c.arguments},
			strictjson.Member{Key: "observation", Value: c.value}, strictjson.Member{Key: "error", Value: failure})
	}
	if err := os.MkdirAll(filepath.Dir(s.record), 0o755); err != nil {
		return fmt.Errorf("environment: %w", err)
	}
	return data.WriteFile(s.record, strictjson.List(items...).AppendJSON(nil))
}

// recall reads the record, if there is one. One that cannot be read is as good as none.
func (s *Session) recall() error {
	text, err := os.ReadFile(s.record)
	if notThere(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("environment: %w", err)
	}
	list, err := strictjson.Parse(text)
	if err != nil {
		return nil
	}
	for i := range list.Len() {
		v := list.Index(i)
		c := &call{tool: v.Get("tool").Text(), arguments: v.Get("arguments"), value: v.Get("observation")}
		if e := v.Get("error"); !e.IsAbsent() {
			c.failure = errors.New(e.Text())
		}
		s.order = append(s.order, c)
		s.known[c.tool+"\x00"+c.arguments.JSON()] = c
	}
	return nil
}
