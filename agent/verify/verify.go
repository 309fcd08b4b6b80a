// Package verify decides on tool results: accept, retry or replace (Earth-Agent-
// Pro §IV-D, Eq. 7). Rules come first, and a model is asked only where they
// cannot decide. It also holds the rules of the answer controller: whether the
// evidence suffices for an answer.
package verify

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path"
	"slices"
	"strings"

	"terraloom/agent/tools"
	"terraloom/agent/tools/workspace"
	"terraloom/data/catalogue"
	"terraloom/data/strictjson"
)

// Decision on an attempt.
type Decision string

// The decisions. Undecided is left to a model.
const (
	Accept    Decision = "accept"
	Retry     Decision = "retry"   // same tool, other arguments
	Replace   Decision = "replace" // another tool
	Undecided Decision = "undecided"
)

// Codes of what was wrong, for counting.
const (
	CodeTool        = "unknown_tool" // the tool does not exist
	CodeAway        = "unavailable"  // it exists, but not here
	CodeFile        = "missing_file" // a path that is not there or leads outside
	CodeParameters  = "parameters"   // schema, format or value
	CodeReference   = "reference"    // a file or number that was found nowhere
	CodeReply       = "reply"        // the model's text holds no arguments
	CodeUndefined   = "undefined"
	CodeEnvironment = "environment"
	CodeMarker      = "error_marker"
	CodeEmpty       = "empty"
	CodeBatch       = "batch"
	CodeNotFinite   = "not_finite"
	CodeRange       = "range"
	CodeNoData      = "insufficient"
	CodeChecker     = "checker" // a model said so
	CodeProtocol    = "protocol"
)

// Verdict is a decision with what led to it.
type Verdict struct {
	Decision Decision
	Code     string // of the first reason; "" where there is none
	Feedback string // for the next attempt, or what the model should look at
	Tool     string // for Replace: the tool that the checker proposed, if any
	Done     bool   // for Accept: the checker finds the remaining steps needless
}

// Outcome is what one call gave.
type Outcome struct {
	Tool   *catalogue.Tool
	Args   strictjson.Value
	Result tools.Result
	Err    error
}

func refuse(d Decision, code, format string, args ...any) Verdict {
	return Verdict{Decision: d, Code: code, Feedback: fmt.Sprintf(format, args...)}
}

// Rules are the deterministic checks: errors, error marks, structure, batch
// coverage, non-finite values, ranges, valid pixels. They accept tools of numbers
// and listings of files on their own; whether another result answers its step
// is Undecided.
func Rules(o *Outcome) Verdict {
	if o.Err != nil {
		return failure(o.Err)
	}
	r := &o.Result
	if r.Evidence.Status == tools.Insufficient {
		return refuse(Retry, CodeNoData, "no estimate: %s", r.Evidence.Reason)
	}
	if r.Evidence.Status == tools.Failed {
		return refuse(Retry, CodeMarker, "the tool reports an error: %s", r.Evidence.Reason)
	}
	if mark := marker(r.Value); mark != "" {
		return refuse(Retry, CodeMarker, "the tool reports an error: %s", mark)
	}
	for _, rule := range []func(*Outcome) Verdict{empty, finite, coverage, written, span, pixels} {
		if v := rule(o); v.Decision != "" {
			return v
		}
	}
	if o.Tool.Pure || o.Tool.Name == listing {
		return Verdict{Decision: Accept}
	}
	v := Verdict{Decision: Undecided}
	if share, ok := validShare(&r.Evidence); ok && share < fewValid {
		v.Feedback = fmt.Sprintf("only %.1f %% of the pixels are valid", 100*share)
	}
	return v
}

// listing is the tool whose result is a fact of the file system.
const listing = "get_filelist"

// fewValid is the share of valid pixels below which a model should look.
const fewValid = 0.05

func failure(err error) Verdict {
	switch {
	case errors.Is(err, tools.ErrUnknownTool):
		return refuse(Replace, CodeTool, "%v", err)
	case errors.Is(err, tools.ErrUnavailable):
		return refuse(Replace, CodeAway, "%v", err)
	case errors.Is(err, workspace.ErrNotFound), errors.Is(err, workspace.ErrOutside), errors.Is(err, workspace.ErrKind):
		return refuse(Retry, CodeFile, "%v", err)
	case errors.Is(err, tools.ErrBadArguments):
		return refuse(Retry, CodeParameters, "%v", err)
	case errors.Is(err, tools.ErrUndefined):
		return refuse(Retry, CodeUndefined, "%v", err)
	case errors.Is(err, tools.ErrInternal):
		return refuse(Replace, CodeEnvironment, "%v", err)
	case errors.Is(err, context.DeadlineExceeded):
		return refuse(Retry, CodeEnvironment, "the tool took too long: %v", err)
	}
	return refuse(Retry, CodeEnvironment, "%v", err)
}

