package slots

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/expr-lang/expr/vm"

	"terraloom/data"
	"terraloom/data/strictjson"
	"terraloom/slots/gazetteer"
)

// node renders one value of an instance. A node without moving parts returns
// the seed's own value, shared.
type node struct {
	seed  strictjson.Value
	kind  nodeKind
	parts []boundPart
	slot  int
	edge  *edge
	kids  []node
}

type nodeKind uint8

const (
	fixed nodeKind = iota
	textNode
	slotNode
	edgeNode
	branch
)

// boundPart is a template part with its slot resolved.
type boundPart struct {
	lit    string
	slot   int // -1 for literal text
	render func(v any, dst []byte) ([]byte, error)
}

// edge is an argument leaf that takes its value from an earlier observation.
type edge struct{ use data.Use }

// builder turns seed values into nodes and keeps the first error.
type builder struct {
	c     *Compiled
	at    map[string]*Occurrence
	edges map[string]*edge
	err   error
}

func (b *builder) build(pointer string, v strictjson.Value) node {
	n := node{seed: v}
	if o := b.at[pointer]; o != nil {
		if err := b.bind(&n, o); err != nil && b.err == nil {
			b.err = b.c.errorf("occurrence %s: %v", pointer, err)
		}
		return n
	}
	if e := b.edges[pointer]; e != nil {
		n.kind, n.edge = edgeNode, e
		return n
	}
	if v.Len() == 0 {
		return n
	}
	moving := false
	kids := make([]node, v.Len())
	for i := range kids {
		token := strconv.Itoa(i)
		if v.Kind() == strictjson.Object {
			token = strictjson.EscapePointer(v.Key(i))
		}
		kids[i] = b.build(pointer+"/"+token, v.Index(i))
		moving = moving || kids[i].kind != fixed
	}
	if moving {
		n.kind, n.kids = branch, kids
	}
	return n
}

// bind attaches an occurrence's template or slot.
func (b *builder) bind(n *node, o *Occurrence) error {
	if o.Slot != "" {
		i, ok := b.c.slotAt[o.Slot]
		if !ok {
			return fmt.Errorf("unknown slot %q", o.Slot)
		}
		n.kind, n.slot = slotNode, i
		return nil
	}
	if n.seed.Kind() != strictjson.String {
		return fmt.Errorf("a text template needs a string, the seed has %s", n.seed.Kind())
	}
	parts, err := parseTemplate(o.Text)
	if err != nil {
		return err
	}
	for _, p := range parts {
		bp := boundPart{lit: p.lit, slot: -1}
		if p.slot != "" {
			i, ok := b.c.slotAt[p.slot]
			if !ok {
				return fmt.Errorf("unknown slot %q in template %q", p.slot, o.Text)
			}
			bp.slot = i
			if bp.render, err = b.c.Program.Slots[i].Type.formatter(p.format); err != nil {
				return fmt.Errorf("{%s:%s}: %w", p.slot, p.format, err)
			}
		}
		n.parts = append(n.parts, bp)
	}
	n.kind = textNode
	return nil
}

// formatter returns the function that writes a slot value of type t into text.
func (t Type) formatter(format string) (func(v any, dst []byte) ([]byte, error), error) {
	switch t {
	case Place:
		style, err := gazetteer.ParseStyle(format)
		if err != nil {
			return nil, err
		}
		return func(v any, dst []byte) ([]byte, error) {
			return append(dst, gazetteer.Render(v.(gazetteer.Place), style)...), nil
		}, nil
	case Date:
		if format == "" {
			format = "%Y-%m-%d"
		}
		if _, err := FormatDate(time.Time{}, format); err != nil {
			return nil, err
		}
		return func(v any, dst []byte) ([]byte, error) {
			d, err := time.Parse(time.DateOnly, v.(string))
			if err != nil {
				return dst, err
			}
			s, err := FormatDate(d, format)
			return append(dst, s...), err
		}, nil
	case NumberType, Threshold:
		d := -1
		if format != "" {
			if n, err := fmt.Sscanf(format, ".%df", &d); n != 1 || err != nil || d < 0 || d > 15 {
				return nil, fmt.Errorf("a number's format is like .2f")
			}
		}
		return func(v any, dst []byte) ([]byte, error) {
			return strconv.AppendFloat(dst, v.(float64), 'f', d, 64), nil
		}, nil
	case Count, Period, File:
		width := 0
		if format != "" {
			if n, err := fmt.Sscanf(format, "0%dd", &width); n != 1 || err != nil || width < 1 || width > 32 {
				return nil, fmt.Errorf("a whole number's format is like 04d")
			}
		}
		return func(v any, dst []byte) ([]byte, error) { return fmt.Appendf(dst, "%0*d", width, v.(int)), nil }, nil
	case TextType, Artifact:
		style, err := gazetteer.ParseStyle(format)
		if err != nil {
			return nil, err
		}
		return func(v any, dst []byte) ([]byte, error) {
			return append(dst, gazetteer.Restyle(v.(string), style)...), nil
		}, nil
	}
	return nil, fmt.Errorf("a %s slot cannot stand inside text", t)
}

// frame is the state of one composition.
type frame struct {
	c            *Compiled
	values       []any // by slot index
	observations []strictjson.Value
	env          map[string]any
	machine      *vm.VM
	started      time.Time // when the evaluation that runs began
}

