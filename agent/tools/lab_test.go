package tools

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"terraloom/agent/raster"
	"terraloom/agent/tools/workspace"
	"terraloom/data/strictjson"
)

// lab is a workspace with small rasters under short names and registries over it.
type lab struct {
	*testing.T
	w       *workspace.Workspace
	correct *Registry
	public  *Registry
}

func newLab(t *testing.T, options ...Option) *lab {
	t.Helper()
	l := &lab{T: t, w: testWorkspace(t)}
	for to, compat := range map[**Registry]Compat{&l.correct: Correct, &l.public: EarthAgent} {
		r, err := New(compat, append([]Option{WithWorkspace(l.w)}, options...)...)
		if err != nil {
			t.Fatal(err)
		}
		*to = r
	}
	return l
}

// no is a pixel without data.
var no = math.NaN()

// metres is a small grid of 10 m pixels.
var metres = raster.NorthUp(500_000, 4_000_000, 10, 10)

// file describes a raster to make; width pixels a row.
type file struct {
	width     int
	kind      raster.DataType
	nodata    *float64
	crs       int
	transform raster.GeoTransform
	bands     []raster.BandSpec
}

// put makes a raster; NaN is its nodata value (−9999 of floats, 0 of integers).
func (l *lab) put(name string, f file, bands ...[]float64) {
	l.Helper()
	path := filepath.Join(l.w.Dir(), name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		l.Fatal(err)
	}
	if f.crs == 0 {
		f.crs = 32633
	}
	crs, err := raster.EPSG(f.crs)
	if err != nil {
		l.Fatal(err)
	}
	if f.transform.IsZero() {
		f.transform = metres
	}
	if f.width == 0 {
		f.width = len(bands[0])
	}
	if f.nodata == nil {
		f.nodata = new(-9999.0)
		if f.kind != 0 && !f.kind.Float() {
			f.nodata = new(0.0)
		}
	}
	var grids []*raster.Grid
	for _, b := range bands {
		g, err := raster.NewGrid(f.width, len(b)/f.width, crs, f.transform)
		if err != nil {
			l.Fatal(err)
		}
		for i, v := range b {
			g.Data[i] = float32(v)
			if v == *f.nodata {
				g.Data[i] = raster.NaN()
			}
		}
		grids = append(grids, g)
	}
	if err := raster.Save(path, raster.Spec{Type: f.kind, NoData: f.nodata, Bands: f.bands}, grids...); err != nil {
		l.Fatal(err)
	}
}

// picture makes a PNG, gray or of three colours.
func (l *lab) picture(name string, width int, bands ...[]uint8) {
	l.Helper()
	img := image.NewNRGBA(image.Rect(0, 0, width, len(bands[0])/width))
	for i := range bands[0] {
		c := color.NRGBA{bands[0][i], bands[0][i], bands[0][i], 255}
		if len(bands) == 3 {
			c = color.NRGBA{bands[0][i], bands[1][i], bands[2][i], 255}
		}
		img.Set(i%width, i/width, c)
	}
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		l.Fatal(err)
	}
	path := filepath.Join(l.w.Dir(), name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		l.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		l.Fatal(err)
	}
}

// read gives the bands of a file with NaN for invalid pixels.
func (l *lab) read(path string) [][]float64 {
	l.Helper()
	r, err := l.w.OpenRaster(path)
	if err != nil {
		l.Fatal(err)
	}
	defer r.Close()
	grids, err := r.ReadBands()
	if err != nil {
		l.Fatal(err)
	}
	out := make([][]float64, len(grids))
	for b, g := range grids {
		for _, v := range g.Data {
			if !raster.Finite(v) {
				v = raster.NaN()
			}
			out[b] = append(out[b], float64(v))
		}
	}
	return out
}

// rasterCase is a call with its hand-computed outcome in Correct mode.
type rasterCase struct {
	tool, args string
	want       string               // the observation, "insufficient" or "error"
	says       string               // part of the reason or the error
	files      map[string][]float64 // bands one after the other, NaN where invalid
	used       int                  // pixels that entered, if not 0
	warns      string               // part of a warning
}

// check runs cases in Correct mode, a second time too, and holds every evidence
// against the schema.
func (l *lab) check(cases []rasterCase) {
	l.Helper()
	for _, c := range cases {
		args := mustParse(l.T, c.args)
		res, err := l.correct.Invoke(l.Context(), c.tool, args)
		label := c.tool + " " + c.args
		if err == nil {
			checkEvidence(l.T, label, &res)
		}
		switch {
		case c.want == "error":
			if err == nil || !strings.Contains(err.Error(), c.says) {
				l.Errorf("%s: got %s, %v; want an error saying %q", label, res.Value.JSON(), err, c.says)
			}
			continue
		case err != nil:
			l.Errorf("%s: %v", label, err)
			continue
		case c.want == "insufficient":
			if res.Evidence.Status != Insufficient || res.Value.Kind() != strictjson.Null || !strings.Contains(res.Evidence.Reason, c.says) || len(res.Artefacts) != 0 {
				l.Errorf("%s: got %s %s, %q, %d files; want no estimate, saying %q", label, res.Evidence.Status, res.Value.JSON(), res.Evidence.Reason, len(res.Artefacts), c.says)
			}
			continue
		}
		if want := mustParse(l.T, c.want); !nearValue(res.Value, want, 1e-12) {
			l.Errorf("%s\ngot  %s\nwant %s", label, res.Value.JSON(), c.want)
		}
		if c.used != 0 && res.Evidence.Used != c.used {
			l.Errorf("%s: %d values used, want %d", label, res.Evidence.Used, c.used)
		}
		if all := strings.Join(res.Evidence.Warnings, "\n"); c.warns != "" && !strings.Contains(all, c.warns) || c.warns == "" && all != "" {
			l.Errorf("%s: warnings %q, want %q", label, all, c.warns)
		}
		for path, want := range c.files {
			var got []float64
			for _, b := range l.read(path) {
				got = append(got, b...)
			}
			if len(got) != len(want) {
				l.Errorf("%s: %s has %d values, want %d", label, path, len(got), len(want))
				continue
			}
			for i := range got {
				if !near(got[i], want[i], 5e-6) {
					l.Errorf("%s: %s has %v, want %v", label, path, got, want)
					break
				}
			}
		}
		if again, err := l.correct.Invoke(l.Context(), c.tool, args); err != nil || again.JSON().JSON() != res.JSON().JSON() {
			l.Errorf("%s: a second call differs: %s, %v", label, again.JSON().JSON(), err)
		}
	}
}
