package stac

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"terraloom/agent/archive"
	"terraloom/agent/raster"
)

// server is a STAC API with a few scenes and the faults that servers have.
type server struct {
	*httptest.Server
	t     *testing.T
	files map[string][]byte

	mu       sync.Mutex
	requests []string          // "METHOD path"
	searches []map[string]any  // bodies of the searches
	tokens   []string          // Authorization headers
	ranges   []string          // Range headers
	faults   map[string]*fault // by path
}

// fault says how the next answers of a path go wrong.
type fault struct {
	status int    // to answer with
	after  string // Retry-After
	cut    int    // bytes after which the connection breaks
	stall  time.Duration
	times  int // how often
	etag   string
	flip   bool // one byte is wrong
	noTag  bool
}

func newServer(t *testing.T) *server {
	s := &server{t: t, files: map[string][]byte{}, faults: map[string]*fault{}}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	s.scene("one_red.tif", 499980, 5600010, 10000)
	s.scene("one_qa.tif", 499980, 5600010, 21000)
	s.scene("two_red.tif", 499980+50*30, 5600010, 20000)
	s.scene("later_red.tif", 499980, 5600010, 30000)
	return s
}

// scene makes a raster of 100 × 100 pixels of 30 m in UTM zone 32.
func (s *server) scene(name string, x, y float64, base float32) {
	s.t.Helper()
	utm, err := raster.EPSG(32632)
	if err != nil {
		s.t.Fatal(err)
	}
	g, err := raster.NewGrid(100, 100, utm, raster.NorthUp(x, y, 30, 30))
	if err != nil {
		s.t.Fatal(err)
	}
	for i := range g.Data {
		g.Data[i] = base + float32(i%100)
		if i%100 == 7 {
			g.Data[i] = 0 // no data, but the file does not say so
		}
	}
	path := filepath.Join(s.t.TempDir(), name)
	if err := raster.Save(path, raster.Spec{Type: raster.Uint16}, g); err != nil {
		s.t.Fatal(err)
	}
	if s.files[name], err = os.ReadFile(path); err != nil {
		s.t.Fatal(err)
	}
	for i := range 4000 { // bytes that no reader minds, to have something to break off
		s.files[name] = append(s.files[name], byte(i*i>>3))
	}
}

func (s *server) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r.Method+" "+r.URL.Path)
	s.tokens = append(s.tokens, r.Header.Get("Authorization"))
	f := s.faults[r.URL.Path]
	if f != nil && f.times > 0 {
		f.times--
	} else {
		f = nil
	}
	if f != nil && f.status != 0 {
		if f.after != "" {
			w.Header().Set("Retry-After", f.after)
		}
		http.Error(w, "out of order", f.status)
		return
	}
	switch {
	case r.URL.Path == "/search":
		s.search(w, r)
	case strings.HasPrefix(r.URL.Path, "/files/"):
		s.file(w, r, f)
	case strings.HasPrefix(r.URL.Path, "/collections/"):
		if _, err := os.Stat(filepath.Join("testdata", filepath.Base(r.URL.Path)+".json")); err != nil {
			http.NotFound(w, r)
		}
	default:
		http.NotFound(w, r)
	}
}

func (s *server) search(w http.ResponseWriter, r *http.Request) {
	body := map[string]any{}
	if r.Method == http.MethodPost {
		text, err := io.ReadAll(r.Body)
		if err != nil || json.Unmarshal(text, &body) != nil {
			http.Error(w, "bad body", http.StatusBadRequest)
			return
		}
	}
	s.searches = append(s.searches, body)
	file := "landsat-c2-l2.json"
	if body["token"] == "second" || r.URL.Query().Get("token") == "second" {
		file = "landsat2.json"
	} else if ids, ok := body["collections"].([]any); ok {
		file = fmt.Sprint(ids[0], ".json")
	}
	text, err := os.ReadFile(filepath.Join("testdata", file))
	if errors.Is(err, os.ErrNotExist) { // as the large APIs answer a search of a collection that they lack
		text, err = []byte(`{"type":"FeatureCollection","features":[],"links":[]}`), nil
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	sum := sha256.Sum256(s.files["one_red.tif"])
	page := strings.NewReplacer("{server}", s.URL, "{checksum one_red.tif}", "1220"+hex.EncodeToString(sum[:])).Replace(string(text))
	w.Header().Set("Content-Type", "application/geo+json")
	io.WriteString(w, page)
}

func (s *server) file(w http.ResponseWriter, r *http.Request, f *fault) {
	content, ok := s.files[filepath.Base(r.URL.Path)]
	if !ok {
		http.NotFound(w, r)
		return
	}
	etag := `"v1"`
	if f != nil && f.etag != "" {
		etag = f.etag
	}
	if f == nil || !f.noTag {
		w.Header().Set("ETag", etag)
	}
	start := 0
	if rng := r.Header.Get("Range"); rng != "" {
		s.ranges = append(s.ranges, rng)
		n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(rng, "bytes="), "-"))
		switch {
		case r.Header.Get("If-Range") != etag:
		case err == nil && n >= len(content):
			w.Header().Set("Content-Range", fmt.Sprintf("bytes */%d", len(content)))
			w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
			return
		case err == nil:
			start = n
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", start, len(content)-1, len(content)))
		}
	}
	rest := content[start:]
	w.Header().Set("Content-Length", strconv.Itoa(len(rest)))
	if start > 0 {
		w.WriteHeader(http.StatusPartialContent)
	}
	if f != nil && f.flip {
		rest = append([]byte(nil), rest...)
		rest[len(rest)/2] ^= 1
	}
	if f != nil && (f.cut > 0 || f.stall > 0) {
		w.Write(rest[:f.cut])
		w.(http.Flusher).Flush()
		s.mu.Unlock()
		time.Sleep(f.stall)
		s.mu.Lock()
		if f.stall > 0 {
			return
		}
		panic(http.ErrAbortHandler) // the connection breaks
	}
	w.Write(rest)
}

func (s *server) count(request string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, r := range s.requests {
		if r == request {
			n++
		}
	}
	return n
}

// config is one for the server's collection, with short waits.
func (s *server) config() Config {
	return Config{URL: s.URL, FirstWait: time.Millisecond, Timeout: 5 * time.Second,
		Collections: map[string]Collection{"Landsat 8": {ID: "landsat-c2-l2", Query: map[string]map[string]any{"platform": {"eq": "landsat-8"}}, Assets: map[string]string{"QA_PIXEL": "qa_pixel"}}}}
}

func (s *server) archive(t *testing.T) (*Archive, *archive.Cache) {
	t.Helper()
	cache, err := archive.OpenCache(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	a, err := New(s.config(), cache)
	if err != nil {
		t.Fatal(err)
	}
	return a, cache
}

func on(s string) time.Time {
	t, err := time.Parse(time.DateOnly, s)
	if err != nil {
		panic(err)
	}
	return t
}

// spec covers the upper left part of the scenes: x from 500,000 m, which is 9° E.
func spec(bands ...string) archive.Spec {
	return archive.Spec{Product: "Landsat 8", Bands: bands, Box: archive.Box{West: 9, South: 50.536, East: 9.03, North: 50.548}, Start: on("2021-07-01"), End: on("2021-07-31"), Name: "x"}
}
