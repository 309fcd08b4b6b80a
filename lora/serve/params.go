package serve

import (
	"crypto/rand"
	"encoding/binary"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"terraloom/data/strictjson"
	"terraloom/lora/generate"
)

// bodyTimeout is how long a client may take to send its request.
const bodyTimeout = time.Minute

// readBody reads the JSON object of a request.
func readBody(w http.ResponseWriter, r *http.Request) (fields, error) {
	// The deadline must be gone before the answer begins: its passing would look as if the client had left.
	deadline := http.NewResponseController(w).SetReadDeadline
	_ = deadline(time.Now().Add(bodyTimeout))
	raw, err := io.ReadAll(r.Body)
	_ = deadline(time.Time{})
	if err != nil {
		return fields{}, err
	}
	v, err := strictjson.Parse(raw)
	if err != nil {
		return fields{}, invalid("", "the body is not JSON: %s", err)
	}
	if v.Kind() != strictjson.Object {
		return fields{}, invalid("", "the body must be a JSON object, not %s", v.Kind())
	}
	return fields{value: v, taken: map[string]bool{}}, nil
}

// fields are the members of a JSON object, read one by one. The first error is kept; members that nobody asked for are
// an error too.
type fields struct {
	value strictjson.Value
	path  string // of the object, with a dot at the end
	taken map[string]bool
	err   error
}

// get returns a member; null counts as absent.
func (f *fields) get(name string) strictjson.Value {
	f.taken[name] = true
	v := f.value.Get(name)
	if v.Kind() == strictjson.Null {
		return strictjson.Value{}
	}
	return v
}

func (f *fields) fail(name, format string, args ...any) {
	if f.err == nil {
		f.err = invalid(f.path+name, f.path+name+": "+format, args...)
	}
}

// typed returns a member that must have a kind if it is there.
func (f *fields) typed(name string, kind strictjson.Kind) (v strictjson.Value, ok bool) {
	v = f.get(name)
	if v.IsAbsent() {
		return v, false
	}
	if v.Kind() != kind {
		f.fail(name, "expected %s, not %s", kind, v.Kind())
		return v, false
	}
	return v, true
}

func (f *fields) text(name string) string {
	v, _ := f.typed(name, strictjson.String)
	return v.Text()
}

func (f *fields) flag(name string) bool {
	v, _ := f.typed(name, strictjson.Bool)
	return v.True()
}

func (f *fields) number(name string, low, high, absent float64) float64 {
	v, ok := f.typed(name, strictjson.Number)
	if !ok {
		return absent
	}
	x, ok := v.Float()
	if !ok || x < low || x > high {
		f.fail(name, "%s is not in %v … %v", v.JSON(), low, high)
	}
	return x
}

func (f *fields) integer(name string, low, high, absent int) int {
	x := f.number(name, float64(low), float64(high), float64(absent))
	if x != math.Trunc(x) {
		f.fail(name, "expected a whole number")
	}
	return int(x)
}

// inner returns an object member.
func (f *fields) inner(name string) (fields, bool) {
	v, ok := f.typed(name, strictjson.Object)
	return fields{value: v, path: f.path + name + ".", taken: map[string]bool{}}, ok
}

// done reports the first error, or a member that was not asked for.
func (f *fields) done(inner ...fields) error {
	if f.err != nil {
		return f.err
	}
	for i := range f.value.Len() {
		if name := f.value.Key(i); !f.taken[name] {
			f.fail(name, "unknown field")
			return f.err
		}
	}
	for _, g := range inner {
		if err := g.done(); err != nil {
			return err
		}
	}
	return nil
}

// common is what both kinds of completions ask for.
type common struct {
	model    string // the engine's name
	shown    string // the client's
	sampling generate.Sampling
	seeded   bool
	n        int
	max      int // tokens; 0: as many as fit
	stop     []string
	stream   bool
	usage    bool // a last event with the usage
}

// maxChoices bounds n, and the prompts of a completions request.
const maxChoices = 128

// ignored are fields that do not change what is generated here.
var ignored = []string{"user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key", "parallel_tool_calls", "reasoning_effort", "verbosity", "prediction"}

// neutral are fields that are only understood at the value 0, which changes nothing.
var neutral = []string{"presence_penalty", "frequency_penalty"}

func (s *Server) common(f *fields) common {
	var c common
	c.shown = f.text("model")
	switch {
	case c.shown == "":
		f.fail("model", "name one of %s", strings.Join(s.names(), ", "))
	case !slices.Contains(s.names(), c.shown):
		if f.err == nil {
			f.err = apiError{http.StatusNotFound, "invalid_request_error", "model_not_found", "model",
				"no model " + c.shown + ": there are " + strings.Join(s.names(), ", ")}
		}
	case c.shown != BaseName:
		c.model = c.shown
	}
	c.sampling = generate.Sampling{
		Temperature:       f.number("temperature", 0, 100, 1),
		TopP:              f.number("top_p", 0, 1, 1),
		TopK:              max(f.integer("top_k", -1, 1<<30, 0), 0),
		MinP:              f.number("min_p", 0, 1, 0),
		RepetitionPenalty: f.number("repetition_penalty", 0.01, 100, 1),
	}
	if v, ok := f.typed("seed", strictjson.Number); ok {
		x, err := strconv.ParseInt(v.JSON(), 10, 64)
		if err != nil {
			f.fail("seed", "expected a whole number of 64 bits")
		}
		c.sampling.Seed, c.seeded = uint64(x), true
	}
	c.n = f.integer("n", 1, maxChoices, 1)
	c.stream = f.flag("stream")
	if o, ok := f.inner("stream_options"); ok {
		c.usage = o.flag("include_usage")
		o.get("include_obfuscation") // pads events against eavesdroppers; there is nothing to pad here
		if err := o.done(); err != nil && f.err == nil {
			f.err = err
		}
		if !c.stream {
			f.fail("stream_options", "only with \"stream\": true")
		}
	}
	switch v := f.get("stop"); v.Kind() {
	case strictjson.Absent:
	case strictjson.String:
		c.stop = []string{v.Text()}
	case strictjson.Array:
		for i := range v.Len() {
			if v.Index(i).Kind() != strictjson.String {
				f.fail("stop", "expected a list of texts")
			}
			c.stop = append(c.stop, v.Index(i).Text())
		}
	default:
		f.fail("stop", "expected a text or a list of texts")
	}
	c.stop = slices.DeleteFunc(c.stop, func(t string) bool { return t == "" })
	for _, name := range neutral {
		if f.number(name, -2, 2, 0) != 0 {
			f.fail(name, "not supported: use repetition_penalty")
		}
	}
	if v, ok := f.typed("logit_bias", strictjson.Object); ok && v.Len() > 0 {
		f.fail("logit_bias", "not supported")
	}
	for _, name := range ignored {
		f.get(name)
	}
	return c
}

// row is the request for one completion of a prompt.
func (c common) row(prompt []int32, choice int) generate.Request {
	r := generate.Request{Model: c.model, Prompt: prompt, MaxTokens: c.max, Sampling: c.sampling, Stop: c.stop}
	if c.seeded {
		// Choices of one request differ, and a choice does not depend on how many there are.
		r.Sampling.Seed += uint64(choice) * 0x9e3779b97f4a7c15
	} else {
		var b [8]byte
		_, _ = rand.Read(b[:]) // never fails
		r.Sampling.Seed = binary.LittleEndian.Uint64(b[:])
	}
	return r
}
