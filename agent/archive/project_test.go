package archive

import (
	"errors"
	"math"
	"path/filepath"
	"testing"

	"terraloom/agent/raster"
)

// The expected coordinates are PROJ's.
func TestProjection(t *testing.T) {
	sinusoidal := raster.CRS{Kind: raster.Projected, Name: "MODIS Sinusoidal"}
	tests := []struct {
		crs      raster.CRS
		lon, lat float64
		x, y     float64
	}{
		{raster.CRS{EPSG: 32631, Kind: raster.Projected}, 2.2945, 48.858222, 448251.817884558, 5411935.12322022},
		{raster.CRS{EPSG: 32631, Kind: raster.Projected}, 10.1, 84, 582650.416699654, 9333193.39978808},
		{raster.CRS{EPSG: 32756, Kind: raster.Projected}, 150.9, -33.2, 304252.859320788, 6324575.8996229},
		{raster.CRS{EPSG: 3857, Kind: raster.Projected}, 10, 50, 1113194.90793274, 6446275.84101716},
		{raster.WGS84, 10, 50, 10, 50},
		{sinusoidal, 10, 60, 555975.260, 6671703.119},
	}
	for _, tt := range tests {
		project, err := Projection(tt.crs)
		if err != nil {
			t.Fatal(err)
		}
		if x, y := project(tt.lon, tt.lat); math.Abs(x-tt.x) > 0.01 || math.Abs(y-tt.y) > 0.01 {
			t.Errorf("%v: %g, %g is at %.3f, %.3f, want %.3f, %.3f", tt.crs, tt.lon, tt.lat, x, y, tt.x, tt.y)
		}
	}
	if _, err := Projection(raster.CRS{EPSG: 2154, Kind: raster.Projected}); !errors.Is(err, raster.ErrUnsupported) {
		t.Errorf("an unknown system gives %v", err)
	}
}

func TestReadBox(t *testing.T) {
	utm, err := raster.EPSG(32632)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "utm.tif")
	g, err := raster.NewGrid(100, 80, utm, raster.NorthUp(500000, 5600000, 30, 30))
	if err != nil {
		t.Fatal(err)
	}
	for i := range g.Data {
		g.Data[i] = float32(i)
	}
	if err := raster.Save(path, raster.Spec{}, g); err != nil {
		t.Fatal(err)
	}
	ds, err := raster.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer ds.Close()
	// 9° E is the middle of the zone: x = 500,000 m.
	box := Box{West: 9, South: 50.54, East: 9.01, North: 50.55}
	got, err := ReadBox(ds, 1, box, 0)
	if err != nil {
		t.Fatal(err)
	}
	project, _ := Projection(utm)
	x0, y1 := project(box.West, box.North)
	x1, y0 := project(box.East, box.South)
	b := got.Transform.Bounds(got.Width, got.Height)
	if b.MinX > x0+1e-6 || b.MinX < x0-31 || b.MaxX < x1 || b.MaxX > x1+61 || b.MinY > y0 || b.MaxY < min(y1, 5600000) {
		t.Errorf("the box %g … %g, %g … %g is read as %+v", x0, x1, y0, y1, b)
	}
	col, row := int((b.MinX-500000)/30), int((5600000-b.MaxY)/30)
	if got.Data[0] != float32(row*100+col) {
		t.Errorf("the first pixel is %g, want that of row %d, column %d", got.Data[0], row, col)
	}
	coarse, err := ReadBox(ds, 1, box, 90)
	if err != nil {
		t.Fatal(err)
	}
	if coarse.Transform[1] != 90 || math.Mod(coarse.Transform[0], 90) != 0 || math.Mod(coarse.Transform[3], 90) != 0 {
		t.Errorf("pixels of 90 m lie at %v", coarse.Transform)
	}
	if _, err := ReadBox(ds, 1, Box{20, 50, 21, 51}, 0); !errors.Is(err, raster.ErrRange) {
		t.Errorf("a box elsewhere gives %v", err)
	}
}
