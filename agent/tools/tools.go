// Package tools runs the Earth-observation tools of the catalogue.
//
// A tool is one declaration: its catalogue entry (name, schema, summary, family,
// purity) and one function from bound arguments to a Result. A Registry holds
// the declarations and is the only way to call them; arguments pass through
// catalogue.Tool.Bind first, so a function sees canonical keys, declared types
// and defaults.
//
// Tools of files see them through a workspace only. Their results carry evidence:
// counts, thresholds, numerators and denominators, from which the number can be
// computed again, and warnings. They compute with the numbers as stored: of all
// tools only apply_scale_offset and extract_brightness_temperature turn numbers
// into physical values. Where too few data are valid for an estimate, there is
// none, and the status says so.
//
// Where the public tool kit has a fault, the right value is the default and
// Compat EarthAgent gives the public one; compat.go lists every such difference.
package tools

import (
	"context"
	"errors"
	"fmt"

	"terraloom/agent/tools/workspace"
	"terraloom/data/catalogue"
	"terraloom/data/strictjson"
)

// Sentinels for what callers branch on. Every error of a Registry wraps one.
var (
	ErrUnknownTool  = catalogue.ErrUnknownTool // no such tool in the catalogue
	ErrUnavailable  = errors.New("tool not available")
	ErrBadArguments = catalogue.ErrArguments // the agent can repair the arguments
	ErrUndefined    = errors.New("undefined result")
	ErrInsufficient = errors.New("insufficient data")      // Call only; Invoke gives a Result with that status
	ErrEnvironment  = errors.New("the environment failed") // disk full, model server away: not the arguments' fault
	ErrInternal     = errors.New("internal error")
)

// Compat chooses between right values and those of the public kit.
type Compat string

// The compatibility modes.
const (
	Correct    Compat = ""            // the right value
	EarthAgent Compat = "earth-agent" // the public kit's value, faults included
)

// Result is what a tool found: the observation, the files it made, and what
// both rest on.
type Result struct {
	Value     strictjson.Value // the observation; null where the evidence is insufficient
	Artefacts []Artefact
	Evidence  Evidence
}

// Text is the observation as a model sees it: texts as they are, everything else
// as compact JSON, and the reason where there is no estimate.
func (r *Result) Text() string {
	switch {
	case r.Evidence.Status == Insufficient:
		return "No estimate: " + r.Evidence.Reason
	case r.Value.Kind() == strictjson.String:
		return r.Value.Text()
	}
	return r.Value.JSON()
}

// Func computes a tool's result from bound arguments.
type Func func(c *Call) (Result, error)

// Tool is one declaration.
type Tool struct {
	*catalogue.Tool
	Func Func
	// Unbound, if set, sees the arguments as they were sent, before Bind, under
	// Compat EarthAgent. It is for faults of the public kit that come from
	// missing types. handled is false where the normal way is right too.
	Unbound func(args strictjson.Value) (r Result, handled bool, err error)
}

// Registry is a set of callable tools. It is safe for concurrent use.
type Registry struct {
	catalogue *catalogue.Catalogue
	compat    Compat
	tools     map[string]*Tool
	env       environment
}

// environment is what tools need beside their arguments; a part that is missing
// leaves out the tools that need it.
type environment struct {
	workspace *workspace.Workspace
	perceiver Perceiver
	archive   Archive
}

// Option adds a part of the environment.
type Option func(*environment)

// WithWorkspace makes the raster tools callable, on files of w.
func WithWorkspace(w *workspace.Workspace) Option { return func(e *environment) { e.workspace = w } }

// WithPerceiver makes the perception models callable. It needs a workspace.
func WithPerceiver(p Perceiver) Option { return func(e *environment) { e.perceiver = p } }

// WithArchive makes download_product callable. It needs a workspace.
func WithArchive(a Archive) Option { return func(e *environment) { e.archive = a } }

