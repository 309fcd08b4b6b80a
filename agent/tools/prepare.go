package tools

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"terraloom/agent/raster"
	"terraloom/agent/tools/pixel"
	"terraloom/agent/tools/workspace"
	"terraloom/data/strictjson"
)

// conversion is a tool that turns the stored numbers of files into physical values.
type conversion struct {
	formula string
	// convert changes the grids of one file in place and says what they hold.
	convert func(c *Call, i int, r *workspace.Raster, grids []*raster.Grid) ([]raster.BandSpec, error)
}

// run converts every file of file_list into a float raster; its value is the list
// of their paths.
func (v *conversion) run(c *Call) (Result, error) {
	lists, err := equalLists(c, "file_list", "output_path")
	if err != nil {
		return Result{}, err
	}
	inputs, outputs, single := lists[0], lists[1], c.Args.Get("file_list").Kind() == strictjson.String
	e := Evidence{Formula: v.formula, Nodes: make([]Node, len(inputs))}
	made := make([]Artefact, len(inputs))
	notes := make([]Evidence, len(inputs))
	err = c.each(len(inputs), func(i int) error {
		at := pointer("file_list", i, single)
		target, err := c.env.workspace.Target(outputs[i])
		if err != nil {
			return badInput(pointer("output_path", i, false), err)
		}
		r, err := c.open(at, inputs[i])
		if err != nil {
			return err
		}
		defer r.Close()
		bands := len(r.Info.Bands)
		release, err := c.env.workspace.Reserve(c.Context, 5*int64(bands)*int64(r.Info.Width)*int64(r.Info.Height))
		if err != nil {
			return badInput(at, err)
		}
		defer release()
		grids, err := r.ReadBands()
		if err != nil {
			return badInput(at, err)
		}
		notes[i].masks(r)
		for b := range grids {
			notes[i].Bands = append(notes[i].Bands, BandUse{"n", r.Name, b + 1})
		}
		specs, err := v.convert(c, i, r, grids)
		if err != nil {
			return badInput(at, err)
		}
		f := &frame{grids: grids, bands: specs}
		n := &e.Nodes[i]
		*n = Node{Name: target, Output: strictjson.Text(target), Valid: f.valid(), Total: len(grids[0].Data), Status: OK}
		if n.Valid == 0 {
			n.Status, n.Reason, n.Output = Insufficient, "no pixel is valid", strictjson.NullValue()
			return nil
		}
		made[i], err = c.save(target, f)
		return err
	})
	if err != nil {
		return Result{}, err
	}
	res := Result{}
	items := make([]strictjson.Value, len(inputs))
	for i, n := range e.Nodes {
		e.Used, e.Missing = e.Used+n.Valid, e.Missing+n.Total-n.Valid
		e.Bands = append(e.Bands, notes[i].Bands...)
		for _, m := range notes[i].Masks {
			e.Masks = appendNew(e.Masks, m)
		}
		if items[i] = n.Output; n.Status == OK {
			res.Artefacts = append(res.Artefacts, made[i])
		} else {
			e.warn("%s: %s", inputs[i], n.Reason)
		}
	}
	if len(res.Artefacts) == 0 {
		return insufficient(e, "no file has a valid pixel"), nil
	}
	res.Value, res.Evidence = strictjson.List(items...), e
	return res, nil
}

var scaleOffset = &conversion{
	formula: "n·scale + offset",
	convert: func(c *Call, _ int, r *workspace.Raster, grids []*raster.Grid) ([]raster.BandSpec, error) {
		scale, offset := c.float("scale"), c.float("offset")
		if scale == 0 {
			return nil, &Error{Kind: ErrBadArguments, Param: "scale", Msg: "a scale of 0 erases the data"}
		}
		specs := make([]raster.BandSpec, len(grids))
		for b, g := range grids {
			pixel.Map(g.Data, g.Data, func(n float64) float64 { return n*scale + offset })
			specs[b] = raster.BandSpec{Description: r.Info.Bands[b].Description, Unit: r.Info.Bands[b].Unit}
		}
		return specs, nil
	},
}

// thermalBand is how a sensor's numbers become radiance, in W/(m²·sr·µm), and at
// which wavelength, in µm.
type thermalBand struct {
	wavelength   float64
	gain, offset float64 // radiance = gain·n + offset; gain 0: the file states both
	k1, k2       float64 // calibration constants, T = k2/ln(k1/L + 1); 0: Planck's law at the wavelength
	reserved     float64 // numbers up to this one are no data
	kelvin       bool    // gain·n + offset is the brightness temperature itself
}

// thermalBands are the thermal bands by sensor: ASTER L1 (User's Handbook, unit
// conversion coefficients at normal gain, number 1 is radiance 0), Landsat 8 and 9
// Level 1 (metadata of the TIRS), MODIS L1B (radiance scale in the file).
var thermalBands = map[string]thermalBand{
	"ASTER 10":   {wavelength: pixel.ASTERThermal[0], gain: 0.006822, offset: -0.006822, reserved: 1},
	"ASTER 11":   {wavelength: pixel.ASTERThermal[1], gain: 0.006780, offset: -0.006780, reserved: 1},
	"ASTER 12":   {wavelength: pixel.ASTERThermal[2], gain: 0.006590, offset: -0.006590, reserved: 1},
	"ASTER 13":   {wavelength: pixel.ASTERThermal[3], gain: 0.005693, offset: -0.005693, reserved: 1},
	"ASTER 14":   {wavelength: pixel.ASTERThermal[4], gain: 0.005225, offset: -0.005225, reserved: 1},
	"LANDSAT 10": {wavelength: 10.895, gain: 3.342e-4, offset: 0.1, k1: 774.8853, k2: 1321.0789},
	"LANDSAT 11": {wavelength: 12.005, gain: 3.342e-4, offset: 0.1, k1: 480.8883, k2: 1201.1442},
	"MODIS 29":   {wavelength: 8.55},
	"MODIS 31":   {wavelength: 11.03},
	"MODIS 32":   {wavelength: 12.02},
}

