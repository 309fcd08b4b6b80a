package raster

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
)

// GeoTIFF keys and values (OGC GeoTIFF 1.1, §7 and Annex D).
const (
	keyModelType     = 1024
	keyRasterType    = 1025
	keyCitation      = 1026
	keyGeographicCRS = 2048
	keyGeogCitation  = 2049
	keyAngularUnits  = 2054
	keySemiMajorAxis = 2057
	keyProjectedCRS  = 3072
	keyProjCitation  = 3073
	keyCoordTrans    = 3075
	keyLinearUnits   = 3076
	keyLinearSize    = 3077

	modelProjected     = 1
	modelGeographic    = 2
	rasterPixelIsPoint = 2
	userDefined        = 32767
	unitMetre          = 9001
	unitDegree         = 9102
	transSinusoidal    = 24
	modisSphere        = 6371007.181 // m, radius
)

// linearUnits gives the metres of the units that real files use.
var linearUnits = map[uint16]float64{unitMetre: 1, 9002: 0.3048, 9003: 1200.0 / 3937, 9036: 1000}

// geoKeys is the decoded key directory: short values, and where a key's text or doubles lie.
type geoKeys struct {
	short  map[uint16]uint16
	text   map[uint16]string
	double map[uint16]float64
}

// readCRS decodes the GeoTIFF keys of d. Point reports RasterPixelIsPoint.
func readCRS(d *directory) (crs CRS, point bool, err error) {
	fd, dir, err := d.raw(tagGeoKeyDirectory, 1<<16)
	if err != nil || dir == nil {
		return CRS{}, false, err
	}
	if fd.kind != typeShort || fd.count < 4 {
		return CRS{}, false, fmt.Errorf("GeoKeyDirectory of %d values of type %d: %w", fd.count, fd.kind, ErrFormat)
	}
	shorts := make([]uint16, fd.count)
	for i := range shorts {
		shorts[i] = d.f.order.Uint16(dir[2*i:])
	}
	doubles, err := d.doubles(tagGeoDoubleParams)
	if err != nil {
		return CRS{}, false, err
	}
	ascii, err := d.text(tagGeoASCIIParams)
	if err != nil {
		return CRS{}, false, err
	}
	keys, err := decodeKeys(shorts, doubles, ascii)
	if err != nil {
		return CRS{}, false, err
	}
	return keys.crs(shorts, doubles, ascii), keys.short[keyRasterType] == rasterPixelIsPoint, nil
}

func decodeKeys(shorts []uint16, doubles []float64, ascii string) (geoKeys, error) {
	k := geoKeys{map[uint16]uint16{}, map[uint16]string{}, map[uint16]float64{}}
	if n := int(shorts[3]); len(shorts) < 4+4*n {
		return k, fmt.Errorf("GeoKeyDirectory announces %d keys and holds %d: %w", n, (len(shorts)-4)/4, ErrFormat)
	}
	for i := range int(shorts[3]) {
		e := shorts[4+4*i:]
		id, where, count, value := e[0], e[1], int(e[2]), int(e[3])
		switch where {
		case 0:
			k.short[id] = e[3]
		case tagGeoDoubleParams:
			if value+count > len(doubles) || count < 1 {
				return k, fmt.Errorf("GeoTIFF key %d points outside the %d double parameters: %w", id, len(doubles), ErrFormat)
			}
			k.double[id] = doubles[value]
		case tagGeoASCIIParams:
			// Writers disagree on whether the closing bar counts, so a count that runs past the end is cut.
			if value > len(ascii) {
				return k, fmt.Errorf("GeoTIFF key %d points outside the text parameters: %w", id, ErrFormat)
			}
			k.text[id] = strings.TrimRight(ascii[value:min(len(ascii), value+count)], "|\x00")
		}
	}
	return k, nil
}

// crs interprets the keys. Systems without a code keep the keys themselves, so that they can be written again.
func (k geoKeys) crs(shorts []uint16, doubles []float64, ascii string) CRS {
	var c CRS
	code := func(key uint16) int {
		if v := k.short[key]; v != userDefined {
			return int(v)
		}
		return 0
	}
	model := k.short[keyModelType]
	if model == 0 { // left out by some writers; the system's own key tells
		if k.short[keyProjectedCRS] != 0 {
			model = modelProjected
		} else if k.short[keyGeographicCRS] != 0 {
			model = modelGeographic
		}
	}
	switch model {
	case modelProjected:
		c.Kind, c.EPSG, c.Name = Projected, code(keyProjectedCRS), k.text[keyProjCitation]
		switch u := k.short[keyLinearUnits]; {
		case u == userDefined:
			c.Unit = max(0, k.double[keyLinearSize])
		default:
			c.Unit = linearUnits[u]
		}
		if c.Unit == 0 && metric(c.EPSG) {
			c.Unit = 1
		}
	case modelGeographic:
		c.Kind, c.EPSG, c.Name = Geographic, code(keyGeographicCRS), k.text[keyGeogCitation]
	default:
		return CRS{}
	}
	if c.Name == "" {
		c.Name = k.text[keyCitation]
	}
	// Writers call MODIS's grid anything, "unnamed" for one; its keys tell what it is.
	if c.EPSG == 0 && k.short[keyCoordTrans] == transSinusoidal && math.Abs(k.double[keySemiMajorAxis]-modisSphere) < 1 {
		c.Name = "MODIS sinusoidal"
	}
	if c.EPSG == 0 {
		for _, v := range shorts {
			c.directory += string([]byte{byte(v), byte(v >> 8)})
		}
		var b []byte
		for _, v := range doubles {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
		}
		c.doubles, c.ascii = string(b), ascii
	}
	return c
}