// marker is the error text inside an observation, "" without one.
func marker(v strictjson.Value) string {
	switch v.Kind() {
	case strictjson.String:
		text := strings.ToLower(strings.TrimSpace(v.Text()))
		for _, m := range []string{"error", "traceback", "exception", "failed to "} {
			if strings.HasPrefix(text, m) {
				return clip(v.Text())
			}
		}
	case strictjson.Object:
		if e := v.Get("error"); !e.IsAbsent() && e.Kind() != strictjson.Null {
			return clip(e.JSON())
		}
	}
	return ""
}

func empty(o *Outcome) Verdict {
	v := o.Result.Value
	switch {
	case v.Kind() == strictjson.Null || v.IsAbsent():
		return refuse(Retry, CodeEmpty, "the tool returned nothing")
	case (v.Kind() == strictjson.Array || v.Kind() == strictjson.Object) && v.Len() == 0 && o.Tool.Family != "perception":
		return refuse(Retry, CodeEmpty, "the tool returned an empty %s", v.Kind()) // no detection is a finding, no file is not
	case v.Kind() == strictjson.String && strings.TrimSpace(v.Text()) == "":
		return refuse(Retry, CodeEmpty, "the tool returned an empty text")
	}
	return Verdict{}
}

func finite(o *Outcome) Verdict {
	if at := NotFinite(o.Result.Value); at != nil {
		return refuse(Retry, CodeNotFinite, "the result has no finite value at %s", few(at))
	}
	return Verdict{}
}

// NotFinite lists the pointers of nulls and of texts that stand for NaN or
// infinity.
func NotFinite(v strictjson.Value) []string {
	var at []string
	v.Leaves("", func(pointer string, leaf strictjson.Value) {
		bad := leaf.Kind() == strictjson.Null
		switch strings.ToLower(strings.TrimLeft(strings.TrimSpace(leaf.Text()), "+-")) {
		case "nan", "inf", "infinity":
			bad = bad || leaf.Kind() == strictjson.String
		}
		if leaf.Kind() == strictjson.Number {
			_, ok := leaf.Float()
			bad = !ok
		}
		if bad {
			if pointer == "" {
				pointer = "/"
			}
			at = append(at, pointer)
		}
	})
	return at
}

// coverage compares what a call was given with what came out.
func coverage(o *Outcome) Verdict {
	var failed []string
	for _, n := range o.Result.Evidence.Nodes {
		if n.Status != tools.OK && n.Status != "" {
			failed = append(failed, strings.TrimSpace(n.Name+" "+n.Reason))
		}
	}
	inputs := Inputs(o.Tool, o.Args)
	if len(failed) > 0 && len(inputs) > 0 {
		return refuse(Retry, CodeBatch, "%d of %d inputs gave no result: %s", len(failed), max(len(inputs), len(failed)), few(failed))
	}
	if !perFile(o.Tool) || len(inputs) < 2 {
		return Verdict{}
	}
	got := o.Result.Value.Len()
	if o.Result.Value.Kind() != strictjson.Array {
		if got = len(o.Result.Artefacts); got == 0 {
			return Verdict{}
		}
	}
	if got >= len(inputs) {
		return Verdict{}
	}
	missing := missingOf(inputs, o.Result.Value)
	if len(missing) == 0 {
		return refuse(Retry, CodeBatch, "%d inputs, %d results", len(inputs), got)
	}
	return refuse(Retry, CodeBatch, "%d inputs, %d results; missing: %s", len(inputs), got, few(missing))
}

// written wants the files of a tool that makes files: an observation that only
// says so is no evidence.
func written(o *Outcome) Verdict {
	makes := false
	for _, p := range o.Tool.Params {
		makes = makes || p.IO == "out"
	}
	if makes && len(o.Result.Artefacts) == 0 && len(o.Result.Evidence.Bands) > 0 {
		return refuse(Retry, CodeEmpty, "the tool names no file that it wrote")
	}
	return Verdict{}
}

// Inputs are the paths of a call's longest list of input files.
func Inputs(t *catalogue.Tool, args strictjson.Value) []string {
	var longest []string
	for i := range t.Params {
		p := &t.Params[i]
		list := args.Get(p.Name)
		if p.IO != "in" || list.Len() <= len(longest) || list.Kind() != strictjson.Array {
			continue
		}
		longest = nil
		for j := range list.Len() {
			longest = append(longest, list.Index(j).Text())
		}
	}
	return longest
}

