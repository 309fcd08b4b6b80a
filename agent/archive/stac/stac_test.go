package stac

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"terraloom/agent/archive"
	"terraloom/agent/raster"
)

func read(t *testing.T, path string) *raster.Grid {
	t.Helper()
	ds, err := raster.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer ds.Close()
	g, err := ds.ReadBand(1)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestFetch(t *testing.T) {
	s := newServer(t)
	a, _ := s.archive(t)
	files, err := archive.Fetch(context.Background(), a, spec("SR_B4"), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 2 || filepath.Base(files[0].Path) != "x_SR_B4_2021-07-04.tif" || filepath.Base(files[1].Path) != "x_SR_B4_2021-07-20.tif" {
		t.Fatalf("%+v", files)
	}
	// The search asked for what the spec says, and kept asking for it on the second page.
	for i, q := range s.searches {
		if q["datetime"] != "2021-07-01T00:00:00Z/2021-07-31T23:59:59Z" || len(q["bbox"].([]any)) != 4 || q["collections"].([]any)[0] != "landsat-c2-l2" || q["query"] == nil || (q["token"] == "second") != (i == 1) {
			t.Errorf("search %d is %v", i, q)
		}
	}
	f := files[0]
	if f.Scale != 2.75e-5 || f.Offset != -0.2 || f.Unit != "reflectance" || f.Fill == nil || *f.Fill != 0 || f.CRS.EPSG != 32632 || f.Type != raster.Uint16 {
		t.Errorf("%+v", f)
	}
	// The two scenes of one day are joined: the first on top, the second beyond it.
	g := read(t, f.Path)
	at := func(x float64) float32 {
		i := int((x - g.Transform[0]) / 30)
		return g.At(i, 5)
	}
	if first := at(499980 + 30*30 + 15); first != 10000+30 {
		t.Errorf("the first scene has %g", first)
	}
	if second := at(499980 + 120*30 + 15); g.Width > 100 && second != 20000+70 {
		t.Errorf("the second scene has %g", second)
	}
	if gap := at(499980 + 7*30 + 15); raster.Finite(gap) {
		t.Errorf("the item's no data is read as %g", gap)
	}
	if joined := at(499980 + 57*30 + 15); joined != 10000+57 {
		t.Errorf("where the second scene has no data the first has %g", joined)
	}
	if hidden := at(499980 + 70*30 + 15); hidden != 10000+70 {
		t.Errorf("where both scenes have data the first is not on top: %g", hidden)
	}
}

// Assets are downloaded once and then taken from the cache; a damaged copy is
// downloaded again.
func TestAssetsAreCached(t *testing.T) {
	s := newServer(t)
	a, _ := s.archive(t)
	dir := t.TempDir()
	one := spec("QA_PIXEL")
	one.End = on("2021-07-10")
	fetch := func() error {
		_, err := archive.Fetch(context.Background(), a, one, dir)
		return err
	}
	// The second scene of the day lacks the band: that is an error, not a hole.
	if err := fetch(); !errors.Is(err, ErrAsset) || !strings.Contains(err.Error(), "LC08_TWO_20210704") || !strings.Contains(err.Error(), "B04") {
		t.Errorf("a missing asset gives %v", err)
	}
	one = spec("SR_B4")
	for range 2 {
		if err := fetch(); err != nil {
			t.Fatal(err)
		}
	}
	if n := s.count("GET /files/one_red.tif"); n != 1 {
		t.Errorf("%d downloads", n)
	}
}

func TestProductsAndConfig(t *testing.T) {
	s := newServer(t)
	a, cache := s.archive(t)
	if ps := a.Products(); len(ps) != 1 || ps[0].ID != "LANDSAT/LC08/C02/T1_L2" {
		t.Errorf("%+v", ps)
	}
	if _, err := archive.Fetch(context.Background(), a, archive.Spec{Product: "MOD11A1", Name: "x"}, t.TempDir()); !errors.Is(err, archive.ErrUnknownProduct) {
		t.Errorf("a product without a collection gives %v", err)
	}
	for name, change := range map[string]func(*Config){
		"no url":  func(c *Config) { c.URL = "" },
		"ftp":     func(c *Config) { c.URL = "ftp://example.org" },
		"user":    func(c *Config) { c.URL = "https://me:secret@example.org" },
		"none":    func(c *Config) { c.Collections = nil },
		"no id":   func(c *Config) { c.Collections = map[string]Collection{"Landsat 8": {}} },
		"product": func(c *Config) { c.Collections = map[string]Collection{"Landsat 99": {ID: "x"}} },
		"band": func(c *Config) {
			c.Collections = map[string]Collection{"Landsat 8": {ID: "x", Assets: map[string]string{"B99": "x"}}}
		},
		"twice":       func(c *Config) { c.Collections = map[string]Collection{"Landsat 8": {ID: "x"}, "LC08_L2": {ID: "y"}} },
		"unset token": func(c *Config) { c.TokenEnv = "TERRALOOM_TEST_UNSET" },
		"negative":    func(c *Config) { c.Retries = -1 },
	} {
		cfg := s.config()
		change(&cfg)
		if _, err := New(cfg, cache); !errors.Is(err, ErrConfig) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := New(s.config(), nil); !errors.Is(err, ErrConfig) {
		t.Errorf("no cache: %v", err)
	}
	path := filepath.Join(t.TempDir(), "stac.yaml")
	if err := os.WriteFile(path, []byte("url: https://example.org\ntimeout: 5s\ncollections:\n  Landsat 8: {id: l8, query: {platform: {eq: landsat-8}}, assets: {SR_B4: red}}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	cfg, err := LoadConfig(path)
	if err != nil || cfg.Timeout != 5*time.Second || cfg.Collections["Landsat 8"].Assets["SR_B4"] != "red" {
		t.Errorf("%+v, %v", cfg, err)
	}
	if err := os.WriteFile(path, []byte("url: https://example.org\ntokn_env: X\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadConfig(path); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "token_env") {
		t.Errorf("a misspelt key gives %v", err)
	}
}

// The token comes from the environment, goes to the API only, and is in no error.
func TestSecrets(t *testing.T) {
	const token, sign = "very-secret-token", "sig=very-secret-signature"
	t.Setenv("TERRALOOM_TEST_TOKEN", token)
	t.Setenv("TERRALOOM_TEST_SIGN", sign)
	var seen []string
	other := newServer(t)
	s := newServer(t)
	cfg := s.config()
	cfg.TokenEnv, cfg.SignEnv, cfg.Retries = "TERRALOOM_TEST_TOKEN", "TERRALOOM_TEST_SIGN", 1
	c, err := NewClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	items, err := c.Search(context.Background(), Search{Collection: "landsat-c2-l2", Box: archive.Box{West: 9, South: 50, East: 10, North: 51}, From: on("2021-07-01"), To: on("2021-07-31")})
	if err != nil || len(items) != 3 {
		t.Fatalf("%d items, %v", len(items), err)
	}
	if !slices.Contains(s.tokens, "Bearer "+token) {
		t.Error("the API gets no token")
	}
	part := filepath.Join(t.TempDir(), "part")
	if err := c.Download(context.Background(), Asset{Href: other.URL + "/files/one_red.tif"}, part); err != nil {
		t.Fatal(err)
	}
	if seen = other.tokens; slices.ContainsFunc(seen, func(s string) bool { return s != "" }) {
		t.Errorf("another server gets %q", seen)
	}
	for name, href := range map[string]string{"missing": other.URL + "/files/none.tif", "refused": "http://127.0.0.1:1/x.tif?key=private"} {
		err := c.Download(context.Background(), Asset{Href: href}, part+name)
		if !errors.Is(err, ErrServer) || strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "private") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func search(t *testing.T, cfg Config) ([]Item, error) {
	t.Helper()
	c, err := NewClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c.Search(context.Background(), Search{Collection: "landsat-c2-l2", Box: archive.Box{West: 9, South: 50, East: 10, North: 51}, From: on("2021-07-01"), To: on("2021-07-31")})
}

func TestSearchRetries(t *testing.T) {
	s := newServer(t)
	s.faults["/search"] = &fault{status: http.StatusServiceUnavailable, times: 2}
	if items, err := search(t, s.config()); err != nil || len(items) != 3 {
		t.Errorf("%d items, %v", len(items), err)
	}
	s.faults["/search"] = &fault{status: http.StatusBadGateway, times: 99}
	cfg := s.config()
	cfg.Retries = 2
	before := s.count("POST /search")
	if _, err := search(t, cfg); !errors.Is(err, ErrServer) || !strings.Contains(err.Error(), "502") {
		t.Errorf("%v", err)
	}
	if n := s.count("POST /search") - before; n != 3 {
		t.Errorf("%d tries, want 3", n)
	}
	s.faults["/search"] = &fault{status: http.StatusBadRequest, times: 99}
	before = s.count("POST /search")
	if _, err := search(t, cfg); !errors.Is(err, ErrServer) || !strings.Contains(err.Error(), "out of order") {
		t.Errorf("%v", err)
	}
	if n := s.count("POST /search") - before; n != 1 {
		t.Errorf("a bad request is sent %d times", n)
	}
	s.faults["/search"] = &fault{status: http.StatusTooManyRequests, after: "1", times: 1}
	start := time.Now()
	if _, err := search(t, cfg); err != nil || time.Since(start) < time.Second {
		t.Errorf("Retry-After is not kept: %v after %s", err, time.Since(start))
	}
}

func TestSearchFaults(t *testing.T) {
	for name, tt := range map[string]struct {
		page string
		want error
	}{
		"no JSON":     {"<html>", ErrFormat},
		"another":     {`{"type":"Catalog"}`, ErrFormat},
		"no id":       {`{"type":"FeatureCollection","features":[{"properties":{"datetime":"2020-01-01T00:00:00Z"}}]}`, ErrFormat},
		"no time":     {`{"type":"FeatureCollection","features":[{"id":"a","properties":{"datetime":null}}]}`, ErrFormat},
		"a circle":    {`{"type":"FeatureCollection","features":[],"links":[{"rel":"next","href":"/search?x=1"}]}`, ErrFormat},
		"bad link":    {`{"type":"FeatureCollection","features":[],"links":[{"rel":"next","href":"file:///etc/passwd"}]}`, ErrFormat},
		"too many":    {`{"type":"FeatureCollection","features":[` + strings.Repeat(`{"id":"a","properties":{"datetime":"2020-01-01T00:00:00Z"}},`, 9) + `{"id":"a","properties":{"datetime":"2020-01-01T00:00:00Z"}}]}`, ErrTooLarge},
		"a long page": {`{"type":"` + strings.Repeat("x", maxPage) + `"}`, ErrTooLarge},
	} {
		srv := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Write([]byte(tt.page)) })
		s := newServer(t)
		s.Config.Handler = srv
		cfg := s.config()
		cfg.MaxItems = 5
		if _, err := search(t, cfg); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
	}
}

func TestRetryDelay(t *testing.T) {
	now := time.Date(2020, 1, 1, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{"": 0, "3": 3 * time.Second, "-5": 0, "99999999": maxWait, "soon": 0,
		"Wed, 01 Jan 2020 12:00:30 GMT": 30 * time.Second, "Wed, 01 Jan 2020 11:00:00 GMT": 0} {
		if got := retryDelay(text, now); got != want {
			t.Errorf("%q asks for %s, want %s", text, got, want)
		}
	}
}

// Every public collection names a product of the table and bands that it has.
func TestPublicCollections(t *testing.T) {
	cache, err := archive.OpenCache(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	a, err := New(Config{URL: "https://stac.example/v1", Collections: PublicCollections()}, cache)
	if err != nil {
		t.Fatal(err)
	}
	if len(a.Products()) != len(PublicCollections()) {
		t.Errorf("%d products of %d collections", len(a.Products()), len(PublicCollections()))
	}
}
