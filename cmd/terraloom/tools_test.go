package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"terraloom/agent/raster"
	"terraloom/agent/tools/scenes"
	"terraloom/data/strictjson"
)

// toolsRun runs a verb of the tools command alone.
func toolsRun(t *testing.T, in io.Reader, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := newToolsCmd()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetIn(in)
	cmd.SetOut(&out)
	cmd.SetErr(io.Discard)
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func TestToolsList(t *testing.T) {
	out, err := toolsRun(t, nil, "list", "--json")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	if err := strictjson.Lines(strings.NewReader(out), "list", func(_ int, v strictjson.Value) error {
		n++
		if v.Get("parameters").Get("type").Text() != "object" {
			return fmt.Errorf("%s has no schema", v.Get("name").Text())
		}
		return nil
	}); err != nil || n != 112 {
		t.Errorf("%d tools, %v", n, err)
	}
	if out, err := toolsRun(t, nil, "list"); err != nil || strings.Count(out, "\n") != 112 {
		t.Errorf("%v:\n%s", err, out)
	}
	out, err = toolsRun(t, nil, "show", "argmax")
	if err != nil || !strings.HasPrefix(out, "max_value_and_index(x: list[float])") || !strings.Contains(out, "argmax is another name of it") {
		t.Errorf("%v: %s", err, out)
	}
	if _, err := toolsRun(t, nil, "show", "magic"); exitCode(t.Context(), err) != exitUsage {
		t.Errorf("show magic: %v", err)
	}
}

// rasterWorkspace is a folder with one raster of the values 1 2 3.
func rasterWorkspace(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	g, err := raster.NewGrid(3, 1, raster.WGS84, raster.NorthUp(0, 1, 1, 1))
	if err != nil {
		t.Fatal(err)
	}
	copy(g.Data, []float32{1, 2, 3})
	if err := raster.Save(filepath.Join(dir, "a.tif"), raster.Spec{}, g); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestToolsCall(t *testing.T) {
	dir := rasterWorkspace(t)
	for _, c := range []struct {
		args []string
		want string
		code int
	}{
		{[]string{"mean", "--args", `{"x":[1,2,4.5]}`}, "2.5\n", 0},
		{[]string{"calc_batch_image_mean", "--workspace", dir, "--args", `{"file_list":["a.tif"]}`}, "[2.0]\n", 0},
		{[]string{"threshold_segmentation", "--workspace", dir, "--args", `{"input_image_path":"a.tif","threshold":2,"output_path":"q/m.tif"}`}, "Result save at benchmark/out/q/m.tif\n", 0},
		{[]string{"calculate_area", "--workspace", dir, "--args", `{"input_image_path":"q/m.tif","gsd":10}`}, "100.0\n", 0},
		{[]string{"division", "--compat", "earth-agent", "--args", `{"a":0,"b":1}`}, "Infinity\n", 0},
		{[]string{"average_ratio_exceeding_threshold", "--workspace", dir, "--args", `{"image_paths":"a.tif","value_threshold":9}`}, "No estimate: the percentage exceeds 20 in none", 0},
		{[]string{"division", "--args", `{"a":0,"b":1}`}, "", exitError},
		{[]string{"calc_batch_image_mean", "--args", `{"file_list":["a.tif"]}`}, "", exitError},
		{[]string{"calc_batch_image_mean", "--workspace", dir, "--args", `{"file_list":["../a.tif"]}`}, "", exitInput},
		{[]string{"mean"}, "", exitInput},
		{[]string{"magic"}, "", exitUsage},
		{[]string{"mean", "--args", `{"x":[1}`}, "", exitUsage},
		{[]string{"mean", "--args", `{"x":[1]}`, "--compat", "other"}, "", exitUsage},
		{[]string{"mean", "--args", `{"x":[1]}`, "--workspace", filepath.Join(dir, "none")}, "", exitInput},
		{[]string{"mean", "--batch", "x", "--args", "{}"}, "", exitUsage},
		{nil, "", exitUsage},
	} {
		out, err := toolsRun(t, nil, append([]string{"call"}, c.args...)...)
		code := 0
		if err != nil {
			code = exitCode(t.Context(), err)
		}
		if code != c.code || !strings.HasPrefix(out, c.want) {
			t.Errorf("%v: %q, %v (exit %d); want %q, exit %d", c.args, out, err, code, c.want, c.code)
		}
	}
	out, err := toolsRun(t, nil, "call", "calculate_area", "--workspace", dir, "--json", "--args", `{"input_image_path":"q/m.tif","gsd":10}`)
	if err != nil {
		t.Fatal(err)
	}
	v, err := strictjson.Parse([]byte(out))
	if err != nil || v.Get("observation").JSON() != "100.0" || v.Get("evidence").Get("mid").Get("numerator").JSON() != "[1.0]" {
		t.Errorf("%v: %s", err, out)
	}
}

func TestToolsPerceiver(t *testing.T) {
	dir := t.TempDir()
	s, err := scenes.Generate(1, scenes.Spec{Class: "Beach", Width: 128, Height: 128, GSD: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "a.png"), s.PNG, 0o644); err != nil {
		t.Fatal(err)
	}
	truths := filepath.Join(t.TempDir(), "truths.json")
	var text bytes.Buffer
	if err := scenes.WriteTruths(&text, []scenes.Truth{s.Truth}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(truths, text.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	const args = `{"input_image_path":"a.png"}`
	out, err := toolsRun(t, nil, "call", "MSCN", "--workspace", dir, "--perceiver", "scenes:"+truths, "--args", args)
	if err != nil || !strings.HasPrefix(out, `{"predicted_class":"`) {
		t.Errorf("%v: %s", err, out)
	}
	for _, c := range []struct {
		source string
		code   int
	}{{"ftp://x", exitUsage}, {truths, exitUsage}, {"scenes:" + filepath.Join(dir, "none"), exitInput}, {"scenes:" + filepath.Join(dir, "a.png"), exitInput},
		{"mcp:http://127.0.0.1:1/mcp", exitInput}, {"mcp:" + filepath.Join(dir, "none"), exitInput}} {
		if _, err := toolsRun(t, nil, "call", "MSCN", "--workspace", dir, "--perceiver", c.source, "--args", args); exitCode(t.Context(), err) != c.code {
			t.Errorf("%s: %v, want exit %d", c.source, err, c.code)
		}
	}
	if _, err := toolsRun(t, nil, "call", "MSCN", "--perceiver", "scenes:"+truths, "--args", args); exitCode(t.Context(), err) != exitUsage {
		t.Errorf("a perceiver without a workspace: %v", err)
	}
}

func TestToolsBatch(t *testing.T) {
	calls := `{"tool":"mean","input":{"x":[1,2]}}
{"tool":"division","input":{"a":0,"b":1}}
{"tool":"magic","input":{}}

{"tool":"ceil_number","input":{"n":1.5},"output":"left over"}
`
	const want = `{"output":1.5}
{"error":"division: undefined result: the divisor a is 0"}
{"error":"unknown tool \"magic\"`
	out, err := toolsRun(t, strings.NewReader(calls), "call", "--batch", "-")
	if err != nil || !strings.HasPrefix(out, want) || !strings.HasSuffix(out, "\n{\"output\":2}\n") || strings.Count(out, "\n") != 4 {
		t.Errorf("%v:\n%s", err, out)
	}
	file := filepath.Join(t.TempDir(), "calls.jsonl")
	if err := os.WriteFile(file, []byte("{\"tool\":\"mean\",\"input\":{\"x\":[1]}}\n{\"input\":1}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err = toolsRun(t, nil, "call", "--batch", file)
	var input inputError
	if !errors.As(err, &input) || !strings.Contains(err.Error(), "calls.jsonl:2: expected") || out != "{\"output\":1.0}\n" {
		t.Errorf("%v:\n%s", err, out)
	}
	if _, err := toolsRun(t, nil, "call", "--batch", file+".none"); exitCode(t.Context(), err) != exitInput {
		t.Errorf("a missing file: %v", err)
	}
}

// Every recorded execution of the public kit is a line of a batch, and its
// recorded output comes out within 1e-9.
func TestToolsBatchGolden(t *testing.T) {
	shared := os.Getenv("TERRALOOM_SHARED")
	if shared == "" {
		shared = filepath.Join("..", "..", "..", "shared")
	}
	golden := filepath.Join(shared, "earth-bench", "tool_golden.jsonl")
	file, err := os.Open(golden)
	if err != nil {
		t.Skipf("set TERRALOOM_SHARED to the folder that holds earth-bench/tool_golden.jsonl: %v", err)
	}
	defer file.Close()
	out, err := toolsRun(t, nil, "call", "--batch", golden, "--compat", "earth-agent")
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	n := 0
	err = strictjson.Lines(file, "golden", func(line int, v strictjson.Value) error {
		if n == len(got) {
			return fmt.Errorf("line %d has no answer", line)
		}
		answer, err := strictjson.Parse([]byte(got[n]))
		if err != nil {
			return err
		}
		want, err := strictjson.Parse([]byte(v.Get("output").Text()))
		if err != nil {
			return err
		}
		n++
		if !sameNumbers(answer.Get("output"), want, v.Get("input"), 1e-9) {
			t.Errorf("line %d: %s %.200s\ngot  %s\nwant %s", line, v.Get("tool").Text(), v.Get("input").JSON(), got[n-1], want.JSON())
		}
		return nil
	})
	if err != nil || n != 978 || len(got) != n {
		t.Errorf("%d of %d answers, want 978: %v", n, len(got), err)
	}
}

// sameNumbers compares observations leaf by leaf. A number that is 0 up to the
// rounding of the arguments' own size counts as 0.
func sameNumbers(got, want, input strictjson.Value, tolerance float64) bool {
	size := 0.0
	input.Leaves("", func(_ string, v strictjson.Value) {
		if f, ok := v.Float(); ok {
			size = max(size, math.Abs(f))
		}
	})
	type leaf struct {
		pointer string
		value   strictjson.Value
	}
	leaves := func(v strictjson.Value) (list []leaf) {
		v.Leaves("", func(p string, w strictjson.Value) { list = append(list, leaf{p, w}) })
		return list
	}
	a, b := leaves(got), leaves(want)
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		x, okX := a[i].value.Float()
		y, okY := b[i].value.Float()
		switch {
		case a[i].pointer != b[i].pointer || okX != okY:
			return false
		case !okX && !a[i].value.Equal(b[i].value):
			return false
		case okX && math.Abs(x-y) > max(tolerance*max(math.Abs(x), math.Abs(y)), 1e-14*size):
			return false
		}
	}
	return true
}

func TestToolsAudit(t *testing.T) {
	seeds := filepath.Join(t.TempDir(), "seeds.jsonl")
	row := `{"id":"s","seed_id":"s","source":"own","domain":"spectrum","regime":"ap","query":"q","inputs":{},"skill":"","steps":[` +
		`{"tool":"mean","arguments":{"x":[1]},"observation":1.0,"thought":"","uses":[]},{"tool":"magic","arguments":{},"observation":1,"thought":"","uses":[]}],"answer":"A"}`
	if err := os.WriteFile(seeds, []byte(row+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := toolsRun(t, nil, "audit", seeds)
	if err != nil || !strings.HasPrefix(out, "2 calls\n     1 native\n     0 by alias\n     1 impossible: unknown tool 1\ns step 1: unknown tool \"magic\"") {
		t.Errorf("%v:\n%s", err, out)
	}
	out, err = toolsRun(t, nil, "audit", "--json", seeds)
	if v, e := strictjson.Parse([]byte(out)); err != nil || e != nil || v.Get("calls").Len() != 2 {
		t.Errorf("%v %v:\n%s", err, e, out)
	}
	if _, err := toolsRun(t, nil, "audit", seeds+".none"); exitCode(t.Context(), err) != exitInput {
		t.Errorf("a missing file: %v", err)
	}
}
