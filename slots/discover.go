package slots

import (
	"fmt"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"terraloom/data"
	"terraloom/data/strictjson"
)

// Discover proposes a slot program for a seed from analysis alone. Everything
// it leaves fixed is named in the program's notes.
func Discover(t *data.Trajectory, tools Tools) (*Program, error) {
	d := &discovery{
		t: t, tools: tools, a: Analyze(t), spans: map[string][]span{}, texts: map[string]string{},
		p: &Program{Version: 1, Seed: t.ID, SeedHash: HashSeed(t), Origin: "analysis"},
	}
	eachText(t, func(step int, pointer, text string) {
		if step >= 0 {
			pointer = "/steps/" + strconv.Itoa(step) + pointer
		}
		d.pointers = append(d.pointers, pointer)
		d.texts[pointer] = text
	})
	d.pure()
	d.samples()
	d.dates()
	d.places()
	d.coordinates()
	d.tiles()
	d.thresholds()
	d.observations()
	d.answer()
	d.templates()
	if len(d.p.Slots) == 0 {
		return nil, fmt.Errorf("%w %s: nothing in the seed can change", ErrProgram, t.ID)
	}
	return d.p, nil
}

// discovery is the state of one proposal.
type discovery struct {
	t        *data.Trajectory
	tools    Tools
	a        *Analysis
	p        *Program
	pointers []string          // of every string, in order
	texts    map[string]string // by pointer
	spans    map[string][]span
	isPure   []bool             // step's observation is recomputed
	own      []strictjson.Value // what a pure step's tool returns on the seed's arguments
}

// span is a slot inside a string of the seed.
type span struct {
	start, end   int
	slot, format string
}

func (d *discovery) note(format string, args ...any) {
	d.p.Notes = append(d.p.Notes, fmt.Sprintf(format, args...))
}

func (d *discovery) add(s Slot) string {
	if d.p.slot(s.Name) == nil {
		d.p.Slots = append(d.p.Slots, s)
	}
	return s.Name
}

// claim puts a slot on a span unless an earlier one has it.
func (d *discovery) claim(pointer string, s span) bool {
	for _, o := range d.spans[pointer] {
		if s.start < o.end && o.start < s.end {
			return false
		}
	}
	d.spans[pointer] = append(d.spans[pointer], s)
	return true
}

// templates turns the spans into occurrences.
func (d *discovery) templates() {
	for _, pointer := range d.pointers {
		spans := d.spans[pointer]
		if len(spans) == 0 {
			continue
		}
		sort.Slice(spans, func(i, j int) bool { return spans[i].start < spans[j].start })
		text, at := d.texts[pointer], 0
		var b strings.Builder
		for _, s := range spans {
			b.WriteString(escapeTemplate(text[at:s.start]))
			b.WriteString("{" + s.slot)
			if s.format != "" {
				b.WriteString(":" + s.format)
			}
			b.WriteString("}")
			at = s.end
		}
		b.WriteString(escapeTemplate(text[at:]))
		d.p.Occurrences = append(d.p.Occurrences, Occurrence{At: pointer, Text: b.String()})
	}
}

// pure finds the steps whose observations are recomputed.
func (d *discovery) pure() {
	for i, s := range d.t.Steps {
		ok, out := false, strictjson.Value{}
		if d.tools.Computes(s.Tool) {
			var err error
			if out, err = d.tools.Call(s.Tool, s.Arguments); err == nil {
				if ok = true; disagrees(s.Observation, out) {
					d.note("step %d: %s returns %s, the seed records %s; instances have the tool's value", i, s.Tool, clip(out.JSON(), 80), clip(s.Observation.JSON(), 80))
				}
			} else {
				d.note("step %d: %s refuses the seed's own arguments (%v); its observation is treated as drawn", i, s.Tool, err)
			}
		}
		d.isPure, d.own = append(d.isPure, ok), append(d.own, out)
	}
}

// timeGroup holds everything that moves with the dates.
const timeGroup = "time"

var sampleID = regexp.MustCompile(`(?i)question[-_]?(\d{1,4})`)

