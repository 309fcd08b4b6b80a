package compose

import (
	"fmt"
	"slices"
	"strings"

	"terraloom/data/catalogue"
	"terraloom/data/strictjson"
)

// draw makes arguments for a tool out of what is at hand. details are the values that only the question can tell. It is
// false where something is missing, or where a parameter takes what no step brings.
func (t *task) draw(tool *catalogue.Tool) (args strictjson.Value, details []string, ok bool) {
	var members []strictjson.Member
	length := 0 // of the first list of files: outputs have as many
	groups, numbers := 0, 0
	for i := range tool.Params {
		p := &tool.Params[i]
		if !p.Required() && (p.IO != "" || t.IntN(6) > 0) {
			continue
		}
		var value strictjson.Value
		detail := ""
		switch {
		case p.IO == "in":
			value, ok = t.input(p, &groups, &length)
		case p.IO == "out":
			value, ok = t.output(tool, p, length), true
		default:
			value, detail, ok = t.value(p, &numbers)
		}
		if !ok && !p.Required() {
			continue
		}
		if !ok {
			return args, nil, false
		}
		if detail != "" {
			details = append(details, detail)
		}
		members = append(members, strictjson.Member{Key: p.Name, Value: value})
	}
	args = strictjson.Obj(members...)
	return args, details, len(members) > 0 && tool.Validate(args) == nil
}

// input is the file or the files that a parameter reads: those of its kind, else the newest, each group once a call.
func (t *task) input(p *catalogue.Param, used, length *int) (strictjson.Value, bool) {
	if len(t.groups) == 0 {
		return strictjson.Value{}, false
	}
	if len(p.Keys) > 0 {
		var members []strictjson.Member
		for _, key := range p.Keys {
			g := t.groupOf(key)
			if g == nil {
				return strictjson.Value{}, false
			}
			members = append(members, strictjson.Member{Key: key, Value: strictjson.Text(g.paths[0])})
		}
		return strictjson.Obj(members...), true
	}
	var g *group
	if tags := tagOf(p.Name, nil); len(tags) > 0 {
		if g = t.groupOf(tags[0]); g == nil {
			return strictjson.Value{}, false
		}
	} else {
		g = &t.groups[(len(t.groups)-1+*used)%len(t.groups)]
		*used++
	}
	typ := p.Type.String()
	list := strings.HasPrefix(typ, "list") || strings.Contains(typ, "list[str]") && len(g.paths) > 1
	if !list {
		return strictjson.Text(g.paths[0]), true
	}
	if *length == 0 {
		*length = len(g.paths)
	}
	return texts(g.paths[:min(*length, len(g.paths))]), true
}

func (t *task) groupOf(tag string) *group {
	if i := slices.IndexFunc(t.groups, func(g group) bool { return g.tag == tag }); i >= 0 {
		return &t.groups[i]
	}
	return nil
}

// output names the files that a tool writes after the tool and the dates.
func (t *task) output(tool *catalogue.Tool, p *catalogue.Param, length int) strictjson.Value {
	short := tool.Name[strings.LastIndexByte(tool.Name, '_')+1:]
	path := func(i int) string { return fmt.Sprintf("%s/%s_%s.tif", t.id, short, t.dates[i%len(t.dates)]) }
	if length == 0 || !strings.Contains(p.Type.String(), "list") {
		return strictjson.Text(path(0))
	}
	var paths []string
	for i := range length {
		paths = append(paths, path(i))
	}
	return texts(paths)
}

// nouns are what perception tools look for.
var nouns = []string{"ship", "plane", "car", "bridge", "storage tank", "harbour", "tennis court", "building", "truck", "roundabout"}

