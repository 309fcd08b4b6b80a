package plot

import (
	"fmt"
	"image"
	"image/color"
	"math"
	"slices"
	"strings"

	"terraloom/agent/raster"
	"terraloom/agent/tools/pixel"
)

// Image is one raster of a picture.
type Image struct {
	Title string
	Data  *raster.Dataset
	Band  int          // from 1; 0 is the first band, or of three or more bands of bytes the first three as red, green and blue
	Boxes [][4]float64 // x1, y1, x2, y2 in pixels from the upper left corner, drawn on top
}

// maxSide bounds the pixels of a drawn layer; larger rasters are reduced as they
// are read, so that memory does not grow with the file.
const maxSide = 768

// layer is a raster at picture size.
type layer struct {
	width, height int
	values        []float32       // of one band; NaN is invalid
	colour        *image.NRGBA    // of a colour picture, instead of values
	classes       []float32       // the distinct values of a mask or class map, sorted; nil for a field
	share         map[float32]int // pixels of each class
	missing       int             // pixels without data
	label         string          // of the colour bar
	left, right   float64         // of the x axis
	bottom, top   float64         // of the y axis
	ratio         float64         // height of a pixel to its width on the ground
	axes          [2]string       // names of the axes
	boxes         [][4]float64    // in coordinates of the axes
}

// maxClasses is how many distinct whole numbers make a class map.
const maxClasses = 8

// newLayer reads an image, reduced.
func newLayer(img Image) (*layer, error) {
	info := img.Data.Info()
	band := img.Band
	bytes3 := info.Type == raster.Uint8 && len(info.Bands) >= 3 && band == 0
	if band == 0 {
		band = 1
	}
	if band < 1 || band > len(info.Bands) {
		return nil, fmt.Errorf("%s: no band %d among %d: %w", img.Title, band, len(info.Bands), raster.ErrRange)
	}
	step := (max(info.Width, info.Height) + maxSide - 1) / maxSide
	l := &layer{width: (info.Width + step - 1) / step, height: (info.Height + step - 1) / step}
	l.place(info, img.Boxes)
	var err error
	if bytes3 {
		err = l.readColour(img.Data, info, step)
		return l, err
	}
	b := info.Bands[band-1]
	l.label = bandLabel(b)
	// The mean of classes is no class, so whole numbers are picked, not averaged.
	whole := !info.Type.Float()
	if l.values, err = reduce(img.Data, info, band, step, !whole); err != nil {
		return nil, err
	}
	l.count(whole)
	return l, nil
}

// bandLabel is the name of a band with its unit.
func bandLabel(b raster.BandInfo) string {
	switch {
	case b.Scale != 1 || b.Offset != 0:
		return strings.TrimPrefix(b.Description+", stored numbers", ", ") // the unit is that of the scaled value
	case b.Unit != "" && b.Unit != "1":
		return strings.TrimSpace(b.Description + " [" + b.Unit + "]")
	}
	return b.Description
}

// place gives the layer its axes.
func (l *layer) place(info raster.Info, boxes [][4]float64) {
	w, h := float64(info.Width), float64(info.Height)
	l.left, l.right, l.bottom, l.top = 0, w, h, 0 // rows count downwards
	l.ratio, l.axes = 1, [2]string{"column", "row"}
	if t := info.Transform; !t.IsZero() && t.AxisAligned() && t[1] > 0 && t[5] < 0 && len(boxes) == 0 {
		b := t.Bounds(info.Width, info.Height)
		l.left, l.right, l.bottom, l.top = b.MinX, b.MaxX, b.MinY, b.MaxY
		l.ratio, l.axes = -t[5]/t[1], [2]string{"easting [m]", "northing [m]"}
		if info.CRS.Kind == raster.Geographic {
			l.axes = [2]string{"longitude [°]", "latitude [°]"}
			if c := math.Cos((b.MinY + b.MaxY) / 2 * math.Pi / 180); c > 0.1 {
				l.ratio /= c
			}
		}
	}
	l.boxes = boxes
}

// reduce reads a band with step × step pixels to one: the mean of the valid ones,
// or the first.
func reduce(ds *raster.Dataset, info raster.Info, band, step int, mean bool) ([]float32, error) {
	width, height := (info.Width+step-1)/step, (info.Height+step-1)/step
	sum, n := make([]float64, width*height), make([]int32, width*height)
	var buffer []float32
	for win := range ds.Windows() {
		size := win.Width * win.Height
		buffer = slices.Grow(buffer[:0], size)[:size]
		if err := ds.ReadInto(band, win, buffer); err != nil {
			return nil, err
		}
		for y := range win.Height {
			row := (win.Y + y) / step * width
			if !mean && (win.Y+y)%step != 0 {
				continue
			}
			for x, v := range buffer[y*win.Width:][:win.Width] {
				if !raster.Finite(v) || !mean && (win.X+x)%step != 0 {
					continue
				}
				at := row + (win.X+x)/step
				sum[at] += float64(v)
				n[at]++
			}
		}
	}
	out := make([]float32, len(sum))
	for i := range out {
		out[i] = raster.NaN()
		if n[i] > 0 {
			out[i] = float32(sum[i] / float64(n[i]))
		}
	}
	return out, nil
}

