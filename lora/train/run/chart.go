package run

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"strings"
)

// Size of a chart and of the space around its curves, in pixels.
const (
	chartWidth, chartHeight  = 460, 210
	left, right, top, bottom = 58, 18, 10, 26
	mostPoints               = 400 // of a curve; more are averaged
)

var palette = []string{"#1f6f8b", "#c8553d", "#588157", "#6d597a", "#bc6c25", "#2a9d8f"}

// chart draws lines as an SVG picture. Points that are not finite leave gaps.
func chart(lines []series) template.HTML {
	lowX, highX, lowY, highY := math.Inf(1), math.Inf(-1), math.Inf(1), math.Inf(-1)
	for _, l := range lines {
		for _, p := range l.Points {
			if !finite(p.y) {
				continue
			}
			lowX, highX = min(lowX, p.x), max(highX, p.x)
			lowY, highY = min(lowY, p.y), max(highY, p.y)
		}
	}
	if math.IsInf(lowX, 0) {
		return "<p>no finite numbers</p>"
	}
	if highX == lowX {
		highX++
	}
	if highY == lowY {
		lowY, highY = lowY-math.Max(math.Abs(lowY)/10, 1e-9), highY+math.Max(math.Abs(highY)/10, 1e-9)
	}
	x := func(v float64) float64 { return left + (v-lowX)/(highX-lowX)*(chartWidth-left-right) }
	y := func(v float64) float64 { return chartHeight - bottom - (v-lowY)/(highY-lowY)*(chartHeight-top-bottom) }

	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %d %d" width="%d" height="%d" role="img">`, chartWidth, chartHeight, chartWidth, chartHeight)
	for _, v := range ticks(lowY, highY) {
		fmt.Fprintf(&b, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" class="grid"/><text x="%d" y="%.1f" class="y">%s</text>`,
			left, chartWidth-right, y(v), y(v), left-6, y(v)+4, tickText(v))
	}
	for _, v := range ticks(lowX, highX) {
		fmt.Fprintf(&b, `<text x="%.1f" y="%d" class="x">%s</text>`, x(v), chartHeight-8, tickText(v))
	}
	for i, l := range lines {
		colour := palette[i%len(palette)]
		for _, run := range runs(thin(l.Points)) {
			if len(run) == 1 {
				fmt.Fprintf(&b, `<circle cx="%.1f" cy="%.1f" r="2.5" fill="%s"/>`, x(run[0].x), y(run[0].y), colour)
				continue
			}
			fmt.Fprintf(&b, `<polyline fill="none" stroke="%s" stroke-width="1.5" points="`, colour)
			for _, p := range run {
				fmt.Fprintf(&b, "%.1f,%.1f ", x(p.x), y(p.y))
			}
			b.WriteString(`"/>`)
		}
		if len(lines) > 1 {
			fmt.Fprintf(&b, `<text x="%d" y="%d" fill="%s" class="legend">%s</text>`, chartWidth-right, top+12+14*i, colour, html.EscapeString(l.Label))
		}
	}
	b.WriteString("</svg>")
	return template.HTML(b.String())
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// thin averages neighbours until a curve has few enough points.
func thin(points []point) []point {
	size := (len(points) + mostPoints - 1) / mostPoints
	if size <= 1 {
		return points
	}
	var out []point
	for from := 0; from < len(points); from += size {
		part := points[from:min(from+size, len(points))]
		var mean point
		for _, p := range part {
			mean.x += p.x / float64(len(part))
			mean.y += p.y / float64(len(part))
		}
		out = append(out, mean)
	}
	return out
}

// runs cuts a curve at its points that are not finite.
func runs(points []point) (out [][]point) {
	open := false
	for _, p := range points {
		if !finite(p.y) {
			open = false
			continue
		}
		if !open {
			out = append(out, nil)
		}
		open = true
		out[len(out)-1] = append(out[len(out)-1], p)
	}
	return out
}

// ticks are round numbers between two bounds.
func ticks(low, high float64) (out []float64) {
	step := math.Pow(10, math.Floor(math.Log10(high-low)))
	switch n := (high - low) / step; {
	case n < 2:
		step /= 5
	case n < 5:
		step /= 2
	}
	for i := math.Ceil(low / step); i*step <= high+step*1e-9; i++ {
		out = append(out, i*step)
	}
	return out
}

func tickText(v float64) string { return fmt.Sprintf("%.4g", v) }
