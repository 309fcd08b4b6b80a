package plot

import (
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"terraloom/agent/tools"
	"terraloom/agent/tools/workspace"
	"terraloom/data/catalogue"
	"terraloom/data/strictjson"
)

// Result draws the outcome of a tool call, from what tells most to what tells
// least: the rasters it made; the boxes a model found, on the image; its series;
// its named values; and for a single value or a text, the rasters or the series
// that it was computed from, with the value as title. files may be nil where no
// tool needed a workspace.
//
// Errors: ErrNothing where none of these is there; those of workspace and raster.
func Result(w io.Writer, files *workspace.Workspace, tool string, args strictjson.Value, r *tools.Result) error {
	found, err := catalogue.Default().Resolve(tool)
	if err != nil {
		return err
	}
	s := sketch{files: files, tool: found.Tool, args: args, result: r}
	if bound, err := found.Tool.Bind(args); err == nil {
		s.args = bound.Args
	}
	defer s.close()
	return s.draw(w, tool)
}

type sketch struct {
	files  *workspace.Workspace
	tool   *catalogue.Tool
	args   strictjson.Value
	result *tools.Result
	open   []*workspace.Raster
}

func (s *sketch) close() {
	for _, r := range s.open {
		r.Close()
	}
}

func (s *sketch) draw(w io.Writer, title string) error {
	v := s.result.Value
	if s.result.Evidence.Status != tools.OK {
		title += ": " + string(s.result.Evidence.Status)
	}
	if len(s.result.Artefacts) > 0 && s.files != nil {
		return s.maps(w, title, s.made(), nil)
	}
	inputs := s.inputs()
	if boxes := boxesOf(s.result.Evidence.Model.Boxes); len(boxes) > 0 && s.files != nil && len(inputs) > 0 {
		return s.maps(w, fmt.Sprintf("%s %s: %d", title, s.args.Get("text_prompt").Text(), len(boxes)), inputs[len(inputs)-1:], boxes)
	}
	names, tuple := tuples[s.tool.Name]
	if lines := seriesOf(v); len(lines) > 0 && !tuple {
		return s.series(w, title, lines, inputs)
	}
	if bars := barsOf(v, names); len(bars) > 0 {
		return Bars(w, title, s.unit(inputs), bars...)
	}
	title += s.value()
	if s.files != nil && len(inputs) > 0 {
		return s.maps(w, title, inputs, nil)
	}
	if lines := s.arguments(); len(lines) > 0 {
		return Lines(w, title, "index", "", nil, lines...)
	}
	return fmt.Errorf("%s gave %.40s; a picture needs a raster, boxes or a list of numbers: %w", s.tool.Name, v.JSON(), ErrNothing)
}

// tuples are the tools whose list of numbers is no series, with the names of the
// numbers that have one unit; the others are told in the title.
var tuples = map[string][]string{
	"calc_batch_image_mean_max_min": {"mean", "max", "min"},
	"max_value_and_index":           nil,
	"min_value_and_index":           nil,
}

// value is the observation as the end of a title: a number with its unit, a short
// text, or the first item of a long list.
func (s *sketch) value() string {
	v := s.result.Value
	text := v.JSON()
	if f, ok := v.Float(); ok {
		text = short(f)
		if e := s.result.Evidence; e.Family == tools.Measure && e.Measure.Unit != "1" {
			text += " " + e.Measure.Unit
		}
	}
	switch {
	case v.Kind() == strictjson.Null:
		return ""
	case len(text) < 60:
		return " = " + text
	case v.Kind() != strictjson.Array || v.Len() == 0:
		return ""
	}
	first := v.Index(0).JSON()
	if f, ok := v.Index(0).Float(); ok {
		first = short(f)
	}
	if len(first) > 30 {
		return ""
	}
	return " = [" + first + ", …]"
}

// unit names what the numbers of images are, by the band of the first: mean of
// LST [K]. It is empty where they are something else.
func (s *sketch) unit(inputs []string) string {
	what, ok := strings.CutPrefix(s.tool.Name, "calc_batch_image_")
	if !ok || len(inputs) == 0 || s.files == nil {
		return ""
	}
	if what = strings.ReplaceAll(what, "_", " "); strings.HasPrefix(what, "mean ") {
		what = "" // several numbers of one image
	}
	r, err := s.files.OpenRaster(inputs[0])
	if err != nil {
		return what
	}
	defer r.Close()
	label := bandLabel(r.Info.Bands[0])
	switch what {
	case "skewness", "kurtosis", "hotspot percentage": // without the unit of the band
		return what
	case "":
		return label
	}
	return strings.TrimSuffix(what+" of "+label, " of ")
}

// made are the files that the call made.
func (s *sketch) made() []string {
	var out []string
	for _, a := range s.result.Artefacts {
		out = append(out, a.Path)
	}
	return out
}

