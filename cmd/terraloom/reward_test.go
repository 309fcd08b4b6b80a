package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"terraloom/data/strictyaml"
)

// rewardScore runs the verb on files with the given content; config may be "".
func rewardScore(t *testing.T, predictions, config string, flags ...string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "p.jsonl")
	if err := os.WriteFile(path, []byte(predictions), 0o600); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"score", "--predictions", path}, flags...)
	if config != "" {
		if err := os.WriteFile(filepath.Join(dir, "r.yaml"), []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--config", filepath.Join(dir, "r.yaml"))
	}
	cmd := newRewardCmd()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(context.Background())
	return out.String(), err
}

const rewardRows = `{"id":7,"completion":"{\"x\":[1,2.0]}","reference":{"x":[1.0,2.0]},"tool":"mean","source":"earth-bench"}
{"completion":"{\"x\":[1,2.0]}","reference":"{\"x\":[1.0,2.0]}"}

{"completion":"x","reference":{"x":1}}
`

func TestRewardScore(t *testing.T) {
	out, err := rewardScore(t, rewardRows, "", "--json")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`{"id":7,"reward":2.0,"argument":2.0,"status":"object","keys":1,"matched":1,"missing":0,"extra":0,"values":1,"reason":"every key and value is right","parts":{"argument":2.0}}`,
		`{"reward":1.0,"argument":1.0,"status":"object","keys":1,"matched":1,"missing":0,"extra":0,"values":0,"reason":"/x/0: expected 1.0, got 1 (an integer and a float differ)","parts":{"argument":1.0}}`,
		`{"reward":-2.0,"argument":-2.0,"status":"parse_failure",`,
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != len(want) {
		t.Fatalf("%d lines:\n%s", len(lines), out)
	}
	for i := range want {
		if !strings.HasPrefix(lines[i], want[i]) {
			t.Errorf("line %d\n got %s\nwant %s", i, lines[i], want[i])
		}
	}
	if out, err = rewardScore(t, rewardRows, ""); err != nil || !strings.Contains(out, "     3  -2.0000  parse_failure  not JSON: 1:1:") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestRewardScoreErrors(t *testing.T) {
	for _, c := range []struct{ predictions, config, want string }{
		{"", "", "p.jsonl: no rows"},
		{rewardRows + `{"completion":"x"}`, "", "p.jsonl:5: /reference: expected"},
		{rewardRows + `{"completion":"x","completion":"y"}`, "", `p.jsonl:5:`},
		{`{"completion":"x","reference":{"x":1},"tool":"meen"}`, "", `p.jsonl:1: /tool: `},
		{rewardRows, "tolerance: -1", "r.yaml: bad configuration: reward: tolerance is -1"},
	} {
		_, err := rewardScore(t, c.predictions, c.config)
		if err == nil || !strings.Contains(err.Error(), c.want) || exitCode(context.Background(), err) != exitInput {
			t.Errorf("%v, exit code %d; want %s", err, exitCode(context.Background(), err), c.want)
		}
	}
	out, err := rewardScore(t, rewardRows, "functions: [{name: own, kind: expr, weight: 1, program: 'arguments.x[0]'}]")
	if !errors.Is(err, errUnscored) || !strings.Contains(err.Error(), "row 3") || !strings.Contains(out, "NaN  parse_failure") {
		t.Errorf("%v\n%s", err, out)
	}
	if _, err := rewardScore(t, rewardRows, "functions: []"); !errors.Is(err, strictyaml.ErrConfig) {
		t.Errorf("%v", err)
	}
}
