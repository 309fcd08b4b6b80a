package tools

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"terraloom/agent/raster"
	"terraloom/agent/tools/perception"
	"terraloom/agent/tools/scenes"
	"terraloom/data/strictjson"
)

// putScene writes a scene into the workspace.
func (l *lab) putScene(name string, s *scenes.Scene) {
	l.Helper()
	path := filepath.Join(l.w.Dir(), name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		l.Fatal(err)
	}
	if err := os.WriteFile(path, s.PNG, 0o644); err != nil {
		l.Fatal(err)
	}
}

// newSceneLab has three pictures, and a perceiver that knows them: a park with three tennis courts and a ship, and a meadow
// before and after two of its six buildings fell.
func newSceneLab(t *testing.T, parkFile, preFile, postFile string, options ...Option) (*lab, *scenes.Scene) {
	t.Helper()
	park, err := scenes.Generate(1, scenes.Spec{Class: "Park", Width: 160, Height: 128, GSD: 0.6, Groups: []scenes.Group{{Class: "tennis court", Count: 3}, {Class: "ship", Count: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	pre, post, err := scenes.GeneratePair(2, scenes.Spec{Class: "Meadow", Width: 160, Height: 128, GSD: 0.8, Groups: []scenes.Group{{Class: "building", Count: 6}}}, 2)
	if err != nil {
		t.Fatal(err)
	}
	library, err := scenes.NewLibrary(1, scenes.Errors{}, park.Truth, pre.Truth, post.Truth)
	if err != nil {
		t.Fatal(err)
	}
	l := newLab(t, append(options, WithPerceiver(library))...)
	l.putScene(parkFile, park)
	l.putScene(preFile, pre)
	l.putScene(postFile, post)
	return l, park
}

// From a picture to a number, as the public tasks go: list, detect, segment, area.
func TestPerceptionModels(t *testing.T) {
	l, park := newSceneLab(t, "benchmark/data/q/A.png", "benchmark/data/q/pre.png", "benchmark/data/q/post.png")
	l.picture("benchmark/data/q/other.png", 4, make([]uint8, 16))
	call := func(tool, args string) strictjson.Value {
		t.Helper()
		res, err := l.correct.Invoke(t.Context(), tool, mustParse(t, args))
		if err != nil {
			t.Fatalf("%s: %v", tool, err)
		}
		checkEvidence(t, tool, &res)
		return res.Value
	}
	const image = `"input_image_path":"benchmark/data/q/A.png"`
	for _, tool := range []string{"MSCN", "RemoteCLIP"} {
		v := call(tool, `{`+image+`}`)
		if v.Get("predicted_class").Text() != "Park" || v.Get("top5_predictions").Len() != 5 || !v.Get("top5_predictions").Index(0).Index(0).Equal(v.Get("predicted_class")) {
			t.Errorf("%s: %s", tool, v.JSON())
		}
	}
	boxes := call("SM3Det", `{`+image+`,"text_prompt":"tennis court"}`)
	if boxes.Len() != 3 || !boxes.Equal(call("Strip_R_CNN", `{`+image+`,"text_prompt":"tennis court"}`)) {
		t.Errorf("SM3Det: %s", boxes.JSON())
	}
	if v := call("InstructSAM", `{`+image+`,"text_prompt":"tennis court"}`); v.JSON() != "3" {
		t.Errorf("InstructSAM: %s", v.JSON())
	}
	if v := call("SM3Det", `{`+image+`,"text_prompt":"plane"}`); v.JSON() != "[]" {
		t.Errorf("planes: %s", v.JSON())
	}
	ship := park.Truth.Of("ship")[0].Box(160, 128)
	if v := call("RemoteSAM", `{"image_path":"benchmark/data/q/A.png","text_prompt":"the largest ship"}`); v.JSON() != fmt.Sprintf("[%g,%g,%g,%g]", ship[0], ship[1], ship[2], ship[3]) {
		t.Errorf("RemoteSAM: %s, want %v", v.JSON(), ship)
	}
	if v := call("SAM2", `{`+image+`,"bboxes":`+boxes.JSON()+`,"save_name":"q/A_mask.png"}`); v.Text() != "Result save at benchmark/out/q/A_mask.png" {
		t.Errorf("SAM2: %s", v.JSON())
	}
	pixels := 0
	for _, set := range park.Truth.Mask(park.Truth.Of("tennis court")) {
		pixels += boolInt(set)
	}
	if v := call("calculate_area", `{"input_image_path":"benchmark/out/q/A_mask.png","gsd":0.6}`); v.JSON() != strictjson.Float(float64(pixels)*0.6*0.6).JSON() {
		t.Errorf("area %s, want %d pixels of 0.36 m²", v.JSON(), pixels)
	}
	change := func(a, b string) string {
		call("ChangeOS", `{"pre_image_path":"benchmark/data/q/`+a+`.png","post_image_path":"benchmark/data/q/`+b+`.png","output_path":"q/c.png"}`)
		return call("count_skeleton_contours", `{"image_path":"q/c.png"}`).JSON()
	}
	if a, b, c := change("pre", "post"), change("pre", "pre"), change("post", "post"); a != "2" || b != "6" || c != "4" {
		t.Errorf("buildings gone %s, before %s, after %s; want 2, 6, 4", a, b, c)
	}
	l.check([]rasterCase{
		{tool: "RemoteSAM", args: `{` + image + `,"text_prompt":"the largest plane"}`, want: "insufficient", says: "no object in the image fits"},
		{tool: "MSCN", args: `{"input_image_path":"benchmark/data/q/other.png"}`, want: "error", says: "is none of the 3 scenes"},
		{tool: "MSCN", args: `{"input_image_path":"benchmark/data/q/B.png"}`, want: "error", says: `has "A.png"`},
		{tool: "SAM2", args: `{` + image + `,"bbox":[[9,9,5,5]],"output_path":"q/m.png"}`, want: "error", says: "order the corners"},
		{tool: "SAM2", args: `{` + image + `,"bbox":[],"output_path":"q/m.png"}`, want: "error", says: "the list is empty"},
		{tool: "SAM2", args: `{` + image + `,"bbox":[[1,1,5,5]],"output_path":"../m.png"}`, want: "error", says: "leads outside"},
	})
}

// broken is a perceiver that fails or answers nonsense.
type broken struct {
	reply perception.Reply
	err   error
}

func (broken) Backend() string { return "broken" }
func (b broken) Perceive(context.Context, perception.Request) (perception.Reply, error) {
	return b.reply, b.err
}

func TestBrokenModels(t *testing.T) {
	for name, c := range map[string]struct {
		p    broken
		kind error
	}{
		"server away":    {broken{err: fmt.Errorf("down: %w", perception.ErrServer)}, ErrEnvironment},
		"box outside":    {broken{reply: perception.Reply{Weights: "w", Boxes: []perception.Box{{0, 0, 99, 1}}, Scores: []float64{1}}}, ErrEnvironment},
		"image unknown":  {broken{err: perception.ErrUnknownImage}, ErrBadArguments},
		"call cancelled": {broken{err: context.Canceled}, context.Canceled},
	} {
		l := newLab(t, WithPerceiver(c.p))
		l.picture("a.png", 4, make([]uint8, 16))
		res, err := l.correct.Invoke(t.Context(), "SM3Det", mustParse(t, `{"input_image_path":"a.png","text_prompt":"ship"}`))
		if !errors.Is(err, c.kind) || res.Evidence.Status != Failed || res.Value.Kind() != strictjson.Null {
			t.Errorf("%s: %v, %+v", name, err, res)
		}
	}
}

// shelf is a small archive.
type shelf struct{ fail error }

func (shelf) Products() []ArchiveProduct {
	return []ArchiveProduct{
		{"MODIS/061/MOD11A1", "MODIS land surface temperature", []string{"MOD11A1"}, []ArchiveBand{{"LST_Day_1km", []string{"LST"}}, {"QC_Day", nil}}},
		{"NOAA/VIIRS/NTL", "VIIRS nighttime lights", nil, []ArchiveBand{{"avg_rad", nil}}},
	}
}

func (s shelf) Fetch(_ context.Context, r ArchiveRequest) ([]ArchiveFile, error) {
	if s.fail != nil {
		return nil, s.fail
	}
	var files []ArchiveFile
	for _, b := range r.Bands {
		for day := r.From; !day.After(r.To); day = day.AddDate(0, 0, 1) {
			files = append(files, ArchiveFile{Band: b, Time: day, Write: func(_ context.Context, path string) error {
				g, err := raster.NewGrid(2, 1, raster.WGS84, raster.NorthUp(r.West, r.North, (r.East-r.West)/2, r.North-r.South))
				if err != nil {
					return err
				}
				g.Data[0], g.Data[1] = 300, float32(day.Day())
				if day.Day() == 2 { // a cloudy day
					g.Data[0], g.Data[1] = raster.NaN(), raster.NaN()
				}
				return raster.Save(path, raster.Spec{NoData: new(-1.0), Bands: []raster.BandSpec{{Description: b, Unit: "K"}}}, g)
			}})
		}
	}
	return files, nil
}

func TestDownload(t *testing.T) {
	l := newLab(t, WithArchive(shelf{}))
	args := func(replace ...string) string {
		return strings.NewReplacer(replace...).Replace(`{"source":"modis/061/mod11a1","bands":["LST_Day_1km"],"bbox":[-101.84,20.98,-101.54,21.23],"time_range":["2013-01-01","2013-01-03"],"base_save_name":"question1/Leon"}`)
	}
	const name = "benchmark/out/question1/Leon_LST_Day_1km_2013-01-0"
	l.check([]rasterCase{
		{tool: "download_product", args: args(), want: `["` + name + `1.tif","` + name + `2.tif","` + name + `3.tif"]`, used: 4, warns: name + "2.tif: no valid pixel",
			files: map[string][]float64{name + "3.tif": {300, 3}}},
		{tool: "download_product", args: args("modis/061/mod11a1", "MODIS land surface temperature"), want: `["` + name + `1.tif","` + name + `2.tif","` + name + `3.tif"]`, warns: "clouds"},
		{tool: "download_product", args: args("modis/061/mod11a1", "mod11a1", "LST_Day_1km", "lst"), want: `["` + name + `1.tif","` + name + `2.tif","` + name + `3.tif"]`, warns: "clouds"},
		{tool: "download_product", args: args("modis/061", "MODIS/062"), want: "error", says: "it has MODIS/061/MOD11A1, NOAA/VIIRS/NTL"},
		{tool: "download_product", args: args("LST_Day_1km", "NDVI"), want: "error", says: `/bands/0: MODIS/061/MOD11A1 has no band "NDVI"; it has LST_Day_1km, QC_Day`},
		{tool: "download_product", args: args(`"LST_Day_1km"`, ``), want: "error", says: "/bands: the list is empty"},
		{tool: "download_product", args: args("-101.54", "-102"), want: "error", says: "west, -101.84, is not west of east, -102"},
		{tool: "download_product", args: args("21.23", "-21"), want: "error", says: "is not south of north"},
		{tool: "download_product", args: args("-101.84,", "-181,"), want: "error", says: "leaves longitude"},
		{tool: "download_product", args: args(",21.23]", "]"), want: "error", says: "got 3 numbers"},
		{tool: "download_product", args: args("2013-01-03", "2012-01-03"), want: "error", says: "lies before the first"},
		{tool: "download_product", args: args("2013-01-03", "3 January"), want: "error", says: `/time_range/1: "3 January" is no date`},
		{tool: "download_product", args: args("question1/Leon", "../Leon"), want: "error", says: "leads outside"},
		{tool: "download_product", args: args("2013-01-03", "2093-01-03"), want: "error", says: "ask for at most 10000"},
	})
	res, err := l.correct.Invoke(t.Context(), "download_product", mustParse(t, args()))
	if err != nil {
		t.Fatal(err)
	}
	a := res.Artefacts[0]
	if a.Time != "2013-01-01" || a.CRS != "EPSG:4326" || fmt.Sprint(a.Region) != "[-101.84 20.98 -101.54 21.23]" || len(a.SHA256) != 64 ||
		len(a.Bands) != 1 || a.Bands[0] != (ArtefactBand{"LST_Day_1km", "K", 2}) {
		t.Errorf("artefact %+v", a)
	}
	for name, c := range map[string]struct {
		fail error
		kind error
	}{"nothing": {ErrNoData, nil}, "not possible": {fmt.Errorf("interval: %w", ErrRequest), ErrBadArguments}, "away": {errors.New("no network"), ErrEnvironment}} {
		l := newLab(t, WithArchive(shelf{c.fail}))
		res, err := l.correct.Invoke(t.Context(), "download_product", mustParse(t, args()))
		if c.kind == nil && (err != nil || res.Evidence.Status != Insufficient) || c.kind != nil && !errors.Is(err, c.kind) {
			t.Errorf("%s: %+v, %v", name, res, err)
		}
	}
	if _, err := New(Correct, WithArchive(shelf{})); err == nil {
		t.Error("an archive without a workspace is taken")
	}
}

// Several overpasses of a day keep their time in the name.
func TestDownloadOverpasses(t *testing.T) {
	l := newLab(t, WithArchive(overpasses{}))
	got, err := l.correct.Call("download_product", mustParse(t, `{"source":"NOAA/VIIRS/NTL","bands":["avg_rad"],"bbox":[0,0,1,1],"time_range":["2013-01-01","2013-01-01"],"base_save_name":"x"}`))
	if err != nil || got.JSON() != `["benchmark/out/x_avg_rad_2013-01-01_0315.tif","benchmark/out/x_avg_rad_2013-01-01_1503.tif"]` {
		t.Errorf("%s, %v", got.JSON(), err)
	}
}

type overpasses struct{ shelf }

func (o overpasses) Fetch(ctx context.Context, r ArchiveRequest) ([]ArchiveFile, error) {
	files, err := o.shelf.Fetch(ctx, r)
	if err != nil {
		return nil, err
	}
	first, second := files[0], files[0]
	first.Time, second.Time = r.From.Add(3*time.Hour+15*time.Minute), r.From.Add(15*time.Hour+3*time.Minute)
	first.Clock, second.Clock = true, true
	return []ArchiveFile{first, second}, nil
}
