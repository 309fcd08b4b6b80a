// Package reward scores completions against references: the argument reward of
// Earth-Agent-Pro (Eq. 13) and weighted sums of it with other functions. It
// sees the completion's text and the reference object, nothing else: no tool
// name, no execution, no model, no files.
package reward

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"terraloom/data/strictjson"
)

// Status says what a completion is as JSON: the three cases of Eq. 13.
type Status string

// The statuses.
const (
	ParseFailure Status = "parse_failure" // not JSON (ξ = ⊥): the reward is -2
	NotObject    Status = "not_object"    // JSON, but no non-empty object (ξ ∈ J∖D⁺): the reward is -1
	Object       Status = "object"        // a non-empty object (ξ ∈ D⁺): the reward is S_arg
)

// Rewards that do not depend on the keys.
const (
	rewardUnparsed = -2
	rewardFloor    = -1 // also the least S_arg
)

// Score is the argument reward of one completion with its parts. Two scores
// that are equal under == say the same; the order of keys and the white space
// of the completion change nothing in it.
type Score struct {
	Reward  float64 // r of Eq. 13, in [-2, 2]
	Status  Status
	Keys    int    // m = |K*|: keys of the reference
	Matched int    // |Kc|: keys of the reference that the completion has
	Missing int    // keys of the reference that it lacks; 0 unless Status is Object
	Extra   int    // keys that the reference lacks
	Values  int    // A_val: matched keys whose values are equivalent
	Reason  string // one line for people
}

// Exact reports whether every key and value is right.
func (s Score) Exact() bool { return s.Status == Object && s.Values == s.Keys && s.Extra == 0 }

// ListRule says when two JSON arrays are equivalent.
type ListRule string

// The list rules. In Set and Subset every item counts as often as it stands
// there, and no item has two partners.
const (
	Ordered ListRule = "ordered" // same items in the same order
	Set     ListRule = "set"     // same items in any order
	Subset  ListRule = "subset"  // all items of the reference, in any order; more are allowed
)

// ListRules are the known list rules.
var ListRules = []ListRule{Ordered, Set, Subset}

// Rules is what Eq. 13 leaves open: the relation ≡ on values and what counts as
// the completion's JSON.
type Rules struct {
	// Tolerance is the greatest difference, inclusive and absolute, between
	// equivalent floating-point numbers, taken between the numbers as written.
	Tolerance float64 `yaml:"tolerance"`
	// Lists is the rule for arrays at every depth.
	Lists ListRule `yaml:"lists"`
	// Extract allows text around the object: where the whole is not JSON, what
	// reaches from the first opening to the last closing brace is parsed. Text
	// with other braces, or with two objects, stays a parse failure.
	Extract bool `yaml:"extract"`
}

// DefaultRules are the rules of the paper: tolerance 1e-6, ordered lists, the
// whole completion is JSON.
func DefaultRules() Rules { return Rules{Tolerance: 1e-6, Lists: Ordered} }

func (r Rules) validate() []error {
	var errs []error
	if !(r.Tolerance >= 0 && r.Tolerance < math.Inf(1)) {
		errs = append(errs, fmt.Errorf("tolerance is %v; a finite number of at least 0", r.Tolerance))
	}
	if !slices.Contains(ListRules, r.Lists) {
		errs = append(errs, fmt.Errorf("lists is %q; one of %s, %s, %s", r.Lists, Ordered, Set, Subset))
	}
	return errs
}

// Score is Eq. 13:
//
//	r = -2                                        if the completion is not JSON,
//	    -1                                        if it is JSON, but no non-empty object,
//	    max(-1, (|Kc| - |Kd| + A_val)/m)          else,
//
// with Kc the common and Kd the discrepant keys. A missing key thus costs 3/m,
// an extra key and a wrong value 1/m each. Parsing is strict and repairs
// nothing: see package strictjson.
func (r Rules) Score(ref *Reference, completion string) Score {
	s, _ := r.score(ref, completion)
	return s
}

// score is Score and what the completion parses to, Absent where it does not.
func (r Rules) score(ref *Reference, completion string) (Score, strictjson.Value) {
	m := len(ref.root.kids)
	v, err := r.parse(completion)
	if err != nil {
		return Score{Reward: rewardUnparsed, Status: ParseFailure, Keys: m, Reason: oneLine("not JSON: " + err.Error())}, v
	}
	if v.Kind() != strictjson.Object || v.Len() == 0 {
		return Score{Reward: rewardFloor, Status: NotObject, Keys: m, Reason: "JSON, but " + describe(v) + " and no object with members"}, v
	}
	var few [16]int
	at := few[:0] // at[i]: where key i of the reference stands in v; missing; or wrong(where)
	for range m {
		at = append(at, missing)
	}
	s := Score{Status: Object, Keys: m}
	for j := range v.Len() {
		i := ref.root.find(v.Key(j), j)
		if i < 0 {
			s.Extra++
			continue
		}
		s.Matched++
		if r.equal(&ref.root.kids[i], v.Index(j)) {
			s.Values++
			at[i] = j
		} else {
			at[i] = wrong(j)
		}
	}
	s.Missing = m - s.Matched
	raw := float64(s.Matched-s.Missing-s.Extra+s.Values) / float64(m)
	s.Reward = max(rewardFloor, raw)
	s.Reason = r.explain(ref, v, s, at, raw)
	return s, v
}

// Where a key of the reference stands in the completion.
const missing = -1

// wrong encodes index j of a key with a wrong value; it is its own inverse.
func wrong(j int) int { return -2 - j }

func (r Rules) parse(completion string) (strictjson.Value, error) {
	v, err := strictjson.Parse([]byte(completion))
	if err == nil || !r.Extract {
		return v, err
	}
	from, to := strings.IndexByte(completion, '{'), strings.LastIndexByte(completion, '}')
	if from < 0 || to < from {
		return v, err
	}
	v, err = strictjson.Parse([]byte(completion[from : to+1]))
	if err != nil {
		err = fmt.Errorf("from the first { to the last }: %w", err)
	}
	return v, err
}
