// Package slots turns a seed trajectory into a typed, reviewed program that
// makes new instances of it: dependency analysis, slot programs in YAML and
// expr-lang, discovery, lint and review (Earth-Agent-Pro §V-B, Eq. 11). It knows
// neither models nor training.
package slots

import (
	"math"
	"strconv"
	"strings"

	"terraloom/data"
	"terraloom/data/strictjson"
)

// Origin says where the value of an argument leaf came from.
type Origin string

// The origins. The first group are edges of the dependency graph: they name a
// producing step.
const (
	FromObservation Origin = "observation"  // equal to an earlier observed value
	FromListing     Origin = "listing"      // folder of a listing + one of its entries
	FromArtifact    Origin = "artifact"     // an earlier artefact or list entry under another prefix
	FromText        Origin = "text"         // a number or path inside an observation's text
	FromNumberText  Origin = "number-text"  // an earlier number written as a string, or the reverse
	FromRounded     Origin = "rounded"      // an earlier number with fewer decimals
	FromScaled      Origin = "scaled"       // a round multiple of an earlier number
	FromOutput      Origin = "output"       // a new output path
	FromInputs      Origin = "inputs"       // the inputs, or a folder below them
	FromQuery       Origin = "query"        // the query's text or numbers
	FromArgument    Origin = "argument"     // an earlier argument
	FromDefault     Origin = "constant"     // a word or index of the tool's own vocabulary
	FromNowhere     Origin = "nowhere"      // not derivable
	FromMissingPath Origin = "missing-path" // a path that no earlier step made or listed
)

// Origins lists every origin in the order reports use.
var Origins = []Origin{FromListing, FromObservation, FromArtifact, FromText, FromNumberText, FromRounded, FromScaled,
	FromOutput, FromInputs, FromQuery, FromArgument, FromDefault, FromMissingPath, FromNowhere}

// Leaf is one argument leaf and its origin.
type Leaf struct {
	Step    int
	Pointer string // JSON pointer into the step's arguments
	Value   strictjson.Value
	Origin  Origin
	Use     data.Use // for edges; From is -1 otherwise
}

// Analysis is the dependency structure G_z of one trajectory.
type Analysis struct {
	Leaves []Leaf       // every argument leaf, in order
	Uses   [][]data.Use // per step: edges, a list copied whole as one edge
}

// Transforms of a Use that are computed by Apply; the parameter follows a colon.
const (
	identity     = "identity"    // the value itself
	join         = "join"        // folder + "/" + entry, the folder being the listing's argument
	rebase       = "rebase"      // same base name under another prefix
	pathIn       = "path"        // the path at the end of a message
	parsePrefix  = "parse:"      // parse:/0/2 – the number at that place of a Python literal in a string
	asText       = "text"        // number written as a string
	asNumber     = "number"      // numeric string written as a number
	roundPrefix  = "round:"      // round:2 – rounded to that many decimals
	scalePrefix  = "scale:"      // scale:1.5 – times that factor
	outputEffect = "made-output" // base name of the producing step's own output argument
)

// scales are the factors a threshold is made with from an observed mean.
var scales = []float64{1.5, 1.1, 1.2, 1.05, 1.25, 2, 0.5, 0.8, 0.9, 0.95, 0.7, 0.75, 0.2, 0.3, 100, 0.01, 1000, 0.001}

// Analyze finds the origin of every argument leaf of t. It is a pure function:
// two analyses of the same trajectory are identical.
func Analyze(t *data.Trajectory) *Analysis {
	ix := newIndex(t)
	a := &Analysis{Uses: make([][]data.Use, len(t.Steps))}
	for i, s := range t.Steps {
		for k := range s.Arguments.Len() {
			key := s.Arguments.Key(k)
			ix.argument(a, i, key, "/"+strictjson.EscapePointer(key), s.Arguments.Index(k))
		}
		ix.add(i, s)
	}
	return a
}

// argument classifies the leaves of one argument value and its edges.
func (ix *index) argument(a *Analysis, step int, key, pointer string, v strictjson.Value) {
	first := len(a.Leaves)
	v.Leaves(pointer, func(p string, leaf strictjson.Value) {
		l := Leaf{Step: step, Pointer: p, Value: leaf, Use: data.Use{From: -1}}
		ix.classify(&l, key)
		a.Leaves = append(a.Leaves, l)
	})
	leaves := a.Leaves[first:]
	if u, ok := ix.wholeList(pointer, v, leaves); ok {
		a.Uses[step] = append(a.Uses[step], u)
		return
	}
	for _, l := range leaves {
		if l.Use.From >= 0 {
			a.Uses[step] = append(a.Uses[step], l.Use)
		}
	}
}

// wholeList recognises an array argument that repeats a whole earlier observation.
func (ix *index) wholeList(pointer string, v strictjson.Value, leaves []Leaf) (data.Use, bool) {
	if v.Kind() != strictjson.Array || v.Len() < 2 || len(leaves) == 0 || leaves[0].Use.From < 0 {
		return data.Use{}, false
	}
	from := leaves[0].Use.From
	if obs := ix.t.Steps[from].Observation; sameNumbers(obs, v) {
		return data.Use{Argument: pointer, From: from, Transform: identity}, true
	}
	return data.Use{}, false
}

// classify sets the origin of one leaf of the argument named key.
func (ix *index) classify(l *Leaf, key string) {
	edge := func(o Origin, r ref, transform string) {
		l.Origin, l.Use = o, data.Use{Argument: l.Pointer, From: r.step, Observation: r.pointer, Transform: transform}
	}
	switch l.Value.Kind() {
	case strictjson.String:
		ix.classifyText(l, key, edge)
	case strictjson.Number:
		ix.classifyNumber(l, key, edge)
	default:
		l.Origin = FromDefault
	}
}

