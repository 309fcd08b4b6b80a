package tools

import (
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"terraloom/data/strictjson"
)

var evidenceSchema = sync.OnceValues(func() (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(EvidenceSchema()))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("evidence.schema.json", doc); err != nil {
		return nil, err
	}
	return c.Compile("evidence.schema.json")
})

// checkEvidence holds the evidence of a result against the schema, and a
// measurement against what its evidence recomputes.
func checkEvidence(t *testing.T, label string, r *Result) {
	t.Helper()
	schema, err := evidenceSchema()
	if err != nil {
		t.Fatal(err)
	}
	text := r.Evidence.Value().JSON()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%s: %v", label, err)
	}
	if err := schema.Validate(doc); err != nil {
		t.Errorf("%s: evidence %s\n%v", label, text, err)
	}
	if (r.Evidence.Status == Insufficient) != (r.Value.Kind() == strictjson.Null) {
		t.Errorf("%s: the status is %s with the observation %s", label, r.Evidence.Status, r.Value.JSON())
	}
	if r.Evidence.Family != Measure || r.Evidence.Status != OK {
		return
	}
	values, ok := r.Evidence.Measure.Recompute()
	var got []float64
	r.Value.Leaves("", func(_ string, v strictjson.Value) {
		if f, ok := v.Float(); ok {
			got = append(got, f)
		}
	})
	if !ok || len(values) != len(got) {
		t.Errorf("%s: the evidence recomputes %v, the observation is %s", label, values, r.Value.JSON())
		return
	}
	for i := range got {
		if !near(got[i], values[i], 1e-15) {
			t.Errorf("%s: the evidence recomputes %v, the observation is %s", label, values, r.Value.JSON())
		}
	}
}

// A field taken out of the evidence of any family is noticed.
func TestSchemaIsStrict(t *testing.T) {
	schema, err := evidenceSchema()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range []Family{Perceive, Measure, Execute, Retrieve} {
		e := Evidence{Family: family, Status: OK, Operator: "x", Formula: "x", Parameters: strictjson.Obj(), Nodes: []Node{{Name: "n", Output: strictjson.Int(1), Status: OK}}}
		e.Measure = MeasureEvidence{Metric: "count", Unit: "px", Aggregate: "single", Layers: e.Nodes, Numerator: []float64{1}, Denominator: []float64{1}}
		e.Model = ModelEvidence{Backend: "b", Weights: "w", Geometry: "none"}
		whole := e.Value()
		if doc, err := jsonschema.UnmarshalJSON(strings.NewReader(whole.JSON())); err != nil || schema.Validate(doc) != nil {
			t.Fatalf("%s: %s: %v %v", family, whole.JSON(), err, schema.Validate(doc))
		}
		for i := range whole.Len() {
			part := whole.Index(i)
			for k := -1; k < part.Len() && (k < 0 || part.Kind() == strictjson.Object); k++ {
				without := cut(whole, i, k)
				doc, err := jsonschema.UnmarshalJSON(strings.NewReader(without.JSON()))
				if err != nil {
					t.Fatal(err)
				}
				if schema.Validate(doc) == nil {
					t.Errorf("%s: passes without field %d of %s: %s", family, k, whole.Key(i), without.JSON())
				}
			}
		}
	}
}

// cut leaves out member k of member i of an object, or member i itself for k < 0.
func cut(v strictjson.Value, i, k int) strictjson.Value {
	var out []strictjson.Member
	for n := range v.Len() {
		m := v.Index(n)
		if n == i && k < 0 {
			continue
		}
		if n == i {
			var inner []strictjson.Member
			for j := range m.Len() {
				if j != k {
					inner = append(inner, strictjson.Member{Key: m.Key(j), Value: m.Index(j)})
				}
			}
			m = strictjson.Obj(inner...)
		}
		out = append(out, strictjson.Member{Key: v.Key(n), Value: m})
	}
	return strictjson.Obj(out...)
}