// New returns a registry of the tools of the default catalogue that the
// environment allows: the pure tools always, the others by its options.
func New(compat Compat, options ...Option) (*Registry, error) {
	if compat != Correct && compat != EarthAgent {
		return nil, fmt.Errorf("compat %q is neither empty nor %q", compat, EarthAgent)
	}
	r := &Registry{catalogue: catalogue.Default(), compat: compat, tools: make(map[string]*Tool)}
	for _, o := range options {
		o(&r.env)
	}
	sets := []map[string]Func{pureFuncs}
	if r.env.workspace != nil {
		sets = append(sets, rasterFuncs)
		if r.env.perceiver != nil {
			sets = append(sets, modelFuncs)
		}
		if r.env.archive != nil {
			sets = append(sets, archiveFuncs)
		}
	} else if r.env.perceiver != nil || r.env.archive != nil {
		return nil, errors.New("a perceiver or an archive needs a workspace for its files")
	}
	for i, set := range sets {
		for name, f := range set {
			entry, ok := r.catalogue.Tool(name)
			if !ok || entry.Pure != (i == 0) {
				return nil, fmt.Errorf("the function %s disagrees with the catalogue on whether it is pure", name)
			}
			r.tools[name] = &Tool{Tool: entry, Func: f, Unbound: unbound[name]}
		}
	}
	return r, nil
}

// pureFuncs are the tools whose result depends on the arguments alone.
var pureFuncs = map[string]Func{
	"difference":                  difference,
	"division":                    division,
	"percentage_change":           percentageChange,
	"multiply":                    multiply,
	"ceil_number":                 ceilNumber,
	"kelvin_to_celsius":           kelvinToCelsius,
	"celsius_to_kelvin":           celsiusToKelvin,
	"mean":                        meanOf,
	"coefficient_of_variation":    coefficientOfVariation,
	"skewness":                    skewness,
	"kurtosis":                    kurtosis,
	"max_value_and_index":         maxValueAndIndex,
	"min_value_and_index":         minValueAndIndex,
	"compute_linear_trend":        computeLinearTrend,
	"mann_kendall_test":           mannKendallTest,
	"sens_slope":                  sensSlope,
	"stl_decompose":               stlDecompose,
	"detect_change_points":        detectChangePoints,
	"autocorrelation_function":    autocorrelationFunction,
	"detect_seasonality_acf":      detectSeasonality,
	"count_spikes_from_values":    countSpikes,
	"bbox_expansion":              bboxExpansion,
	"bboxes2centroids":            bboxCentroids,
	"centroid_distance_extremes":  centroidDistanceExtremes,
	"calculate_bbox_area":         bboxArea,
	"get_list_object_via_indexes": pickItems,
	"index_to_date_range":         indexToDateRange,
}

// Pure reports whether a tool, by name or alias, is callable here and depends on
// its arguments alone, so that its observation can be recomputed anywhere.
func (r *Registry) Pure(name string) bool {
	res, err := r.catalogue.Resolve(name)
	return err == nil && res.Tool.Pure && r.tools[res.Tool.Name] != nil
}

// Call runs a tool, by name or alias, and returns its observation. An
// observation without an estimate is ErrInsufficient.
func (r *Registry) Call(name string, args strictjson.Value) (strictjson.Value, error) {
	res, err := r.Invoke(context.Background(), name, args)
	if err == nil && res.Evidence.Status == Insufficient {
		err = &Error{Tool: name, Kind: ErrInsufficient, Msg: res.Evidence.Reason}
	}
	return res.Value, err
}

// Invoke is Call with files and evidence. The error of a failing tool is an
// *Error, or wraps catalogue.ErrArguments with every fault of the arguments; the
// evidence then has the status Failed. Too little data is no error but a result
// with the status Insufficient and without a value.
func (r *Registry) Invoke(ctx context.Context, name string, args strictjson.Value) (Result, error) {
	found, err := r.catalogue.Resolve(name)
	if err != nil {
		return failed(name, args, err), err
	}
	tool := r.tools[found.Tool.Name]
	if tool == nil {
		err := &Error{Tool: name, Kind: ErrUnavailable, Msg: r.env.lacks(found.Tool.Name)}
		return failed(name, args, err), err
	}
	res, err := r.run(ctx, tool, args)
	if err != nil {
		var e *Error
		if errors.As(err, &e) {
			e.Tool = name
		}
		return failed(name, args, err), err
	}
	if found.Item >= 0 && res.Value.Len() > found.Item {
		res.Value = res.Value.Index(found.Item)
	}
	return res, nil
}

