package surface

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"terraloom/agent/tools"
	"terraloom/data/strictjson"
)

// units are the units of each metric with what a value in pixels (or a share) is
// multiplied by; of area and distance those with a length in metres need a gsd.
var units = map[string]map[string]float64{
	"count":      {"objects": 1},
	"area":       {"px": 1, "m²": 1, "ha": 1e-4, "km²": 1e-6},
	"fraction":   {"1": 1},
	"percentage": {"%": 100},
	"distance":   {"px": 1, "m": 1, "km": 1e-3},
	"overlap":    {"1": 1, "%": 100},
	"boolean":    {"boolean": 1},
}

// usual is the unit of a metric where the spec names none.
var usual = map[string]string{"count": "objects", "area": "m²", "fraction": "1", "percentage": "%", "distance": "m", "overlap": "1", "boolean": "boolean"}

// spellings are other ways to write units.
var spellings = map[string]string{"m2": "m²", "m^2": "m²", "km2": "km²", "km^2": "km²", "px²": "px", "pixels": "px", "percent": "%", "ratio": "1", "instances": "objects", "": ""}

func (s *Surface) measure(ctx context.Context, args strictjson.Value) (tools.Result, error) {
	var e tools.Evidence
	var all []*layer
	list := args.Get("sources")
	for i := range list.Len() {
		layers, err := s.source(ctx, fmt.Sprintf("sources/%d/", i), list.Index(i), &e)
		if err != nil {
			return tools.Result{}, err
		}
		all = append(all, layers...)
	}
	return s.quantify("spec/", args.Get("spec"), all, e)
}

// maxExtent bounds the side of a stated extent, in pixels.
const maxExtent = 1_000_000

// source gives the layers of one source.
func (s *Surface) source(ctx context.Context, param string, src strictjson.Value, e *tools.Evidence) ([]*layer, error) {
	mode := src.Get("mode").Text()
	gsd, _ := src.Get("gsd").Float()
	switch images := strs(src.Get("image_paths")); {
	case mode == "extent":
		box, _ := floats(src.Get("extent"))
		if len(box) != 4 || !(box[0] >= 0 && box[1] >= 0 && box[0] < box[2] && box[1] < box[3] && max(box[2], box[3]) <= maxExtent) {
			return nil, bad(param+"extent", "give x1, y1, x2, y2 with 0 ≤ x1 < x2 and 0 ≤ y1 < y2, at most %d", maxExtent)
		}
		l := &layer{mode: mode, image: "extent", width: int(math.Ceil(box[2])), height: int(math.Ceil(box[3])), exact: true, backend: "caller", weights: "stated by the caller", gsd: gsd}
		l.groups = []group{{id: textOr(src.Get("label"), "extent"), instances: []instance{{label: "extent", score: 1, box: [4]float64(box)}}}}
		return []*layer{l}, nil
	case !src.Get("layer_path").IsAbsent():
		l, err := s.loadLayer(param+"layer_path", src.Get("layer_path").Text())
		if err == nil && gsd > 0 {
			l.gsd = gsd
		}
		return []*layer{l}, err
	case len(images) == 0:
		return nil, bad(param+"image_paths", "give image_paths with target_groups, or a layer_path that perceive returned")
	default:
		v := view{param: param, mode: mode, images: images, targets: src.Get("target_groups"), tiles: src.Get("view").Text() == "tiles", backend: textOr(src.Get("backend"), "auto")}
		if gsd > 0 {
			v.gsd = []float64{gsd}
		}
		switch {
		case mode == "change" && len(images) != 2:
			return nil, bad(param+"image_paths", "a change has two images, before and after")
		case mode != "change" && v.targets.Len() == 0:
			return nil, bad(param+"target_groups", "name what to look for")
		}
		layers, seen, err := s.look(ctx, &v)
		if err != nil {
			return nil, err
		}
		e.Warnings = append(e.Warnings, seen.Warnings...)
		for i, l := range layers {
			// Through its file, so that the number can be computed again from it.
			p, err := s.saveLayer(l, fmt.Sprintf("surface/%s_%s_%s.json", stem(l.image), digest(l.value().JSON()), l.mode))
			if err != nil {
				return nil, err
			}
			if layers[i], err = s.loadLayer(param+"layer_path", p); err != nil {
				return nil, err
			}
		}
		return layers, nil
	}
}

