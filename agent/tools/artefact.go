package tools

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/png"
	"path"
	"regexp"
	"strings"

	"terraloom/agent/raster"
	"terraloom/agent/tools/pixel"
	"terraloom/data/strictjson"
)

// Artefact is a file that a tool made.
type Artefact struct {
	Path          string // below the workspace
	SHA256        string
	Format        string // GTiff or PNG
	Width, Height int
	Bands         []ArtefactBand
	Time          string    // "2022-01-16" or "2022-01-16T10:35", "" if the name tells none
	CRS           string    // "" if not georeferenced
	Region        []float64 // min x, min y, max x, max y in the CRS; nil if not georeferenced
}

// ArtefactBand describes one band of an artefact.
type ArtefactBand struct {
	Name  string
	Unit  string
	Valid int // pixels
}

// Value is the artefact as JSON.
func (a *Artefact) Value() strictjson.Value {
	bands := make([]strictjson.Value, len(a.Bands))
	for i, b := range a.Bands {
		bands[i] = object(member("name", strictjson.Text(b.Name)), member("unit", strictjson.Text(b.Unit)), member("valid", strictjson.Int(b.Valid)))
	}
	region := strictjson.NullValue()
	if a.Region != nil {
		region = floats(a.Region)
	}
	return object(member("path", strictjson.Text(a.Path)), member("sha256", strictjson.Text(a.SHA256)), member("format", strictjson.Text(a.Format)),
		member("width", strictjson.Int(a.Width)), member("height", strictjson.Int(a.Height)), member("bands", strictjson.List(bands...)),
		member("time", strictjson.Text(a.Time)), member("crs", strictjson.Text(a.CRS)), member("region", region))
}

// JSON is the whole result: observation, artefacts, evidence.
func (r *Result) JSON() strictjson.Value {
	artefacts := make([]strictjson.Value, len(r.Artefacts))
	for i := range r.Artefacts {
		artefacts[i] = r.Artefacts[i].Value()
	}
	return object(member("observation", r.Value), member("artefacts", strictjson.List(artefacts...)), member("evidence", r.Evidence.Value()))
}

// frame is what a computation gives before it is a file: bands of one size.
type frame struct {
	grids    []*raster.Grid
	kind     raster.DataType // Float32 if not stated
	nodata   *float64        // of an integer raster with invalid pixels; float rasters use NaN
	bands    []raster.BandSpec
	warnings []string
	empty    string // why nothing is valid, for the agent
}

// valid is the number of valid pixels of the first band.
func (f *frame) valid() int { return pixel.Valid(f.grids[0].Data) }

// save writes a frame to a target of the workspace.
func (c *Call) save(target string, f *frame) (Artefact, error) {
	g := f.grids[0]
	a := Artefact{Path: target, Format: "GTiff", Width: g.Width, Height: g.Height, Time: TimeOf(target), CRS: g.CRS.String()}
	if !g.Transform.IsZero() {
		b := g.Transform.Bounds(g.Width, g.Height)
		a.Region = []float64{b.MinX, b.MinY, b.MaxX, b.MaxY}
	}
	if g.CRS.IsZero() {
		a.CRS = ""
	}
	for i, g := range f.grids {
		band := ArtefactBand{Valid: pixel.Valid(g.Data)}
		if i < len(f.bands) {
			band.Name, band.Unit = f.bands[i].Description, f.bands[i].Unit
		}
		a.Bands = append(a.Bands, band)
	}
	var err error
	if f.kind == raster.Uint8 && picture(target) {
		a.Format = "PNG"
		var data []byte
		if data, err = encodePNG(f.grids); err == nil {
			a.SHA256, err = c.env.workspace.WriteFile(target, data)
		}
		return a, err
	}
	a.SHA256, err = c.env.workspace.Write(target, func(tmp string) error {
		if c.public() {
			return publicSave(tmp, f)
		}
		return raster.Save(tmp, f.spec(), f.grids...)
	})
	if errors.Is(err, raster.ErrRange) { // the public kit's files can be ones that cannot be written
		err = badInput("", err)
	}
	return a, err
}

func (f *frame) spec() raster.Spec {
	s := raster.Spec{Type: f.kind, NoData: f.nodata, Bands: f.bands}
	if f.kind == 0 || f.kind.Float() {
		s.NoData = new(float64(raster.NaN()))
	}
	if len(s.Bands) != len(f.grids) {
		s.Bands = nil
	}
	return s
}

// picture reports whether a file name asks for a picture. A mask must not lose a
// pixel, so what is written is PNG under each of these names.
func picture(name string) bool {
	switch strings.ToLower(path.Ext(name)) {
	case ".png", ".jpg", ".jpeg":
		return true
	}
	return false
}

// encodePNG writes one band as gray, three as colour. Invalid pixels are 0.
func encodePNG(grids []*raster.Grid) ([]byte, error) {
	g := grids[0]
	bounds := image.Rect(0, 0, g.Width, g.Height)
	level := func(v float32) uint8 {
		if !raster.Finite(v) {
			return 0
		}
		return uint8(v)
	}
	var img image.Image
	switch len(grids) {
	case 1:
		gray := image.NewGray(bounds)
		for i, v := range g.Data {
			gray.Pix[i] = level(v)
		}
		img = gray
	case 3:
		colour := image.NewNRGBA(bounds)
		for i := range g.Data {
			for k, band := range grids {
				colour.Pix[4*i+k] = level(band.Data[i])
			}
			colour.Pix[4*i+3] = 255
		}
		img = colour
	default:
		return nil, fmt.Errorf("a picture has 1 or 3 bands, not %d; name the output .tif", len(grids))
	}
	var b bytes.Buffer
	err := png.Encode(&b, img)
	return b.Bytes(), err
}

// stamp finds the date, and the time if there is one, in a file name.
var stamp = regexp.MustCompile(`(?:^|[^0-9])((?:19|20)\d\d)[-_]?(0[1-9]|1[0-2])[-_]?(0[1-9]|[12]\d|3[01])(?:[-_T]?([01]\d|2[0-3])([0-5]\d))?(?:[^0-9]|$)`)

// TimeOf is the time in the name of a file, "" if there is none.
func TimeOf(name string) string {
	m := stamp.FindStringSubmatch(path.Base(name))
	switch {
	case m == nil:
		return ""
	case m[4] == "":
		return m[1] + "-" + m[2] + "-" + m[3]
	}
	return fmt.Sprintf("%s-%s-%sT%s:%s", m[1], m[2], m[3], m[4], m[5])
}

// said is the public kit's message for a file that was written.
func said(verb, target string) strictjson.Value {
	return strictjson.Text("Result " + verb + " at " + target)
}

// The two verbs of the kit's messages.
const (
	save  = "save"
	saved = "saved"
)

// maskFrame is the frame of a mask of 0 and set, with a nodata value only where
// it is needed.
func maskFrame(g *raster.Grid, set float32, name string) *frame {
	f := &frame{grids: []*raster.Grid{g}, kind: raster.Uint8, bands: []raster.BandSpec{{Description: name}}}
	if pixel.Valid(g.Data) < len(g.Data) {
		nodata := 255.0
		if set == 255 {
			nodata = 128
		}
		f.nodata = &nodata
	}
	return f
}
