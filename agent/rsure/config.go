package rsure

import (
	"strings"

	"terraloom/agent/tools"
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

// ConfigOf names the configuration of a call. What only the result tells (backend,
// metric, layer) is taken from its evidence; r may be nil.
func ConfigOf(tool string, args strictjson.Value, r *tools.Result) Config {
	return configOf(Action{tool, args}, r)
}

func configOf(a Action, r *tools.Result) Config {
	text := func(v strictjson.Value, otherwise string) string {
		if v.Kind() == strictjson.String && v.Text() != "" {
			return v.Text()
		}
		return otherwise
	}
	name := strings.TrimPrefix(a.Tool, "rs_")
	mode, model := modes[a.Tool]
	switch {
	case name == "perceive" || model:
		backend := text(a.Args.Get("backend"), "auto")
		if r != nil && r.Evidence.Model.Backend != "" && backend == "auto" && model {
			backend = a.Tool
		}
		mode = text(a.Args.Get("mode"), mode)
		return Config{"perceive", "perceive:" + mode, "perceive:" + mode + "|" + backend + "|" + text(a.Args.Get("view"), "auto")}
	case name == "measure":
		spec := a.Args.Get("spec")
		metric := text(spec.Get("metric"), "unknown")
		layer := "unknown"
		if s := a.Args.Get("sources"); s.Len() > 0 {
			layer = text(s.Index(0).Get("mode"), layer)
		}
		return Config{"measure", "measure:" + metric, "measure:" + metric + "|" + text(spec.Get("relation"), "auto") + "|" + layer}
	case name == "execute":
		return Config{Tool: "execute", Coarse: "execute:" + primary(a.Args)}
	case r != nil && r.Evidence.Family == tools.Measure:
		metric := r.Evidence.Measure.Metric
		return Config{"measure", "measure:" + metric, "measure:" + metric + "|auto|" + a.Tool}
	}
	return Config{Tool: "execute", Coarse: "execute:" + a.Tool}
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