// samples makes the folder number of the seed a root slot.
func (d *discovery) samples() {
	count := map[string]int{}
	own := ""
	for _, p := range d.pointers {
		for _, m := range sampleID.FindAllStringSubmatch(d.texts[p], -1) {
			count[m[1]]++
			if p == "/inputs/data_path" {
				own = m[1]
			}
		}
	}
	if len(count) == 0 {
		return
	}
	if own == "" {
		for _, n := range sortedKeys(count) {
			if own == "" || count[n] > count[own] {
				own = n
			}
		}
	}
	d.add(Slot{Name: "sample", Type: File, Role: Root, Group: "sample", Seed: num(own), Source: &Source{Range: &RangeSource{Min: 3000, Max: 9499, Step: 1}}})
	for _, n := range sortedKeys(count) {
		if n != own {
			d.add(Slot{Name: "sample" + n, Type: File, Role: Derived, Group: "sample", Expr: fmt.Sprintf("sample + %d", num(n)-num(own))})
		}
	}
	for _, p := range d.pointers {
		for _, m := range sampleID.FindAllStringSubmatchIndex(d.texts[p], -1) {
			slot, n := "sample", d.texts[p][m[2]:m[3]]
			if n != own {
				slot += n
			}
			d.claim(p, span{m[2], m[3], slot, ""})
		}
	}
}

// seasonWords tie a question to a time of year beyond its dates.
var seasonWords = regexp.MustCompile(`(?i)\b(spring|summer|autumn|fall|winter|season|seasonal|monsoon|ramadan|christmas|monthly|annual|week)`)

var monthWord = regexp.MustCompile(`(?i)(?:^|[^a-z])(jan|feb|mar|apr|may|jun|jul|aug|sep|sept|oct|nov|dec|january|february|march|april|june|july|august|september|october|november|december)(?:$|[^a-z])`)

// dates makes one displacement of all dates a root slot, each date and year a
// derived one: order, spacing, cadence and season stay.
func (d *discovery) dates() {
	type place struct {
		pointer string
		m       Mention
	}
	var found []place
	if d.t.Domain == "rgb" && len(FindDates(d.t.Query)) == 0 {
		return // four digits in image names are tile numbers
	}
	var lo, hi time.Time
	months, allFull := seasonWords.MatchString(d.t.Query), true
	distinct := map[string]bool{}
	var days []time.Time
	for _, p := range d.pointers {
		text := d.texts[p]
		rest := []byte(text)
		for _, m := range FindDates(text) {
			found = append(found, place{p, m})
			for i := m.Start; i < m.End; i++ {
				rest[i] = '0'
			}
			if m.Full() && !distinct[m.Date.Format(time.DateOnly)] {
				distinct[m.Date.Format(time.DateOnly)] = true
				days = append(days, m.Date)
			}
			allFull = allFull && m.Full()
			if lo.IsZero() || m.Date.Before(lo) {
				lo = m.Date
			}
			if m.Date.After(hi) {
				hi = m.Date
			}
		}
		months = months || monthWord.Match(rest)
	}
	if len(found) == 0 {
		return
	}
	slack := 0 // days that dates move besides years
	if allFull && !months && len(distinct) <= 6 && !hasLeapDay(days) && d.composites() == 0 {
		slack = daySlack
	}
	years, why := d.yearChoices(lo, hi, days, slack)
	if len(years) == 0 && slack > 0 {
		slack = 0
		years, why = d.yearChoices(lo, hi, days, slack)
	}
	if len(years) == 0 {
		d.note("dates stay: %s", why)
		return
	}
	d.add(Slot{Name: "years", Type: Period, Role: Root, Group: timeGroup, Seed: 0, Source: &Source{Choice: years}})
	shift := "years, 0"
	if slack > 0 {
		d.add(Slot{Name: "days", Type: Period, Role: Root, Group: timeGroup, Seed: 0, Source: &Source{Range: &RangeSource{Min: float64(-slack), Max: float64(slack), Step: 1}}})
		shift = "years, days"
	}
	for _, f := range found {
		name := "y" + strconv.Itoa(f.m.Date.Year())
		format := ""
		if f.m.Full() {
			name, format = "d"+f.m.Date.Format("20060102"), f.m.Layout
			if strings.Contains(format, "}") || strings.Contains(format, "{") {
				continue
			}
			if format == "%Y-%m-%d" {
				format = ""
			}
			d.add(Slot{Name: name, Type: Date, Role: Derived, Group: timeGroup, Expr: fmt.Sprintf("shift(%q, %s)", f.m.Date.Format(time.DateOnly), shift)})
		} else {
			d.add(Slot{Name: name, Type: Count, Role: Derived, Group: timeGroup, Expr: fmt.Sprintf("%d + years", f.m.Date.Year())})
		}
		d.claim(f.pointer, span{f.m.Start, f.m.End, name, format})
	}
	d.yearNumbers()
}