// encodeKeys returns the three GeoTIFF key fields of c, each nil if it is not needed. Pixels are areas. It returns
// ErrUnsupported for a system that the keys cannot name.
func encodeKeys(c CRS) (shorts []uint16, doubles []float64, ascii string, err error) {
	if c.IsZero() {
		return nil, nil, "", nil
	}
	if c.EPSG == 0 {
		if c.directory == "" {
			return nil, nil, "", fmt.Errorf("coordinate system %v has no EPSG code and was not read from a file: %w", c, ErrUnsupported)
		}
		for i := 0; i+1 < len(c.directory); i += 2 {
			shorts = append(shorts, uint16(c.directory[i])|uint16(c.directory[i+1])<<8)
		}
		for i := 4; i+3 < len(shorts); i += 4 {
			if shorts[i] == keyRasterType && shorts[i+1] == 0 {
				shorts[i+3] = 1 // the transform that is written with it is that of pixel corners
			}
		}
		for b := []byte(c.doubles); len(b) >= 8; b = b[8:] {
			doubles = append(doubles, math.Float64frombits(binary.LittleEndian.Uint64(b)))
		}
		return shorts, doubles, c.ascii, nil
	}
	if c.EPSG < 0 || c.EPSG >= userDefined {
		return nil, nil, "", fmt.Errorf("EPSG code %d does not fit a GeoTIFF key: %w", c.EPSG, ErrUnsupported)
	}
	add := func(key, value uint16) { shorts = append(shorts, key, 0, 1, value) }
	addDouble := func(key uint16, v float64) {
		shorts = append(shorts, key, tagGeoDoubleParams, 1, uint16(len(doubles)))
		doubles = append(doubles, v)
	}
	shorts = []uint16{1, 1, 0, 0} // directory version 1, revision 1.0; the key count follows at the end
	switch c.Kind {
	case Geographic:
		add(keyModelType, modelGeographic)
		add(keyRasterType, 1)
		add(keyGeographicCRS, uint16(c.EPSG))
		add(keyAngularUnits, unitDegree)
	case Projected:
		add(keyModelType, modelProjected)
		add(keyRasterType, 1)
		add(keyProjectedCRS, uint16(c.EPSG))
		if c.Unit > 0 {
			unit := uint16(userDefined)
			for code, metres := range linearUnits {
				if metres == c.Unit {
					unit = code
				}
			}
			add(keyLinearUnits, unit)
			if unit == userDefined {
				addDouble(keyLinearSize, c.Unit)
			}
		}
	default:
		return nil, nil, "", fmt.Errorf("%v: state whether it is geographic or projected: %w", c, ErrUnsupported)
	}
	shorts[3] = uint16(len(shorts)/4 - 1)
	return shorts, doubles, "", nil
}

// readTransform returns the transform of pixel corners, zero if the image is not georeferenced.
func readTransform(d *directory, point bool) (GeoTransform, error) {
	var t GeoTransform
	matrix, err := d.doubles(tagTransformation)
	if err != nil {
		return t, err
	}
	scale, err := d.doubles(tagPixelScale)
	if err != nil {
		return t, err
	}
	tie, err := d.doubles(tagTiepoint)
	if err != nil {
		return t, err
	}
	switch {
	case len(matrix) >= 8:
		t = GeoTransform{matrix[3], matrix[0], matrix[1], matrix[7], matrix[4], matrix[5]}
	case len(scale) >= 2 && len(tie) >= 6:
		t = GeoTransform{tie[3] - tie[0]*scale[0], scale[0], 0, tie[4] + tie[1]*scale[1], 0, -scale[1]}
	default:
		return t, nil // several tie points without a scale are ground control points, not a transform
	}
	for _, v := range t {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return GeoTransform{}, fmt.Errorf("geotransform %v: %w", t, ErrFormat)
		}
	}
	if point { // the tie point names a pixel's centre
		t[0], t[3] = t.Apply(-0.5, -0.5)
	}
	return t, nil
}
