package tools

import (
	_ "embed"
	"fmt"
	"math"
	"slices"

	"terraloom/data/strictjson"
)

// Family is the kind of observation, which decides what evidence it needs.
type Family string

// The families of observations, of the verifiable-observation protocol of RSure-Agent.
const (
	Perceive Family = "perceive" // what a model saw in an image
	Measure  Family = "measure"  // a count, area, share or distance over layers
	Execute  Family = "execute"  // a computation: raster formulas, statistics, arithmetic
	Retrieve Family = "retrieve" // a card of knowledge: text, no observation; its evidence has the fields of Execute
)

// Status tells whether an observation may be used.
type Status string

// The states of an observation and of its parts.
const (
	OK           Status = "ok"
	Insufficient Status = "insufficient" // too little data for an estimate; there is none
	Failed       Status = "error"
)

// Evidence supports an observation: what it was made from, what was found on the
// way, and what it is good for. Value gives the fields of its family.
type Evidence struct {
	Family   Family // Execute if not stated
	Status   Status // OK if not stated
	Reason   string // why the status is not ok, and what to do about it
	Used     int    // values (pixels, items of a list) that entered the result
	Missing  int    // values left out: null, no data
	Warnings []string

	// Execute. Operator and Parameters are the tool's name and bound arguments.
	Operator   string
	Parameters strictjson.Value
	Formula    string
	Bands      []BandUse // what each input stands for in the formula
	Masks      []string  // what made a pixel invalid

	// Execute and Perceive: one node for each file that was made or read.
	Nodes []Node

	Measure MeasureEvidence
	Model   ModelEvidence
}

//go:embed evidence.schema.json
var evidenceSchemaJSON string

// EvidenceSchema is the JSON Schema (draft 2020-12) of Evidence.Value, the same
// for every tool: which fields each family of observations has.
func EvidenceSchema() string { return evidenceSchemaJSON }

// BandUse says which band of which file a symbol of a formula stands for.
type BandUse struct {
	Symbol string
	Path   string
	Band   int // from 1
}

// Node is one step of a computation: a file of a batch, a stage of a formula.
type Node struct {
	Name   string
	Output strictjson.Value // what it gave: a number, a path, a list
	Valid  int              // pixels or values that entered
	Total  int
	Status Status
	Reason string
}

// MeasureEvidence lets anyone recompute a measurement: of layer i,
//
//	v(i) = Scale · Numerator(i) / Denominator(i) · GSD²
//
// with GSD² only for the metric area, and of all layers by Aggregate.
type MeasureEvidence struct {
	Metric      string // count, area, fraction, percentage, overlap
	Unit        string
	Scale       float64
	GSD         float64 // metres per pixel, 0 if not given
	Aggregate   string  // single, list, mean, sum
	Thresholds  []Threshold
	Layers      []Node
	Numerator   []float64
	Denominator []float64
}

// Threshold is a named limit that decided what counts.
type Threshold struct {
	Name  string
	Value float64
}

// ModelEvidence describes what a perception model saw and how.
type ModelEvidence struct {
	Backend    string // scenes, http, …
	Weights    string // the model and its version, as the backend states them
	Sensor     string
	Resolution float64 // metres per pixel, 0 if unknown
	Thresholds []Threshold
	Boxes      [][]float64
	Scores     []float64
	Filtered   int    // candidates dropped by the thresholds
	Geometry   string // exact, approximate or none
	Complete   bool   // every class that was asked for was looked for
}

// Recompute gives the measurement that the evidence supports: what a checker
// compares with the observation. ok is false if the evidence is of another family
// or not whole.
func (m *MeasureEvidence) Recompute() (values []float64, ok bool) {
	if len(m.Numerator) == 0 || len(m.Numerator) != len(m.Denominator) {
		return nil, false
	}
	for i := range m.Numerator {
		if m.Denominator[i] == 0 {
			continue // a layer without valid pixels gives no value
		}
		v := m.Scale * (m.Numerator[i] / m.Denominator[i])
		if m.Metric == "area" && m.GSD > 0 {
			v = v * m.GSD * m.GSD
		}
		values = append(values, v)
	}
	if len(values) == 0 {
		return nil, false
	}
	total := 0.0
	for _, v := range values {
		total += v
	}
	switch m.Aggregate {
	case "mean":
		return []float64{total / float64(len(values))}, true
	case "sum":
		return []float64{total}, true
	}
	return values, true
}

// member and the functions below write evidence as JSON.
func member(key string, v strictjson.Value) strictjson.Member {
	return strictjson.Member{Key: key, Value: v}
}

func object(members ...strictjson.Member) strictjson.Value { return strictjson.Obj(members...) }

func texts(items []string) strictjson.Value {
	out := make([]strictjson.Value, len(items))
	for i, s := range items {
		out[i] = strictjson.Text(s)
	}
	return strictjson.List(out...)
}

// optional is null for the zero value of a quantity that cannot be zero.
func optional(f float64) strictjson.Value {
	if f == 0 {
		return strictjson.NullValue()
	}
	return strictjson.Float(f)
}

func thresholds(list []Threshold) strictjson.Value {
	members := make([]strictjson.Member, len(list))
	for i, t := range list {
		members[i] = member(t.Name, strictjson.Float(t.Value))
	}
	return object(members...)
}

