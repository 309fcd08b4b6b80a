// Package surface is the tool surface of RSure-Agent (§4.1, Appendix A): four
// tools, perceive, measure, execute and retrieve, over the same functions as the
// kit of package tools. Each observation carries the process evidence of Table 2,
// so that rules can check it before a model reads it.
//
//	perceive   seven modes: what is seen in images. Layers are saved as files.
//	measure    seven metrics over declared sources: one number, from layers only.
//	execute    a typed DAG of operators: ten standard products, raster statistics,
//	           series, spatial queries, and every tool of the kit by its name.
//	retrieve   29 knowledge cards: text, no observation.
//
// Whatever a call cannot honour fails closed: an unknown operator, a unit that
// does not fit the metric, geometry that a language model guessed.
package surface

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"terraloom/agent/tools"
	"terraloom/agent/tools/perception"
	"terraloom/agent/tools/workspace"
	"terraloom/data/strictjson"
)

// The names of the four tools. "rs_perceive" and so on are the same tools.
const (
	Perceive = "perceive"
	Measure  = "measure"
	Execute  = "execute"
	Retrieve = "retrieve"
)

// VLM asks a vision-language model: a prompt with images, an answer as text. It
// serves the modes that no local model has.
type VLM func(ctx context.Context, prompt string, images []perception.Image) (string, error)

// Surface offers the four tools. It is safe for concurrent use.
type Surface struct {
	kit   *tools.Registry
	files *workspace.Workspace
	vlm   VLM
}

// New returns the surface over a kit and the workspace of the kit. Without a vlm
// the modes evidence, document and measurement, and the backend vlm, are not
// available.
func New(kit *tools.Registry, files *workspace.Workspace, vlm VLM) (*Surface, error) {
	if kit == nil || files == nil {
		return nil, errors.New("surface: a kit and its workspace are needed")
	}
	return &Surface{kit: kit, files: files, vlm: vlm}, nil
}

// Declaration is a tool as a model sees it.
type Declaration struct {
	Name    string
	Summary string
	Schema  string // JSON Schema (draft 2020-12) of the argument object
}

// Declarations lists the four tools.
func Declarations() []Declaration { return slices.Clone(declarations) }

// Invoke runs one of the four tools. As with tools.Registry.Invoke, an error is an
// *tools.Error with evidence of the status Failed, and too little data is a result
// with the status Insufficient, a reason and no value. The family of a knowledge
// card is tools.Retrieve.
func (s *Surface) Invoke(ctx context.Context, name string, args strictjson.Value) (res tools.Result, err error) {
	bare := strings.TrimPrefix(name, "rs_")
	run := map[string]func(context.Context, strictjson.Value) (tools.Result, error){
		Perceive: s.perceive, Measure: s.measure, Execute: s.execute, Retrieve: s.retrieve,
	}[bare]
	defer func() {
		if p := recover(); p != nil { // a broken invariant; the agent goes on without the tool
			res, err = tools.Result{}, &tools.Error{Kind: tools.ErrInternal, Msg: fmt.Sprint(p)}
		}
		if err != nil {
			err = named(bare, err)
			res = tools.Result{Value: strictjson.NullValue(), Evidence: tools.Evidence{Family: familyOf(bare), Status: tools.Failed, Reason: err.Error(), Operator: bare, Parameters: args}}
		}
	}()
	if run == nil {
		return res, &tools.Error{Kind: tools.ErrUnknownTool, Msg: fmt.Sprintf("%q; there are perceive, measure, execute and retrieve", name)}
	}
	if err := check(bare, args); err != nil {
		return res, err
	}
	if res, err = run(ctx, args); err == nil {
		e := &res.Evidence
		e.Family = familyOf(bare)
		if e.Status == "" {
			e.Status = tools.OK
		}
		if e.Operator == "" {
			e.Operator = bare
		}
		e.Parameters = args
	}
	return res, err
}

func familyOf(name string) tools.Family {
	switch name {
	case Perceive:
		return tools.Perceive
	case Measure:
		return tools.Measure
	case Retrieve:
		return tools.Retrieve
	}
	return tools.Execute
}

// named puts the tool's name into an error and gives it a type.
func named(name string, err error) error {
	var e *tools.Error
	switch {
	case errors.As(err, &e):
		if e.Tool == "" {
			e.Tool = name
		}
		return err
	case errors.Is(err, tools.ErrBadArguments), errors.Is(err, context.Canceled):
		return err
	}
	return &tools.Error{Tool: name, Kind: tools.ErrEnvironment, Cause: err, Msg: err.Error()}
}

func bad(param, format string, args ...any) error {
	return &tools.Error{Kind: tools.ErrBadArguments, Param: param, Msg: fmt.Sprintf(format, args...)}
}

// schemas are the compiled schemas of the declarations.
var schemas = sync.OnceValue(func() map[string]*jsonschema.Schema {
	out := map[string]*jsonschema.Schema{}
	for _, d := range declarations {
		doc, err := jsonschema.UnmarshalJSON(strings.NewReader(d.Schema))
		if err != nil {
			panic("surface: schema of " + d.Name + ": " + err.Error()) // a broken build; the tests load it
		}
		c := jsonschema.NewCompiler()
		if err := c.AddResource(d.Name, doc); err != nil {
			panic("surface: schema of " + d.Name + ": " + err.Error())
		}
		out[d.Name] = c.MustCompile(d.Name)
	}
	return out
})

// check holds arguments against the schema.
func check(name string, args strictjson.Value) error {
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(args.JSON()))
	if err != nil {
		return bad("", "%v", err)
	}
	err = schemas()[name].Validate(doc)
	var v *jsonschema.ValidationError
	if !errors.As(err, &v) {
		return err
	}
	for len(v.Causes) > 0 {
		v = v.Causes[0]
	}
	return bad(strings.Join(v.InstanceLocation, "/"), "%s", strings.TrimSpace(v.Error()[strings.LastIndex(v.Error(), ": ")+1:]))
}

// digest names files after the call that makes them.
func digest(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:6])
}

func obj(members ...strictjson.Member) strictjson.Value { return strictjson.Obj(members...) }

func m(key string, v strictjson.Value) strictjson.Member {
	return strictjson.Member{Key: key, Value: v}
}

func numbers(x ...float64) strictjson.Value {
	out := make([]strictjson.Value, len(x))
	for i, f := range x {
		out[i] = strictjson.Float(f)
	}
	return strictjson.List(out...)
}

func texts(list ...string) strictjson.Value {
	out := make([]strictjson.Value, len(list))
	for i, t := range list {
		out[i] = strictjson.Text(t)
	}
	return strictjson.List(out...)
}

// strs is a list of texts.
func strs(v strictjson.Value) []string {
	var out []string
	if v.Kind() == strictjson.Array {
		for i := range v.Len() {
			out = append(out, v.Index(i).Text())
		}
	}
	return out
}

func floats(v strictjson.Value) ([]float64, bool) {
	if v.Kind() != strictjson.Array {
		return nil, false
	}
	out := make([]float64, v.Len())
	for i := range out {
		f, ok := v.Index(i).Float()
		if !ok {
			return nil, false
		}
		out[i] = f
	}
	return out, true
}

func textOr(v strictjson.Value, otherwise string) string {
	if v.Kind() == strictjson.String && v.Text() != "" {
		return v.Text()
	}
	return otherwise
}
