package surface

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"terraloom/agent/tools"
	"terraloom/data/catalogue"
	"terraloom/data/strictjson"
)

// kind is the type of what a node gives.
type kind string

const (
	anything   kind = "value"      // a number, text, list or object
	collection kind = "collection" // [{time, paths: {role: path}}]
	timeline   kind = "series"     // {time: […], value: […], valid: […], total: […]}
)

// output is what a node gave.
type output struct {
	kind     kind
	value    strictjson.Value
	evidence tools.Evidence
	files    []tools.Artefact
}

// operator is a typed operator of execute.
type operator struct {
	takes kind // of inputs.data; "" takes none
	gives kind
	about string
	// params are the parameters it knows.
	params []string
	run    func(s *Surface, ctx context.Context, n *node) (output, error)
}

var operators = map[string]operator{
	"asset.catalog":       {"", collection, "lists files by time and role", []string{"dir", "roles", "paths", "start", "end", "phases", "role_bands"}, (*Surface).catalog},
	"raster.product":      {collection, collection, "maps a standard product over a collection", []string{"product", "wavelengths", "representative_band_index", "parameter", "output_prefix"}, (*Surface).product},
	"raster.batch_reduce": {collection, timeline, "reduces each raster of a collection to a number", []string{"statistic", "role", "threshold", "comparison"}, (*Surface).reduce},
	"raster.summarize":    {anything, anything, "statistics of one raster", []string{"band"}, (*Surface).summarize},
	"temporal.aggregate":  {timeline, timeline, "groups a series by month or year", []string{"by", "statistic"}, (*Surface).aggregate},
	"temporal.trend":      {timeline, anything, "the trend of a series", []string{"method"}, (*Surface).trend},
	"spatial.query":       {"", anything, "a measurement over saved layers", append([]string{"layer_paths"}, specKeys...), (*Surface).spatial},
	"decision.select":     {anything, anything, "the candidate nearest to a number", []string{"candidates"}, (*Surface).choose},
}

var specKeys = []string{"metric", "subject", "reference", "relation", "distance", "distance_unit", "distance_statistic", "denominator", "unit"}

// Operators are the names of the typed operators; the tools of the kit are
// operators too.
func Operators() []string { return slices.Sorted(maps.Keys(operators)) }

// node is one operation with its references resolved.
type node struct {
	param  string // where it stands, for messages
	id     string
	op     string
	data   strictjson.Value // inputs.data
	input  strictjson.Value // the other inputs
	params strictjson.Value
}

// execute runs the nodes in order. The first that fails ends the run; its node
// and those that were left out are in the evidence.
func (s *Surface) execute(ctx context.Context, args strictjson.Value) (tools.Result, error) {
	list := args.Get("nodes")
	done := map[string]output{}
	e := tools.Evidence{Family: tools.Execute}
	var formula []string
	var last output
	for i := range list.Len() {
		n, err := resolve(fmt.Sprintf("nodes/%d", i), list.Index(i), done)
		if err != nil {
			return tools.Result{}, err
		}
		if _, twice := done[n.id]; twice {
			return tools.Result{}, bad(n.param+"/id", "the id %q is used twice", n.id)
		}
		last, err = s.step(ctx, n)
		if err != nil {
			return tools.Result{}, err
		}
		formula = append(formula, n.id+" = "+n.op)
		from := &last.evidence
		e.Operator = n.op
		e.Bands = append(e.Bands, from.Bands...)
		for _, m := range from.Masks {
			if !slices.Contains(e.Masks, m) {
				e.Masks = append(e.Masks, m)
			}
		}
		for _, w := range from.Warnings {
			if w = n.id + ": " + w; !slices.Contains(e.Warnings, w) {
				e.Warnings = append(e.Warnings, w)
			}
		}
		for _, part := range from.Nodes {
			if part.Status != tools.OK { // a file of a batch that is not in the result
				e.Warnings = append(e.Warnings, n.id+": "+part.Name+": "+part.Reason)
			}
		}
		step := tools.Node{Name: n.id, Output: brief(last.value), Valid: from.Used, Total: from.Used + from.Missing, Status: tools.OK}
		if from.Status == tools.Insufficient {
			step.Status, step.Reason, step.Output = tools.Insufficient, from.Reason, strictjson.NullValue()
		}
		e.Nodes = append(e.Nodes, step)
		e.Used, e.Missing = e.Used+from.Used, e.Missing+from.Missing
		e.Formula = strings.Join(formula, "; ")
		if step.Status != tools.OK {
			for k := i + 1; k < list.Len(); k++ {
				e.Nodes = append(e.Nodes, tools.Node{Name: list.Index(k).Get("id").Text(), Output: strictjson.NullValue(), Status: tools.Insufficient, Reason: "not run: " + n.id + " gave no estimate"})
			}
			e.Warnings = unique(e.Warnings)
			return lacking(e, "node %s (%s): %s", n.id, n.op, from.Reason), nil
		}
		done[n.id] = last
	}
	e.Warnings = unique(e.Warnings)
	for _, f := range strs(args.Get("fields")) {
		if last.value.Get(f).IsAbsent() {
			return tools.Result{}, bad("fields", "the last node gives no field %q; %s", f, fieldsOf(last.value))
		}
	}
	var files []tools.Artefact
	for i := range list.Len() {
		files = append(files, done[list.Index(i).Get("id").Text()].files...)
	}
	return tools.Result{Value: last.value, Artefacts: files, Evidence: e}, nil
}