// temperature is the brightness temperature of a stored number.
func (b thermalBand) temperature(n float64) float64 {
	l := b.gain*n + b.offset
	switch {
	case b.kelvin:
		return l
	case !(l > 0) || n <= b.reserved && b.reserved > 0:
		return math.NaN()
	case b.k1 > 0:
		return b.k2 / math.Log(b.k1/l+1)
	}
	return pixel.Brightness(l, b.wavelength)
}

var (
	sensorWord = regexp.MustCompile(`(?i)aster|landsat|\bL[CT]0[89]|modis|\bM[OY]D0?2`)
	bandNumber = regexp.MustCompile(`(?i)(?:^|[^a-z0-9])(?:BT|TIR|Emissive|Radiance|band|b)?[-_ ]*(1[0-4]|29|3[12])(?:[^0-9]|$)`)
)

// thermalBandOf finds how to read band b of a file: from what the band says of
// itself (wavelength, K1, K2, scale), else by the sensor and number that the caller,
// the band's name, the file's metadata or its name state, in this order.
func thermalBandOf(r *workspace.Raster, b int, asked string) (label string, t thermalBand, err error) {
	info := r.Info.Bands[b]
	number := func(key string) float64 {
		f, _ := strconv.ParseFloat(info.Metadata[key], 64)
		return f
	}
	stated := info.Scale != 1 || info.Offset != 0
	own := thermalBand{wavelength: number("WAVELENGTH_UM"), k1: number("K1"), k2: number("K2"), gain: info.Scale, offset: info.Offset,
		kelvin: info.Metadata["MEASURES"] == "brightness temperature"}
	if own.kelvin || own.k1 > 0 && own.k2 > 0 && stated {
		return "BT " + info.Description, own, nil
	}
	name, err := thermalBandNamed(asked, info.Description, r.Info.Metadata["PRODUCT"], r.Info.Metadata["SENSOR"], r.Name)
	if err != nil {
		return "", t, err
	}
	if t = thermalBands[name]; stated {
		t.gain, t.offset = info.Scale, info.Offset
	}
	if t.gain == 0 {
		return "", t, fmt.Errorf("%s needs the radiance scale of its file, which states none", name)
	}
	return "BT " + name, t, nil
}

// thermalBandNamed finds the band that texts speak of; the first that names a
// sensor or a number decides it.
func thermalBandNamed(texts ...string) (string, error) {
	sensor, number := "", ""
	for _, t := range texts {
		if m := sensorWord.FindString(t); m != "" && sensor == "" {
			switch m = strings.ToUpper(m); {
			case strings.HasPrefix(m, "A"):
				sensor = "ASTER"
			case strings.HasPrefix(m, "L"):
				sensor = "LANDSAT"
			default:
				sensor = "MODIS"
			}
		}
		if m := bandNumber.FindStringSubmatch(t); m != nil && number == "" {
			number = m[1]
		}
	}
	if sensor == "" { // a number that one sensor alone has
		switch number {
		case "12", "13", "14":
			sensor = "ASTER"
		case "29", "31", "32":
			sensor = "MODIS"
		}
	}
	name := sensor + " " + number
	if _, ok := thermalBands[name]; !ok {
		return "", fmt.Errorf("the thermal band is not known (sensor %q, band %q); give bands as [\"ASTER 13\"], [\"Landsat 10\"] or [\"MODIS 31\"]", sensor, number)
	}
	return name, nil
}

var brightnessTemperature = &conversion{
	formula: "inverse of Planck's law of the radiance gain·n + offset",
	convert: func(c *Call, i int, r *workspace.Raster, grids []*raster.Grid) ([]raster.BandSpec, error) {
		specs := make([]raster.BandSpec, len(grids))
		bands := c.Args.Get("bands")
		if n := bands.Len(); n > 0 && n != c.Args.Get("file_list").Len() && !(n == 1 && c.Args.Get("file_list").Kind() == strictjson.String) {
			return nil, &Error{Kind: ErrBadArguments, Param: "bands", Msg: fmt.Sprintf("%d bands for %d files; give one for each file, or none", n, max(c.Args.Get("file_list").Len(), 1))}
		}
		for b, g := range grids {
			name := ""
			if bands.Len() > i {
				name = bands.Index(i).Text()
			}
			label, t, err := thermalBandOf(r, b, name)
			if err != nil {
				return nil, fmt.Errorf("%s, band %d: %w", r.Name, b+1, err)
			}
			pixel.Map(g.Data, g.Data, t.temperature)
			specs[b] = raster.BandSpec{Description: label, Unit: "K", Metadata: map[string]string{"WAVELENGTH_UM": strconv.FormatFloat(t.wavelength, 'g', -1, 64)}}
		}
		return specs, nil
	},
}
