package surface

import (
	"context"
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"terraloom/agent/raster"
	"terraloom/agent/tools"
	"terraloom/agent/tools/pixel"
	"terraloom/agent/tools/series"
	"terraloom/data/strictjson"
)

// catalog lists files as a collection: params.roles maps a role to its paths, or
// to the word in a file's name that marks it, among the files of params.dir.
// start, end (dates) and phases ("day", "night", or other words of file names)
// narrow it. Files of one time and of different roles belong together.
func (s *Surface) catalog(ctx context.Context, n *node) (output, error) {
	roles := n.params.Get("roles")
	if roles.IsAbsent() {
		roles = n.params.Get("role_bands")
	}
	if roles.Kind() != strictjson.Object || roles.Len() == 0 {
		if n.params.Get("paths").Kind() != strictjson.Array {
			return output{}, bad(n.param+"/params/roles", "map each role to its paths, or to a word of its file names with dir; or give paths")
		}
		roles = obj(m("data", n.params.Get("paths")))
	}
	var names []string
	dir := n.params.Get("dir").Text()
	if dir != "" {
		res, err := s.kit.Invoke(ctx, "get_filelist", obj(m("dir_path", strictjson.Text(dir))))
		if err != nil {
			return output{}, err
		}
		names = strs(res.Value)
	}
	type asset struct{ time, role, path string }
	var assets []asset
	for i := range roles.Len() {
		role, which := roles.Key(i), roles.Index(i)
		list := strs(which)
		if which.Kind() == strictjson.String {
			if dir == "" {
				return output{}, bad(n.param+"/params/dir", "the role %s is a word of file names; give the folder, or a list of paths", role)
			}
			for _, name := range names {
				if strings.Contains(name, which.Text()) {
					list = append(list, path.Join(dir, name))
				}
			}
			if len(list) == 0 {
				return output{}, bad(n.param+"/params/roles/"+role, "no file of %s has %q in its name; there are %s", dir, which.Text(), strings.Join(names[:min(len(names), 8)], ", "))
			}
		}
		for _, p := range list {
			assets = append(assets, asset{tools.TimeOf(p), role, p})
		}
	}
	start, end, phases := n.params.Get("start").Text(), n.params.Get("end").Text(), strs(n.params.Get("phases"))
	kept := slices.DeleteFunc(slices.Clone(assets), func(a asset) bool {
		day := a.time[:min(len(a.time), 10)]
		outside := (start != "" || end != "") && day == "" || start != "" && day < start || end != "" && day > end
		wrong := len(phases) > 0 && !slices.ContainsFunc(phases, func(p string) bool { return strings.Contains(strings.ToLower(a.path), strings.ToLower(p)) })
		return outside || wrong
	})
	e := tools.Evidence{Formula: "files by time and role", Used: len(kept), Missing: len(assets) - len(kept)}
	if len(kept) == 0 {
		return output{evidence: lacking(e, "none of %d files lies in the period and phases", len(assets)).Evidence, value: strictjson.NullValue()}, nil
	}
	slices.SortStableFunc(kept, func(a, b asset) int { return strings.Compare(a.time, b.time) })
	var out []strictjson.Value
	for i := 0; i < len(kept); {
		var paths []strictjson.Member
		seen := map[string]bool{}
		k := i
		// Files without a time, or a second one of a role, begin an observation of their own.
		for ; k < len(kept) && kept[k].time == kept[i].time && !seen[kept[k].role]; k++ {
			seen[kept[k].role] = true
			paths = append(paths, m(kept[k].role, strictjson.Text(kept[k].path)))
		}
		out = append(out, obj(m("time", strictjson.Text(kept[i].time)), m("paths", obj(paths...))))
		i = k
	}
	return output{value: strictjson.List(out...), evidence: e}, nil
}

