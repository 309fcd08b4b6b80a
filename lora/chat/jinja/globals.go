package jinja

import (
	"math"
	"time"
)

const maxRange = 100_000

// globals are the functions every template can call. Jinja's cycler, joiner and lipsum are left out.
var globals map[string]Value

func init() {
	globals = map[string]Value{}
	define := func(name string, call func(*state, callArgs) Value) { globals[name] = &builtin{name, call} }

	define("range", func(_ *state, a callArgs) Value { return newRange(a) })
	define("dict", func(st *state, a callArgs) Value { return st.newDict(a) })
	define("namespace", func(st *state, a callArgs) Value {
		d := st.newDict(a)
		for _, k := range d.keys {
			checkNamespaceName(k)
		}
		return &namespace{d}
	})
	raiser := signature("raise_exception", "message")
	define("raise_exception", func(st *state, a callArgs) Value {
		raise(ErrRaised, "%s", st.str(raiser.bind(a)[0]).s)
		return nil
	})
	clock := signature("strftime_now", "format")
	define("strftime_now", func(st *state, a callArgs) Value {
		format := wantText(clock.bind(a)[0]).s
		if st.now == nil {
			raise(ErrUnsupported, "strftime_now: the template shows the date, and the caller gave none")
		}
		return literal(strftime(st.now(), format))
	})
	for _, name := range []string{"cycler", "joiner", "lipsum"} {
		define(name, func(*state, callArgs) Value {
			raise(ErrUnsupported, "the function '%s'", name)
			return nil
		})
	}
}

func newRange(a callArgs) Value {
	if len(a.kwargs) > 0 || len(a.args) == 0 || len(a.args) > 3 {
		typeError("range expected 1 to 3 positional arguments")
	}
	r := &pyRange{step: 1}
	bound := func(v Value) int64 {
		refuseUndefined(v)
		// Bounds far outside any range that is allowed are clipped, so that the length does not overflow.
		return min(max(int64(index(v)), math.MinInt64/4), math.MaxInt64/4)
	}
	switch len(a.args) {
	case 1:
		r.stop = bound(a.args[0])
	case 3:
		if r.step = bound(a.args[2]); r.step == 0 {
			typeError("range() arg 3 must not be zero")
		}
		fallthrough
	case 2:
		r.start, r.stop = bound(a.args[0]), bound(a.args[1])
	}
	if r.len() > maxRange {
		typeError("Range too big. The sandbox blocks ranges larger than MAX_RANGE (%d).", maxRange)
	}
	return r
}

// newDict is dict(): from a mapping or pairs, then keywords.
func (st *state) newDict(a callArgs) *Dict {
	d := NewDict()
	switch len(a.args) {
	case 0:
	case 1:
		refuseUndefined(a.args[0])
		if from, ok := a.args[0].(*Dict); ok {
			st.step(from.Len())
			d = from.copy()
			break
		}
		for _, v := range st.list(a.args[0]) {
			pair := st.list(v)
			if len(pair) != 2 {
				typeError("dictionary update sequence element has length %d; 2 is required", len(pair))
			}
			d.put(st.mustHash(pair[0]), pair[0], pair[1])
		}
	default:
		typeError("dict expected at most 1 argument, got %d", len(a.args))
	}
	for _, k := range a.kwargs {
		d.Set(k.name, k.value)
	}
	return d
}

// Clock returns a function for Render that always shows the same time.
func Clock(t time.Time) func() time.Time { return func() time.Time { return t } }
