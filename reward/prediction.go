package reward

import (
	"fmt"
	"slices"
	"strings"

	"terraloom/data/strictjson"
)

// Prediction is one row of a predictions file.
type Prediction struct {
	Item
	ID strictjson.Value // as given, for the reader; Absent if it is not
}

var predictionKeys = []string{"completion", "reference", "tool", "source", "id"}

// DecodePrediction decodes one row, {"completion": text, "reference": object or
// its JSON text}, with the optional members tool, source (both as Executor rows
// have them) and id. schema returns the argument schema of a tool; it is called
// for rows that name one and says where numbers are compared by value. Other
// members are errors.
func DecodePrediction(row strictjson.Value, schema func(source, tool string) (string, error)) (Prediction, error) {
	if row.Kind() != strictjson.Object {
		return Prediction{}, fmt.Errorf("expected an object with completion and reference, got %s", describe(row))
	}
	for i := range row.Len() {
		if !slices.Contains(predictionKeys, row.Key(i)) {
			return Prediction{}, fmt.Errorf("unknown key %q; known: %s", clip(row.Key(i)), strings.Join(predictionKeys, ", "))
		}
	}
	completion, reference, tool := row.Get("completion"), row.Get("reference"), row.Get("tool")
	if completion.Kind() != strictjson.String {
		return Prediction{}, fmt.Errorf("/completion: expected the text of the completion, got %s", describe(completion))
	}
	var text string
	switch reference.Kind() {
	case strictjson.String:
		text = reference.Text()
	case strictjson.Object:
		text = reference.JSON()
	default:
		return Prediction{}, fmt.Errorf("/reference: expected the argument object or its JSON text, got %s", describe(reference))
	}
	for _, key := range []string{"tool", "source"} {
		if k := row.Get(key).Kind(); k != strictjson.Absent && k != strictjson.Null && k != strictjson.String {
			return Prediction{}, fmt.Errorf("/%s: expected a name, got %s", key, describe(row.Get(key)))
		}
	}
	var numbers *Numbers
	if tool.Kind() == strictjson.String {
		declared, err := schema(row.Get("source").Text(), tool.Text())
		if err == nil {
			numbers, err = NumbersIn(declared)
		}
		if err != nil {
			return Prediction{}, fmt.Errorf("/tool: %w", err)
		}
	}
	ref, err := NewReference(text, numbers)
	if err != nil {
		return Prediction{}, err
	}
	return Prediction{Item: Item{completion.Text(), ref}, ID: row.Get("id")}, nil
}

// Value is a result of the row as a JSON object, with the row's id.
func (p Prediction) Value(r Result) strictjson.Value {
	return strictjson.Obj(append([]strictjson.Member{{Key: "id", Value: p.ID}}, r.members()...)...)
}

// Value is the result as a JSON object; a reward that does not exist is null.
func (r Result) Value() strictjson.Value { return strictjson.Obj(r.members()...) }

func (r Result) members() []strictjson.Member {
	var parts, failures []strictjson.Member
	for _, p := range r.Parts {
		parts = append(parts, strictjson.Member{Key: p.Name, Value: strictjson.Float(p.Value)})
		if p.Err != nil {
			failures = append(failures, strictjson.Member{Key: p.Name, Value: strictjson.Text(p.Err.Error())})
		}
	}
	errs := strictjson.Value{}
	if failures != nil {
		errs = strictjson.Obj(failures...)
	}
	return []strictjson.Member{
		{Key: "reward", Value: strictjson.Float(r.Reward)},
		{Key: "argument", Value: strictjson.Float(r.Score.Reward)},
		{Key: "status", Value: strictjson.Text(string(r.Score.Status))},
		{Key: "keys", Value: strictjson.Int(r.Score.Keys)},
		{Key: "matched", Value: strictjson.Int(r.Score.Matched)},
		{Key: "missing", Value: strictjson.Int(r.Score.Missing)},
		{Key: "extra", Value: strictjson.Int(r.Score.Extra)},
		{Key: "values", Value: strictjson.Int(r.Score.Values)},
		{Key: "reason", Value: strictjson.Text(r.Score.Reason)},
		{Key: "parts", Value: strictjson.Obj(parts...)},
		{Key: "errors", Value: errs},
	}
}