// standard says how a standard product is made by a tool of the kit.
type standard struct {
	tool  string
	roles map[string]string // role of the collection: parameter of the tool
	bands string            // parameter that takes the roles b1, b2, … as a list, or ""
	list  bool              // the tool's parameters are lists
	extra []string          // params of the node that are the tool's too
}

var standards = map[string]standard{
	"single_channel_lst":       {tool: "lst_single_channel", roles: map[string]string{"bt": "bt_path", "red": "red_path", "nir": "nir_path"}},
	"multi_channel_lst":        {tool: "lst_multi_channel", roles: map[string]string{"band31": "band31_path", "band32": "band32_path"}},
	"split_window_lst":         {tool: "split_window", roles: map[string]string{"band31": "band31_path", "band32": "band32_path", "emissivity31": "emissivity31_path", "emissivity32": "emissivity32_path"}},
	"ttm_lst":                  {tool: "ttm_lst", bands: "tir_band_paths", extra: []string{"wavelengths"}},
	"tes":                      {tool: "temperature_emissivity_separation", bands: "tir_band_paths", extra: []string{"representative_band_index"}},
	"normalized_difference":    {tool: "calculate_batch_ndvi", roles: map[string]string{"a": "input_nir_paths", "b": "input_red_paths"}, list: true},
	"pwv_band_ratio":           {tool: "band_ratio", roles: map[string]string{"b02": "sur_refl_b02_path", "b05": "sur_refl_b05_path", "b17": "sur_refl_b17_path", "b18": "sur_refl_b18_path", "b19": "sur_refl_b19_path"}},
	"tvdi":                     {tool: "compute_tvdi", roles: map[string]string{"ndvi": "ndvi_path", "lst": "lst_path"}},
	"day_night_temperature":    {tool: "modis_day_night_lst", roles: map[string]string{"bt_day": "BT_day_path", "bt_night": "BT_night_path", "emissivity_day": "Emis_day_path", "emissivity_night": "Emis_night_path"}},
	"apparent_thermal_inertia": {tool: "ATI", roles: map[string]string{"day": "day_temp_path", "night": "night_temp_path", "albedo": "albedo_path"}},
}

// product maps one of the ten standard products over the observations of a
// collection. An observation that lacks an input is left out with a warning.
func (s *Surface) product(ctx context.Context, n *node) (output, error) {
	name := n.params.Get("product").Text()
	std, ok := standards[name]
	if !ok {
		return output{}, bad(n.param+"/params/product", "there is no standard product %q; there are %s", name, strings.Join(Products, ", "))
	}
	prefix := textOr(n.params.Get("output_prefix"), "surface/"+digest(n.data.JSON(), n.params.JSON())+"_"+name)
	e := tools.Evidence{}
	var items []strictjson.Value
	var files []tools.Artefact
	for i := range n.data.Len() {
		item := n.data.Index(i)
		args, missing, err := std.arguments(n, item, fmt.Sprintf("%s_%03d_%s.tif", prefix, i, strings.ReplaceAll(textOr(item.Get("time"), "undated"), ":", "")))
		if err != nil {
			return output{}, err
		}
		if len(missing) > 0 {
			e.Missing++
			e.Warnings = append(e.Warnings, fmt.Sprintf("the observation of %s lacks %s", textOr(item.Get("time"), fmt.Sprintf("item %d", i)), strings.Join(missing, ", ")))
			continue
		}
		res, err := s.kit.Invoke(ctx, std.tool, args)
		if err != nil {
			return output{}, err
		}
		e.Formula = res.Evidence.Formula
		e.Bands = append(e.Bands, res.Evidence.Bands...)
		e.Masks = append(e.Masks, res.Evidence.Masks...)
		e.Nodes = append(e.Nodes, res.Evidence.Nodes...)
		e.Warnings = append(e.Warnings, res.Evidence.Warnings...)
		e.Used, e.Missing = e.Used+res.Evidence.Used, e.Missing+res.Evidence.Missing
		if len(res.Artefacts) == 0 {
			continue // no valid pixel; its node says so
		}
		files = append(files, res.Artefacts...)
		items = append(items, obj(m("time", item.Get("time")), m("paths", obj(m(name, strictjson.Text(res.Artefacts[0].Path))))))
	}
	if len(items) == 0 {
		return output{value: strictjson.NullValue(), evidence: lacking(e, "%s could be made of none of %d observations: %s", name, n.data.Len(), strings.Join(e.Warnings, "; ")).Evidence}, nil
	}
	return output{value: strictjson.List(items...), evidence: e, files: files}, nil
}

