package data

import (
	"fmt"

	"terraloom/data/strictjson"
)

// Message is one chat turn of a prompt or completion.
type Message struct {
	Role    string `parquet:"role"`
	Content string `parquet:"content"`
}

// PlannerRow is one supervised example of the Planner (D_P of Eq. 12): the
// completion is one assistant message holding exactly {"tool_sequence":[…]}.
// In JSON and in Parquet the columns are called as the tags say.
type PlannerRow struct {
	Prompt       []Message `parquet:"prompt,list"`
	Completion   []Message `parquet:"completion,list"`
	TrajectoryID string    `parquet:"trajectory_id"`
	SeedID       string    `parquet:"seed_id"`
	Domain       string    `parquet:"domain"`
	Source       string    `parquet:"source"`
}

// ExecutorRow is one example of the Executor (D_E of Eq. 12): the completion is
// one assistant message holding the argument object, Reference the same text.
type ExecutorRow struct {
	Prompt       []Message `parquet:"prompt,list"`
	Completion   []Message `parquet:"completion,list"`
	Reference    string    `parquet:"reference"`
	Tool         string    `parquet:"tool"`
	Node         int       `parquet:"node"` // 0-based index of the step
	TrajectoryID string    `parquet:"trajectory_id"`
	SeedID       string    `parquet:"seed_id"`
	Domain       string    `parquet:"domain"`
	Source       string    `parquet:"source"`
}

// Splits are the names of a dataset's parts, in the order they are written.
var Splits = []string{"train", "validation", "test"}

var (
	messageKeys  = []string{"role", "content"}
	plannerKeys  = []string{"prompt", "completion", "trajectory_id", "seed_id", "domain", "source"}
	executorKeys = []string{"prompt", "completion", "reference", "tool", "node", "trajectory_id", "seed_id", "domain", "source"}
)

func messagesValue(ms []Message) strictjson.Value {
	items := make([]strictjson.Value, len(ms))
	for i, m := range ms {
		items[i] = strictjson.Obj(
			strictjson.Member{Key: "role", Value: strictjson.Text(m.Role)},
			strictjson.Member{Key: "content", Value: strictjson.Text(m.Content)})
	}
	return strictjson.List(items...)
}

// Value encodes r as one JSON object.
func (r *PlannerRow) Value() strictjson.Value {
	return strictjson.Obj(
		strictjson.Member{Key: "prompt", Value: messagesValue(r.Prompt)},
		strictjson.Member{Key: "completion", Value: messagesValue(r.Completion)},
		strictjson.Member{Key: "trajectory_id", Value: strictjson.Text(r.TrajectoryID)},
		strictjson.Member{Key: "seed_id", Value: strictjson.Text(r.SeedID)},
		strictjson.Member{Key: "domain", Value: strictjson.Text(r.Domain)},
		strictjson.Member{Key: "source", Value: strictjson.Text(r.Source)})
}

// Value encodes r as one JSON object.
func (r *ExecutorRow) Value() strictjson.Value {
	return strictjson.Obj(
		strictjson.Member{Key: "prompt", Value: messagesValue(r.Prompt)},
		strictjson.Member{Key: "completion", Value: messagesValue(r.Completion)},
		strictjson.Member{Key: "reference", Value: strictjson.Text(r.Reference)},
		strictjson.Member{Key: "tool", Value: strictjson.Text(r.Tool)},
		strictjson.Member{Key: "node", Value: strictjson.Int(r.Node)},
		strictjson.Member{Key: "trajectory_id", Value: strictjson.Text(r.TrajectoryID)},
		strictjson.Member{Key: "seed_id", Value: strictjson.Text(r.SeedID)},
		strictjson.Member{Key: "domain", Value: strictjson.Text(r.Domain)},
		strictjson.Member{Key: "source", Value: strictjson.Text(r.Source)})
}

// DecodePlannerRow decodes one object written by PlannerRow.Value, as strictly
// as DecodeTrajectory does.
func DecodePlannerRow(v strictjson.Value) (PlannerRow, error) {
	d := decoder{}
	o := d.object(v, "", plannerKeys)
	r := PlannerRow{
		Prompt: d.messages(o, "prompt"), Completion: d.messages(o, "completion"),
		TrajectoryID: d.text(o, "", "trajectory_id", true), SeedID: d.text(o, "", "seed_id", true),
		Domain: d.text(o, "", "domain", true), Source: d.text(o, "", "source", true),
	}
	return r, d.err
}

// DecodeExecutorRow decodes one object written by ExecutorRow.Value, as
// strictly as DecodeTrajectory does.
func DecodeExecutorRow(v strictjson.Value) (ExecutorRow, error) {
	d := decoder{}
	o := d.object(v, "", executorKeys)
	r := ExecutorRow{
		Prompt: d.messages(o, "prompt"), Completion: d.messages(o, "completion"),
		Reference: d.text(o, "", "reference", true), Tool: d.text(o, "", "tool", true),
		Node: d.index(o, "", "node"), TrajectoryID: d.text(o, "", "trajectory_id", true),
		SeedID: d.text(o, "", "seed_id", true), Domain: d.text(o, "", "domain", true), Source: d.text(o, "", "source", true),
	}
	return r, d.err
}

func (d *decoder) messages(o strictjson.Value, key string) []Message {
	list := d.kind(o, "", key, strictjson.Array)
	if list.Len() == 0 {
		d.fail("/"+key, "expected a list of at least one message")
	}
	ms := make([]Message, list.Len())
	for i := range ms {
		at := fmt.Sprintf("/%s/%d", key, i)
		m := d.object(list.Index(i), at, messageKeys)
		ms[i].Role = d.text(m, at, "role", true)
		if c := m.Get("content"); c.Kind() == strictjson.String {
			ms[i].Content = c.Text()
		} else {
			d.fail(at+"/content", "expected a string, found %s", describe(c))
		}
	}
	return ms
}