func (l *layer) readColour(ds *raster.Dataset, info raster.Info, step int) error {
	l.colour = image.NewNRGBA(image.Rect(0, 0, l.width, l.height))
	for i := range l.width * l.height {
		l.colour.Pix[4*i+3] = 255
	}
	for k := range 3 {
		values, err := reduce(ds, info, k+1, step, true)
		if err != nil {
			return err
		}
		for i, v := range values {
			if raster.Finite(v) {
				l.colour.Pix[4*i+k] = uint8(v + 0.5)
			} else {
				l.colour.Pix[4*i+k] = faint.Y
			}
		}
	}
	return nil
}

// count finds the classes and the missing pixels.
func (l *layer) count(whole bool) {
	l.share = map[float32]int{}
	for _, v := range l.values {
		switch {
		case !raster.Finite(v):
			l.missing++
		case l.share != nil:
			if l.share[v]++; len(l.share) > maxClasses {
				l.share = nil
			}
		}
	}
	// A mask may be stored as floats; a field of floats may be constant, too.
	zeroOne := len(l.share) > 0
	for v := range l.share {
		zeroOne = zeroOne && (v == 0 || v == 1 || v == 255)
	}
	if len(l.share) == 0 || !whole && !zeroOne {
		l.share = nil
		return
	}
	for v := range l.share {
		l.classes = append(l.classes, v)
	}
	slices.Sort(l.classes)
}

// span is the range of a field that the colours cover: from the first to the 99th
// percentile, so that a few extremes do not swallow the rest. ok is false where
// nothing is valid.
func span(layers ...*layer) (lo, hi float64, ok bool) {
	var all []float64
	for _, l := range layers {
		for _, v := range l.values {
			if raster.Finite(v) {
				all = append(all, float64(v))
			}
		}
	}
	if len(all) == 0 {
		return 0, 0, false
	}
	slices.Sort(all)
	at := func(share float64) float64 { return all[int(share*float64(len(all)-1)+0.5)] }
	if lo, hi = at(0.01), at(0.99); lo == hi {
		lo, hi = all[0], all[len(all)-1]
	}
	if lo == hi {
		lo, hi = lo-0.5, hi+0.5
	}
	return lo, hi, true
}

// scale maps values to colours.
type scale struct {
	lo, hi float64
	ramp   pixel.Colormap
}

// newScale is a ramp from dark to bright, or for values on both sides of zero one
// that is neutral there.
func newScale(lo, hi float64) scale {
	name := "viridis"
	if far := max(-lo, hi); lo < 0 && hi > 0 && min(-lo, hi) > 0.2*far {
		name, lo, hi = "coolwarm", -far, far
	}
	ramp, err := pixel.ColormapOf(name)
	if err != nil {
		panic(err) // the two names above are the package's own
	}
	return scale{lo, hi, ramp}
}

func (s scale) at(v float64) color.NRGBA {
	c := s.ramp.At((v - s.lo) / (s.hi - s.lo))
	return color.NRGBA{uint8(c[0]), uint8(c[1]), uint8(c[2]), 255}
}

// classColours are told apart by people with any colour vision (Okabe and Ito, 2008).
var classColours = []color.NRGBA{
	{0xf0, 0xf0, 0xe8, 255}, {0x00, 0x72, 0xb2, 255}, {0xe6, 0x9f, 0x00, 255}, {0x00, 0x9e, 0x73, 255},
	{0xcc, 0x79, 0xa7, 255}, {0x56, 0xb4, 0xe9, 255}, {0xd5, 0x5e, 0x00, 255}, {0xf0, 0xe4, 0x42, 255},
}

func (l *layer) classColour(v float32) color.NRGBA {
	i, _ := slices.BinarySearch(l.classes, v)
	if len(l.classes) == 1 && v != 0 { // all of the map is set
		i = 1
	}
	return classColours[i]
}

// picture is the layer in colours.
func (l *layer) picture(s scale) image.Image {
	if l.colour != nil {
		return l.colour
	}
	img := image.NewNRGBA(image.Rect(0, 0, l.width, l.height))
	for i, v := range l.values {
		c := color.NRGBA{faint.Y, faint.Y, faint.Y, 255}
		switch {
		case !raster.Finite(v):
		case l.classes != nil:
			c = l.classColour(v)
		default:
			c = s.at(float64(v))
		}
		img.SetNRGBA(i%l.width, i/l.width, c)
	}
	return img
}