// arguments are those of the tool for one observation; missing are its inputs that
// are not there.
func (std *standard) arguments(n *node, item strictjson.Value, target string) (args strictjson.Value, missing []string, err error) {
	paths := item.Get("paths")
	var members []strictjson.Member
	if std.bands != "" {
		list := make([]strictjson.Value, paths.Len())
		for i := range list {
			list[i] = paths.Index(i)
		}
		members = append(members, m(std.bands, strictjson.List(list...)))
	}
	for _, role := range sorted(std.roles) {
		p := paths.Get(role)
		if p.IsAbsent() {
			missing = append(missing, role)
			continue
		}
		if std.list {
			p = strictjson.List(p)
		}
		members = append(members, m(std.roles[role], p))
	}
	for _, key := range std.extra {
		if v := n.params.Get(key); !v.IsAbsent() {
			members = append(members, m(key, v))
		}
	}
	switch std.tool {
	case "split_window":
		members = append(members, m("parameter", strictjson.Text(textOr(n.params.Get("parameter"), "LST"))))
	case "temperature_emissivity_separation":
		if n.params.Get("representative_band_index").IsAbsent() {
			members = append(members, m("representative_band_index", strictjson.Int(0)))
		}
	}
	out := strictjson.Text(target)
	if std.list {
		return obj(append(members, m("output_paths", strictjson.List(out)))...), missing, nil
	}
	return obj(append(members, m("output_path", out))...), missing, nil
}

