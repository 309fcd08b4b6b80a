package run

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"terraloom/data"
)

//go:embed report.html.tmpl
var reportSource string

var reportTemplate = template.Must(template.New("report").Parse(reportSource))

// hidden are values that say nothing as a curve.
var hidden = []string{"epoch", "eta_seconds", "seconds", "updates_lost"}

// Report writes report.html of the folder from its metrics.
func (f *Folder) Report() error {
	return WritePage([]string{f.Dir}, f.Path(ReportFile))
}

// WritePage writes the page of some runs to a file.
func WritePage(dirs []string, path string) error {
	page, err := Page(dirs)
	if err != nil {
		return err
	}
	return data.WriteFile(path, page)
}

// series is one value over the steps of one run.
type series struct {
	Label  string
	Points []point
}

type point struct{ x, y float64 }

// figure is everything of one name.
type figure struct {
	Name   string
	Lines  []series
	Chart  template.HTML
	Bounds []bounds
}

// bounds are a line in numbers.
type bounds struct {
	Label                  string
	First, Last, Low, High string
}

// runPage is what the page says of one run besides curves.
type runPage struct {
	Dir     string
	Steps   int
	Config  string
	Events  []Record
	Skipped int
	Samples []string // the last lines of SamplesFile
}

// shownSamples is how many of the last samples a page shows.
const shownSamples = 16

// Page is a self-contained HTML page about one run, or several side by side: a curve for every value, a table of its
// ends and extremes, events and configurations.
func Page(dirs []string) ([]byte, error) {
	var figures []*figure
	var runs []runPage
	for _, dir := range dirs {
		records, err := Records(dir)
		if err != nil {
			return nil, err
		}
		page := runPage{Dir: dir}
		label := ""
		if len(dirs) > 1 {
			label = filepath.Base(dir) + " "
		}
		for _, r := range records {
			page.Steps = max(page.Steps, r.Step)
			if r.Kind == Event {
				page.Events = append(page.Events, r)
			}
			for _, v := range r.Values {
				if !slices.Contains(hidden, v.Name) {
					figures = addPoint(figures, v.Name, label+r.Kind, point{float64(r.Step), v.Number})
				}
			}
		}
		if page.Config, err = optional(filepath.Join(dir, ConfigFile)); err != nil {
			return nil, err
		}
		skipped, err := optional(filepath.Join(dir, SkippedFile))
		if err != nil {
			return nil, err
		}
		page.Skipped = bytes.Count([]byte(skipped), []byte("\n"))
		samples, err := optional(filepath.Join(dir, SamplesFile))
		if err != nil {
			return nil, err
		}
		page.Samples = slices.Collect(strings.Lines(samples))
		page.Samples = page.Samples[max(len(page.Samples)-shownSamples, 0):]
		runs = append(runs, page)
	}
	for _, f := range figures {
		f.Chart = chart(f.Lines)
		for _, l := range f.Lines {
			f.Bounds = append(f.Bounds, l.bounds())
		}
	}
	var b bytes.Buffer
	err := reportTemplate.Execute(&b, map[string]any{"Figures": figures, "Runs": runs})
	return b.Bytes(), err
}

// optional reads a file that need not be there.
func optional(path string) (string, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return string(text), err
}

// addPoint adds a point to the line of a label in the figure of a name, both in order of appearance.
func addPoint(figures []*figure, name, label string, p point) []*figure {
	at := slices.IndexFunc(figures, func(f *figure) bool { return f.Name == name })
	if at < 0 {
		at = len(figures)
		figures = append(figures, &figure{Name: name})
	}
	f := figures[at]
	line := slices.IndexFunc(f.Lines, func(l series) bool { return l.Label == label })
	if line < 0 {
		line = len(f.Lines)
		f.Lines = append(f.Lines, series{Label: label})
	}
	f.Lines[line].Points = append(f.Lines[line].Points, p)
	return figures
}

func (s series) bounds() bounds {
	low, high := math.Inf(1), math.Inf(-1)
	for _, p := range s.Points {
		if finite(p.y) {
			low, high = min(low, p.y), max(high, p.y)
		}
	}
	number := func(x float64) string { return fmt.Sprintf("%.5g", x) }
	return bounds{s.Label, number(s.Points[0].y), number(s.Points[len(s.Points)-1].y), number(low), number(high)}
}