func (ix *index) classifyText(l *Leaf, key string, edge func(Origin, ref, string)) {
	s := strings.TrimSpace(l.Value.Text())
	base := baseName(s)
	isPath := looksLikePath(s)
	if r, ok := ix.texts[s]; ok {
		edge(FromObservation, r, identity)
		return
	}
	if r, ok := ix.messages[s]; ok {
		edge(FromText, r, pathIn)
		return
	}
	if isOutput(key) {
		l.Origin = FromOutput
		return
	}
	if ix.inputs[s] {
		l.Origin = FromInputs
		return
	}
	if isPath {
		if r, ok := ix.entries[s]; ok {
			edge(FromListing, r, join)
			return
		}
		if r, ok := ix.bases[base]; ok {
			edge(FromArtifact, r, rebase)
			return
		}
		if r, ok := ix.made[base]; ok {
			edge(FromArtifact, r, outputEffect)
			return
		}
		l.Origin = FromMissingPath
		if _, ok := ix.args[s]; ok {
			l.Origin = FromArgument
		}
		return
	}
	if f, err := strconv.ParseFloat(strings.TrimSuffix(s, "%"), 64); err == nil {
		if r, ok := ix.numbers[key64(f)]; ok {
			if r.parsed != "" {
				edge(FromNumberText, r, parsePrefix+r.parsed)
			} else {
				edge(FromNumberText, r, asText)
			}
			return
		}
		if ix.queryNumbers[key64(f)] {
			l.Origin = FromQuery
			return
		}
	}
	switch _, arg := ix.args[s]; {
	case len(s) > 2 && strings.Contains(ix.query, strings.ToLower(s)):
		l.Origin = FromQuery
	case arg:
		l.Origin = FromArgument
	case len(s) <= 24:
		l.Origin = FromDefault
	default:
		l.Origin = FromNowhere
	}
}

func (ix *index) classifyNumber(l *Leaf, key string, edge func(Origin, ref, string)) {
	f, ok := l.Value.Float()
	if !ok {
		l.Origin = FromNowhere
		return
	}
	data := !isSetting(key)
	if !data && ix.queryNumbers[key64(f)] {
		l.Origin = FromQuery
		return
	}
	informative := data || !l.Value.IsInteger() || math.Abs(f) >= 100
	if r, ok := ix.numbers[key64(f)]; ok && informative {
		switch {
		case r.parsed != "":
			edge(FromText, r, parsePrefix+r.parsed)
		case r.text:
			edge(FromNumberText, r, asNumber)
		default:
			edge(FromObservation, r, identity)
		}
		return
	}
	if ix.queryNumbers[key64(f)] {
		l.Origin = FromQuery
		return
	}
	if d := decimals(l.Value.Text()); informative && d > 0 {
		if r, ok := ix.rounded(f, d); ok {
			edge(FromRounded, r, roundPrefix+strconv.Itoa(d))
			return
		}
	}
	if !data && informative {
		if r, k, ok := ix.scaled(f); ok {
			edge(FromScaled, r, scalePrefix+strconv.FormatFloat(k, 'g', -1, 64))
			return
		}
	}
	switch {
	case ix.argNumbers[key64(f)] && informative:
		l.Origin = FromArgument
	case !data && l.Value.IsInteger():
		l.Origin = FromDefault
	default:
		l.Origin = FromNowhere
	}
}

// isOutput reports whether an argument names files to be written.
func isOutput(key string) bool {
	k := strings.ToLower(key)
	return strings.HasPrefix(k, "output") || strings.HasPrefix(k, "save") || k == "base_save_name"
}

// isSetting reports whether a numeric argument steers a tool (threshold, band,
// ground sampling distance) rather than carries data.
func isSetting(key string) bool {
	k := strings.ToLower(key)
	for _, part := range [...]string{"threshold", "band", "gsd", "percentile", "multiplier", "wavelength", "period", "radius", "condition", "mode", "penalty", "alpha", "beta"} {
		if strings.Contains(k, part) {
			return true
		}
	}
	return false
}

func looksLikePath(s string) bool {
	if s == "" || strings.ContainsAny(s, "\n{[") || len(s) > 300 {
		return false
	}
	if dot := strings.LastIndexByte(s, '.'); dot > 0 && len(s)-dot <= 5 && len(s)-dot > 2 && !digit(s[dot+1]) && !strings.Contains(s[dot:], " ") {
		return true
	}
	return strings.Contains(s, "/") && !strings.Contains(s, " ")
}

// baseName is the last element of a slash or backslash path.
func baseName(s string) string {
	return s[strings.LastIndexAny(s, `/\`)+1:]
}

func decimals(lit string) int {
	if strings.ContainsAny(lit, "eE") {
		return 0
	}
	if dot := strings.IndexByte(lit, '.'); dot >= 0 {
		return len(lit) - dot - 1
	}
	return 0
}

// key64 makes -0 and 0 one key.
func key64(f float64) uint64 { return math.Float64bits(f + 0) }

// sameNumbers reports whether two arrays hold the same leaves, numbers compared by value.
func sameNumbers(a, b strictjson.Value) bool {
	if a.Kind() != b.Kind() || a.Len() != b.Len() {
		return false
	}
	if a.Len() > 0 {
		for i := range a.Len() {
			if a.Kind() == strictjson.Object && a.Key(i) != b.Key(i) || !sameNumbers(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return true
	}
	if a.Kind() == strictjson.Number {
		x, _ := a.Float()
		y, _ := b.Float()
		return x == y
	}
	return a.Text() == b.Text()
}
