// Package eval scores recorded runs of agents: tool sequences and arguments as
// Earth-Agent (arXiv 2509.23141) defines and computes them, answers, text
// similarity, judged answers, the OpenEarthAgent measures, and the measures of
// RSure-Agent. It reads traces and calls no tool; nothing that a model wrote is
// ever run. What is empty, null or not finite matches nothing, and a question
// without a record scores 0 unless a summary says that it leaves it out.
package eval

import (
	"terraloom/data/plan"
	"terraloom/data/strictjson"
)

// Call is one tool call of a trace.
type Call struct {
	Name   string
	Input  strictjson.Value // the arguments; anything but an object is wrong, and recorded as it was
	Output strictjson.Value // what the tool returned; Absent where not recorded
}

// TraceScore compares an actual trace with the reference trace. All are shares
// of the reference, except Efficiency.
type TraceScore struct {
	plan.Score
	Param float64 // common prefix on (name, whole arguments)
}

// Trace scores actual against expected, which must not be empty.
func Trace(expected, actual []Call) TraceScore {
	return TraceScore{plan.Compare(Names(expected), Names(actual)), Parameter(expected, actual)}
}

// Parameter is the length of the common prefix of two traces on name and whole
// arguments over the length of the expected one: one wrong argument voids its
// step and all that follow. An empty expected trace gives 0.
func Parameter(expected, actual []Call) float64 {
	if len(expected) == 0 {
		return 0
	}
	n := 0
	for n < min(len(expected), len(actual)) && expected[n].Name == actual[n].Name && Equal(expected[n].Input, actual[n].Input) {
		n++
	}
	return float64(n) / float64(len(expected))
}

// Names are the tool names of a trace, in order.
func Names(calls []Call) []string {
	names := make([]string, len(calls))
	for i, c := range calls {
		names[i] = c.Name
	}
	return names
}
