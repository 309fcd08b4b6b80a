package stac

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// download fetches one_red.tif into a part file, which may exist already.
func download(t *testing.T, s *server, cfg Config, a Asset, part string) error {
	t.Helper()
	c, err := NewClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if a.Href == "" {
		a.Href = s.URL + "/files/one_red.tif"
	}
	return c.Download(context.Background(), a, part)
}

func same(t *testing.T, path string, want []byte) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes, %v, want the %d of the asset", len(got), err, len(want))
	}
}

// A connection that breaks is taken up where it broke.
func TestDownloadResumes(t *testing.T) {
	s := newServer(t)
	want := s.files["one_red.tif"]
	part := filepath.Join(t.TempDir(), "part")
	s.faults["/files/one_red.tif"] = &fault{cut: 1000, times: 2}
	if err := download(t, s, s.config(), Asset{}, part); err != nil {
		t.Fatal(err)
	}
	same(t, part, want)
	if len(s.ranges) != 2 || s.ranges[0] != "bytes=1000-" || s.ranges[1] != "bytes=2000-" {
		t.Errorf("ranges %v", s.ranges)
	}
	if _, err := os.Stat(versionFile(part)); err == nil {
		t.Error("the version stays behind")
	}
}

// A download that was given up goes on in another call.
func TestDownloadResumesLater(t *testing.T) {
	s := newServer(t)
	part := filepath.Join(t.TempDir(), "part")
	cfg := s.config()
	cfg.Retries = 1
	s.faults["/files/one_red.tif"] = &fault{cut: 700, times: 2}
	if err := download(t, s, cfg, Asset{}, part); !errors.Is(err, ErrServer) || !strings.Contains(err.Error(), "broke off after 1400 bytes") {
		t.Fatalf("%v", err)
	}
	if err := download(t, s, cfg, Asset{}, part); err != nil {
		t.Fatal(err)
	}
	same(t, part, s.files["one_red.tif"])
	if last := s.ranges[len(s.ranges)-1]; last != "bytes=1400-" {
		t.Errorf("the last range is %s", last)
	}
}

// Bytes of another version, of no version, or beyond the end are not continued.
func TestDownloadBeginsAnew(t *testing.T) {
	for name, prepare := range map[string]func(s *server, part string){
		"another version": func(_ *server, part string) {
			os.WriteFile(part, bytes.Repeat([]byte("x"), 500), 0o644)
			os.WriteFile(versionFile(part), []byte(`"v0"`), 0o644)
		},
		"no version": func(_ *server, part string) { os.WriteFile(part, bytes.Repeat([]byte("x"), 500), 0o644) },
		"no etag": func(s *server, _ string) {
			s.faults["/files/one_red.tif"] = &fault{cut: 800, times: 1, noTag: true}
		},
		"too long": func(s *server, part string) {
			os.WriteFile(part, append(bytes.Clone(s.files["one_red.tif"]), 1), 0o644)
			os.WriteFile(versionFile(part), []byte(`"v1"`), 0o644)
		},
		"complete": func(s *server, part string) {
			os.WriteFile(part, s.files["one_red.tif"], 0o644)
			os.WriteFile(versionFile(part), []byte(`"v1"`), 0o644)
		},
	} {
		s := newServer(t)
		part := filepath.Join(t.TempDir(), "part")
		prepare(s, part)
		if err := download(t, s, s.config(), Asset{}, part); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		same(t, part, s.files["one_red.tif"])
	}
}

func TestDownloadVerifies(t *testing.T) {
	s := newServer(t)
	content := s.files["one_red.tif"]
	size := int64(len(content))
	short := size - 1
	sum1, sum512, sum5 := sha1.Sum(content), sha512.Sum512(content), md5.Sum(content)
	for name, tt := range map[string]struct {
		asset Asset
		want  error
	}{
		"sha1":       {Asset{Checksum: "1114" + hex.EncodeToString(sum1[:])}, nil},
		"sha512":     {Asset{Checksum: "1340" + strings.ToUpper(hex.EncodeToString(sum512[:])), Size: &size}, nil},
		"md5":        {Asset{Checksum: "d50110" + hex.EncodeToString(sum5[:])}, nil},
		"wrong sum":  {Asset{Checksum: "1220" + strings.Repeat("00", 32)}, ErrChecksum},
		"wrong size": {Asset{Size: &short}, ErrChecksum},
		"unknown":    {Asset{Checksum: "9920" + strings.Repeat("00", 32)}, ErrFormat},
	} {
		part := filepath.Join(t.TempDir(), "part")
		if err := download(t, s, s.config(), tt.asset, part); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
		if _, err := os.Stat(part); (err == nil) != (tt.want == nil) {
			t.Errorf("%s: the file is left: %v", name, err)
		}
	}
	// A copy that was broken on the way is fetched once more.
	s.faults["/files/one_red.tif"] = &fault{flip: true, times: 1}
	part := filepath.Join(t.TempDir(), "part")
	if err := download(t, s, s.config(), Asset{Checksum: "1114" + hex.EncodeToString(sum1[:])}, part); err != nil {
		t.Error(err)
	}
	same(t, part, content)
}

func TestDownloadLimits(t *testing.T) {
	s := newServer(t)
	cfg := s.config()
	cfg.MaxAsset = 100
	if err := download(t, s, cfg, Asset{}, filepath.Join(t.TempDir(), "part")); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a large asset gives %v", err)
	}
	huge := int64(1 << 40)
	if err := download(t, s, s.config(), Asset{Size: &huge}, filepath.Join(t.TempDir(), "part")); !errors.Is(err, ErrTooLarge) {
		t.Errorf("an asset that says it is large gives %v", err)
	}
	for _, href := range []string{"file:///etc/passwd", "s3://bucket/x.tif", "one_red.tif"} {
		if err := download(t, s, s.config(), Asset{Href: href}, filepath.Join(t.TempDir(), "part")); !errors.Is(err, ErrFormat) {
			t.Errorf("%s gives %v", href, err)
		}
	}
	if err := download(t, s, s.config(), Asset{Href: s.URL + "/files/none.tif"}, filepath.Join(t.TempDir(), "part")); !errors.Is(err, ErrServer) || s.count("GET /files/none.tif") != 1 {
		t.Errorf("a missing asset gives %v after %d tries", err, s.count("GET /files/none.tif"))
	}
}

// A body that stalls is given up and taken up again.
func TestDownloadStall(t *testing.T) {
	s := newServer(t)
	s.faults["/files/one_red.tif"] = &fault{cut: 900, stall: 600 * time.Millisecond, times: 1}
	cfg := s.config()
	cfg.Timeout = 200 * time.Millisecond
	part := filepath.Join(t.TempDir(), "part")
	if err := download(t, s, cfg, Asset{}, part); err != nil {
		t.Fatal(err)
	}
	same(t, part, s.files["one_red.tif"])
}

func TestDownloadCancelled(t *testing.T) {
	s := newServer(t)
	s.faults["/files/one_red.tif"] = &fault{status: http.StatusServiceUnavailable, after: "60", times: 99}
	c, err := NewClient(s.config())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	start := time.Now()
	err = c.Download(ctx, Asset{Href: s.URL + "/files/one_red.tif"}, filepath.Join(t.TempDir(), "part"))
	if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > 5*time.Second {
		t.Errorf("%v after %s", err, time.Since(start))
	}
}