// yearNumbers finds years given as numbers, such as the x axis of a trend.
func (d *discovery) yearNumbers() {
	for i, s := range d.t.Steps {
		s.Arguments.Leaves("", func(p string, v strictjson.Value) {
			f, _ := v.Float()
			name := "y" + v.Text()
			if !v.IsInteger() || f < firstYear || f > lastYear || isSetting(topKey(p)) {
				return
			}
			known := d.p.slot(name) != nil
			for _, sl := range d.p.Slots {
				known = known || sl.Type == Date && strings.HasPrefix(sl.Name, "d"+v.Text())
			}
			if !known && topKey(p) != "x" {
				return
			}
			d.add(Slot{Name: name, Type: Count, Role: Derived, Group: timeGroup, Expr: v.Text() + " + years"})
			d.p.Occurrences = append(d.p.Occurrences, Occurrence{At: fmt.Sprintf("/steps/%d/arguments%s", i, p), Slot: name})
		})
	}
}

// product limits when imagery exists and which years it steps through.
type product struct {
	marks []string // any of these, in lower case
	first string   // first day of data
	last  string   // last day of data; "" for one that goes on
	step  int      // years between issues; 0 = any
}

// products are recognised by their marks in file names, sources and the query; all
// that are recognised limit the years.
var products = []product{
	{marks: []string{"built_volume", "built_surface", "built-up volume"}, first: "1980-01-01", step: 5},
	{marks: []string{"viirs/dnb/annual"}, first: "2013-01-01", last: "2024-12-31"},
	{marks: []string{"avg_rad", "nighttime light", "night light"}, first: "2012-05-01"},
	{marks: []string{"copernicus/s2_sr"}, first: "2017-04-01"},
	{marks: []string{"sentinel-2", "sentinel 2"}, first: "2015-07-01"},
	{marks: []string{"sentinel-1", "sentinel 1", "copernicus/s1"}, first: "2014-10-01"},
	{marks: []string{"landsat 9"}, first: "2021-11-01"},
	{marks: []string{"smap"}, first: "2015-04-01"},
	{marks: []string{"landsat", "_bt10", "_b10_", "_sr_b", "qa_pixel"}, first: "2013-04-01"},
	{marks: []string{"precipitation", "rainfall"}, first: "2000-06-01"},
}

// modisFirst is where the record begins of everything else: MODIS and ASTER on Terra.
const modisFirst = "2000-03-01"

// lastDay is the end of the years that instances may name (Earth-Agent-Pro §III-A).
var lastDay = time.Date(2025, 12, 31, 0, 0, 0, 0, time.UTC)

// daySlack is how far single days move besides their year: they stay in season.
const daySlack = 12

// yearChoices lists the displacements that keep all dates, moved by up to slack
// days more, inside the product's record.
func (d *discovery) yearChoices(lo, hi time.Time, days []time.Time, slack int) (choices []any, why string) {
	var all strings.Builder
	all.WriteString(strings.ToLower(d.t.Query))
	for _, s := range d.t.Steps {
		if s.Tool == "get_filelist" || s.Tool == "download_product" {
			all.WriteString(" " + strings.ToLower(s.Arguments.Get("source").Text()))
			for i := range min(s.Observation.Len(), 4) {
				all.WriteString(" " + strings.ToLower(s.Observation.Index(i).Text()))
			}
			if n := s.Observation.Len(); n > 4 {
				all.WriteString(" " + strings.ToLower(s.Observation.Index(n-1).Text()))
			}
		}
	}
	text := all.String()
	first, last, step := "", lastDay.Format(time.DateOnly), 1
	for _, pr := range products {
		if slices.ContainsFunc(pr.marks, func(m string) bool { return strings.Contains(text, m) }) {
			first, step = max(first, pr.first), lcm(step, max(pr.step, 1))
			if pr.last != "" {
				last = min(last, pr.last)
			}
		}
	}
	if first == "" {
		first = modisFirst
	}
	first = min(first, lo.Format(time.DateOnly)) // the seed itself uses an older record
	last = max(last, hi.Format(time.DateOnly))
	why = fmt.Sprintf("no other year between %s and %s holds the whole period", first[:4], last[:4])
	if hasLeapDay(days) || dayOfYearCadence(days) || d.composites() > 1 && slices.ContainsFunc(days, func(t time.Time) bool { return t.Month() > time.February }) {
		step = lcm(step, 4)
		why += " with the same leap years"
	}
	for k := -24; k <= 24; k++ {
		if k == 0 || k%step != 0 {
			continue
		}
		if a, b := lo.AddDate(k, 0, -slack), hi.AddDate(k, 0, slack); a.Format(time.DateOnly) >= first && b.Format(time.DateOnly) <= last {
			choices = append(choices, k)
		}
	}
	return choices, why
}

