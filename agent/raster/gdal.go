//go:build gdal

package raster

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/airbusgeo/godal"
)

const withGDAL = true

// gdalReaders are the drivers that Open may use: formats whose pixels lie in the file itself. Drivers that follow references,
// such as VRT, are left out, so that a file cannot make the process read another file or the network.
var gdalReaders = []string{"JP2OpenJPEG", "netCDF", "HDF5", "HDF5Image", "HDF4", "HDF4Image"}

// registerGDAL loads the drivers that this GDAL has.
var registerGDAL = sync.OnceValue(func() error {
	// Reprojection goes through a VRT in memory, which Open's list of drivers still keeps out of files.
	if err := godal.RegisterRaster("GTiff", "MEM", "VRT"); err != nil {
		return fmt.Errorf("GDAL: %w", err)
	}
	for _, name := range gdalReaders {
		_ = godal.RegisterRaster(godal.DriverName(name)) // a driver that this GDAL lacks is found missing when a file needs it
	}
	return nil
})

// gdalFailures passes failures on and drops GDAL's warnings.
func gdalFailures(ec godal.ErrorCategory, _ int, msg string) error {
	if ec >= godal.CE_Failure {
		return errors.New(msg)
	}
	return nil
}

// gdalSource reads blocks through GDAL, one at a time, as its datasets may not be shared between threads.
type gdalSource struct {
	layout
	mu sync.Mutex
	ds *godal.Dataset
}

func (s *gdalSource) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ds.Close()
}

