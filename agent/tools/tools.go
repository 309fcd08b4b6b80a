// Package tools runs the Earth-observation tools of the catalogue.
//
// A tool is one declaration: its catalogue entry (name, schema, summary, family,
// purity) and one function from bound arguments to a Result. A Registry holds
// the declarations and is the only way to call them; arguments pass through
// catalogue.Tool.Bind first, so a function sees canonical keys, declared types
// and defaults.
//
// Where the public tool kit has a fault, the right value is the default and
// Compat EarthAgent gives the public one; every such difference is in compat.go.
package tools

import (
	"errors"
	"fmt"

	"terraloom/data/catalogue"
	"terraloom/data/strictjson"
)

// Sentinels for what callers branch on. Every error of a Registry wraps one.
var (
	ErrUnknownTool  = catalogue.ErrUnknownTool // no such tool in the catalogue
	ErrUnavailable  = errors.New("tool not available")
	ErrBadArguments = catalogue.ErrArguments // the agent can repair the arguments
	ErrUndefined    = errors.New("undefined result")
)

// Compat chooses between right values and those of the public kit.
type Compat string

// The compatibility modes.
const (
	Correct    Compat = ""            // the right value
	EarthAgent Compat = "earth-agent" // the public kit's value, faults included
)

// Result is what a tool found: the observation and what it rests on.
type Result struct {
	Value    strictjson.Value // the observation a model sees
	Evidence Evidence
}

// Evidence supports an observation.
type Evidence struct {
	Used     int      // values that entered the result
	Missing  int      // values left out because they are null
	Warnings []string // what makes the result weak, in words for the agent
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
}

// New returns a registry of the pure tools of the default catalogue.
func New(compat Compat) (*Registry, error) {
	if compat != Correct && compat != EarthAgent {
		return nil, fmt.Errorf("compat %q is neither empty nor %q", compat, EarthAgent)
	}
	r := &Registry{catalogue: catalogue.Default(), compat: compat, tools: make(map[string]*Tool)}
	for name, f := range pureFuncs {
		entry, ok := r.catalogue.Tool(name)
		if !ok || !entry.Pure {
			return nil, fmt.Errorf("pure function %s has no pure catalogue entry", name)
		}
		r.tools[name] = &Tool{Tool: entry, Func: f, Unbound: unbound[name]}
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

// Call runs a tool, by name or alias, and returns its observation.
func (r *Registry) Call(name string, args strictjson.Value) (strictjson.Value, error) {
	res, err := r.Invoke(name, args)
	return res.Value, err
}

// Invoke is Call with the evidence. The error of a failing tool is an *Error,
// or wraps catalogue.ErrArguments with every fault of the arguments.
func (r *Registry) Invoke(name string, args strictjson.Value) (Result, error) {
	found, err := r.catalogue.Resolve(name)
	if err != nil {
		return Result{}, err
	}
	tool := r.tools[found.Tool.Name]
	if tool == nil {
		return Result{}, &Error{Tool: name, Kind: ErrUnavailable, Msg: "it needs imagery or a model, which this environment lacks"}
	}
	res, err := r.run(tool, args)
	if err != nil {
		var e *Error
		if errors.As(err, &e) {
			e.Tool = name
		}
		return Result{}, err
	}
	if found.Item >= 0 && res.Value.Len() > found.Item {
		res.Value = res.Value.Index(found.Item)
	}
	return res, nil
}

func (r *Registry) run(tool *Tool, args strictjson.Value) (Result, error) {
	if r.compat == EarthAgent && tool.Unbound != nil {
		if res, handled, err := tool.Unbound(args); handled || err != nil {
			return res, err
		}
	}
	bound, err := tool.Bind(args)
	if err != nil {
		return Result{}, err
	}
	return tool.Func(&Call{Args: bound.Args, Compat: r.compat})
}

// Error is a tool's refusal, written for the agent: what is wrong and what to do.
type Error struct {
	Tool  string
	Kind  error  // ErrUnavailable, ErrBadArguments or ErrUndefined
	Param string // the argument at fault, "" if none
	Msg   string
}

func (e *Error) Error() string {
	if e.Param != "" {
		return fmt.Sprintf("%s: %v: /%s: %s", e.Tool, e.Kind, e.Param, e.Msg)
	}
	return fmt.Sprintf("%s: %v: %s", e.Tool, e.Kind, e.Msg)
}

// Unwrap makes errors.Is(err, e.Kind) true.
func (e *Error) Unwrap() error { return e.Kind }

func badArgument(param, format string, args ...any) error {
	return &Error{Kind: ErrBadArguments, Param: param, Msg: fmt.Sprintf(format, args...)}
}

func undefined(format string, args ...any) error {
	return &Error{Kind: ErrUndefined, Msg: fmt.Sprintf(format, args...)}
}