// composites is the longest interval in days of what the trajectory downloads: 0
// where every raster is of a single day, 1 where intervals are whole months or years.
// Longer ones are counted from 1 January, so their calendar days are others in leap years.
func (d *discovery) composites() int {
	longest := 0
	for _, s := range d.t.Steps {
		if s.Tool != "download_product" {
			continue
		}
		switch n, unit, _ := strings.Cut(strings.ReplaceAll(s.Arguments.Get("interval").Text(), "-", " "), " "); {
		case n == "day" || n == "daily" || n == "1" && strings.HasPrefix(unit, "day"):
		case strings.HasPrefix(unit, "day"):
			longest = max(longest, num(n))
		case n == "week" || n == "weekly":
			longest = max(longest, 7)
		default:
			longest = max(longest, 1)
		}
	}
	return longest
}

func hasLeapDay(days []time.Time) bool {
	return slices.ContainsFunc(days, func(t time.Time) bool { return t.Month() == time.February && t.Day() == 29 })
}

// dayOfYearCadence recognises composites issued every 8 or 16 days from 1
// January, whose calendar days differ after February of a leap year.
func dayOfYearCadence(days []time.Time) bool {
	late := 0
	for _, t := range days {
		if (t.YearDay()-1)%8 != 0 {
			return false
		}
		if t.Month() > time.February {
			late++
		}
	}
	return len(days) >= 4 && late > 0
}

func lcm(a, b int) int {
	x, y := a, b
	for y != 0 {
		x, y = y, x%y
	}
	return a / x * b
}

// digitRun finds tile numbers in image names.
var digitRun = regexp.MustCompile(`\d{4,}`)

// tiles makes the long numbers in image names root slots.
func (d *discovery) tiles() {
	if d.t.Domain != "rgb" {
		return
	}
	runs := map[string]bool{}
	for i, s := range d.t.Steps {
		if s.Tool != "get_filelist" {
			continue
		}
		prefix := fmt.Sprintf("/steps/%d/observation", i)
		for _, p := range d.pointers {
			if strings.HasPrefix(p, prefix) && looksLikePath(d.texts[p]) {
				for _, run := range digitRun.FindAllString(d.texts[p], -1) {
					utm := len(run) == 5 && (run[:3] == "326" || run[:3] == "327")
					if n := num(clip(run, 9)); len(run) <= 9 && !utm && n != 1024 && n != 2048 && n != 4096 {
						runs[run] = true
					}
				}
			}
		}
	}
	for i, run := range sortedKeys(runs) {
		lo, hi := 1.0, 1.0
		for range len(run) {
			hi *= 10
		}
		if run[0] != '0' {
			lo = hi / 10
		}
		slot := d.add(Slot{Name: fmt.Sprintf("tile%d", i+1), Type: File, Role: Root, Group: "tile", Seed: num(run), Source: &Source{Range: &RangeSource{Min: lo, Max: hi - 1, Step: 1, Except: []float64{float64(num(run))}}}})
		format := ""
		if run[0] == '0' {
			format = fmt.Sprintf("0%dd", len(run))
		}
		for _, p := range d.pointers {
			text := d.texts[p]
			if !looksLikePath(messagePath(text)) {
				continue
			}
			for _, m := range digitRun.FindAllStringIndex(text, -1) {
				if text[m[0]:m[1]] == run {
					d.claim(p, span{m[0], m[1], slot, format})
				}
			}
		}
	}
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
