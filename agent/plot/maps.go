package plot

import (
	"fmt"
	"image"
	"image/color"
	"io"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// maxMaps is how many rasters fit in one picture.
const maxMaps = 12

// Maps draws rasters side by side under a common title, each with its colour bar
// or its legend. Fields of the same band name share one range of colours, so that
// they can be compared. More than twelve rasters are drawn as the first twelve,
// which the title says.
//
// Errors: ErrNothing without images; those of package raster.
func Maps(w io.Writer, title string, images ...Image) error {
	if len(images) == 0 {
		return fmt.Errorf("no raster: %w", ErrNothing)
	}
	if len(images) > maxMaps {
		title = fmt.Sprintf("%s (the first %d of %d)", title, maxMaps, len(images))
		images = images[:maxMaps]
	}
	layers := make([]*layer, len(images))
	alike := map[string][]*layer{}
	for i, img := range images {
		l, err := newLayer(img)
		if err != nil {
			return err
		}
		layers[i] = l
		if l.classes == nil && l.colour == nil {
			alike[l.label] = append(alike[l.label], l)
		}
	}
	side := 560.0 // of the longer side of a map
	cols := 1
	if len(layers) > 1 {
		cols = int(math.Ceil(math.Sqrt(float64(len(layers)))))
		side = max(230, 760/float64(cols))
	}
	cellW, cellH := 0.0, 0.0
	for _, l := range layers {
		w, h := l.size(side)
		cellW, cellH = max(cellW, w+210), max(cellH, h+84)
	}
	rows := (len(layers) + cols - 1) / cols
	canvas, whole := figure(max(cellW*float64(cols), 420), cellH*float64(rows)+34)
	rest := caption(whole, title)
	for i, l := range layers {
		lo, hi, ok := span(alike[l.label]...)
		left := rest.Min.X + px(cellW)*vg.Length(i%cols)
		top := rest.Max.Y - px(cellH)*vg.Length(i/cols)
		cell := draw.Canvas{Canvas: rest.Canvas, Rectangle: vg.Rectangle{Min: vg.Point{X: left, Y: top - px(cellH)}, Max: vg.Point{X: left + px(cellW), Y: top}}}
		name := images[i].Title
		if l.missing > 0 {
			name += " (" + percent(l.missing, l.width*l.height) + " no data)"
		}
		l.draw(cell, name, side, newScale(lo, hi), ok && l.values != nil)
	}
	return write(w, canvas)
}

// size is that of the drawn map, in pixels.
func (l *layer) size(side float64) (w, h float64) {
	w, h = float64(l.width), float64(l.height)*l.ratio
	f := side / max(w, h)
	return max(w*f, 90), max(h*f, 90) // long strips stay visible
}

// draw draws the layer into a cell, upper left.
func (l *layer) draw(cell draw.Canvas, title string, side float64, s scale, valid bool) {
	w, h := l.size(side)
	p := newPlot()
	p.Title.Text, p.Title.TextStyle.Font.Size = fit(title, p.Title.TextStyle, px(w+170)), px(12)
	p.X.Label.Text, p.Y.Label.Text = l.axes[0], l.axes[1]
	p.X.Padding, p.Y.Padding = 0, 0
	p.X.Tick.Marker = ticks(max(3, int(w/110)))
	picture := zoom(l.picture(s), int(w), int(h))
	if l.bottom > l.top { // rows: 0 is at the top
		p.Y.Tick.Marker = downwards{l.bottom, max(3, int(h/60))}
		p.Add(plotter.NewImage(picture, l.left, 0, l.right, l.bottom))
	} else {
		p.Y.Tick.Marker = ticks(max(3, int(h/60)))
		p.Add(plotter.NewImage(picture, l.left, l.bottom, l.right, l.top))
	}
	for _, b := range l.boxes {
		p.Add(outline(b, l.bottom))
	}
	area := draw.Crop(cell, px(6), -px(120), px(2), -px(2))
	// The axes take what their labels need; the map gets its own size.
	inner := p.DataCanvas(area)
	area.Max.X = area.Min.X + (inner.Min.X - area.Min.X) + px(w)
	area.Min.Y = area.Max.Y - (area.Max.Y - inner.Max.Y) - px(h) - (inner.Min.Y - area.Min.Y)
	p.Draw(area)
	inner = p.DataCanvas(area)
	side2 := draw.Canvas{Canvas: cell.Canvas, Rectangle: vg.Rectangle{
		Min: vg.Point{X: inner.Max.X + px(14), Y: inner.Min.Y}, Max: vg.Point{X: cell.Max.X - px(4), Y: inner.Max.Y}}}
	switch {
	case l.colour != nil:
	case l.classes != nil:
		l.legend(side2)
	case valid:
		s.bar(side2, l.label)
	}
}

// fit shortens a text to a width.
func fit(text string, style draw.TextStyle, width vg.Length) string {
	runes := []rune(text)
	for len(runes) > 4 && style.Width(string(runes)) > width {
		runes = append([]rune{'…'}, runes[2:]...) // the end of a file name tells more
	}
	return string(runes)
}

// downwards are ticks of an axis whose values fall from the height h to 0.
type downwards struct {
	h float64
	n int
}

func (d downwards) Ticks(_, _ float64) []plot.Tick {
	marks := ticks(d.n).Ticks(0, d.h)
	for i := range marks {
		marks[i].Value = d.h - marks[i].Value
	}
	return marks
}

// zoom enlarges or reduces an image to w × h without mixing pixels.
func zoom(img image.Image, w, h int) image.Image {
	b := img.Bounds()
	out := image.NewNRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			out.Set(x, y, img.At(x*b.Dx()/w, y*b.Dy()/h))
		}
	}
	return out
}

