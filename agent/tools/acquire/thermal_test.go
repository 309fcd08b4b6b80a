package acquire

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"terraloom/agent/archive"
	"terraloom/agent/archive/synthetic"
	"terraloom/agent/raster"
	"terraloom/agent/tools"
	"terraloom/agent/tools/workspace"
	"terraloom/data/strictjson"
)

// lab is a registry of the real tools over the synthetic archive.
type lab struct {
	*testing.T
	archive *synthetic.Archive
	tools   *tools.Registry
	space   *workspace.Workspace
}

func newLab(t *testing.T) *lab {
	t.Helper()
	w, err := workspace.Open(t.TempDir(), workspace.DefaultLimits)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	a := synthetic.New(1, nil)
	r, err := tools.New(tools.Correct, tools.WithWorkspace(w), tools.WithArchive(From(a)))
	if err != nil {
		t.Fatal(err)
	}
	return &lab{t, a, r, w}
}

// call runs a tool and returns the JSON text of its observation.
func (l *lab) call(name, args string) string {
	l.Helper()
	v, err := l.try(name, args)
	if err != nil {
		l.Fatal(err)
	}
	return v
}

func (l *lab) try(name, args string) (string, error) {
	l.Helper()
	parsed, err := strictjson.Parse([]byte(args))
	if err != nil {
		l.Fatal(err)
	}
	v, err := l.tools.Call(name, parsed)
	return string(v.JSON()), err
}

const download = `{"source": "%s", "bands": [%s], "bbox": [115.8, 39.4, 116.8, 40.2], "time_range": ["2020-06-10", "2020-06-17"], "scale_m": 3000, "base_save_name": "Beijing"}`

// The split-window tool finds the true surface temperature in downloaded radiances
// and emissivities, after the tools that prepare them.
func TestSplitWindowOnDownloads(t *testing.T) {
	l := newLab(t)
	radiance := l.call("download_product", fmt.Sprintf(download, "MODIS/061/MOD021KM", `"Radiance_31_Day", "Radiance_32_Day"`))
	emissivity := l.call("download_product", fmt.Sprintf(download, "MODIS/061/MOD11_L2", `"Emis31", "Emis32"`))
	out := func(list, prefix string) string { return strings.ReplaceAll(list, "Beijing_", prefix) }
	kelvin := l.call("extract_brightness_temperature", fmt.Sprintf(`{"file_list": %s, "output_path": %s}`, radiance, out(radiance, "bt_")))
	ratio := l.call("apply_scale_offset", fmt.Sprintf(`{"file_list": %s, "scale": 0.002, "offset": 0.49, "output_path": %s}`, emissivity, out(emissivity, "e_")))
	split := func(list string) []string {
		v, err := strictjson.Parse([]byte(list))
		if err != nil {
			t.Fatal(err)
		}
		var paths []string
		for i := range v.Len() {
			paths = append(paths, v.Index(i).Text())
		}
		return paths
	}
	bt, e := split(kelvin), split(ratio)
	n := len(bt) / 2
	truth, err := l.archive.Truth(context.Background(), archive.Spec{Product: "MOD11_L2", Bands: []string{"LST"}, Name: "x", ScaleM: 3000,
		Box: archive.Box{West: 115.8, South: 39.4, East: 116.8, North: 40.2}, Start: time.Date(2020, 6, 10, 0, 0, 0, 0, time.UTC), End: time.Date(2020, 6, 17, 0, 0, 0, 0, time.UTC)})
	if err != nil {
		t.Fatal(err)
	}
	var off []float64
	for day := range n {
		if e[day] == "" || e[n+day] == "" { // all under clouds
			continue
		}
		result := fmt.Sprintf("lst_%d.tif", day)
		l.call("split_window", fmt.Sprintf(`{"band31_path": %q, "band32_path": %q, "emissivity31_path": %q, "emissivity32_path": %q, "parameter": "LST", "output_path": %q}`,
			bt[day], bt[n+day], e[day], e[n+day], result))
		target, err := l.space.Target(result)
		if err != nil {
			t.Fatal(err)
		}
		ds, err := raster.Open(filepath.Join(l.space.Dir(), filepath.FromSlash(target)))
		if err != nil {
			t.Fatal(err)
		}
		g, err := ds.ReadBand(1)
		if err != nil {
			t.Fatal(err)
		}
		ds.Close()
		for i, v := range g.Data {
			if raster.Finite(v) {
				off = append(off, math.Abs(float64(v-truth[day].Grid.Data[i])))
			}
		}
	}
	// Thin clouds, through which the product still gives an emissivity, are cold.
	if slices.Sort(off); len(off) < 500 || off[len(off)/2] > 1.5 || off[len(off)*8/10] > 2.5 {
		t.Errorf("of %d pixels split-window is off by %.2f K in the median and %.2f K in the eighth decile", len(off), off[len(off)/2], off[len(off)*8/10])
	}
}

// The tool's refusals carry the archive's words.
func TestRefusals(t *testing.T) {
	l := newLab(t)
	for name, tt := range map[string]struct {
		args string
		want error
		says string
	}{
		"before the record": {strings.ReplaceAll(fmt.Sprintf(download, "MODIS/061/MOD11A1", `"LST_Day_1km"`), "2020-", "1999-"), tools.ErrBadArguments, "the record of MODIS/061/MOD11A1 is 2000-02-24 … 2025-12-31"},
		"too many pixels":   {strings.Replace(fmt.Sprintf(download, "MODIS/061/MOD11A1", `"LST_Day_1km"`), "3000", "10", 1), tools.ErrBadArguments, "scale_m"},
		"interval":          {strings.Replace(fmt.Sprintf(download, "MODIS/061/MOD13Q1", `"NDVI"`), `"scale_m"`, `"interval": "day", "scale_m"`, 1), tools.ErrBadArguments, "16 days"},
	} {
		_, err := l.try("download_product", tt.args)
		if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want %q", name, err, tt.says)
		}
	}
	if got, err := l.try("download_product", fmt.Sprintf(download, "MODIS/061/MOD13Q1", `"NDVI"`)); err == nil || !strings.Contains(err.Error(), "has nothing for this region and period") {
		t.Errorf("an empty period gives %s, %v", got, err)
	}
}
