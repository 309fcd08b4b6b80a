package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image/png"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"terraloom/agent/mcp"
	"terraloom/agent/raster"
	"terraloom/data/strictjson"
)

func TestToolsArchive(t *testing.T) {
	dir := t.TempDir()
	const args = `{"source":"MOD13A2","bands":["NDVI"],"bbox":[-101.84,20.98,-101.74,21.08],"time_range":["2022-03-06","2022-03-06"],"scale_m":1000,"base_save_name":"q/leon"}`
	out, err := toolsRun(t, nil, "call", "download_product", "--workspace", dir, "--archive", "synthetic", "--args", args)
	if err != nil || out != "[\"benchmark/out/q/leon_NDVI_2022-03-06.tif\"]\n" {
		t.Errorf("%v: %s", err, out)
	}
	for _, c := range []struct {
		source string
		code   int
	}{
		{"folder:" + filepath.Join(dir, "none"), exitInput}, {dir, exitUsage}, {"folder:", exitUsage}, {"stac:", exitUsage}, {"Synthetic", exitUsage},
		{"stac:" + filepath.Join(dir, "none.yaml"), exitInput}, {"stac:ftp://x", exitInput},
	} {
		if _, err := toolsRun(t, nil, "call", "download_product", "--workspace", dir, "--archive", c.source, "--args", args); exitCode(t.Context(), err) != c.code {
			t.Errorf("%s: %v, want exit %d", c.source, err, c.code)
		}
	}
	for _, flags := range [][]string{{"--archive", "synthetic"}, {"--cache", dir, "--workspace", dir}} {
		if _, err := toolsRun(t, nil, append([]string{"call", "mean", "--args", `{"x":[1]}`}, flags...)...); exitCode(t.Context(), err) != exitUsage {
			t.Errorf("%v: %v", flags, err)
		}
	}
}

// A folder of files is an archive: its folders are products, the words of the
// names are bands.
func TestToolsFolderArchive(t *testing.T) {
	files, work, cache := t.TempDir(), t.TempDir(), t.TempDir()
	if err := os.MkdirAll(filepath.Join(files, "landsat"), 0o755); err != nil {
		t.Fatal(err)
	}
	g, err := raster.NewGrid(4, 4, raster.WGS84, raster.NorthUp(9, 50, 0.1, 0.1))
	if err != nil {
		t.Fatal(err)
	}
	for i := range g.Data {
		g.Data[i] = float32(i)
	}
	if err := raster.Save(filepath.Join(files, "landsat", "Kassel_2021-07-04_LST.tif"), raster.Spec{}, g); err != nil {
		t.Fatal(err)
	}
	out, err := toolsRun(t, nil, "call", "download_product", "--workspace", work, "--archive", "folder:"+files, "--cache", cache, "--args",
		`{"source":"landsat","bands":["LST"],"bbox":[9,49.6,9.4,50],"time_range":["2021-07-04","2021-07-04"],"base_save_name":"k"}`)
	if err != nil || out != "[\"benchmark/out/k_LST_2021-07-04.tif\"]\n" {
		t.Fatalf("%v: %s", err, out)
	}
	out, err = toolsRun(t, nil, "call", "calc_batch_image_mean", "--workspace", work, "--args", `{"file_list":["k_LST_2021-07-04.tif"]}`)
	if err != nil || out != "[7.5]\n" {
		t.Errorf("the mean of 0 … 15 is %s, %v", out, err)
	}
}

// stacServer is a STAC API with one Landsat scene.
func stacServer(t *testing.T) *httptest.Server {
	utm, err := raster.EPSG(32632)
	if err != nil {
		t.Fatal(err)
	}
	g, err := raster.NewGrid(100, 100, utm, raster.NorthUp(499980, 5600010, 30, 30))
	if err != nil {
		t.Fatal(err)
	}
	for i := range g.Data {
		g.Data[i] = 20000
	}
	path := filepath.Join(t.TempDir(), "red.tif")
	if err := raster.Save(path, raster.Spec{Type: raster.Uint16}, g); err != nil {
		t.Fatal(err)
	}
	var s *httptest.Server
	s = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/search" {
			http.ServeFile(w, r, path)
			return
		}
		var q struct {
			Collections []string
			Query       map[string]map[string]string
		}
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil || len(q.Collections) != 1 || q.Collections[0] != "landsat-c2-l2" || q.Query["platform"]["eq"] != "landsat-8" {
			http.Error(w, "unexpected search", http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/geo+json")
		fmt.Fprintf(w, `{"type":"FeatureCollection","features":[{"type":"Feature","stac_version":"1.0.0","id":"LC08","collection":"landsat-c2-l2","bbox":[8.9,50.3,9.2,50.6],
			"geometry":null,"properties":{"datetime":"2021-07-04T10:15:20Z","platform":"landsat-8"},"links":[],
			"assets":{"red":{"href":"%s/red.tif","type":"image/tiff; application=geotiff","roles":["data"],"raster:bands":[{"nodata":0,"scale":2.75e-05,"offset":-0.2}]}}}],"links":[]}`, s.URL)
	}))
	t.Cleanup(s.Close)
	return s
}

