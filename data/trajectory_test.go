package data

import (
	"strings"
	"testing"
)

const wholeTrajectory = `{"id":"s-1","seed_id":"s","source":"own","domain":"gis","regime":"ow","query":"<think>a & b</think> é",` +
	`"inputs":{"b":1.0,"a":[]},"skill":"k","steps":[{"tool":"list","arguments":{"dir":"x/"},"observation":["f",9007199254740993]},` +
	`{"tool":"noop","arguments":{}},{"tool":"noop","arguments":{"z":"1"},"observation":null},` +
	`{"tool":"mean","arguments":{"x":[9007199254740993,1,1.0,"1",true]},"observation":0.50,"thought":"t",` +
	`"uses":[{"argument":"/x/0","from":0,"observation":"/1","transform":"identity"},{"argument":"/x","from":2,"observation":"","transform":"whole"}]}],` +
	`"answer":"B","slots":{},"provenance":{"n":1e5}}`

func TestTrajectoryComesBackAsWritten(t *testing.T) {
	for _, text := range []string{
		wholeTrajectory,
		`{"id":"a","seed_id":"a","source":"own","domain":"rgb","query":"q","steps":[{"tool":"t","arguments":{}}]}`,
		`{"id":"a","seed_id":"a","source":"own","domain":"rgb","query":"q","inputs":{},"steps":[{"tool":"t","arguments":{},"observation":""}],"answer":null}`,
	} {
		tr, err := DecodeTrajectory(mustParse(t, text))
		if err != nil {
			t.Fatal(err)
		}
		if got := tr.Value().JSON(); got != text {
			t.Errorf("got  %s\nwant %s", got, text)
		}
		back, err := rowOf(&tr).trajectory()
		if err != nil {
			t.Fatal(err)
		}
		if got := back.Value().JSON(); got != text {
			t.Errorf("through a row: got  %s\nwant %s", got, text)
		}
	}
}

func TestDecodeTrajectoryRefuses(t *testing.T) {
	for _, c := range []struct{ name, old, new, want string }{
		{"wrong case", `"seed_id"`, `"Seed_ID"`, `/Seed_ID: unknown key; it is spelt "seed_id"`},
		{"wrong case in a step", `"tool":"list"`, `"Tool":"list"`, `/steps/0/Tool: unknown key; it is spelt "tool"`},
		{"wrong case in an edge", `"from":0`, `"FROM":0`, `/steps/3/uses/0/FROM: unknown key; it is spelt "from"`},
		{"unknown key", `"skill":"k"`, `"skil":"k"`, `/skil: unknown key; known keys: id, seed_id`},
		{"missing id", `"id":"s-1",`, ``, `/id: expected a non-empty string, found nothing`},
		{"empty query", `"query":"<think>a & b</think> é"`, `"query":""`, `/query: expected a non-empty string`},
		{"number for a string", `"domain":"gis"`, `"domain":1`, `/domain: expected a non-empty string, found number 1`},
		{"list for an object", `"inputs":{"b":1.0,"a":[]}`, `"inputs":[]`, `/inputs: expected object, found array []`},
		{"no steps", wholeTrajectory[strings.Index(wholeTrajectory, `"steps":`):strings.Index(wholeTrajectory, `,"answer"`)], `"steps":[]`, `/steps: a trajectory needs at least one step`},
		{"missing arguments", `"arguments":{"z":"1"},`, ``, `/steps/2/arguments: missing`},
		{"text for arguments", `"arguments":{"z":"1"}`, `"arguments":"{}"`, `/steps/2/arguments: expected object`},
		{"edge to a later step", `"from":0`, `"from":3`, `/steps/3/uses/0/from: must be the index of an earlier step, found 3`},
		{"edge to half a step", `"from":0`, `"from":0.5`, `/steps/3/uses/0/from: expected a whole number`},
		{"edge to step 1.0", `"from":0`, `"from":1.0`, `/steps/3/uses/0/from: expected a whole number`},
		{"edge before the first step", `"from":0`, `"from":-1`, `/steps/3/uses/0/from: expected a whole number`},
		{"edge from no argument", `"/x/0"`, `"/x/9"`, `/steps/3/uses/0/argument: "/x/9" leads to no argument`},
		{"edge to nowhere", `"observation":"/1"`, `"observation":"/2"`, `/steps/3/uses/0/observation: "/2" leads nowhere in the observation of step 0`},
		{"edge to an absent observation", `"from":2`, `"from":1`, `leads nowhere in the observation of step 1`},
		{"not an object", wholeTrajectory, `[]`, `/: expected an object, found array`},
	} {
		text := strings.Replace(wholeTrajectory, c.old, c.new, 1)
		if text == wholeTrajectory {
			t.Fatalf("%s: the case changes nothing", c.name)
		}
		if _, err := DecodeTrajectory(mustParse(t, text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

func TestRecordsComeBackAsWritten(t *testing.T) {
	_, p, e := testRows(t, 3)
	p2, err := DecodePlannerRow(mustParse(t, p.Value().JSON()))
	if err != nil || p2.Value().JSON() != p.Value().JSON() {
		t.Errorf("planner row: %v, %+v", err, p2)
	}
	e2, err := DecodeExecutorRow(mustParse(t, e[1].Value().JSON()))
	if err != nil || e2.Value().JSON() != e[1].Value().JSON() || e2.Node != 1 {
		t.Errorf("executor row: %v, %+v", err, e2)
	}
}

func TestDecodeRecordsRefuses(t *testing.T) {
	_, p, e := testRows(t, 3)
	planner, executor := p.Value().JSON(), e[1].Value().JSON()
	for _, c := range []struct{ name, text, old, new, want string }{
		{"wrong case", planner, `"prompt"`, `"Prompt"`, `/Prompt: unknown key; it is spelt "prompt"`},
		{"messages", planner, `"prompt"`, `"messages"`, `/messages: unknown key; known keys: prompt, completion`},
		{"wrong case in a message", planner, `"role"`, `"Role"`, `/prompt/0/Role: unknown key; it is spelt "role"`},
		{"content of another kind", planner, `"content":"plan"`, `"content":null`, `/prompt/0/content: expected a string, found null`},
		{"no completion", planner, planner[strings.Index(planner, `,"completion"`):strings.Index(planner, `,"trajectory_id"`)], ``, `/completion: expected a list of at least one message`},
		{"node", executor, `"node":1`, `"node":"1"`, `/node: expected a whole number from 0 up, found string "1"`},
		{"executor key in a planner row", planner, `"domain"`, `"node":1,"domain"`, `/node: unknown key`},
	} {
		text := strings.Replace(c.text, c.old, c.new, 1)
		if text == c.text {
			t.Fatalf("%s: the case changes nothing", c.name)
		}
		var err error
		if c.text == planner {
			_, err = DecodePlannerRow(mustParse(t, text))
		} else {
			_, err = DecodeExecutorRow(mustParse(t, text))
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}