// perFile tells tools that give one result for each input file.
func perFile(t *catalogue.Tool) bool {
	if !strings.HasPrefix(t.Returns.String(), "list") && !t.Batch {
		return false
	}
	return t.Batch || t.Family == "acquisition" || strings.HasPrefix(t.Name, "calculate_batch_") ||
		strings.HasPrefix(t.Name, "calc_batch_image_") && !strings.HasPrefix(t.Name, "calc_batch_image_mean_")
}

// missingOf are the inputs whose names have no part in any output name; none
// where outputs are not names.
func missingOf(inputs []string, outputs strictjson.Value) []string {
	var names []string
	for i := range outputs.Len() {
		if s := outputs.Index(i); s.Kind() == strictjson.String {
			names = append(names, base(s.Text()))
		}
	}
	if len(names) == 0 {
		return nil
	}
	var missing []string
	for _, in := range inputs {
		b := base(in)
		if !slices.ContainsFunc(names, func(n string) bool { return strings.Contains(n, b) || strings.Contains(b, n) }) {
			missing = append(missing, path.Base(in))
		}
	}
	if len(missing) == len(inputs) { // other names altogether
		return nil
	}
	return missing
}

func base(p string) string {
	b := path.Base(strings.TrimSpace(p))
	return strings.TrimSuffix(b, path.Ext(b))
}

// spans are the values that tools can give, where their definition bounds them.
var spans = map[string][2]float64{
	"calculate_threshold_ratio":                         {0, 100},
	"calculate_multi_band_threshold_ratio":              {0, 100},
	"calculate_intersection_percentage":                 {0, 100},
	"average_ratio_exceeding_threshold":                 {0, 100},
	"calc_batch_image_hotspot_percentage":               {0, 1},
	"autocorrelation_function":                          {-1, 1},
	"calculate_area":                                    {0, math.Inf(1)},
	"calculate_bbox_area":                               {0, math.Inf(1)},
	"count_above_threshold":                             {0, math.Inf(1)},
	"count_skeleton_contours":                           {0, math.Inf(1)},
	"InstructSAM":                                       {0, math.Inf(1)},
	"calc_batch_image_std":                              {0, math.Inf(1)},
	"calc_batch_fire_pixels":                            {0, math.Inf(1)},
	"count_pixels_satisfying_conditions":                {0, math.Inf(1)},
	"kelvin_to_celsius":                                 {-273.15, math.Inf(1)},
	"celsius_to_kelvin":                                 {0, math.Inf(1)},
	"calculate_mean_lst_by_ndvi":                        {0, math.Inf(1)},
	"calculate_max_lst_by_ndvi":                         {0, math.Inf(1)},
	"calc_extreme_snow_loss_percentage_from_binary_map": {0, 1},
}

func span(o *Outcome) Verdict {
	bounds, ok := spans[o.Tool.Name]
	if !ok {
		return Verdict{}
	}
	var bad []string
	o.Result.Value.Leaves("", func(pointer string, leaf strictjson.Value) {
		if f, ok := leaf.Float(); ok && (f < bounds[0]-1e-9 || f > bounds[1]+1e-9) {
			bad = append(bad, strings.TrimSpace(pointer+" "+leaf.Text()))
		}
	})
	if len(bad) == 0 {
		return Verdict{}
	}
	return refuse(Retry, CodeRange, "%s gives values from %v to %v, found %s; check units and scale of the inputs", o.Tool.Name, bounds[0], bounds[1], few(bad))
}

// pixels refuses a raster result that rests on no pixel at all.
func pixels(o *Outcome) Verdict {
	if share, ok := validShare(&o.Result.Evidence); ok && share == 0 {
		return refuse(Retry, CodeNoData, "no pixel of the inputs is valid; check the files, the region and the mask")
	}
	return Verdict{}
}

// validShare is the share of valid pixels that a raster result rests on.
func validShare(e *tools.Evidence) (float64, bool) {
	valid, total := 0, 0
	for _, n := range e.Nodes {
		valid, total = valid+n.Valid, total+n.Total
	}
	if total == 0 || e.Family != tools.Execute || len(e.Bands) == 0 && len(e.Masks) == 0 {
		return 0, false
	}
	return float64(valid) / float64(total), true
}

// few joins the first names.
func few(names []string) string {
	const most = 10
	if len(names) > most {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return strings.Join(names, ", ")
}

func clip(s string) string {
	const most = 300
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
