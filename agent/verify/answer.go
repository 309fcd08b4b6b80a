package verify

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"terraloom/agent/memory"
	"terraloom/data/catalogue"
	"terraloom/data/strictjson"
)

// Defects of evidence, the six of the answer controller (Earth-Agent-Pro §IV-D).
const (
	DefectComputation = "computation" // a required operation was not run
	DefectCoverage    = "coverage"    // a place or time that was asked for is missing
	DefectAggregation = "aggregation" // daily values where yearly ones are asked for
	DefectUnits       = "units"
	DefectScale       = "scale" // a share where per cent is asked for
	DefectNotFinite   = "not_finite"
)

// Gap is one defect. Node is the node to reopen, 0 for none in particular.
type Gap struct {
	Defect    string
	Node      int
	Diagnosis string // what to do about it
}

// Sufficient looks for defects by rules: nil where the evidence may be enough.
// The rules speak only where question and evidence leave no doubt; what they
// cannot decide is for a model.
func Sufficient(question string, inputs strictjson.Value, s *memory.State) []Gap {
	q := strings.ToLower(question)
	var gaps []Gap
	for _, check := range []func(string, strictjson.Value, *memory.State) []Gap{computations, notFinite, period, region, aggregation, units, scale} {
		gaps = append(gaps, check(q, inputs, s)...)
	}
	return gaps
}

// operations that a question can require by name, and the parts of tool names
// that carry them out.
var operations = []struct {
	what  string
	asked *regexp.Regexp
	tools []string
}{
	{"mean", regexp.MustCompile(`\b(calculate|compute|determine|find|report|what (is|was|were|are)) (the )?((annual|monthly|overall|spatial|temporal|regional|daily) )?(mean|average)\b`), []string{"mean", "average", "linear_trend", "ratio"}},
	{"trend", regexp.MustCompile(`\b(linear trend|trend line|mann-kendall|sen's slope|slope of the)\b`), []string{"trend", "slope", "kendall"}},
}

func computations(q string, _ strictjson.Value, s *memory.State) []Gap {
	var gaps []Gap
	for _, n := range s.Nodes {
		if n.Status != memory.Accepted {
			gaps = append(gaps, Gap{DefectComputation, n.Index, fmt.Sprintf("step %d (%s) was not carried out: %s", n.Index, n.Planned, n.Diagnosis)})
		}
	}
	for _, op := range operations {
		if !op.asked.MatchString(q) {
			continue
		}
		done := slices.ContainsFunc(s.Evidence, func(r memory.Record) bool {
			return slices.ContainsFunc(op.tools, func(part string) bool { return strings.Contains(r.Tool, part) })
		})
		if !done {
			gaps = append(gaps, Gap{DefectComputation, 0, fmt.Sprintf("the question asks for a %s, and no accepted step computes one", op.what)})
		}
	}
	return gaps
}

func notFinite(_ string, _ strictjson.Value, s *memory.State) []Gap {
	var gaps []Gap
	for _, r := range s.Evidence {
		if at := NotFinite(r.Observation); at != nil {
			gaps = append(gaps, Gap{DefectNotFinite, r.Node, fmt.Sprintf("the result of step %d (%s) is not finite at %s", r.Node, r.Tool, few(at))})
		}
	}
	return gaps
}

var (
	months     = []string{"january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december"}
	monthSpan  = regexp.MustCompile(`\b(` + strings.Join(months, "|") + `)(?: (?:19|20)\d\d)?\s*(?:-|–|—|to|through|until)\s*(` + strings.Join(months, "|") + `)\b`)
	yearSpan   = regexp.MustCompile(`\b((?:19|20)\d\d)\s*(?:-|–|—|to|through|until|and)\s*((?:19|20)\d\d)\b`)
	datedNames = regexp.MustCompile(`((?:19|20)\d\d)[-_]?(0[1-9]|1[0-2])(?:[-_]?(0[1-9]|[12]\d|3[01]))?`)
)

