//go:build !gdal

package raster

import "fmt"

const withGDAL = false

func openGDAL(path, variable string) (*Dataset, error) {
	return nil, fmt.Errorf("%s: variable %q needs a build with -tags gdal: %w", path, variable, ErrNoGDAL)
}

// Warp reprojects and resamples the raster src to the size, coordinate system and place of like, and writes it to dst as GeoTIFF.
// It needs a build with the tag gdal, which also makes [Open] read JPEG 2000, netCDF, HDF5 and HDF4; without the tag it returns
// ErrNoGDAL. Grids in one coordinate system need no GDAL: see [Resample].
func Warp(dst, src string, like Info, m Method) error {
	return fmt.Errorf("warp of %s needs a build with -tags gdal: %w", src, ErrNoGDAL)
}
