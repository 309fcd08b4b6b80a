package rsure

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"terraloom/agent/tools"
	"terraloom/data/strictjson"
)

// required are the fields that evidence of each family must have (RSure-Agent
// Table 2): with one missing, even the status ok does not pass.
var required = map[tools.Family][]string{
	tools.Perceive: {"src/backend", "src/weights", "src/sensor", "src/resolution", "src/thresholds", "mid/boxes", "mid/scores", "mid/filtered", "val/layers", "val/complete", "val/geometry"},
	tools.Measure:  {"src/layers", "src/metric", "src/unit", "src/gsd", "mid/numerator", "mid/denominator", "mid/pixels", "val/layers", "val/coverage"},
	tools.Execute:  {"src/operator", "src/parameters", "src/formula", "src/bands", "mid/outputs", "mid/valid", "val/nodes", "val/masks", "val/failed"},
}

// filled are those of them that must say something.
var filled = []string{"src/backend", "src/weights", "src/metric", "src/unit", "src/operator", "src/formula", "mid/numerator", "mid/denominator", "mid/outputs", "val/nodes"}

// Faults are the rules on one observation: status, required evidence, Valid() of
// its family (Eq. R9). Novel() is a matter of the session. None means Vdet = 1.
func Faults(a Action, r *tools.Result, callErr error) []string {
	if callErr != nil {
		return []string{callErr.Error()}
	}
	e := &r.Evidence
	if e.Status != tools.OK {
		reason := e.Reason
		if reason == "" {
			reason = "no reason given"
		}
		return []string{fmt.Sprintf("status %s: %s", e.Status, reason)}
	}
	if faults := Missing(e.Family, e.Value()); len(faults) > 0 {
		return faults
	}
	switch e.Family {
	case tools.Perceive:
		return validPerceive(a, r)
	case tools.Measure:
		return validMeasure(a, r)
	case tools.Execute:
		return validExecute(a, r)
	}
	return []string{fmt.Sprintf("evidence of the unknown family %q", e.Family)}
}

// Missing names the required fields that evidence lacks.
func Missing(family tools.Family, evidence strictjson.Value) []string {
	var faults []string
	for _, field := range required[family] {
		part, key, _ := strings.Cut(field, "/")
		v := evidence.Get(part).Get(key)
		bare := v.Kind() == strictjson.String && v.Text() == "" || v.Kind() == strictjson.Array && v.Len() == 0 || v.Kind() == strictjson.Null
		if v.IsAbsent() || bare && slices.Contains(filled, field) {
			faults = append(faults, fmt.Sprintf("evidence %s is missing", strings.ReplaceAll(field, "/", ".")))
		}
	}
	return faults
}

// validPerceive: confidences from 0 to 1, boxes inside the image, and what each
// mode owes.
func validPerceive(a Action, r *tools.Result) []string {
	var faults []string
	add := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	m := &r.Evidence.Model
	for i, s := range m.Scores {
		if !(s >= 0 && s <= 1) {
			add("confidence %d is %v, expected 0 to 1", i, s)
		}
	}
	width, height := imageSize(a.Args)
	for i, b := range m.Boxes {
		switch {
		case len(b) != 4 && len(b) != 5 && len(b) != 8:
			add("box %d has %d numbers", i, len(b))
		case len(b) == 4 && (b[0] > b[2] || b[1] > b[3]):
			add("box %d %v has its corners the wrong way round", i, b)
		case len(b) == 4 && width > 0 && (b[0] < 0 || b[1] < 0 || b[2] > width || b[3] > height):
			add("box %d %v lies outside the image of %v×%v", i, b, width, height)
		}
	}
	o := r.Value
	switch a.Args.Get("mode").Text() {
	case "scene":
		faults = append(faults, validScene(a, o)...)
	case "evidence":
		for _, key := range []string{"answer", "answer_label", "preferred_option"} {
			if !o.Get(key).IsAbsent() {
				add("the observation has the key %q; evidence must not answer", key)
			}
		}
		q := o.Get("quality")
		for key, known := range map[string][]string{"visibility": {"clear", "limited", "unusable"}, "readability": {"clear", "limited", "unreadable"}} {
			if v := q.Get(key); !slices.Contains(known, v.Text()) {
				add("quality.%s is %q, expected %s", key, v.Text(), strings.Join(known, ", "))
			}
		}
	case "measurement":
		m := o.Get("measurement")
		for _, key := range []string{"point_a", "point_b"} {
			if m.Get(key).Get("xy").Len() != 2 {
				add("measurement.%s.xy is no point; two landmarks are needed", key)
			}
		}
		if bar := m.Get("scale_bar"); bar.Kind() != strictjson.Object || bar.Get("start_xy").Len() != 2 || bar.Get("end_xy").Len() != 2 {
			add("measurement.scale_bar is not one bar with a start and an end")
		}
	}
	return faults
}

// imageSize is the size that the call states for its image, 0 if none.
func imageSize(args strictjson.Value) (width, height float64) {
	size := args.Get("image_size")
	if size.Len() == 2 {
		width, _ = size.Index(0).Float()
		height, _ = size.Index(1).Float()
	}
	return width, height
}