// outline is a box in pixels of an image of the given height.
func outline(b [4]float64, height float64) *plotter.Line {
	x1, y1, x2, y2 := b[0], height-b[1], b[2], height-b[3]
	l := &plotter.Line{XYs: plotter.XYs{{X: x1, Y: y1}, {X: x2, Y: y1}, {X: x2, Y: y2}, {X: x1, Y: y2}, {X: x1, Y: y1}}}
	l.LineStyle = draw.LineStyle{Color: color.NRGBA{0xff, 0x30, 0x30, 255}, Width: px(2)}
	return l
}

// bar is the colour bar of a scale.
func (s scale) bar(c draw.Canvas, label string) {
	img := image.NewNRGBA(image.Rect(0, 0, 1, 256))
	for i := range 256 {
		img.SetNRGBA(0, 255-i, s.at(s.lo+(s.hi-s.lo)*float64(i)/255))
	}
	p := newPlot()
	p.HideX()
	p.Y.Padding = 0
	p.Y.Label.Text = label
	p.Y.Tick.Marker = ticks(max(2, int((c.Max.Y-c.Min.Y)/px(50))))
	p.Add(plotter.NewImage(zoom(img, 18, 256), 0, s.lo, 1, s.hi))
	// The axis takes what its labels need; the bar is 18 pixels wide.
	inner := p.DataCanvas(c)
	c.Max.X -= inner.Max.X - inner.Min.X - px(18)
	p.Draw(c)
}

// legend lists the classes with their shares.
func (l *layer) legend(c draw.Canvas) {
	style := newPlot().Legend.TextStyle
	y := c.Max.Y
	valid := len(l.values) - l.missing
	line := func(fill color.Color, text string) {
		box := vg.Rectangle{Min: vg.Point{X: c.Min.X, Y: y - px(14)}, Max: vg.Point{X: c.Min.X + px(14), Y: y}}
		c.SetColor(fill)
		c.Fill(box.Path())
		c.SetLineStyle(draw.LineStyle{Color: ink, Width: px(0.5)})
		c.Stroke(box.Path())
		c.FillText(style, vg.Point{X: c.Min.X + px(20), Y: y - px(11)}, text)
		y -= px(22)
	}
	for _, v := range l.classes {
		line(l.classColour(v), short(float64(v))+": "+percent(l.share[v], valid))
	}
	if l.missing > 0 {
		line(faint, "no data")
	}
}
