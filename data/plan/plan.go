// Package plan reads the tool sequences that Planners write and compares them
// with reference sequences (Earth-Agent-Pro §V-C and §VI-A).
package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"terraloom/data/strictjson"
)

// ErrNotPlan is returned for a text that is not exactly one plan object.
var ErrNotPlan = errors.New("not a plan")

// member is the only member of a plan object.
const member = "tool_sequence"

// Parse reads {"tool_sequence":["name", …]}: one JSON object with that member
// alone, a list of at least one non-empty name. White space around the object
// is allowed, text is not. Errors wrap ErrNotPlan.
func Parse(text string) ([]string, error) {
	v, err := strictjson.Parse([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotPlan, err)
	}
	if v.Kind() != strictjson.Object || v.Len() != 1 || v.Key(0) != member {
		return nil, fmt.Errorf("%w: expected an object with the only member %q, found %s", ErrNotPlan, member, shape(v))
	}
	list := v.Index(0)
	if list.Kind() != strictjson.Array || list.Len() == 0 {
		return nil, fmt.Errorf("%w: %s must be a list of at least one tool name, found %s", ErrNotPlan, member, shape(list))
	}
	tools := make([]string, list.Len())
	for i := range tools {
		name := list.Index(i)
		if name.Kind() != strictjson.String || strings.TrimSpace(name.Text()) == "" {
			return nil, fmt.Errorf("%w: %s[%d] must be a tool name, found %s", ErrNotPlan, member, i, shape(name))
		}
		tools[i] = name.Text()
	}
	return tools, nil
}

// shape describes a value for an error.
func shape(v strictjson.Value) string {
	switch v.Kind() {
	case strictjson.Object:
		keys := make([]string, min(v.Len(), 5))
		for i := range keys {
			keys[i] = fmt.Sprintf("%q", v.Key(i))
		}
		return fmt.Sprintf("an object with %d members (%s)", v.Len(), strings.Join(keys, ", "))
	case strictjson.Array:
		return fmt.Sprintf("a list of %d", v.Len())
	}
	return v.JSON()
}

// Score compares an actual tool sequence with the expected one. All numbers
// are shares of the expected sequence, except Efficiency.
type Score struct {
	AnyOrder   float64 // TAO: distinct expected names that occur at all
	InOrder    float64 // TIO: longest prefix of the expected sequence that is a subsequence of the actual one
	ExactMatch float64 // TEM: longest common prefix
	Efficiency float64 // length of the actual sequence over that of the expected one; 1 is ideal
	Exact      bool    // the sequences are equal
}

// Compare scores actual against expected, which must not be empty: an empty
// expected sequence gives the zero Score. An empty actual sequence (a plan that
// could not be read) scores 0 everywhere.
func Compare(expected, actual []string) Score {
	if len(expected) == 0 {
		return Score{}
	}
	n := float64(len(expected))
	distinct, found := map[string]bool{}, 0
	for _, name := range expected {
		if !distinct[name] && slices.Contains(actual, name) {
			found++
		}
		distinct[name] = true
	}
	inOrder := 0
	for _, name := range actual {
		if inOrder < len(expected) && name == expected[inOrder] {
			inOrder++
		}
	}
	prefix := 0
	for prefix < min(len(expected), len(actual)) && expected[prefix] == actual[prefix] {
		prefix++
	}
	return Score{
		AnyOrder: float64(found) / float64(len(distinct)), InOrder: float64(inOrder) / n, ExactMatch: float64(prefix) / n,
		Efficiency: float64(len(actual)) / n, Exact: slices.Equal(expected, actual),
	}
}