// value draws an argument that is no path: a value of an earlier step where there is one of the type, else a new one,
// which the question then tells.
func (t *task) value(p *catalogue.Param, used *int) (value strictjson.Value, detail string, ok bool) {
	told := func(v strictjson.Value) (strictjson.Value, string, bool) {
		return v, strings.ReplaceAll(p.Name, "_", " ") + " " + strings.Trim(v.JSON(), `"`), true
	}
	if len(p.Enum) > 0 {
		return told(strictjson.Text(p.Enum[t.IntN(len(p.Enum))]))
	}
	switch typ := p.Type.String(); {
	case strings.HasPrefix(typ, "list[list[float]]"):
		value, ok = last(t.boxes)
		return value, "", ok
	case strings.HasPrefix(typ, "list[float"):
		value, ok = last(t.series)
		return value, "", ok
	case typ == "bool":
		return told(strictjson.Boolean(t.IntN(2) == 0))
	case typ == "str" && p.Name == "text_prompt":
		return told(strictjson.Text(nouns[t.IntN(len(nouns))]))
	case strings.HasPrefix(typ, "int"):
		low := 2
		if p.Minimum != nil {
			low = max(low, int(*p.Minimum))
		}
		return told(strictjson.Int(low + t.IntN(10)))
	case strings.HasPrefix(typ, "float"):
		limit := p.Maximum != nil || p.Above != nil || strings.Contains(p.Name, "threshold") || !p.Required()
		if n := len(t.numbers); n > *used && !limit {
			*used++
			return t.numbers[n-*used], "", true // the newest first
		}
		if !limit {
			return value, "", false
		}
		return told(t.number())
	}
	return value, "", false
}

func last(list []strictjson.Value) (strictjson.Value, bool) {
	if len(list) == 0 {
		return strictjson.Value{}, false
	}
	return list[len(list)-1], true
}

// number draws a positive number, now and then with all digits of a computed one.
func (t *task) number() strictjson.Value {
	f := t.Float64() * [...]float64{1, 10, 100, 300}[t.IntN(4)]
	digits := 1 + t.IntN(3)
	if t.IntN(5) == 0 {
		digits = 12
	}
	v, _ := strictjson.Literal(strings.TrimRight(strings.TrimRight(fmt.Sprintf("%.*f", digits, f+0.01), "0"), "."))
	return v
}

// observe draws what a call returns and keeps it for later steps. It is false for results that are neither files nor
// numbers nor boxes.
func (t *task) observe(tool *catalogue.Tool, args strictjson.Value) (strictjson.Value, bool) {
	var written []string
	files := 1
	for i := range args.Len() {
		p, _ := tool.Param(args.Key(i))
		v := args.Index(i)
		if p.IO == "in" && v.Kind() == strictjson.Array {
			files = max(files, v.Len())
		}
		if p.IO != "out" {
			continue
		}
		if v.Kind() == strictjson.String {
			written = append(written, "benchmark/out/"+v.Text())
		}
		for j := range v.Len() {
			written = append(written, "benchmark/out/"+v.Index(j).Text())
		}
	}
	numbers := func(n int) strictjson.Value {
		var list []strictjson.Value
		for range n {
			list = append(list, t.number())
		}
		return strictjson.List(list...)
	}
	switch typ := tool.Returns.String(); {
	case len(written) > 0:
		t.groups = append(t.groups, group{"out", written})
		if typ == "str" && t.IntN(2) == 0 {
			return strictjson.Text("Result save at " + written[0]), true
		}
		return texts(written), true
	case typ == "list[list[float]]":
		var boxes []strictjson.Value
		for range 1 + t.IntN(4) {
			boxes = append(boxes, numbers(4))
		}
		t.boxes = append(t.boxes, strictjson.List(boxes...))
		return strictjson.List(boxes...), true
	case typ == "list[float]":
		v := numbers(max(files, 2))
		t.series = append(t.series, v)
		for i := range v.Len() {
			t.numbers = append(t.numbers, v.Index(i))
		}
		return v, true
	case typ == "float" || typ == "float | int":
		v := t.number()
		t.numbers = append(t.numbers, v)
		return v, true
	case strings.HasPrefix(typ, "int"):
		v := strictjson.Int(t.IntN(200))
		t.numbers = append(t.numbers, v)
		return v, true
	}
	return strictjson.Value{}, false
}
