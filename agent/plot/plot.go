// Package plot draws what the tools compute, as PNG: rasters with a colour bar or
// a legend of classes, time series, bars, and boxes on a picture.
//
// Maps and Lines draw what they are given. Result chooses a picture for the
// outcome of a tool call:
//
//	res, err := kit.Invoke(ctx, "calculate_ndvi", args)
//	err = plot.Result(file, files, "calculate_ndvi", args, &res)
//
// The same arguments give the same bytes.
package plot

import (
	"bufio"
	"errors"
	"fmt"
	"image/color"
	"io"
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

// ErrNothing: what was given has no picture, as a text or an empty list.
var ErrNothing = errors.New("nothing to draw")

const dpi = 96

var nan = math.NaN()

func px(n float64) vg.Length { return vg.Length(n) * vg.Inch / dpi }

var (
	ink   = color.Gray{0x30}
	faint = color.Gray{0xd8} // pixels without data
)

// figure is a white canvas of width × height pixels.
func figure(width, height float64) (*vgimg.Canvas, draw.Canvas) {
	c := vgimg.NewWith(vgimg.UseWH(px(width), px(height)), vgimg.UseDPI(dpi), vgimg.UseBackgroundColor(color.White))
	return c, draw.New(c)
}

func write(w io.Writer, c *vgimg.Canvas) error {
	b := bufio.NewWriter(w)
	if _, err := (vgimg.PngCanvas{Canvas: c}).WriteTo(b); err != nil {
		return err
	}
	return b.Flush()
}

// newPlot is an empty plot in one sans-serif face.
func newPlot() *plot.Plot {
	p := plot.New()
	p.Title.Padding = px(8)
	for style, size := range map[*draw.TextStyle]float64{
		&p.Title.TextStyle: 14, &p.X.Label.TextStyle: 12, &p.Y.Label.TextStyle: 12,
		&p.X.Tick.Label: 11, &p.Y.Tick.Label: 11, &p.Legend.TextStyle: 11,
	} {
		style.Font = font.Font{Typeface: "Liberation", Variant: "Sans", Size: px(size)}
		style.Color = ink
	}
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.LineStyle.Color, a.Tick.LineStyle.Color = ink, ink
		a.LineStyle.Width, a.Tick.LineStyle.Width = px(1), px(1)
		a.Tick.Length = px(5)
		a.Tick.Marker = ticks(6)
	}
	return p
}

// caption writes a centred line at the top of c and returns the rest of it.
func caption(c draw.Canvas, text string) draw.Canvas {
	if text == "" {
		return c
	}
	style := newPlot().Title.TextStyle
	style.YAlign = draw.YTop
	// A long caption must not run out of the picture.
	runes := []rune(text)
	for len(runes) > 8 && style.Width(string(runes)) > c.Max.X-c.Min.X-px(16) {
		runes = append(runes[:len(runes)-2], '…')
	}
	c.FillText(style, vg.Point{X: c.Center().X, Y: c.Max.Y - px(10)}, string(runes))
	return draw.Crop(c, 0, 0, 0, -px(34))
}

// ticks gives about n ticks at 1, 2 or 5 times a power of ten, each with as many
// digits as it takes to tell it from the next.
type ticks int

func (n ticks) Ticks(lo, hi float64) []plot.Tick {
	if !(hi > lo) || math.IsInf(hi-lo, 0) {
		return []plot.Tick{{Value: lo, Label: strconv.FormatFloat(lo, 'g', 6, 64)}}
	}
	raw := (hi - lo) / float64(n)
	power := math.Pow(10, math.Floor(math.Log10(raw)))
	step := 10 * power
	for _, m := range []float64{1, 2, 5} {
		if m*power >= raw {
			step = m * power
			break
		}
	}
	decimals := max(0, -int(math.Floor(math.Log10(step)+1e-9)))
	far := max(math.Abs(lo), math.Abs(hi))
	var out []plot.Tick
	for i := math.Ceil(lo/step - 1e-9); i*step <= hi+step*1e-9; i++ {
		label := strconv.FormatFloat(i*step+0, 'f', decimals, 64)
		if far >= 1e7 || far < 1e-4 {
			label = strconv.FormatFloat(i*step, 'g', 4, 64)
		}
		out = append(out, plot.Tick{Value: i * step, Label: label})
	}
	return out
}

// short spells a number for people.
func short(f float64) string {
	if f == math.Trunc(f) && math.Abs(f) < 1e9 {
		return strconv.FormatFloat(f, 'f', 0, 64)
	}
	return strconv.FormatFloat(f, 'g', 5, 64)
}

func percent(part, whole int) string {
	share := 100 * float64(part) / float64(whole)
	if part > 0 && share < 0.1 {
		return "<0.1 %"
	}
	return fmt.Sprintf("%.1f %%", share)
}