// Value is the evidence as JSON: family, status, reason, the three parts src, mid
// and val with the fields of the family, and warnings.
func (e *Evidence) Value() strictjson.Value {
	var src, mid, val strictjson.Value
	switch e.Family {
	case Perceive:
		src, mid, val = e.Model.value(e.Nodes)
	case Measure:
		src, mid, val = e.Measure.value(e.Used, e.Missing)
	default:
		src, mid, val = e.execute()
	}
	reason := strictjson.NullValue()
	if e.Reason != "" {
		reason = strictjson.Text(e.Reason)
	}
	return object(
		member("family", strictjson.Text(string(e.Family))), member("status", strictjson.Text(string(e.Status))), member("reason", reason),
		member("src", src), member("mid", mid), member("val", val), member("warnings", texts(e.Warnings)))
}

func (e *Evidence) execute() (src, mid, val strictjson.Value) {
	bands := make([]strictjson.Value, len(e.Bands))
	for i, b := range e.Bands {
		bands[i] = object(member("symbol", strictjson.Text(b.Symbol)), member("path", strictjson.Text(b.Path)), member("band", strictjson.Int(b.Band)))
	}
	outputs := make([]strictjson.Value, len(e.Nodes))
	for i, n := range e.Nodes {
		outputs[i] = object(member("node", strictjson.Text(n.Name)), member("output", n.Output),
			member("valid", strictjson.Int(n.Valid)), member("total", strictjson.Int(n.Total)))
	}
	failed := []string{}
	for _, n := range e.Nodes {
		if n.Status != OK {
			failed = append(failed, n.Name)
		}
	}
	src = object(member("operator", strictjson.Text(e.Operator)), member("parameters", e.Parameters),
		member("formula", strictjson.Text(e.Formula)), member("bands", strictjson.List(bands...)))
	mid = object(member("outputs", strictjson.List(outputs...)), member("valid", strictjson.Int(e.Used)), member("missing", strictjson.Int(e.Missing)))
	val = object(member("nodes", states(e.Nodes, "node")), member("masks", texts(e.Masks)), member("failed", texts(failed)))
	return src, mid, val
}

// states lists what became of each node or layer.
func states(nodes []Node, key string) strictjson.Value {
	out := make([]strictjson.Value, len(nodes))
	for i, n := range nodes {
		reason := strictjson.NullValue()
		if n.Reason != "" {
			reason = strictjson.Text(n.Reason)
		}
		out[i] = object(member(key, strictjson.Text(n.Name)), member("status", strictjson.Text(string(n.Status))), member("reason", reason))
	}
	return strictjson.List(out...)
}

func (m *MeasureEvidence) value(used, missing int) (src, mid, val strictjson.Value) {
	layers := make([]strictjson.Value, len(m.Layers))
	covered := 0
	for i, l := range m.Layers {
		layers[i] = strictjson.Text(l.Name)
		if l.Status == OK {
			covered++
		}
	}
	src = object(member("layers", strictjson.List(layers...)), member("metric", strictjson.Text(m.Metric)), member("unit", strictjson.Text(m.Unit)),
		member("scale", strictjson.Float(m.Scale)), member("gsd", optional(m.GSD)),
		member("aggregate", strictjson.Text(m.Aggregate)), member("thresholds", thresholds(m.Thresholds)))
	mid = object(member("numerator", floats(m.Numerator)), member("denominator", floats(m.Denominator)),
		member("pixels", object(member("valid", strictjson.Int(used)), member("missing", strictjson.Int(missing)))))
	coverage := 0.0
	if len(m.Layers) > 0 {
		coverage = float64(covered) / float64(len(m.Layers))
	}
	val = object(member("layers", states(m.Layers, "layer")), member("coverage", strictjson.Float(coverage)))
	return src, mid, val
}

func (m *ModelEvidence) value(layers []Node) (src, mid, val strictjson.Value) {
	boxes := make([]strictjson.Value, len(m.Boxes))
	for i, b := range m.Boxes {
		boxes[i] = floats(b)
	}
	src = object(member("backend", strictjson.Text(m.Backend)), member("weights", strictjson.Text(m.Weights)),
		member("sensor", strictjson.Text(m.Sensor)), member("resolution", optional(m.Resolution)), member("thresholds", thresholds(m.Thresholds)))
	mid = object(member("boxes", strictjson.List(boxes...)), member("scores", floats(m.Scores)), member("filtered", strictjson.Int(m.Filtered)))
	val = object(member("layers", states(layers, "layer")), member("complete", strictjson.Boolean(m.Complete)), member("geometry", strictjson.Text(m.Geometry)))
	return src, mid, val
}

// warn adds a warning once.
func (e *Evidence) warn(format string, args ...any) {
	if w := fmt.Sprintf(format, args...); !slices.Contains(e.Warnings, w) {
		e.Warnings = append(e.Warnings, w)
	}
}

// insufficient turns a result into one without an estimate.
func insufficient(e Evidence, format string, args ...any) Result {
	e.Status, e.Reason = Insufficient, fmt.Sprintf(format, args...)
	return Result{Value: strictjson.NullValue(), Evidence: e}
}

// clean is f, or null where it is not a number.
func clean(f float64) strictjson.Value {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return strictjson.NullValue()
	}
	return strictjson.Float(f)
}
