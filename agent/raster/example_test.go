package raster_test

import (
	"fmt"
	"os"
	"path/filepath"

	"terraloom/agent/raster"
)

// A vegetation index of rasters of any size, in bounded memory.
func Example_windows() {
	if err := vegetation(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// NDVI 0.500 over 5999 of 6000 pixels
}

func vegetation() error {
	dir, err := os.MkdirTemp("", "raster")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	utm, err := raster.EPSG(32633)
	if err != nil {
		return err
	}
	scene := filepath.Join(dir, "scene.tif")
	red, err := raster.NewGrid(100, 60, utm, raster.NorthUp(399960, 4500000, 30, 30))
	if err != nil {
		return err
	}
	nir := red.Like()
	for i := range red.Data {
		red.Data[i], nir.Data[i] = 0.1, 0.3
	}
	red.Set(5, 5, raster.NaN())
	if err := raster.Save(scene, raster.Spec{Bands: []raster.BandSpec{{Description: "red"}, {Description: "nir"}}}, red, nir); err != nil {
		return err
	}

	in, err := raster.Open(scene)
	if err != nil {
		return err
	}
	defer in.Close()
	info := in.Info()
	index := filepath.Join(dir, "ndvi.tif")
	out, err := raster.Create(index, raster.Spec{
		Width: info.Width, Height: info.Height, CRS: info.CRS, Transform: info.Transform,
		NoData: new(-9999.0), Bands: []raster.BandSpec{{Description: "NDVI"}},
	})
	if err != nil {
		return err
	}
	defer out.Abort()
	for w := range out.Windows() {
		r, err := in.ReadWindow(1, w)
		if err != nil {
			return err
		}
		n, err := in.ReadWindow(2, w)
		if err != nil {
			return err
		}
		for i, v := range r.Data { // NaN stays NaN
			r.Data[i] = (n.Data[i] - v) / (n.Data[i] + v)
		}
		if err := out.WriteWindow(1, w, r.Data); err != nil {
			return err
		}
	}
	if err := out.Close(); err != nil {
		return err
	}

	ndvi, err := raster.Open(index)
	if err != nil {
		return err
	}
	defer ndvi.Close()
	stats, err := ndvi.Stats(1)
	if err != nil {
		return err
	}
	fmt.Printf("NDVI %.3f over %d of %d pixels\n", stats[0].Mean(), stats[0].Valid, stats[0].Total)
	return nil
}