// quantify computes the metric of a spec over layers.
func (s *Surface) quantify(param string, spec strictjson.Value, layers []*layer, e tools.Evidence) (tools.Result, error) {
	metric := spec.Get("metric").Text()
	unit := textOr(spec.Get("unit"), usual[metric])
	if to, ok := spellings[unit]; ok {
		unit = to
	}
	factor, ok := units[metric][unit]
	if !ok {
		known := make([]string, 0, len(units[metric]))
		for u := range units[metric] {
			known = append(known, u)
		}
		slices.Sort(known)
		return tools.Result{}, bad(param+"unit", "%q is no unit of %s; use %s", unit, metric, strings.Join(known, ", "))
	}
	e.Family = tools.Measure
	ms := &e.Measure
	ms.Metric, ms.Unit, ms.Scale, ms.Aggregate = metric, unit, factor, "single"
	e.Model.Geometry = "exact"
	for _, l := range layers {
		for _, g := range l.groups {
			node := nodeOf(l.image+"#"+g.id, l, tools.OK, "")
			if !l.exact {
				node.Status, node.Reason = tools.Insufficient, "its geometry is approximate: a vision-language model guessed it"
				e.Model.Geometry = "approximate"
			}
			ms.Layers = append(ms.Layers, node)
		}
		e.Used += l.width * l.height
	}
	if e.Model.Geometry != "exact" {
		ms.Numerator, ms.Denominator = []float64{0}, []float64{0} // nothing was counted
		return lacking(e, "approximate geometry cannot be measured; perceive the source with backend=local"), nil
	}
	q, err := s.question(param, spec, layers)
	if err != nil {
		return tools.Result{}, err
	}
	if q.metric == "area" || q.metric == "distance" {
		if unit != "px" {
			if q.gsd == 0 {
				return tools.Result{}, bad("sources", "a result in %s needs the gsd of the sources", unit)
			}
			ms.GSD = q.gsd
		}
	}
	num, den, reason, err := q.answer()
	if err != nil {
		return tools.Result{}, bad(param+"metric", "%v", err)
	}
	if reason != "" {
		ms.Numerator, ms.Denominator = []float64{num}, []float64{den}
		return lacking(e, "%s", reason), nil
	}
	if metric == "distance" && unit != "px" { // MeasureEvidence squares the gsd for areas only
		ms.Scale = factor * q.gsd
	}
	ms.Numerator, ms.Denominator = []float64{num}, []float64{den}
	values, _ := ms.Recompute()
	value := strictjson.Float(values[0])
	switch metric {
	case "boolean":
		value = strictjson.Boolean(num > 0)
	case "count":
		value = strictjson.Int(int(num))
	}
	return tools.Result{Value: value, Evidence: e}, nil
}

// question is a spec over instances.
type question struct {
	metric      string
	subjects    []*instance // those that stand in the relation
	every       int         // subjects before the relation was asked for
	references  []*instance
	related     bool // a reference was named
	denominator string
	statistic   string
	image       float64 // pixels of the subject's images
	gsd         float64
}

// question finds the instances that a spec names and applies its relation.
func (s *Surface) question(param string, spec strictjson.Value, layers []*layer) (*question, error) {
	var ids []string
	members := map[string][]*instance{}
	of := map[string]*layer{}
	for _, l := range layers {
		for _, g := range l.groups {
			if !slices.Contains(ids, g.id) {
				ids = append(ids, g.id)
				of[g.id] = l
			}
			for k := range g.instances {
				members[g.id] = append(members[g.id], &g.instances[k])
			}
		}
	}
	pick := func(key string) (string, error) {
		id := spec.Get(key).Text()
		if id == "" && key == "subject" && len(ids) > 0 && (len(ids) == 1 || len(ids) == 2 && spec.Get("reference").Text() != "") {
			for _, i := range ids {
				if i != spec.Get("reference").Text() {
					id = i
				}
			}
		}
		if !slices.Contains(ids, id) {
			return "", bad(param+key, "there is no target %q; the sources have %s", id, strings.Join(ids, ", "))
		}
		return id, nil
	}
	subject, err := pick("subject")
	if err != nil {
		return nil, err
	}
	q := &question{metric: spec.Get("metric").Text(), subjects: members[subject], every: len(members[subject]),
		denominator: spec.Get("denominator").Text(), statistic: textOr(spec.Get("distance_statistic"), "minimum"), gsd: of[subject].gsd}
	images := map[string]bool{}
	for _, l := range layers {
		if slices.ContainsFunc(l.groups, func(g group) bool { return g.id == subject }) && !images[l.image] {
			images[l.image] = true
			q.image += float64(l.width * l.height)
		}
		if l.gsd != q.gsd {
			if l.gsd == 0 && l.mode == "extent" {
				continue
			}
			return nil, bad("sources", "the sources have the gsd %g and %g; geometry needs one", q.gsd, l.gsd)
		}
	}
	relation := textOr(spec.Get("relation"), "none")
	if !spec.Get("reference").IsAbsent() {
		reference, err := pick("reference")
		if err != nil {
			return nil, err
		}
		q.references, q.related = members[reference], true
	}
	if len(images) > 1 && (q.related || q.metric == "distance") {
		return nil, bad(param+"reference", "instances of several images have no relation to each other; ask image by image")
	}
	if relation == "none" {
		return q, nil
	}
	if !q.related {
		return nil, bad(param+"reference", "the relation %s needs a reference", relation)
	}
	limit, err := q.limit(param, spec, relation)
	if err != nil {
		return nil, err
	}
	var kept []*instance
	for _, n := range q.subjects {
		stands, err := q.stands(n, relation, limit)
		if err != nil {
			return nil, bad(param+"relation", "%v", err)
		}
		if stands {
			kept = append(kept, n)
		}
	}
	q.subjects = kept
	return q, nil
}

