package eval

import "slices"

// The measures of OpenEarthAgent (Earth-Agent-Pro Table IV), as its public code
// takes them.

// terminate is the pseudo-tool that ends a reference trace.
const terminate = "Terminate"

// Category is a group of OpenEarthAgent tools.
type Category string

// The categories of Table IV.
const (
	Perception Category = "perception"
	Operation  Category = "operation"
	Logic      Category = "logic"
	GIS        Category = "gis"
)

// Categories are in the order of Table IV.
var Categories = []Category{Perception, Operation, Logic, GIS}

var categoryTools = map[Category][]string{
	Perception: {"OCR", "ImageDescription", "RegionAttributeDescription", "TextToBbox", "ChangeDetection", "ObjectDetection", "SegmentObjectPixels", "CountGivenObject"},
	Operation:  {"DrawBox", "AddText", "GoogleSearch"},
	Logic:      {"Calculator", "Solver", "Plot"},
	GIS: {"GetAreaBoundary", "AddPoisLayer", "ComputeDistance", "DisplayOnMap", "AddIndexLayer", "ComputeIndexChange", "ShowIndexLayer",
		"GetBboxFromGeotiff", "DisplayOnGeotiff"},
}

// drawing are the tools whose output is the answer; samples that end with one
// are scored by Gen, the others by Ans.
var drawing = []string{"DrawBox", "AddText", "Plot", "DisplayOnMap", "ShowIndexLayer", "DisplayOnGeotiff"}

// Sample is one OpenEarthAgent question: tool names in order.
type Sample struct {
	Reference, Predicted []string
	LastCode             int   // error code of the last predicted tool
	Judged               *bool // the judge's verdict on the answer; nil where there is none
}

// Counts are the tool calls of one category over all samples.
type Counts struct {
	Reference, Predicted, Correct int
}

// smoothing keeps the published F1 defined where nothing is predicted; it also
// keeps a perfect score a little below 1.
const smoothing = 1e-5

// F1 is 2PR/(P+R+1e-5) with P = correct/(predicted+1e-5) and
// R = correct/(reference+1e-5).
func (c Counts) F1() float64 {
	p := float64(c.Correct) / (float64(c.Predicted) + smoothing)
	r := float64(c.Correct) / (float64(c.Reference) + smoothing)
	return 2 * p * r / (p + r + smoothing)
}

// OpenEarth are the means over samples.
type OpenEarth struct {
	F1        map[Category]float64
	AnyOrder  float64
	SameOrder float64
	Unique    float64
	Answers   float64 // share judged correct of the samples that end with another tool and have a verdict
	Judged    int     // the denominator of Answers
	Unjudged  int     // samples without a verdict: in no denominator
	Generated float64 // share of right endings of the samples that end with a drawing tool
	Drawn     int     // the denominator of Generated
}

// ScoreOpenEarth averages over samples.
func ScoreOpenEarth(samples []Sample) OpenEarth {
	out := OpenEarth{F1: map[Category]float64{}}
	for _, c := range Categories {
		out.F1[c] = CountCategory(c, samples).F1()
	}
	var anyOrder, sameOrder, unique, answers, generated []float64
	for _, s := range samples {
		reference, predicted := named(s.Reference), named(s.Predicted)
		o := CompareOrder(reference, predicted)
		anyOrder = append(anyOrder, indicator(o.Any))
		sameOrder = append(sameOrder, indicator(o.Same))
		unique = append(unique, indicator(o.Unique))
		switch {
		case len(reference) > 0 && slices.Contains(drawing, reference[len(reference)-1]):
			generated = append(generated, indicator(s.generated()))
		case s.Judged == nil:
			out.Unjudged++
		default:
			answers = append(answers, indicator(*s.Judged))
		}
	}
	out.AnyOrder, out.SameOrder, out.Unique = mean(anyOrder, Sum), mean(sameOrder, Sum), mean(unique, Sum)
	out.Answers, out.Judged = mean(answers, Sum), len(answers)
	out.Generated, out.Drawn = mean(generated, Sum), len(generated)
	return out
}

// generated reports whether the last tools are the same and the last call worked.
func (s Sample) generated() bool {
	reference, predicted := named(s.Reference), named(s.Predicted)
	return len(reference) > 0 && len(predicted) > 0 && reference[len(reference)-1] == predicted[len(predicted)-1] && s.LastCode == 0
}

// CountCategory counts the calls of a category: correct are the multiset
// overlaps of each sample, order free. Names of no category count nowhere.
func CountCategory(c Category, samples []Sample) Counts {
	var n Counts
	for _, s := range samples {
		want, got := counts(s.Reference), counts(s.Predicted)
		for _, tool := range categoryTools[c] {
			n.Reference += want[tool]
			n.Predicted += got[tool]
			n.Correct += min(want[tool], got[tool])
		}
	}
	return n
}

// Order says how a predicted sequence relates to a reference sequence.
type Order struct {
	Any    bool // every reference name occurs at least as often
	Same   bool // Any, and the reference is a subsequence
	Unique bool // every reference name occurs
}

// CompareOrder compares two sequences without Terminate.
func CompareOrder(reference, predicted []string) Order {
	reference, predicted = named(reference), named(predicted)
	o := Order{Any: true, Unique: true}
	got := counts(predicted)
	for name, n := range counts(reference) {
		o.Any = o.Any && got[name] >= n
		o.Unique = o.Unique && got[name] > 0
	}
	next := 0
	for _, name := range predicted {
		if next < len(reference) && reference[next] == name {
			next++
		}
	}
	o.Same = o.Any && next == len(reference)
	return o
}

func counts(names []string) map[string]int {
	n := make(map[string]int, len(names))
	for _, name := range names {
		n[name]++
	}
	return n
}

// named is a sequence without Terminate.
func named(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == terminate })
}
