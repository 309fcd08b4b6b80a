package report

import (
	"bytes"
	_ "embed"
	"html/template"
	"strconv"

	"terraloom/agent/eval"
)

//go:embed report.html.tmpl
var pageSource string

var page = template.Must(template.New("report").Parse(pageSource))

// chart is a bar chart: one bar for each run, in per cent.
type chart struct {
	Title string
	Bars  []bar
	Lines []string // grid lines, x positions
	H     int
}

type bar struct {
	Name, Value string
	Width       float64
	Y, TextY    int
}

// Geometry of a chart, in pixels.
const (
	barHeight  = 18
	barStep    = 24
	chartWidth = 400 // of 100 %
)

// charts are accuracy and the trace metrics of every run.
func (r *Report) charts() []chart {
	var out []chart
	for _, m := range []struct {
		title string
		of    func(eval.Means) *float64
	}{
		{"Accuracy by the benchmark's answers", func(m eval.Means) *float64 { return &m.BenchmarkAccuracy }},
		{"Tools-Any-Order", func(m eval.Means) *float64 { return &m.TAO }},
		{"Tools-In-Order", func(m eval.Means) *float64 { return &m.TIO }},
		{"Tool-Exact-Match", func(m eval.Means) *float64 { return &m.TEM }},
		{"Parameter accuracy", func(m eval.Means) *float64 { return m.Param }},
	} {
		c := chart{Title: m.title}
		for i := range 5 {
			c.Lines = append(c.Lines, strconv.Itoa(chartWidth*i/4))
		}
		for _, run := range r.Runs {
			if v := m.of(run.Summary.Means); v != nil {
				y := len(c.Bars) * barStep
				c.Bars = append(c.Bars, bar{run.Run, percent(v), *v * chartWidth, y, y + barHeight*3/4})
			}
		}
		if c.H = len(c.Bars) * barStep; c.H > 0 {
			out = append(out, c)
		}
	}
	return out
}

// HTML is the page for people.
func (r *Report) HTML() ([]byte, error) {
	var b bytes.Buffer
	err := page.Execute(&b, map[string]any{"Charts": r.charts(), "Sections": r.sections(), "BarHeight": barHeight})
	return b.Bytes(), err
}