func (f *frame) render(n *node) (strictjson.Value, error) {
	switch n.kind {
	case textNode:
		buf := make([]byte, 0, len(n.seed.Text())+16)
		for i := range n.parts {
			p := &n.parts[i]
			if p.slot < 0 {
				buf = append(buf, p.lit...)
				continue
			}
			var err error
			if buf, err = p.render(f.values[p.slot], buf); err != nil {
				return strictjson.Value{}, fmt.Errorf("slot %s: %w", f.c.Program.Slots[p.slot].Name, err)
			}
		}
		return strictjson.Text(string(buf)), nil
	case slotNode:
		return f.whole(n)
	case edgeNode:
		return f.follow(n)
	case branch:
		kids := make([]strictjson.Value, len(n.kids))
		for i := range n.kids {
			var err error
			if kids[i], err = f.render(&n.kids[i]); err != nil {
				return strictjson.Value{}, err
			}
		}
		return n.seed.Rebuilt(kids), nil
	}
	return n.seed, nil
}

// whole renders a leaf that is one slot's value, in the JSON type of the seed.
func (f *frame) whole(n *node) (strictjson.Value, error) {
	switch v := f.values[n.slot].(type) {
	case strictjson.Value:
		return v, nil
	case string:
		return strictjson.Text(v), nil
	case int:
		if n.seed.Kind() == strictjson.String {
			return strictjson.Text(strconv.Itoa(v)), nil
		}
		return strictjson.Int(v), nil
	case float64:
		if f, ok := n.seed.Float(); ok && f == v {
			return n.seed, nil // in the seed's spelling
		}
		if n.seed.Kind() == strictjson.String {
			return strictjson.Text(strconv.FormatFloat(v, 'f', -1, 64)), nil
		}
		if n.seed.IsInteger() && v == math.Trunc(v) {
			return strictjson.Int(int(v)), nil
		}
		return strictjson.Float(v), nil
	case []float64:
		if box := boxValue(v); !sameNumbers(box, n.seed) {
			return box, nil
		}
		return n.seed, nil
	}
	return strictjson.Value{}, fmt.Errorf("slot %s: a %s cannot be a whole value", f.c.Program.Slots[n.slot].Name, f.c.Program.Slots[n.slot].Type)
}

func boxValue(box []float64) strictjson.Value {
	items := make([]strictjson.Value, len(box))
	for i, x := range box {
		items[i] = strictjson.Float(x)
	}
	return strictjson.List(items...)
}

// follow renders an argument leaf from the observation it depends on.
func (f *frame) follow(n *node) (strictjson.Value, error) {
	u := n.edge.use
	pointer := u.Observation
	if to, ok := f.c.steps[u.From].remap[pointer]; ok {
		pointer = to
	}
	o, ok := f.observations[u.From].At(pointer)
	if !ok {
		return strictjson.Value{}, fmt.Errorf("argument %s: the observation of step %d has nothing at %q", u.Argument, u.From, pointer)
	}
	v, err := carry(u.Transform, o, n.seed)
	if x, errX := floatArg(v); err == nil && errX == nil && v.Kind() == n.seed.Kind() {
		if y, errY := floatArg(n.seed); errY == nil && x == y {
			return n.seed, nil // in the seed's spelling
		}
	}
	return v, err
}

// carry applies an edge's transform to the observed value o; like is the seed's
// argument, whose JSON type the result has.
func carry(transform string, o, like strictjson.Value) (strictjson.Value, error) {
	fail := func() (strictjson.Value, error) {
		return strictjson.Value{}, fmt.Errorf("transform %s does not apply to %s", transform, clip(o.JSON(), 60))
	}
	if p, ok := strings.CutPrefix(transform, parsePrefix); ok {
		lit, ok := parseLiteral(o.Text())
		if !ok {
			return fail()
		}
		if p == "/" {
			p = ""
		}
		if o, ok = lit.At(p); !ok || o.Kind() != strictjson.Number {
			return fail()
		}
		if like.Kind() == strictjson.String {
			return strictjson.Text(o.Text()), nil
		}
		return o, nil
	}
	x, err := floatArg(o)
	if err != nil {
		return fail()
	}
	switch {
	case like.Kind() == strictjson.String:
		text := strings.TrimSuffix(o.Text(), "%")
		if d := decimals(strings.TrimSuffix(like.Text(), "%")); o.Kind() == strictjson.Number && d > decimals(text) {
			text = strconv.FormatFloat(x, 'f', d, 64) // 3.744 written "3.7440"
		}
		if strings.HasSuffix(like.Text(), "%") {
			text += "%"
		}
		return strictjson.Text(text), nil
	case strings.HasPrefix(transform, roundPrefix):
		return strictjson.Float(roundTo(x, num(transform[len(roundPrefix):]))), nil
	case strings.HasPrefix(transform, scalePrefix):
		k, err := strconv.ParseFloat(transform[len(scalePrefix):], 64)
		if err != nil {
			return fail()
		}
		if decimals(like.Text()) > 8 {
			return strictjson.Float(x * k), nil
		}
		short, _ := strconv.ParseFloat(strconv.FormatFloat(x*k, 'g', 12, 64), 64) // 1.5·0.28 is 0.42
		return strictjson.Float(short), nil
	case o.Kind() == strictjson.String:
		v, ok := strictjson.Literal(strings.TrimSuffix(o.Text(), "%"))
		if !ok {
			return fail()
		}
		return v, nil
	}
	return o, nil
}