func TestToolsStacArchive(t *testing.T) {
	s, work := stacServer(t), t.TempDir()
	const args = `{"source":"Landsat 8","bands":["SR_B4"],"bbox":[9.0,50.53,9.02,50.54],"time_range":["2021-07-01","2021-07-31"],"base_save_name":"k"}`
	config := filepath.Join(t.TempDir(), "stac.yaml")
	text := "url: " + s.URL + "\ncollections:\n  LC08_L2:\n    id: landsat-c2-l2\n    query: {platform: {eq: landsat-8}}\n    assets: {SR_B4: red}\n"
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, source := range []string{"stac:" + s.URL, "stac:" + config} {
		out, err := toolsRun(t, nil, "call", "download_product", "--workspace", work, "--archive", source, "--args", args)
		if err != nil || out != "[\"benchmark/out/k_SR_B4_2021-07-04.tif\"]\n" {
			t.Fatalf("%s: %v: %s", source, err, out)
		}
		// 20000 · 0.0000275 − 0.2
		out, err = toolsRun(t, nil, "call", "apply_scale_offset", "--workspace", work, "--args", `{"input_path":"k_SR_B4_2021-07-04.tif","scale":0.0000275,"offset":-0.2,"output_path":"r.tif"}`)
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		out, err = toolsRun(t, nil, "call", "calc_batch_image_mean", "--workspace", work, "--args", `{"file_list":["r.tif"]}`)
		if err != nil || !strings.HasPrefix(out, "[0.35") && !strings.HasPrefix(out, "[0.3499999") {
			t.Errorf("reflectance %s, %v", out, err)
		}
	}
}

// eyes is an MCP server of models with one fixed answer.
type eyes struct{}

func (eyes) Tools() []mcp.Tool {
	return []mcp.Tool{{Name: "perceive", Summary: "models", Schema: `{"type":"object"}`}}
}

func (eyes) Call(_ context.Context, _ string, args strictjson.Value) (mcp.Result, error) {
	text := `{"weights":"fixed","labels":[{"name":"Beach","score":0.9}],"model":"` + args.Get("model").Text() + `"}`
	v, err := strictjson.Parse([]byte(text))
	return mcp.Result{Text: text, Structured: v}, err
}

func TestToolsMCPPerceiver(t *testing.T) {
	t.Setenv(mcpKeyVar, "")
	server, err := mcp.NewServer(eyes{}, mcp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := server.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, l) }()
	dir := rasterWorkspace(t)
	out, err := toolsRun(t, nil, "call", "MSCN", "--workspace", dir, "--perceiver", "mcp:http://"+l.Addr().String()+mcp.Path, "--json", "--args", `{"input_image_path":"a.tif"}`)
	if err != nil {
		t.Fatal(err)
	}
	v, err := strictjson.Parse([]byte(out))
	if err != nil || v.Get("observation").Get("predicted_class").Text() != "Beach" || v.Get("evidence").Get("src").Get("backend").Text() != "mcp" {
		t.Errorf("%v: %s", err, out)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestToolsPlot(t *testing.T) {
	dir := rasterWorkspace(t)
	name := filepath.Join(t.TempDir(), "out.png")
	if _, err := toolsRun(t, nil, "call", "threshold_segmentation", "--workspace", dir, "--plot", name, "--args", `{"input_image_path":"a.tif","threshold":2,"output_path":"m.tif"}`); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if img, err := png.Decode(bytes.NewReader(data)); err != nil || img.Bounds().Dx() < 400 {
		t.Errorf("%v", err)
	}
	if _, err := toolsRun(t, nil, "call", "difference", "--plot", name, "--args", `{"a":1,"b":2}`); exitCode(t.Context(), err) != exitInput || !strings.Contains(err.Error(), "nothing to draw") {
		t.Errorf("a number: %v", err)
	}
	if _, err := toolsRun(t, nil, "call", "--batch", "-", "--plot", name); exitCode(t.Context(), err) != exitUsage {
		t.Errorf("a batch: %v", err)
	}
}
