package rsure

import (
	"strings"

	"terraloom/data/catalogue"
	"terraloom/data/strictjson"
)

// Config names a tool configuration at both levels of the prior: perceive by
// mode, and by mode|backend|view; measure by metric, and by
// metric|relation|layer; execute by operator, without a fine level.
type Config struct {
	Tool   string // perceive, measure or execute
	Coarse string
	Fine   string // "" for execute
}

// modes are the perception modes of the model tools of the kit.
var modes = map[string]string{
	"MSCN": "scene", "RemoteCLIP": "scene", "Strip_R_CNN": "objects", "SM3Det": "objects", "RemoteSAM": "objects", "InstructSAM": "objects",
	"SAM2": "regions", "ChangeOS": "change",
}

// metrics are the metrics of the measurement tools of the kit.
var metrics = map[string]string{
	"calculate_area": "area", "calculate_intersection_percentage": "overlap",
	"calculate_threshold_ratio": "percentage", "calculate_multi_band_threshold_ratio": "percentage",
	"calc_batch_image_hotspot_percentage": "fraction", "calc_extreme_snow_loss_percentage_from_binary_map": "fraction",
	"count_above_threshold": "count", "count_pixels_satisfying_conditions": "count", "count_skeleton_contours": "count", "calc_batch_fire_pixels": "count",
}

// ConfigOf names the configuration of a call by what is known before it is made,
// so that recorded runs, whose calls have no evidence, give the ids that are looked
// up online. A tool of the kit is its own backend and its own layer.
func ConfigOf(a Action) Config {
	text := func(v strictjson.Value, otherwise string) string {
		if v.Kind() == strictjson.String && v.Text() != "" {
			return v.Text()
		}
		return otherwise
	}
	perceive := func(mode, backend string) Config {
		return Config{"perceive", "perceive:" + mode, "perceive:" + mode + "|" + backend + "|" + text(a.Args.Get("view"), "auto")}
	}
	measure := func(metric, relation, layer string) Config {
		return Config{"measure", "measure:" + metric, "measure:" + metric + "|" + relation + "|" + layer}
	}
	switch strings.TrimPrefix(a.Tool, "rs_") {
	case "perceive":
		return perceive(text(a.Args.Get("mode"), ""), text(a.Args.Get("backend"), "auto"))
	case "measure":
		spec := a.Args.Get("spec")
		layer := "unknown"
		if s := a.Args.Get("sources"); s.Len() > 0 {
			layer = text(s.Index(0).Get("mode"), layer)
		}
		return measure(text(spec.Get("metric"), "unknown"), text(spec.Get("relation"), "auto"), layer)
	case "execute":
		return Config{Tool: "execute", Coarse: "execute:" + primary(a.Args)}
	}
	name := a.Tool
	if found, err := catalogue.Default().Resolve(name); err == nil {
		name = found.Tool.Name
	}
	switch {
	case modes[name] != "":
		return perceive(modes[name], name)
	case metrics[name] != "":
		return measure(metrics[name], "auto", name)
	}
	return Config{Tool: "execute", Coarse: "execute:" + name}
}

// primary is the operator of a DAG's last node, or of a single operation.
func primary(args strictjson.Value) string {
	for _, key := range []string{"dag", "nodes", "steps"} {
		nodes := args.Get(key)
		if nodes.Kind() == strictjson.Object {
			nodes = nodes.Get("nodes")
		}
		if n := nodes.Len(); n > 0 {
			if op := nodes.Index(n - 1).Get("op"); op.Kind() == strictjson.String {
				return op.Text()
			}
		}
	}
	for _, key := range []string{"op", "product", "operator"} {
		if v := args.Get(key); v.Kind() == strictjson.String {
			return v.Text()
		}
	}
	return "unknown"
}