// failed is the result that goes with an error.
func failed(name string, args strictjson.Value, err error) Result {
	return Result{Value: strictjson.NullValue(), Evidence: Evidence{
		Family: Execute, Status: Failed, Reason: err.Error(), Operator: name, Parameters: args,
	}}
}

// lacks says why a tool of the catalogue is not in the registry.
func (e *environment) lacks(name string) string {
	switch _, model := modelFuncs[name]; {
	case e.workspace == nil:
		return "it needs imagery or a model, which this environment lacks"
	case model:
		return "it needs a perception model, which this environment lacks"
	}
	return "it needs an archive of products, which this environment lacks; use the files that get_filelist names"
}

func (r *Registry) run(ctx context.Context, tool *Tool, args strictjson.Value) (res Result, err error) {
	defer func() {
		if p := recover(); p != nil { // a broken invariant; the agent goes on without the tool
			res, err = Result{}, &Error{Kind: ErrInternal, Msg: fmt.Sprint(p)}
		}
	}()
	if r.compat == EarthAgent && tool.Unbound != nil {
		if res, handled, err := tool.Unbound(args); handled || err != nil {
			res.Evidence.complete(tool, args, res.Value)
			return res, err
		}
	}
	bound, err := tool.Bind(args)
	if err != nil {
		return Result{}, err
	}
	res, err = tool.Func(&Call{Context: ctx, Args: bound.Args, Compat: r.compat, tool: tool.Tool, env: &r.env})
	if err != nil {
		return Result{}, typed(err)
	}
	res.Evidence.complete(tool, bound.Args, res.Value)
	return res, nil
}

// complete fills in what every tool's evidence has in common.
func (e *Evidence) complete(tool *Tool, args, value strictjson.Value) {
	if e.Family == "" {
		e.Family = Execute
	}
	if e.Status == "" {
		e.Status = OK
	}
	e.Operator, e.Parameters = tool.Name, args
	if e.Formula == "" {
		e.Formula = tool.Summary
	}
	if e.Family == Execute && len(e.Nodes) == 0 {
		e.Nodes = []Node{{Name: tool.Name, Output: value, Valid: e.Used, Total: e.Used + e.Missing, Status: e.Status, Reason: e.Reason}}
	}
}

// Error is a tool's refusal, written for the agent: what is wrong and what to do.
type Error struct {
	Tool  string
	Kind  error  // one of the sentinels of this package
	Cause error  // what lies behind it: a sentinel of workspace or raster, or nil
	Param string // the argument at fault, "" if none
	Msg   string
}

func (e *Error) Error() string {
	if e.Param != "" {
		return fmt.Sprintf("%s: %v: /%s: %s", e.Tool, e.Kind, e.Param, e.Msg)
	}
	return fmt.Sprintf("%s: %v: %s", e.Tool, e.Kind, e.Msg)
}

// Unwrap lets errors.Is find the kind and the cause.
func (e *Error) Unwrap() []error {
	if e.Cause == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Cause}
}

func badArgument(param, format string, args ...any) error {
	return &Error{Kind: ErrBadArguments, Param: param, Msg: fmt.Sprintf(format, args...)}
}

// badInput is a bad argument whose reason is another package's error.
func badInput(param string, err error) error {
	var e *Error
	if err == nil || errors.As(err, &e) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &Error{Kind: ErrBadArguments, Cause: err, Param: param, Msg: err.Error()}
}

// typed gives an error without a type of its own that of a failing environment.
func typed(err error) error {
	var e *Error
	if errors.As(err, &e) || errors.Is(err, ErrBadArguments) || errors.Is(err, context.Canceled) {
		return err
	}
	return &Error{Kind: ErrEnvironment, Cause: err, Msg: err.Error()}
}

func undefined(format string, args ...any) error {
	return &Error{Kind: ErrUndefined, Msg: fmt.Sprintf(format, args...)}
}
