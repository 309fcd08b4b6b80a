package world

import (
	_ "embed"
	"fmt"
	"math"
	"strings"
	"sync"
)

// landTXT is the share of land of each cell of one degree, from 90 N down and from
// 180 W on, in ninths ("." 0, "#" 9). It was counted on Natural Earth's 1:50m land
// polygons, which are in the public domain.
//
//go:embed land.txt
var landTXT string

//go:embed regions.txt
var regionsTXT string

// landscape is what the letters of regions.txt stand for.
type landscape struct {
	rain      float64 // mm a year
	season    float64 // how much of it falls in the wet season: -1 in winter … 1 in summer
	tree      float64 // cover by woods
	crop      float64 // by fields
	grass     float64 // by grass and shrubs; the rest is bare
	evergreen float64 // share of the woods
	warm      float64 // K above what latitude and height let expect
	ice       float64 // cover by permanent ice
	bright    float64 // of the soil, relative
	fire      float64 // how readily it burns, relative
}

const landscapeFields = 10

func (l *landscape) values() *[landscapeFields]float64 {
	return &[landscapeFields]float64{l.rain, l.season, l.tree, l.crop, l.grass, l.evergreen, l.warm, l.ice, l.bright, l.fire}
}

var landscapes = map[byte]landscape{
	'r': {2200, 0.2, 0.86, 0.04, 0.08, 0.95, 0, 0, 0.6, 0.15},   // rain forest
	'm': {1300, 0.85, 0.25, 0.5, 0.15, 0.5, 1, 0, 0.8, 0.5},     // monsoon fields
	's': {950, 0.85, 0.28, 0.1, 0.52, 0.4, 1, 0, 0.85, 1},       // savanna
	'h': {380, 0.9, 0.04, 0.08, 0.4, 0.5, 2, 0, 1.05, 0.5},      // dry shrubs: Sahel
	'd': {60, 0.2, 0, 0.005, 0.03, 0.5, 2.5, 0, 1.25, 0},        // desert
	'g': {380, 0.5, 0.04, 0.1, 0.62, 0.5, -0.5, 0, 0.95, 0.3},   // temperate steppe
	'M': {600, -0.6, 0.25, 0.3, 0.28, 0.7, 1, 0, 0.95, 0.7},     // Mediterranean
	'c': {800, 0.3, 0.2, 0.6, 0.13, 0.2, 0, 0, 0.8, 0.15},       // temperate fields
	'f': {950, 0.2, 0.65, 0.15, 0.16, 0.4, 0, 0, 0.7, 0.25},     // temperate forest
	'b': {520, 0.35, 0.68, 0.02, 0.24, 0.75, -1, 0, 0.65, 0.4},  // boreal forest
	't': {300, 0.3, 0.03, 0, 0.6, 0.9, -1, 0.02, 0.7, 0.02},     // tundra
	'k': {320, 0.8, 0.02, 0.03, 0.42, 0.8, 3, 0.02, 0.95, 0.05}, // high plateau
	'i': {250, 0.2, 0, 0, 0.02, 0.5, -2, 0.95, 0.8, 0},          // ice sheet
}

const (
	regionCols, regionRows = 72, 36
	landCols, landRows     = 360, 180
)

// maps are the two embedded maps, made ready for interpolation.
type maps struct {
	land   []float32 // share, 0 … 1
	inland []float32 // share within about 5 degrees
	region [regionRows * regionCols][landscapeFields]float32
	height [regionRows * regionCols]float32 // m
}

// theMaps are parsed once. The files are part of the program and the tests parse
// them, so a fault is a broken build, not an error to handle.
var theMaps = sync.OnceValue(func() *maps {
	m, err := readMaps(landTXT, regionsTXT)
	if err != nil {
		panic(err)
	}
	return m
})

func readMaps(land, regions string) (*maps, error) {
	m := &maps{}
	rows, err := mapRows("land.txt", land, landRows, landCols)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		for i := range len(row) {
			v, ok := ninths(row[i])
			if !ok {
				return nil, fmt.Errorf("land.txt: %q is none of \".\", 1 … 8 and \"#\"", row[i])
			}
			m.land = append(m.land, v)
		}
	}
	m.inland = smooth(m.land)
	rows, err = mapRows("regions.txt", regions, 2*regionRows, regionCols)
	if err != nil {
		return nil, err
	}
	known := make([]bool, len(m.region))
	for i := range m.region {
		letter, digit := rows[i/regionCols][i%regionCols], rows[regionRows+i/regionCols][i%regionCols]
		if digit < '0' || digit > '9' {
			return nil, fmt.Errorf("regions.txt: height %q is no digit", digit)
		}
		m.height[i] = 500 * float32(digit-'0')
		if letter == '.' {
			continue
		}
		l, ok := landscapes[letter]
		if !ok {
			return nil, fmt.Errorf("regions.txt: no landscape has the letter %q", letter)
		}
		known[i] = true
		for f, v := range l.values() {
			m.region[i][f] = float32(v)
		}
	}
	spread(m.region[:], known)
	return m, nil
}