// stamps are the dates of the files that the evidence rests on, as yyyy-mm.
func stamps(s *memory.State) []string {
	var out []string
	add := func(text string) {
		if m := datedNames.FindStringSubmatch(text); m != nil {
			out = append(out, m[1]+"-"+m[2])
		}
	}
	for _, r := range s.Evidence {
		if r.Tool == listing { // what is there, not what was used
			continue
		}
		for _, f := range r.Provenance.Files {
			add(f.Time)
		}
		r.Arguments.Leaves("", func(_ string, leaf strictjson.Value) {
			if leaf.Kind() == strictjson.String && strings.Contains(leaf.Text(), ".") {
				add(leaf.Text()[strings.LastIndexByte(leaf.Text(), '/')+1:])
			}
		})
	}
	return out
}

// period compares the months and years that the question spans with those of
// the files used.
func period(q string, _ strictjson.Value, s *memory.State) []Gap {
	dates := stamps(s)
	if len(dates) == 0 {
		return nil
	}
	has := func(part string) bool {
		return slices.ContainsFunc(dates, func(d string) bool { return strings.Contains(d, part) })
	}
	var missing []string
	if m := monthSpan.FindStringSubmatch(q); m != nil {
		from, to := slices.Index(months, m[1]), slices.Index(months, m[2])
		for i := from; from <= to && i <= to; i++ {
			if !has(fmt.Sprintf("-%02d", i+1)) {
				missing = append(missing, strings.ToUpper(months[i][:1])+months[i][1:])
			}
		}
		// Composites are dated by their first day: one from before the span may reach into it.
		if len(missing) == to-from+1 {
			missing = nil
		}
	}
	if m := yearSpan.FindStringSubmatch(q); m != nil {
		from, _ := strconv.Atoi(m[1]) // four digits
		to, _ := strconv.Atoi(m[2])
		var years []string
		for y := from; y <= to && y-from < 60; y++ {
			if !has(fmt.Sprintf("%d-", y)) {
				years = append(years, strconv.Itoa(y))
			}
		}
		// Data of every second or fifth year have gaps by nature, and "2010 and 2020"
		// are two years: then only the ends are sure to be asked for.
		if strings.Contains(m[0], "and") || 4*len(years) > to-from+1 {
			years = slices.DeleteFunc(years, func(y string) bool { return y != m[1] && y != m[2] })
		}
		if len(years) <= (to-from)/2 {
			missing = append(missing, years...)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return []Gap{{DefectCoverage, firstUse(s), "the files used lack " + few(missing)}}
}

// firstUse is the node of the first record that made or read files, 0 for none.
func firstUse(s *memory.State) int {
	for _, r := range s.Evidence {
		if r.Tool != listing && (len(r.Provenance.Files) > 0 || strings.Contains(r.Arguments.JSON(), ".tif")) {
			return r.Node
		}
	}
	return 0
}

// region compares the box of the task with those of downloaded files.
func region(_ string, inputs strictjson.Value, s *memory.State) []Gap {
	box := inputs.Get("bbox")
	if box.Len() != 4 {
		return nil
	}
	var b [4]float64
	for i := range b {
		b[i], _ = box.Index(i).Float()
	}
	for _, r := range s.Evidence {
		for _, f := range r.Provenance.Files {
			if len(f.Region) != 4 || f.CRS != "" && f.CRS != "EPSG:4326" {
				continue
			}
			if f.Region[0] >= b[2] || f.Region[2] <= b[0] || f.Region[1] >= b[3] || f.Region[3] <= b[1] {
				return []Gap{{DefectCoverage, r.Node, fmt.Sprintf("%s covers %v, which does not meet the region %v", f.Path, f.Region, b)}}
			}
		}
	}
	return nil
}

// aggregation finds a series of finer steps than the question speaks of, that
// went into a statistic as it was.
func aggregation(q string, _ strictjson.Value, s *memory.State) []Gap {
	yearly := regexpYearly.MatchString(q)
	monthly := regexpMonthly.MatchString(q)
	if yearly == monthly { // neither, or both
		return nil
	}
	steps := map[string]bool{}
	dates := stamps(s)
	for _, d := range dates {
		if yearly {
			d = d[:4]
		}
		steps[d] = true
	}
	unit := "months"
	if yearly {
		unit = "years"
	}
	for i := len(s.Evidence) - 1; i >= 0; i-- {
		r := s.Evidence[i]
		if !slices.Contains([]string{"compute_linear_trend", "sens_slope", "mann_kendall_test", "max_value_and_index", "min_value_and_index"}, r.Tool) {
			continue
		}
		longest := 0
		for j := range r.Arguments.Len() {
			longest = max(longest, r.Arguments.Index(j).Len())
		}
		if len(steps) > 1 && longest >= 2*len(steps) {
			return []Gap{{DefectAggregation, r.Node, fmt.Sprintf("step %d (%s) got %d values for %d %s; aggregate the values of each of the %s first", r.Node, r.Tool, longest, len(steps), unit, unit)}}
		}
	}
	return nil
}

var (
	regexpYearly  = regexp.MustCompile(`\b(annual|yearly|each year|per year) (mean|average|maximum|minimum|value|total|sum)`)
	regexpMonthly = regexp.MustCompile(`\b(monthly|each month|per month) (mean|average|maximum|minimum|value|total|sum)`)
)

// final is the last record with one number, and that number.
func final(s *memory.State) (r memory.Record, value float64, ok bool) {
	if len(s.Evidence) == 0 {
		return r, 0, false
	}
	r = s.Evidence[len(s.Evidence)-1]
	o := r.Observation
	if o.Kind() == strictjson.Array && o.Len() == 1 {
		o = o.Index(0)
	}
	value, ok = o.Float()
	return r, value, ok
}

var (
	asksCelsius = regexp.MustCompile(`(°c\b|\bcelsius\b)`)
	asksKelvin  = regexp.MustCompile(`(\bkelvin\b|\(k\))`)
	asksChange  = regexp.MustCompile(`(differ|chang|increas|decreas|rise|drop|warm|anomal|threshold|exceed|above|below|greater|intensity)`)
	asksPercent = regexp.MustCompile(`\b(what|which|calculate|compute|estimate|determine|find|report)\b[^.?]*\b(percentage|percent)\b`)
)

// kelvins are the tools whose results are temperatures in kelvin.
var kelvins = []string{"lst", "temperature", "split_window", "brightness"}

// units finds a final temperature in kelvin where degrees Celsius are asked for.
func units(q string, _ strictjson.Value, s *memory.State) []Gap {
	r, value, ok := final(s)
	if !ok || !asksCelsius.MatchString(q) || asksKelvin.MatchString(q) || asksChange.MatchString(q) || value < 180 || value > 350 {
		return nil
	}
	thermal := slices.ContainsFunc(s.Evidence, func(r memory.Record) bool {
		return slices.ContainsFunc(kelvins, func(k string) bool { return strings.Contains(strings.ToLower(r.Tool), k) })
	})
	if !thermal {
		return nil
	}
	return []Gap{{DefectUnits, r.Node, fmt.Sprintf("the result %s of step %d (%s) is in kelvin, the question asks for °C; convert it with kelvin_to_celsius", strictjson.FormatFloat(value), r.Node, r.Tool)}}
}

// scale finds a final share between 0 and 1 where per cent is asked for.
func scale(q string, _ strictjson.Value, s *memory.State) []Gap {
	r, value, ok := final(s)
	if !ok || !asksPercent.MatchString(q) || value <= 0 || value >= 1 || !shares(r.Tool) {
		return nil
	}
	return []Gap{{DefectScale, r.Node, fmt.Sprintf("the result %s of step %d (%s) is a share, the question asks for per cent; multiply it by 100", strictjson.FormatFloat(value), r.Node, r.Tool)}}
}

// shares reports whether a tool gives shares from 0 to 1.
func shares(tool string) bool {
	r, err := catalogue.Default().Resolve(tool)
	return err == nil && (strings.Contains(r.Tool.Summary, "(0-1)") || r.Tool.Name == "division")
}
