package checkpoint

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"

	"terraloom/data/strictjson"
)

// maxJSON bounds a JSON file of a model folder that is read here; the largest in use, a shard index, is far smaller.
const maxJSON = 64 << 20

// readJSON reads a file that must hold one JSON object.
func readJSON(path string) (*fields, error) {
	raw, err := readFile(path)
	if err != nil {
		return nil, err
	}
	return parseObject(path, raw)
}

// readFile reads a file whole, up to maxJSON bytes.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxJSON+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(raw) > maxJSON {
		return nil, fmt.Errorf("%s: more than %d bytes: %w", path, maxJSON, ErrFormat)
	}
	return raw, nil
}

// parseObject parses one JSON object; name stands in messages. Repeated keys are refused, with their line.
func parseObject(name string, raw []byte) (*fields, error) {
	v, err := strictjson.Parse(raw)
	if err != nil {
		return nil, fmt.Errorf("%s:%w: %w", name, err, ErrFormat)
	}
	if v.Kind() != strictjson.Object {
		return nil, fmt.Errorf("%s: %s, expected a JSON object: %w", name, v.Kind(), ErrFormat)
	}
	return &fields{name: name, value: v}, nil
}

// fields reads members of a JSON object and gathers everything that is wrong with them. null counts as absent, as in
// transformers.
type fields struct {
	name   string // file and path, for messages
	value  strictjson.Value
	parent *fields // where problems go; nil at the top
	errs   []error
}

// fail records a problem with a member.
func (p *fields) fail(kind error, key, format string, args ...any) {
	root := p
	for root.parent != nil {
		root = root.parent
	}
	root.errs = append(root.errs, fmt.Errorf("%s: %s: %s: %w", p.name, key, fmt.Sprintf(format, args...), kind))
}

// err joins the problems so far.
func (p *fields) err() error { return errors.Join(p.errs...) }

func (p *fields) get(key string) (v strictjson.Value, ok bool) {
	v = p.value.Get(key)
	return v, v.Kind() != strictjson.Absent && v.Kind() != strictjson.Null
}

// typed is a member of a given kind; ok is false if it is absent, or wrong and recorded.
func (p *fields) typed(key string, kind strictjson.Kind) (v strictjson.Value, ok bool) {
	v, ok = p.get(key)
	if ok && v.Kind() != kind {
		p.fail(ErrFormat, key, "%s, expected %s", short(v), kind)
		return v, false
	}
	return v, ok
}

// object returns a sub-object, or nil.
func (p *fields) object(key string) *fields {
	v, ok := p.typed(key, strictjson.Object)
	if !ok {
		return nil
	}
	return &fields{name: p.name + ": " + key, value: v, parent: p}
}

func (p *fields) text(key string) string {
	v, ok := p.typed(key, strictjson.String)
	if !ok {
		return ""
	}
	return v.Text()
}

// texts is a list of strings, nil if absent.
func (p *fields) texts(key string) []string {
	v, ok := p.typed(key, strictjson.Array)
	if !ok {
		return nil
	}
	list := make([]string, v.Len())
	for i := range list {
		if v.Index(i).Kind() != strictjson.String {
			p.fail(ErrFormat, key, "entry %d is %s, expected a string", i, short(v.Index(i)))
			return nil
		}
		list[i] = v.Index(i).Text()
	}
	return list
}

// boolean reports the value, and whether it is there.
func (p *fields) boolean(key string) (value, there bool) {
	v, ok := p.typed(key, strictjson.Bool)
	return v.True(), ok
}

func (p *fields) flag(key string) bool {
	value, there := p.boolean(key)
	return there && value
}

// required is an integer in [1, limit].
func (p *fields) required(key string, limit int) int {
	if _, ok := p.get(key); !ok {
		p.fail(ErrFormat, key, "missing, expected an integer")
		return 1
	}
	return p.optional(key, limit, 1, nil)
}

// optional is an integer in [least, limit], or what missing returns (least without it).
func (p *fields) optional(key string, limit, least int, missing func() int) int {
	v, ok := p.get(key)
	if !ok {
		if missing == nil {
			return least
		}
		return missing()
	}
	n, err := strconv.ParseInt(v.Text(), 10, 64)
	if !v.IsInteger() || err != nil {
		p.fail(ErrFormat, key, "%s, expected an integer", short(v))
		return least
	}
	if n < int64(least) || n > int64(limit) {
		p.fail(ErrFormat, key, "%d, expected %d to %d", n, least, limit)
		return least
	}
	return int(n)
}

// number is a finite float, or what missing returns; without missing, absence is an error.
func (p *fields) number(key string, missing func() float64) float64 {
	v, ok := p.get(key)
	if !ok {
		if missing != nil {
			return missing()
		}
		p.fail(ErrFormat, key, "missing, expected a number")
		return math.NaN()
	}
	f, ok := v.Float()
	if !ok {
		p.fail(ErrFormat, key, "%s, expected a number", short(v))
		return math.NaN()
	}
	return f
}

// ids is a token id or a list of them, each inside the vocabulary; nil when absent. The first Llama conversions wrote
// −1 for "none".
func (p *fields) ids(key string, vocab int) []int {
	v, ok := p.get(key)
	if !ok || v.Text() == "-1" {
		return nil
	}
	items := []strictjson.Value{v}
	if v.Kind() == strictjson.Array {
		items = items[:0]
		for i := range v.Len() {
			items = append(items, v.Index(i))
		}
	}
	var list []int
	for _, item := range items {
		id, err := strconv.Atoi(item.Text())
		if !item.IsInteger() || err != nil {
			p.fail(ErrFormat, key, "%s, expected a token id or a list of them", short(v))
			return nil
		}
		if id < 0 || id >= vocab {
			p.fail(ErrFormat, key, "token id %d is outside the vocabulary of %d", id, vocab)
			return nil
		}
		if !slices.Contains(list, id) {
			list = append(list, id)
		}
	}
	return list
}

// short is a value as it is written, cut for messages.
func short(v strictjson.Value) string {
	const limit = 60
	if s := []rune(v.JSON()); len(s) > limit {
		return string(s[:limit]) + "…"
	}
	return v.JSON()
}