func sorted(roles map[string]string) []string {
	keys := make([]string, 0, len(roles))
	for k := range roles {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// statistics are what raster.batch_reduce gives.
var statistics = []string{"mean", "sum", "minimum", "maximum", "std", "threshold_fraction"}

var comparisons = map[string]pixel.Op{"above": pixel.Above, "below": pixel.Below, "at_least": pixel.AtLeast, "at_most": pixel.AtMost}

// reduce gives one number for each raster of a collection, null where no pixel is
// valid.
func (s *Surface) reduce(ctx context.Context, n *node) (output, error) {
	statistic := textOr(n.params.Get("statistic"), "mean")
	if !slices.Contains(statistics, statistic) {
		return output{}, bad(n.param+"/params/statistic", "there is no statistic %q; there are %s", statistic, strings.Join(statistics, ", "))
	}
	threshold, given := n.params.Get("threshold").Float()
	op, known := comparisons[textOr(n.params.Get("comparison"), "above")]
	if statistic == "threshold_fraction" && !given {
		return output{}, bad(n.param+"/params/threshold", "threshold_fraction needs a threshold")
	}
	if !known {
		return output{}, bad(n.param+"/params/comparison", "use above, below, at_least or at_most")
	}
	var times, values, valid, total []strictjson.Value
	e := tools.Evidence{Formula: statistic + " of the valid pixels of each raster", Masks: []string{"not finite", "nodata value"}}
	if statistic == "threshold_fraction" {
		e.Formula = fmt.Sprintf("share of the valid pixels %s %g", op, threshold)
	}
	seen := 0
	for i := range n.data.Len() {
		if err := ctx.Err(); err != nil {
			return output{}, err
		}
		item := n.data.Index(i)
		p, err := roleOf(n, item)
		if err != nil {
			return output{}, err
		}
		r, err := s.files.OpenRaster(p)
		if err != nil {
			return output{}, bad(n.param+"/inputs/data", "%v", err)
		}
		f, used, all, err := statisticOf(r.Dataset, statistic, op, float32(threshold))
		r.Close()
		if err != nil {
			return output{}, bad(n.param+"/inputs/data", "%s: %v", p, err)
		}
		e.Bands = append(e.Bands, tools.BandUse{Symbol: "x", Path: p, Band: 1})
		e.Used, e.Missing = e.Used+used, e.Missing+all-used
		times, valid, total = append(times, item.Get("time")), append(valid, strictjson.Int(used)), append(total, strictjson.Int(all))
		if used == 0 {
			e.Nodes = append(e.Nodes, tools.Node{Name: p, Output: strictjson.NullValue(), Total: all, Status: tools.Insufficient, Reason: "no valid pixel"})
			values = append(values, strictjson.NullValue())
			continue
		}
		seen++
		values = append(values, strictjson.Float(f))
	}
	if seen == 0 {
		return output{value: strictjson.NullValue(), evidence: lacking(e, "no raster of the collection has a valid pixel").Evidence}, nil
	}
	return output{value: seriesValue(times, values, valid, total), evidence: e}, nil
}

func seriesValue(times, values, valid, total []strictjson.Value) strictjson.Value {
	return obj(m("time", strictjson.List(times...)), m("value", strictjson.List(values...)), m("valid", strictjson.List(valid...)), m("total", strictjson.List(total...)))
}

// roleOf is the path of an observation that an operator reads.
func roleOf(n *node, item strictjson.Value) (string, error) {
	paths := item.Get("paths")
	role := n.params.Get("role").Text()
	if role == "" && paths.Len() == 1 {
		return paths.Index(0).Text(), nil
	}
	if p := paths.Get(role); !p.IsAbsent() {
		return p.Text(), nil
	}
	return "", bad(n.param+"/params/role", "the role %q is not in an observation; %s", role, fieldsOf(paths))
}

// statisticOf reads the first band in windows.
func statisticOf(ds *raster.Dataset, statistic string, op pixel.Op, threshold float32) (f float64, valid, total int, err error) {
	if statistic != "threshold_fraction" {
		st, err := ds.Stats(1)
		if err != nil {
			return 0, 0, 0, err
		}
		f = map[string]float64{"mean": st[0].Mean(), "sum": st[0].Sum, "minimum": st[0].Min, "maximum": st[0].Max, "std": st[0].Std(0)}[statistic]
		return f, int(st[0].Valid), int(st[0].Total), nil
	}
	matching := 0
	var buffer []float32
	for w := range ds.Windows() {
		size := w.Width * w.Height
		buffer = slices.Grow(buffer[:0], size)[:size]
		if err := ds.ReadInto(1, w, buffer); err != nil {
			return 0, 0, 0, err
		}
		k, ok := pixel.CountOp(buffer, op, threshold)
		matching, valid, total = matching+k, valid+ok, total+size
	}
	return float64(matching) / max(float64(valid), 1), valid, total, nil
}

// summarize gives the statistics of one raster.
func (s *Surface) summarize(_ context.Context, n *node) (output, error) {
	p := n.data.Text()
	if n.data.Kind() != strictjson.String {
		return output{}, bad(n.param+"/inputs/data", "raster.summarize takes the path of one raster; reduce a collection with raster.batch_reduce")
	}
	p = strings.TrimPrefix(strings.TrimPrefix(p, "Result save at "), "Result saved at ") // a tool's observation
	band := 1
	if f, ok := n.params.Get("band").Float(); ok {
		band = int(f)
	}
	r, err := s.files.OpenRaster(p)
	if err != nil {
		return output{}, bad(n.param+"/inputs/data", "%v", err)
	}
	defer r.Close()
	stats, err := r.Stats(band)
	if err != nil {
		return output{}, bad(n.param+"/params/band", "%v", err)
	}
	st := stats[0]
	e := tools.Evidence{Formula: "mean, standard deviation, least and greatest of the valid pixels", Masks: []string{"not finite", "nodata value"},
		Bands: []tools.BandUse{{Symbol: "x", Path: r.Name, Band: band}}, Used: int(st.Valid), Missing: int(st.Total - st.Valid)}
	if st.Valid == 0 {
		return output{value: strictjson.NullValue(), evidence: lacking(e, "%s has no valid pixel", r.Name).Evidence}, nil
	}
	return output{value: obj(m("mean", strictjson.Float(st.Mean())), m("std", strictjson.Float(st.Std(0))), m("minimum", strictjson.Float(st.Min)),
		m("maximum", strictjson.Float(st.Max)), m("valid", strictjson.Int(int(st.Valid))), m("total", strictjson.Int(int(st.Total)))), evidence: e}, nil
}

// aggregate joins the values of a month or year.
func (s *Surface) aggregate(_ context.Context, n *node) (output, error) {
	by, statistic := textOr(n.params.Get("by"), "year"), textOr(n.params.Get("statistic"), "mean")
	length, ok := map[string]int{"year": 4, "month": 7}[by]
	if !ok || !slices.Contains([]string{"mean", "sum", "minimum", "maximum"}, statistic) {
		return output{}, bad(n.param+"/params", "by is year or month, statistic is mean, sum, minimum or maximum")
	}
	var keys []string
	groups := map[string][]float64{}
	count := map[string]int{}
	e := tools.Evidence{Formula: statistic + " by " + by}
	for i := range n.data.Get("time").Len() {
		t := n.data.Get("time").Index(i).Text()
		if len(t) < length {
			return output{}, bad(n.param+"/inputs/data", "value %d has no date; the names of its files have none", i)
		}
		key := t[:length]
		if count[key] == 0 {
			keys = append(keys, key)
		}
		count[key]++
		if f, ok := n.data.Get("value").Index(i).Float(); ok {
			groups[key] = append(groups[key], f)
			e.Used++
		} else {
			e.Missing++
		}
	}
	var times, values, valid, total []strictjson.Value
	for _, key := range keys {
		x := groups[key]
		times, valid, total = append(times, strictjson.Text(key)), append(valid, strictjson.Int(len(x))), append(total, strictjson.Int(count[key]))
		if len(x) == 0 {
			values = append(values, strictjson.NullValue())
			continue
		}
		f := series.Sum(x)
		switch statistic {
		case "mean":
			f /= float64(len(x))
		case "minimum":
			f = slices.Min(x)
		case "maximum":
			f = slices.Max(x)
		}
		values = append(values, strictjson.Float(f))
	}
	return output{value: seriesValue(times, values, valid, total), evidence: e}, nil
}

// maxTrend bounds the values of which every pair is looked at.
const maxTrend = 20_000

// trend gives the trend of a series per step.
func (s *Surface) trend(ctx context.Context, n *node) (output, error) {
	method := textOr(n.params.Get("method"), "linear")
	tool, ok := map[string]string{"linear": "compute_linear_trend", "mann_kendall": "mann_kendall_test"}[method]
	if !ok && method != "theil_sen" {
		return output{}, bad(n.param+"/params/method", "use linear, mann_kendall or theil_sen")
	}
	x := valuesOf(n.data)
	key := "x"
	if method == "linear" {
		key = "y"
	}
	missing := n.data.Get("value").Len() - x.Len()
	if x.Len() < 2 {
		return output{value: strictjson.NullValue(), evidence: lacking(tools.Evidence{Formula: method + " trend", Used: x.Len(), Missing: missing}, "%d values have no trend", x.Len()).Evidence}, nil
	}
	var res tools.Result
	var err error
	if method == "theil_sen" {
		y, _ := floats(x)
		if len(y) > maxTrend {
			return output{}, bad(n.param+"/inputs/data", "%d values have too many pairs; aggregate them first", len(y))
		}
		slope, err := series.Median(series.PairwiseSlopes(y))
		if err != nil {
			return output{}, &tools.Error{Kind: tools.ErrUndefined, Msg: err.Error()}
		}
		res = tools.Result{Value: strictjson.Float(slope), Evidence: tools.Evidence{Formula: "median of the slopes of all pairs", Used: len(y)}}
	} else if res, err = s.kit.Invoke(ctx, tool, obj(m(key, x))); err != nil {
		return output{}, err
	}
	if missing > 0 {
		res.Evidence.Missing += missing
		res.Evidence.Warnings = append(res.Evidence.Warnings, fmt.Sprintf("%d of the series' values are missing; the steps between the others count as one", missing))
	}
	v := res.Value
	names := map[string][]string{"linear": {"slope", "intercept"}, "mann_kendall": {"trend", "p", "z", "tau"}, "theil_sen": {"slope"}}[method]
	switch {
	case v.Kind() == strictjson.Array && v.Len() >= len(names):
		members := make([]strictjson.Member, len(names))
		for i, name := range names {
			members[i] = m(name, v.Index(i))
		}
		v = obj(members...)
	case v.Kind() == strictjson.Number:
		v = obj(m(names[0], v))
	}
	return output{value: v, evidence: res.Evidence}, nil
}

// spatial measures over layers that perceive saved.
func (s *Surface) spatial(_ context.Context, n *node) (output, error) {
	paths := strs(n.params.Get("layer_paths"))
	if len(paths) == 0 {
		return output{}, bad(n.param+"/params/layer_paths", "give the layer_paths of perceive")
	}
	metric := n.params.Get("metric").Text()
	if !slices.Contains(Metrics, metric) {
		return output{}, bad(n.param+"/params/metric", "there is no metric %q; there are %s", metric, strings.Join(Metrics, ", "))
	}
	var layers []*layer
	for i, p := range paths {
		l, err := s.loadLayer(n.param+"/params/layer_paths/"+strconv.Itoa(i), p)
		if err != nil {
			return output{}, err
		}
		layers = append(layers, l)
	}
	res, err := s.quantify(n.param+"/params/", n.params, layers, tools.Evidence{})
	if err != nil {
		return output{}, err
	}
	e := res.Evidence
	e.Family, e.Formula = tools.Execute, metric+" over layers"
	e.Used, e.Missing = max(e.Used, 1), 0
	return output{value: res.Value, evidence: e}, nil
}

// choose gives the candidate that is nearest to a number.
func (s *Surface) choose(_ context.Context, n *node) (output, error) {
	x, ok := n.data.Float()
	if !ok || math.IsNaN(x) {
		return output{}, bad(n.param+"/inputs/data", "decision.select takes a number, not %s", n.data.Kind())
	}
	list := n.params.Get("candidates")
	best, at := math.Inf(1), -1
	for i := range list.Len() {
		c, ok := list.Index(i).Float()
		if !ok {
			c, ok = firstNumber(list.Index(i).Text())
		}
		if !ok {
			return output{}, bad(fmt.Sprintf("%s/params/candidates/%d", n.param, i), "%s has no number", list.Index(i).JSON())
		}
		if d := math.Abs(c - x); d < best {
			best, at = d, i
		}
	}
	if at < 0 {
		return output{}, bad(n.param+"/params/candidates", "give at least one candidate")
	}
	return output{value: obj(m("index", strictjson.Int(at)), m("candidate", list.Index(at)), m("difference", strictjson.Float(best))),
		evidence: tools.Evidence{Formula: "least distance to the number", Used: 1}}, nil
}

// firstNumber is the first number in a text, as in "C. 28.07 %".
func firstNumber(text string) (float64, bool) {
	text = text[:min(len(text), 200)]
	for i := range text {
		for k := len(text); k > i; k-- {
			if f, err := strconv.ParseFloat(text[i:k], 64); err == nil && !math.IsNaN(f) && !math.IsInf(f, 0) {
				return f, true
			}
		}
	}
	return 0, false
}