func validScene(a Action, o strictjson.Value) []string {
	var faults []string
	labels, list := a.Args.Get("label_space"), o.Get("predictions")
	images := max(a.Args.Get("image_paths").Len(), 1)
	seen := make([]int, images+1)
	for i := range list.Len() {
		p := list.Index(i)
		at, err := strconv.Atoi(p.Get("image_index").Text())
		if err != nil || at < 1 || at > images {
			faults = append(faults, fmt.Sprintf("prediction %d is for image %s of %d", i, p.Get("image_index").JSON(), images))
			continue
		}
		seen[at]++
		known := false
		for j := range labels.Len() {
			known = known || labels.Index(j).Text() == p.Get("class_name").Text()
		}
		if !known {
			faults = append(faults, fmt.Sprintf("class %q of image %d is not in label_space", p.Get("class_name").Text(), at))
		}
	}
	for at := 1; at <= images; at++ {
		if seen[at] != 1 {
			faults = append(faults, fmt.Sprintf("image %d has %d predictions, expected one", at, seen[at]))
		}
	}
	return faults
}

// unitsOf are the units that fit each metric.
var unitsOf = map[string][]string{
	"count":      {"", "1", "px", "objects", "pixels", "images", "outlines", "instances", "points"},
	"area":       {"m²", "m2", "m^2", "km²", "km2", "ha", "px", "px²", "pixels"},
	"fraction":   {"1", "", "ratio"},
	"percentage": {"%", "percent"},
	"overlap":    {"%", "percent", "1", "ratio"},
	"distance":   {"m", "km", "px", "pixels"},
	"boolean":    {"", "boolean"},
}

// validMeasure: exact geometry, a unit that fits the metric, a ground sample
// distance behind metric units, and a value that follows from the evidence.
func validMeasure(a Action, r *tools.Result) []string {
	var faults []string
	add := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	m := &r.Evidence.Measure
	if r.Evidence.Model.Geometry == "approximate" {
		add("the geometry is approximate: coordinates that a vision-language model predicted cannot be measured; use a local backend")
	}
	sources := a.Args.Get("sources")
	for i := range sources.Len() {
		if sources.Index(i).Get("backend").Text() == "vlm" {
			add("source %d comes from a vision-language model, whose geometry is approximate", i)
		}
	}
	if known, ok := unitsOf[m.Metric]; ok && !slices.Contains(known, m.Unit) {
		add("the unit %q does not fit the metric %s", m.Unit, m.Metric)
	}
	if metric := m.Metric == "area" || m.Metric == "distance"; metric && !strings.HasPrefix(m.Unit, "px") && m.Unit != "pixels" && m.GSD <= 0 {
		add("%s in %s needs a ground sample distance", m.Metric, m.Unit)
	}
	values, ok := m.Recompute()
	got := numbers(r.Value)
	switch {
	case !ok:
		add("the value cannot be recomputed from numerator and denominator")
	case len(got) == 0: // the value is inside a text
	case len(got) != len(values):
		add("%d values are reported, the evidence gives %d", len(got), len(values))
	default:
		for i := range got {
			if math.Abs(got[i]-values[i]) > 1e-6*math.Max(1, math.Abs(values[i])) {
				add("the value %v does not follow from the evidence, which gives %v", got[i], values[i])
			}
		}
	}
	return faults
}

// numbers are the numbers of an observation: itself, its items, or a text such
// as "14.98%".
func numbers(v strictjson.Value) []float64 {
	switch v.Kind() {
	case strictjson.Number:
		if f, ok := v.Float(); ok {
			return []float64{f}
		}
	case strictjson.Array:
		var out []float64
		for i := range v.Len() {
			f, ok := v.Index(i).Float()
			if !ok {
				return nil
			}
			out = append(out, f)
		}
		return out
	}
	return nil
}

// validExecute: no failed node, valid pixels, finite results, files for every
// band of a formula, and fields that exist.
func validExecute(a Action, r *tools.Result) []string {
	var faults []string
	add := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	e := &r.Evidence
	valid, total := 0, 0
	for _, n := range e.Nodes {
		if n.Status != tools.OK && n.Status != "" {
			add("node %s failed: %s", n.Name, n.Reason)
		}
		valid, total = valid+n.Valid, total+n.Total
	}
	if total > 0 && valid == 0 {
		add("no pixel or value is valid")
	}
	r.Value.Leaves("", func(pointer string, leaf strictjson.Value) {
		if _, ok := leaf.Float(); leaf.Kind() == strictjson.Null || leaf.Kind() == strictjson.Number && !ok {
			add("the result at %q is not finite", pointer)
		}
	})
	for _, b := range e.Bands {
		if b.Path == "" || b.Band < 1 {
			add("%s of the formula is mapped to no band", b.Symbol)
		}
	}
	fields := a.Args.Get("fields")
	for i := range fields.Len() {
		name := fields.Index(i).Text()
		if r.Value.Kind() == strictjson.Object && r.Value.Get(name).IsAbsent() {
			keys := make([]string, r.Value.Len())
			for j := range keys {
				keys[j] = r.Value.Key(j)
			}
			add("there is no output field %q; the fields are %s", name, strings.Join(keys, ", "))
		}
	}
	return faults
}