// limit is the distance of a relation in pixels.
func (q *question) limit(param string, spec strictjson.Value, relation string) (float64, error) {
	if !strings.HasSuffix(relation, "_distance") {
		return 0, nil
	}
	d, ok := spec.Get("distance").Float()
	if !ok {
		return 0, bad(param+"distance", "the relation %s needs a distance", relation)
	}
	if textOr(spec.Get("distance_unit"), "m") == "px" {
		return d, nil
	}
	if q.gsd == 0 {
		return 0, bad("sources", "a distance in metres needs the gsd of the sources; or give distance_unit px")
	}
	return d / q.gsd, nil
}

// stands reports whether an instance stands in a relation to the references.
func (q *question) stands(n *instance, relation string, limit float64) (bool, error) {
	if strings.HasSuffix(relation, "_distance") {
		d, err := nearest(n, q.references)
		return (d <= limit) == (relation == "within_distance"), err
	}
	in := 0.0
	var touching []*instance
	for _, r := range q.references {
		if shared(n, r) > 0 {
			touching = append(touching, r)
		}
	}
	if len(touching) > 0 {
		in = common([]*instance{n}, touching)
	}
	switch relation {
	case "within":
		return in > 0 && in >= n.pixels()-1e-9, nil
	case "intersects":
		return in > 0, nil
	}
	return in == 0, nil // disjoint
}

// nearest is the distance to the nearest of a set; infinite if it is empty.
func nearest(n *instance, set []*instance) (float64, error) {
	best := math.Inf(1)
	for _, r := range set {
		if r == n {
			continue
		}
		d, err := gap(n, r)
		if err != nil {
			return 0, err
		}
		best = min(best, d)
	}
	return best, nil
}

// answer is the measurement as numerator and denominator in pixels or objects;
// reason says why there is none.
func (q *question) answer() (num, den float64, reason string, err error) {
	switch q.metric {
	case "count", "boolean":
		num = float64(len(q.subjects))
		if q.metric == "boolean" {
			num = min(num, 1)
		}
		return num, 1, "", nil
	case "area":
		return covered(q.subjects), 1, "", nil
	case "fraction", "percentage":
		switch q.denominator {
		case "reference":
			if !q.related {
				return 0, 0, "", fmt.Errorf("the denominator reference needs a reference")
			}
			if den = covered(q.references); den == 0 {
				return 0, 0, "the reference has no area in the image", nil
			}
			return common(q.subjects, q.references), den, "", nil
		case "subject":
			if q.every == 0 {
				return 0, 0, "there is no subject to take a share of", nil
			}
			return float64(len(q.subjects)), float64(q.every), "", nil
		}
		return covered(q.subjects), q.image, "", nil
	case "overlap":
		if !q.related {
			return 0, 0, "", fmt.Errorf("overlap needs a reference")
		}
		if den = either(q.subjects, q.references); den == 0 {
			return 0, 0, "neither subject nor reference has an area", nil
		}
		return common(q.subjects, q.references), den, "", nil
	}
	// distance
	others := q.references
	if !q.related {
		others = q.subjects
	}
	var all []float64
	for _, n := range q.subjects {
		d, err := nearest(n, others)
		if err != nil {
			return 0, 0, "", err
		}
		if !math.IsInf(d, 1) {
			all = append(all, d)
		}
	}
	if len(all) == 0 {
		return 0, 1, "no pair of instances to take a distance between", nil
	}
	switch q.statistic {
	case "mean":
		sum := 0.0
		for _, d := range all {
			sum += d
		}
		return sum, float64(len(all)), "", nil
	case "maximum":
		return slices.Max(all), 1, "", nil
	}
	return slices.Min(all), 1, "", nil
}
