package plot

import (
	"fmt"
	"image/color"
	"io"
	"math"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg/draw"
)

// Line is one series of values. A value that is not finite leaves a gap.
type Line struct {
	Name   string
	X      []float64 // nil counts from 0
	Y      []float64
	Points bool // markers only, no line
}

// Lines draws series. With dates, one for each x, the axis shows days instead of
// numbers.
//
// Errors: ErrNothing where no value is finite; an error where X and Y differ in length.
func Lines(w io.Writer, title, xName, yName string, dates []time.Time, lines ...Line) error {
	p := newPlot()
	p.X.Label.Text, p.Y.Label.Text = xName, yName
	p.Legend.Top = true
	finite := 0
	for i, l := range lines {
		if l.X == nil {
			l.X = make([]float64, len(l.Y))
			for k := range l.X {
				l.X[k] = float64(k)
				if k < len(dates) {
					l.X[k] = float64(dates[k].Unix())
				}
			}
		}
		if len(l.X) != len(l.Y) {
			return fmt.Errorf("line %q: %d x for %d y", l.Name, len(l.X), len(l.Y))
		}
		n, err := addLine(p, l, classColours[1+i%(len(classColours)-1)], len(lines) > 1)
		if err != nil {
			return err
		}
		finite += n
	}
	if finite == 0 {
		return fmt.Errorf("no finite value: %w", ErrNothing)
	}
	if len(dates) > 0 {
		p.X.Tick.Marker = days{}
	}
	if p.X.Min == p.X.Max {
		p.X.Min, p.X.Max = p.X.Min-1, p.X.Max+1
	}
	if p.Y.Min == p.Y.Max {
		p.Y.Min, p.Y.Max = p.Y.Min-0.5, p.Y.Max+0.5
	}
	if len(lines) > 1 {
		p.Y.Max += 0.05 * float64(len(lines)) * (p.Y.Max - p.Y.Min) // room for the legend
	}
	p.Add(grid())
	canvas, whole := figure(760, 420)
	rest := caption(whole, title)
	p.Draw(draw.Crop(rest, px(10), -px(20), px(8), 0))
	return write(w, canvas)
}

func grid() *plotter.Grid {
	g := plotter.NewGrid()
	g.Vertical.Color, g.Horizontal.Color = color.Gray{0xe6}, color.Gray{0xe6}
	return g
}

// addLine adds the finite stretches of a line and returns the number of its points.
func addLine(p *plot.Plot, l Line, c color.Color, named bool) (int, error) {
	var stretch, all plotter.XYs
	var stretches []plotter.XYs
	for i, y := range l.Y {
		if math.IsNaN(y) || math.IsInf(y, 0) {
			if len(stretch) > 0 {
				stretches, stretch = append(stretches, stretch), nil
			}
			continue
		}
		stretch = append(stretch, plotter.XY{X: l.X[i], Y: y})
		all = append(all, stretch[len(stretch)-1])
	}
	if len(stretch) > 0 {
		stretches = append(stretches, stretch)
	}
	if len(all) == 0 {
		return 0, nil
	}
	style := draw.LineStyle{Color: c, Width: px(1.6)}
	var thumbs []plot.Thumbnailer
	if !l.Points {
		for _, s := range stretches {
			line, err := plotter.NewLine(s)
			if err != nil {
				return 0, err
			}
			line.LineStyle = style
			p.Add(line)
			thumbs = []plot.Thumbnailer{line}
		}
	}
	if l.Points || len(all) <= 60 { // more markers than that hide the line
		marks, err := plotter.NewScatter(all)
		if err != nil {
			return 0, err
		}
		marks.GlyphStyle = draw.GlyphStyle{Color: c, Radius: px(2.6), Shape: draw.CircleGlyph{}}
		p.Add(marks)
		thumbs = append(thumbs, marks)
	}
	if named {
		p.Legend.Add(l.Name, thumbs...)
	}
	return len(all), nil
}

// days are ticks of an axis of seconds since 1970, at days, months or years.
type days struct{}

func (days) Ticks(lo, hi float64) []plot.Tick {
	from, to := time.Unix(int64(lo), 0).UTC(), time.Unix(int64(hi), 0).UTC()
	const want = 8
	months := int((to.Sub(from).Hours()/24/30.44)/want) + 1
	layout := "2006-01"
	at := time.Date(from.Year(), 1, 1, 0, 0, 0, 0, time.UTC)
	next := func(t time.Time) time.Time { return t.AddDate(0, months, 0) }
	switch span := to.Sub(from).Hours() / 24; {
	case span <= 70:
		step := max(1, int(span/want+0.999))
		layout, at = "01-02", time.Date(from.Year(), from.Month(), from.Day(), 0, 0, 0, 0, time.UTC)
		next = func(t time.Time) time.Time { return t.AddDate(0, 0, step) }
		if from.Year() == to.Year() {
			layout = "2006-01-02"
		}
	case months > 6:
		layout = "2006"
		years := (months + 11) / 12
		next = func(t time.Time) time.Time { return t.AddDate(years, 0, 0) }
	case months > 3:
		months = 6
	}
	var out []plot.Tick
	for ; !at.After(to); at = next(at) {
		if !at.Before(from) {
			out = append(out, plot.Tick{Value: float64(at.Unix()), Label: at.Format(layout)})
		}
	}
	return out
}

// Bar is one named value.
type Bar struct {
	Name  string
	Value float64
}

// Bars draws named values side by side, the number above each bar.
//
// Errors: ErrNothing without bars or with a value that is not finite.
func Bars(w io.Writer, title, yName string, bars ...Bar) error {
	if len(bars) == 0 {
		return fmt.Errorf("no value: %w", ErrNothing)
	}
	p := newPlot()
	p.Y.Label.Text = yName
	values, names := make(plotter.Values, len(bars)), make([]string, len(bars))
	labels := plotter.XYLabels{}
	for i, b := range bars {
		if math.IsNaN(b.Value) || math.IsInf(b.Value, 0) {
			return fmt.Errorf("%s is %g: %w", b.Name, b.Value, ErrNothing)
		}
		values[i], names[i] = b.Value, b.Name
		labels.XYs = append(labels.XYs, plotter.XY{X: float64(i), Y: max(b.Value, 0)})
		labels.Labels = append(labels.Labels, short(b.Value))
	}
	width := min(90, 600/float64(len(bars)))
	chart, err := plotter.NewBarChart(values, px(width*0.7))
	if err != nil {
		return err
	}
	chart.Color, chart.LineStyle.Width = classColours[1], 0
	over, err := plotter.NewLabels(labels)
	if err != nil {
		return err
	}
	for i := range over.TextStyle {
		over.TextStyle[i] = p.Legend.TextStyle
		over.TextStyle[i].XAlign = draw.XCenter
	}
	over.Offset.Y = px(4)
	p.Add(grid(), chart, over)
	p.NominalX(names...)
	p.Y.Max += (p.Y.Max - p.Y.Min) * 0.08
	canvas, whole := figure(max(420, 110+width*float64(len(bars))), 420)
	rest := caption(whole, title)
	p.Draw(draw.Crop(rest, px(10), -px(20), px(8), 0))
	return write(w, canvas)
}