// inputs are the files that the call names and that are there.
func (s *sketch) inputs() []string {
	var out []string
	for _, p := range s.tool.Params {
		if p.IO != "in" || p.Name == "dir_path" {
			continue
		}
		s.args.Get(p.Name).Leaves("", func(_ string, v strictjson.Value) {
			if v.Kind() == strictjson.String {
				out = append(out, v.Text())
			}
		})
	}
	return out
}

func (s *sketch) maps(w io.Writer, title string, paths []string, boxes [][4]float64) error {
	var images []Image
	for _, p := range paths[:min(len(paths), maxMaps)] {
		r, err := s.files.OpenRaster(p)
		if err != nil {
			return err
		}
		s.open = append(s.open, r)
		images = append(images, Image{Title: path.Base(p), Data: r.Dataset, Boxes: boxes})
	}
	if len(paths) > maxMaps {
		title = fmt.Sprintf("%s (the first %d of %d)", title, maxMaps, len(paths))
	}
	return Maps(w, title, images...)
}

// series draws lists of numbers, over dates where each value belongs to a file
// whose name has one.
func (s *sketch) series(w io.Writer, title string, lines []Line, inputs []string) error {
	if s.tool.Name == "compute_linear_trend" && len(lines) == 1 && len(lines[0].Y) == 2 {
		return s.trend(w, title, lines[0].Y)
	}
	xName, dates := "index", datesOf(inputs, len(lines[0].Y))
	if dates != nil {
		xName = ""
	}
	return Lines(w, title, xName, s.unit(inputs), dates, lines...)
}

// trend draws a fitted line over its data.
func (s *sketch) trend(w io.Writer, title string, fit []float64) error {
	data := s.arguments()
	if len(data) == 0 {
		return fmt.Errorf("no series: %w", ErrNothing)
	}
	y := data[0]
	y.Name, y.Points = "data", true
	for _, l := range data {
		switch l.Name {
		case "y":
			y.Y = l.Y
		case "x":
			y.X = l.Y
		}
	}
	if y.X == nil || len(y.X) != len(y.Y) {
		y.X = make([]float64, len(y.Y))
		for i := range y.X {
			y.X[i] = float64(i)
		}
	}
	line := Line{Name: "trend", X: y.X, Y: make([]float64, len(y.X))}
	for i, x := range y.X {
		line.Y[i] = fit[0]*x + fit[1]
	}
	return Lines(w, fmt.Sprintf("%s: slope %s", title, short(fit[0])), "x", "y", nil, y, line)
}

// arguments are the lists of at least two numbers among the arguments.
func (s *sketch) arguments() []Line {
	var out []Line
	for i := range s.args.Len() {
		if y := numbers(s.args.Index(i)); len(y) > 1 {
			out = append(out, Line{Name: s.args.Key(i), Y: y})
		}
	}
	return out
}

// seriesOf are the lists of at least two numbers in an observation: itself, or
// members of an object that all have one length.
func seriesOf(v strictjson.Value) []Line {
	if y := numbers(v); len(y) > 1 {
		return []Line{{Y: y}}
	}
	if v.Kind() != strictjson.Object {
		return nil
	}
	var out []Line
	for i := range v.Len() {
		if y := numbers(v.Index(i)); len(y) > 1 && (len(out) == 0 || len(y) == len(out[0].Y)) {
			out = append(out, Line{Name: v.Key(i), Y: y})
		}
	}
	return out
}

// numbers is a list of numbers, null as NaN; nil if v is something else.
func numbers(v strictjson.Value) []float64 {
	if v.Kind() != strictjson.Array {
		return nil
	}
	out := make([]float64, v.Len())
	for i := range out {
		f, ok := v.Index(i).Float()
		switch {
		case ok:
			out[i] = f
		case v.Index(i).Kind() == strictjson.Null:
			out[i] = nan
		default:
			return nil
		}
	}
	return out
}

// barsOf are the numbers of an object, or of a list by the given names.
func barsOf(v strictjson.Value, names []string) []Bar {
	if v.Kind() == strictjson.Array && v.Len() == len(names) {
		var out []Bar
		for i, name := range names {
			if f, ok := v.Index(i).Float(); ok {
				out = append(out, Bar{name, f})
			}
		}
		return out
	}
	if v.Kind() != strictjson.Object {
		return nil
	}
	var out []Bar
	for i := range v.Len() {
		if f, ok := v.Index(i).Float(); ok {
			out = append(out, Bar{v.Key(i), f})
		}
	}
	return out
}

func boxesOf(list [][]float64) [][4]float64 {
	var out [][4]float64
	for _, b := range list {
		if len(b) == 4 {
			out = append(out, [4]float64(b))
		}
	}
	return out
}

// datesOf are the times in the names of n files; nil unless there are n files with one each.
func datesOf(paths []string, n int) []time.Time {
	if len(paths) != n {
		return nil
	}
	out := make([]time.Time, n)
	for i, p := range paths {
		text := tools.TimeOf(p)
		layout := time.DateOnly
		if strings.Contains(text, "T") {
			layout = "2006-01-02T15:04"
		}
		t, err := time.Parse(layout, text)
		if err != nil {
			return nil
		}
		out[i] = t
	}
	return out
}