func unique(list []string) []string {
	var out []string
	for _, s := range list {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// brief keeps what evidence holds of a node's output short.
func brief(v strictjson.Value) strictjson.Value {
	if text := v.JSON(); len(text) > 2000 {
		return strictjson.Text(fmt.Sprintf("%s with %d items", v.Kind(), v.Len()))
	}
	return v
}

func fieldsOf(v strictjson.Value) string {
	if v.Kind() != strictjson.Object {
		return "its output is " + v.Kind().String() + " without fields"
	}
	names := make([]string, v.Len())
	for i := range names {
		names[i] = v.Key(i)
	}
	return "its fields are " + strings.Join(names, ", ")
}

// resolve reads a node and puts the outputs of earlier nodes in place of "@node"
// and "@node.field".
func resolve(param string, v strictjson.Value, done map[string]output) (*node, error) {
	n := &node{param: param, id: v.Get("id").Text(), op: v.Get("op").Text()}
	inputs, err := replaced(param+"/inputs", v.Get("inputs"), done)
	if err != nil {
		return nil, err
	}
	if n.params, err = replaced(param+"/params", v.Get("params"), done); err != nil {
		return nil, err
	}
	var rest []strictjson.Member
	for i := range inputs.Len() {
		if inputs.Key(i) == "data" {
			n.data = inputs.Index(i)
		} else {
			rest = append(rest, m(inputs.Key(i), inputs.Index(i)))
		}
	}
	n.input = obj(rest...)
	op, typed := operators[n.op]
	if !typed {
		return n, nil
	}
	// What inputs.data refers to must be of the kind that the operator takes.
	ref := v.Get("inputs").Get("data")
	switch id, field, isRef := reference(ref); {
	case op.takes == "" && !n.data.IsAbsent():
		return nil, bad(param+"/inputs/data", "%s takes no data; it %s", n.op, op.about)
	case op.takes != "" && n.data.IsAbsent():
		return nil, bad(param+"/inputs/data", "%s takes a %s: name the node that gives it, as \"@node\"", n.op, op.takes)
	case isRef && op.takes != "" && op.takes != anything && (field != "" || done[id].kind != op.takes):
		return nil, bad(param+"/inputs/data", "%s takes a %s, but %s gives a %s", n.op, op.takes, ref.Text(), done[id].kind)
	case isRef && op.takes == anything && field == "" && done[id].kind != anything:
		return nil, bad(param+"/inputs/data", "%s takes one value, but %s gives a %s", n.op, ref.Text(), done[id].kind)
	case !isRef && (op.takes == collection || op.takes == timeline):
		return nil, bad(param+"/inputs/data", "%s takes a %s from a node, as \"@node\"", n.op, op.takes)
	}
	for i := range n.params.Len() {
		if key := n.params.Key(i); !slices.Contains(op.params, key) {
			return nil, bad(param+"/params/"+key, "%s has no parameter %q; it has %s", n.op, key, strings.Join(op.params, ", "))
		}
	}
	if n.input.Len() > 0 {
		return nil, bad(param+"/inputs/"+n.input.Key(0), "%s has the one input data", n.op)
	}
	return n, nil
}

// reference takes "@node.field" apart.
func reference(v strictjson.Value) (id, field string, ok bool) {
	if v.Kind() != strictjson.String || !strings.HasPrefix(v.Text(), "@") {
		return "", "", false
	}
	id, field, _ = strings.Cut(v.Text()[1:], ".")
	return id, field, true
}

func replaced(param string, v strictjson.Value, done map[string]output) (strictjson.Value, error) {
	switch v.Kind() {
	case strictjson.Array, strictjson.Object:
		kids := make([]strictjson.Value, v.Len())
		for i := range kids {
			key := fmt.Sprint(i)
			if v.Kind() == strictjson.Object {
				key = v.Key(i)
			}
			var err error
			if kids[i], err = replaced(param+"/"+key, v.Index(i), done); err != nil {
				return v, err
			}
		}
		return v.Rebuilt(kids), nil
	}
	id, field, ok := reference(v)
	if !ok {
		return v, nil
	}
	from, there := done[id]
	if !there {
		return v, bad(param, "there is no earlier node %q; there are %s", id, strings.Join(slices.Sorted(maps.Keys(done)), ", "))
	}
	if field == "" {
		return from.value, nil
	}
	out := from.value.Get(field)
	if out.IsAbsent() {
		return v, bad(param, "the output of %s has no field %q; %s", id, field, fieldsOf(from.value))
	}
	return out, nil
}

// step runs one node: a typed operator, or a tool of the kit.
func (s *Surface) step(ctx context.Context, n *node) (output, error) {
	if op, ok := operators[n.op]; ok {
		out, err := op.run(s, ctx, n)
		out.kind = op.gives
		return out, err
	}
	found, err := catalogue.Default().Resolve(n.op)
	if err != nil {
		return output{}, bad(n.param+"/op", "there is no operator %q; there are %s, and the tools of the kit (%v)", n.op, strings.Join(Operators(), ", "), err)
	}
	// A series as data means its values; data is the tool's first parameter.
	args := map[string]strictjson.Value{}
	var order []string
	put := func(key string, v strictjson.Value) error {
		if _, twice := args[key]; twice {
			return bad(n.param, "the argument %s is given twice", key)
		}
		args[key] = v
		order = append(order, key)
		return nil
	}
	if !n.data.IsAbsent() {
		if len(found.Tool.Params) == 0 {
			return output{}, bad(n.param+"/inputs/data", "%s takes no data", n.op)
		}
		if err := put(found.Tool.Params[0].Name, valuesOf(n.data)); err != nil {
			return output{}, err
		}
	}
	for _, from := range []strictjson.Value{n.input, n.params} {
		for i := range from.Len() {
			if err := put(from.Key(i), valuesOf(from.Index(i))); err != nil {
				return output{}, err
			}
		}
	}
	members := make([]strictjson.Member, len(order))
	for i, key := range order {
		members[i] = m(key, args[key])
	}
	res, err := s.kit.Invoke(ctx, n.op, obj(members...))
	if err != nil {
		return output{}, err
	}
	return output{kind: anything, value: res.Value, evidence: res.Evidence, files: res.Artefacts}, nil
}

// valuesOf are the numbers of a series without those that are missing; anything
// else is itself.
func valuesOf(v strictjson.Value) strictjson.Value {
	if v.Kind() != strictjson.Object || v.Get("time").Kind() != strictjson.Array || v.Get("value").Kind() != strictjson.Array {
		return v
	}
	var out []strictjson.Value
	for i := range v.Get("value").Len() {
		if x := v.Get("value").Index(i); x.Kind() == strictjson.Number {
			out = append(out, x)
		}
	}
	return strictjson.List(out...)
}