// mapRows splits a map into its rows, without comments and empty lines.
func mapRows(name, text string, rows, cols int) ([]string, error) {
	var out []string
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		if line == "" || strings.HasPrefix(line, "# ") {
			continue
		}
		if len(line) != cols {
			return nil, fmt.Errorf("%s: row %d has %d cells, expected %d", name, len(out)+1, len(line), cols)
		}
		out = append(out, line)
	}
	if len(out) != rows {
		return nil, fmt.Errorf("%s: %d rows, expected %d", name, len(out), rows)
	}
	return out, nil
}

func ninths(c byte) (float32, bool) {
	switch {
	case c == '.':
		return 0, true
	case c == '#':
		return 1, true
	case c >= '1' && c <= '8':
		return float32(c-'0') / 9, true
	}
	return 0, false
}

// smooth is the mean of the land map over 11 × 11 cells.
func smooth(land []float32) []float32 {
	const reach = 5
	out := make([]float32, len(land))
	for y := range landRows {
		for x := range landCols {
			sum := float32(0)
			for dy := -reach; dy <= reach; dy++ {
				yy := min(max(y+dy, 0), landRows-1)
				for dx := -reach; dx <= reach; dx++ {
					sum += land[yy*landCols+(x+dx+landCols)%landCols]
				}
			}
			out[y*landCols+x] = sum / ((2*reach + 1) * (2*reach + 1))
		}
	}
	return out
}

// spread gives the cells without a landscape the mean of their neighbours', from
// the known ones outwards.
func spread(region [][landscapeFields]float32, known []bool) {
	for {
		next := append([]bool(nil), known...)
		done := true
		for i := range region {
			if known[i] {
				continue
			}
			done = false
			y, x, n := i/regionCols, i%regionCols, float32(0)
			var sum [landscapeFields]float32
			for dy := -1; dy <= 1; dy++ {
				for dx := -1; dx <= 1; dx++ {
					yy, xx := y+dy, (x+dx+regionCols)%regionCols
					if yy < 0 || yy >= regionRows || !known[yy*regionCols+xx] {
						continue
					}
					n++
					for f, v := range region[yy*regionCols+xx] {
						sum[f] += v
					}
				}
			}
			if n > 0 {
				for f := range sum {
					region[i][f] = sum[f] / n
				}
				next[i] = true
			}
		}
		if done {
			return
		}
		copy(known, next)
	}
}

// bilinear finds the four cells of a map of given size around a position and the
// position between them.
func bilinear(lon, lat float64, cols, rows int) (at [4]int, fx, fy float64) {
	x := (lon+180)/360*float64(cols) - 0.5
	y := clamp((90-lat)/180*float64(rows)-0.5, 0, float64(rows-1))
	cx, cy := math.Floor(x), math.Floor(y)
	x0 := (int(cx)%cols + cols) % cols
	x1, y0 := (x0+1)%cols, int(cy)
	y1 := min(y0+1, rows-1)
	return [4]int{y0*cols + x0, y0*cols + x1, y1*cols + x0, y1*cols + x1}, x - cx, y - cy
}

func blend4[T float32 | float64](a, b, c, d T, fx, fy float64) float64 {
	top := mix(float64(a), float64(b), fx)
	return mix(top, mix(float64(c), float64(d), fx), fy)
}

func sample(m []float32, lon, lat float64, cols, rows int) float64 {
	at, fx, fy := bilinear(lon, lat, cols, rows)
	return blend4(m[at[0]], m[at[1]], m[at[2]], m[at[3]], fx, fy)
}

// landShare is the share of land around a position.
func (m *maps) landShare(lon, lat float64) float64 {
	return sample(m.land, lon, lat, landCols, landRows)
}

// inlandShare is 0 far out at sea and 1 far from it.
func (m *maps) inlandShare(lon, lat float64) float64 {
	return sample(m.inland, lon, lat, landCols, landRows)
}

// landscapeAt blends the landscapes around a position.
func (m *maps) landscapeAt(lon, lat float64) (l landscape, height float64) {
	at, fx, fy := bilinear(lon, lat, regionCols, regionRows)
	var v [landscapeFields]float64
	for f := range v {
		v[f] = blend4(m.region[at[0]][f], m.region[at[1]][f], m.region[at[2]][f], m.region[at[3]][f], fx, fy)
	}
	l = landscape{v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9]}
	return l, blend4(m.height[at[0]], m.height[at[1]], m.height[at[2]], m.height[at[3]], fx, fy)
}
