package plot

import (
	"bytes"
	"context"
	"errors"
	"image/color"
	"image/png"
	"path/filepath"
	"testing"

	"terraloom/agent/raster"
	"terraloom/agent/tools"
	"terraloom/agent/tools/perception"
	"terraloom/agent/tools/workspace"
	"terraloom/data/strictjson"
)

// finder finds one box in every image.
type finder struct{}

func (finder) Backend() string { return "finder" }

func (finder) Perceive(context.Context, perception.Request) (perception.Reply, error) {
	return perception.Reply{Weights: "w", Boxes: []perception.Box{{1, 1, 3, 3}}, Scores: []float64{0.9}, Exact: true}, nil
}

// Every kind of outcome has its picture; a text has none.
func TestResult(t *testing.T) {
	dir := t.TempDir()
	for i, name := range []string{"x_LST_2022-01-01.tif", "x_LST_2022-01-09.tif"} {
		g, err := raster.NewGrid(4, 4, raster.WGS84, raster.NorthUp(0, 1, 0.1, 0.1))
		if err != nil {
			t.Fatal(err)
		}
		for k := range g.Data {
			g.Data[k] = float32(300 + k + 10*i)
		}
		if err := raster.Save(filepath.Join(dir, name), raster.Spec{}, g); err != nil {
			t.Fatal(err)
		}
	}
	files, err := workspace.Open(dir, workspace.DefaultLimits)
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	kit, err := tools.New(tools.Correct, tools.WithWorkspace(files), tools.WithPerceiver(finder{}))
	if err != nil {
		t.Fatal(err)
	}
	const both = `["x_LST_2022-01-01.tif","x_LST_2022-01-09.tif"]`
	ramp, line := newScale(0, 1).at(1), classColours[1]
	for _, c := range []struct {
		tool, args string
		shows      color.NRGBA // a colour that is there; none: there is nothing to draw
	}{
		{"subtract", `{"img1_path":"x_LST_2022-01-01.tif","img2_path":"x_LST_2022-01-09.tif","output_path":"d.tif"}`, newScale(-10.5, -9.5).at(-10)},
		{"threshold_segmentation", `{"input_image_path":"x_LST_2022-01-01.tif","threshold":307,"output_path":"m.tif"}`, line},
		{"SM3Det", `{"input_image_path":"x_LST_2022-01-01.tif","text_prompt":"ship"}`, color.NRGBA{0xff, 0x30, 0x30, 255}},
		{"calc_batch_image_mean", `{"file_list":` + both + `}`, line},
		{"calc_batch_image_mean_max_min", `{"file_list":` + both + `}`, line},
		{"max_value_and_index", `{"x":[1,2,4]}`, line},
		{"sens_slope", `{"x":[1,2,4]}`, line},
		{"calc_batch_image_mean_mean", `{"file_list":` + both + `}`, ramp},
		{"compute_linear_trend", `{"y":[1,2,4]}`, classColours[2]},
		{"compute_linear_trend", `{"x":[0,2,5],"y":[1,2,4]}`, classColours[2]},
		{"mean", `{"x":[1,2,4]}`, line},
		{"stl_decompose", `{"x":[1,2,3,1,2,3,1,2,3,1,2,3],"period":3}`, classColours[3]},
		{"difference", `{"a":1,"b":2}`, color.NRGBA{}},
		{"get_filelist", `{"dir_path":"."}`, color.NRGBA{}},
	} {
		args, err := strictjson.Parse([]byte(c.args))
		if err != nil {
			t.Fatal(err)
		}
		res, err := kit.Invoke(t.Context(), c.tool, args)
		if err != nil {
			t.Fatalf("%s: %v", c.tool, err)
		}
		var b bytes.Buffer
		err = Result(&b, files, c.tool, args, &res)
		if c.shows == (color.NRGBA{}) {
			if !errors.Is(err, ErrNothing) {
				t.Errorf("%s: %v, want nothing to draw", c.tool, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.tool, err)
			continue
		}
		img, err := png.Decode(&b)
		if err != nil {
			t.Fatal(err)
		}
		if pixels(img, c.shows) < 8 {
			t.Errorf("%s: the picture lacks %v", c.tool, c.shows)
		}
	}
}