func (s *gdalSource) decode(key blockKey) ([]byte, error) {
	x, y := key.index%s.across()*s.blockW, key.index/s.across()*s.blockH
	cols, rows := min(s.blockW, s.width-x), min(s.blockH, s.height-y)
	block := newBlock(s.blockBytes())
	var buf any
	switch s.kind {
	case Uint8:
		buf = block
	case Int8:
		buf = samples[int8](block)
	case Uint16:
		buf = samples[uint16](block)
	case Int16:
		buf = samples[int16](block)
	case Uint32:
		buf = samples[uint32](block)
	case Int32:
		buf = samples[int32](block)
	case Float32:
		buf = samples[float32](block)
	case Float64:
		buf = samples[float64](block)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.ds.Bands()[key.plane].Read(x, y, buf, cols, rows, godal.LineStride(s.blockW), godal.ErrLogger(gdalFailures))
	if err != nil {
		return nil, fmt.Errorf("GDAL: %v: %w", err, ErrFormat)
	}
	return block, nil
}

// openGDAL opens a file, or one variable of it.
func openGDAL(path, variable string) (*Dataset, error) {
	if err := registerGDAL(); err != nil {
		return nil, err
	}
	name := path
	if variable != "" {
		path = path + "#" + variable
	}
	ds, err := gdalOpen(name, variable)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	out, err := describeGDAL(ds)
	if err != nil {
		ds.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	out.setName(path)
	return out, nil
}

func gdalOpen(path, variable string) (*godal.Dataset, error) {
	open := func(name string) (*godal.Dataset, error) {
		ds, err := godal.Open(name, godal.Drivers(gdalReaders...), godal.RasterOnly(), godal.ErrLogger(gdalFailures))
		if err != nil {
			return nil, fmt.Errorf("GDAL: %v: %w", err, ErrFormat)
		}
		return ds, nil
	}
	ds, err := open(path)
	if err != nil {
		return nil, err
	}
	names := subdatasets(ds)
	if variable == "" {
		if len(ds.Bands()) == 0 && len(names) > 0 {
			ds.Close()
			return nil, fmt.Errorf("holds several variables; open one as FILE#VARIABLE: %s: %w", strings.Join(variables(names), ", "), ErrUnsupported)
		}
		return ds, nil
	}
	for i, v := range variables(names) {
		if v == variable {
			ds.Close()
			return open(names[i])
		}
	}
	// A file with a single variable has no list; GDAL names that variable in the band.
	if len(names) == 0 && len(ds.Bands()) > 0 && ds.Bands()[0].Metadata("NETCDF_VARNAME") == variable {
		return ds, nil
	}
	ds.Close()
	return nil, fmt.Errorf("no variable %q (there are: %s): %w", variable, strings.Join(variables(names), ", "), ErrRange)
}

// subdatasets returns GDAL's names of the variables of a file.
func subdatasets(ds *godal.Dataset) []string {
	md := ds.Metadatas(godal.Domain("SUBDATASETS"))
	var names []string
	for i := 1; md[fmt.Sprintf("SUBDATASET_%d_NAME", i)] != ""; i++ {
		names = append(names, md[fmt.Sprintf("SUBDATASET_%d_NAME", i)])
	}
	return names
}

// variables returns the last parts of subdataset names: DRIVER:"FILE":VARIABLE, with slashes before an HDF5 variable.
func variables(names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = strings.TrimLeft(n[strings.LastIndexByte(n, ':')+1:], "/")
	}
	return out
}

// describeGDAL wraps an open GDAL dataset.
func describeGDAL(ds *godal.Dataset) (*Dataset, error) {
	bands := ds.Bands()
	if len(bands) == 0 {
		return nil, fmt.Errorf("no raster bands: %w", ErrFormat)
	}
	st := ds.Structure()
	first := bands[0].Structure()
	kinds := map[godal.DataType]DataType{godal.Byte: Uint8, godal.Int8: Int8, godal.UInt16: Uint16, godal.Int16: Int16,
		godal.UInt32: Uint32, godal.Int32: Int32, godal.Float32: Float32, godal.Float64: Float64}
	src := &gdalSource{ds: ds, layout: layout{width: st.SizeX, height: st.SizeY, bands: len(bands),
		kind: kinds[first.DataType], blockW: first.BlockSizeX, blockH: first.BlockSizeY}}
	if src.kind == 0 {
		return nil, fmt.Errorf("samples of GDAL type %d: %w", first.DataType, ErrUnsupported)
	}
	if src.blockW <= 0 || src.blockH <= 0 || src.blockW > maxBlockBytes/src.kind.Size()/src.blockH {
		return nil, fmt.Errorf("blocks of %d×%d pixels decode to more than %d MiB: %w", src.blockW, src.blockH, maxBlockBytes>>20, ErrTooLarge)
	}
	info := Info{Format: ds.Driver().ShortName(), Compression: "unknown", Bands: make([]BandInfo, len(bands)), Metadata: ds.Metadatas()}
	alpha := 0
	for i, b := range bands {
		s := b.Structure()
		if s.DataType != first.DataType {
			return nil, fmt.Errorf("bands of different sample types: %w", ErrUnsupported)
		}
		out := BandInfo{Scale: s.Scale, Offset: s.Offset, Description: b.Description(), Metadata: b.Metadatas()}
		out.Unit = out.Metadata["units"]
		if v, ok := b.NoData(); ok {
			out.NoData = new(v)
		}
		if b.ColorInterp() == godal.CIAlpha {
			alpha, out.Alpha, info.HasMask = i+1, true, true
		}
		info.Bands[i] = out
		if a, b := info.Bands[0].NoData, out.NoData; (a == nil) != (b == nil) || a != nil && *a != *b && !(math.IsNaN(*a) && math.IsNaN(*b)) {
			return nil, fmt.Errorf("bands with different nodata values: %w", ErrUnsupported)
		}
	}
	if t, err := ds.GeoTransform(godal.ErrLogger(gdalFailures)); err == nil {
		info.Transform = t
	}
	info.CRS = gdalCRS(ds)
	out := newDataset(info, src.layout, src)
	out.alpha = alpha
	if v := info.Bands[0].NoData; v != nil {
		out.nodata = noData{stated: true, value: *v, sample: sampleOf(*v, src.kind)}
	}
	return out, nil
}

func gdalCRS(ds *godal.Dataset) CRS {
	if ds.Projection() == "" {
		return CRS{}
	}
	sr := ds.SpatialRef()
	defer sr.Close()
	var c CRS
	switch {
	case sr.Geographic():
		c.Kind = Geographic
		c.Name, _ = sr.AttrValue("GEOGCS", 0)
	case sr.Projected():
		c.Kind = Projected
		c.Name, _ = sr.AttrValue("PROJCS", 0)
		if text, ok := sr.AttrValue("PROJCS|UNIT", 1); ok {
			c.Unit, _ = strconv.ParseFloat(text, 64) // 0, unknown, if it is not a number
		}
	default:
		return CRS{}
	}
	if sr.AuthorityName("") == "EPSG" {
		c.EPSG, _ = strconv.Atoi(sr.AuthorityCode(""))
	}
	return c
}

// Warp reprojects and resamples the raster src to the size, coordinate system and place of like, and writes it to dst as GeoTIFF,
// in place only when it is complete. It and the reading of JPEG 2000, netCDF, HDF5 and HDF4 by [Open] need a build with the tag
// gdal. Pixels that src does not cover are invalid; an integer raster without a nodata value becomes a float one for that reason.
// Where like is coarser than src, GDAL's bilinear method weighs all source pixels under a target pixel.
//
// Errors: ErrUnsupported if like has no EPSG code or is rotated; those of [Open].
func Warp(dst, src string, like Info, m Method) error {
	err := warp(dst, src, like, m)
	if err != nil {
		return fmt.Errorf("warp of %s: %w", src, err)
	}
	return nil
}

func warp(dst, src string, like Info, m Method) error {
	b, ok := like.Bounds()
	t := like.Transform
	methods := map[Method]string{Nearest: "near", Bilinear: "bilinear"}
	switch {
	case like.CRS.EPSG == 0 || !ok || !t.AxisAligned() || t[1] <= 0 || t[5] >= 0:
		return fmt.Errorf("the target must be north-up with an EPSG code, not %v with geotransform %v: %w", like.CRS, t, ErrUnsupported)
	case methods[m] == "":
		return fmt.Errorf("unknown method %v: %w", m, ErrUnsupported)
	}
	ds, err := Open(src) // checks the file, and tells its sample type and nodata value
	if err != nil {
		return err
	}
	info := ds.Info()
	if err := ds.Close(); err != nil {
		return err
	}
	if err := registerGDAL(); err != nil {
		return err
	}
	name, variable := src, ""
	drivers := append(slices.Clone(gdalReaders), "GTiff")
	if _, err := os.Stat(src); err != nil {
		name, variable, _ = cutVariable(src)
	}
	var in *godal.Dataset
	if variable != "" {
		in, err = gdalOpen(name, variable)
	} else {
		in, err = godal.Open(name, godal.Drivers(drivers...), godal.RasterOnly(), godal.ErrLogger(gdalFailures))
	}
	if err != nil {
		return fmt.Errorf("GDAL: %v: %w", err, ErrUnsupported)
	}
	defer in.Close()

	number := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	args := []string{"-t_srs", fmt.Sprintf("EPSG:%d", like.CRS.EPSG), "-te", number(b.MinX), number(b.MinY), number(b.MaxX), number(b.MaxY),
		"-ts", strconv.Itoa(like.Width), strconv.Itoa(like.Height), "-r", methods[m], "-of", "GTiff",
		"-co", "TILED=YES", "-co", "COMPRESS=DEFLATE", "-co", "BIGTIFF=IF_SAFER"}
	switch nodata := info.Bands[0].NoData; {
	case nodata != nil:
		args = append(args, "-dstnodata", formatNoData(*nodata))
	case info.Type.exactIn(Float32):
		args = append(args, "-dstnodata", "nan", "-ot", "Float32")
	default:
		args = append(args, "-dstnodata", "nan", "-ot", "Float64")
	}
	dir, err := os.MkdirTemp(filepath.Dir(dst), ".warp-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	temp := filepath.Join(dir, filepath.Base(dst))
	out, err := in.Warp(temp, args, godal.ErrLogger(gdalFailures))
	if err != nil {
		return fmt.Errorf("GDAL: %v: %w", err, ErrUnsupported)
	}
	if err := out.Close(); err != nil {
		return fmt.Errorf("GDAL: %w", err)
	}
	return os.Rename(temp, dst)
}
