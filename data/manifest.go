package data

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"

	"terraloom/data/strictjson"
)

// The layouts that a manifest can describe.
const (
	parquetFormat = "terraloom-dataset/1"
	jsonlFormat   = "terraloom-jsonl/1"
)

const manifestName = "manifest.json"

// Manifest says what a dataset was made from and what it holds. It carries no
// wall-clock time: the same run gives the same bytes.
type Manifest struct {
	Format   string           `json:"format"` // set by Writer.Finish
	Seed     uint64           `json:"seed"`
	Shard    *Shard           `json:"shard,omitempty"` // nil for a whole dataset
	Options  strictjson.Value `json:"options"`         // object: every option that shapes the rows
	Inputs   []Input          `json:"inputs"`
	Counts   []Count          `json:"counts"` // at every stage, in the order of the stages; additive over shards
	Refusals []Refusal        `json:"refusals"`
	Code     Code             `json:"code"`   // set by Writer.Finish where empty
	Tables   []Table          `json:"tables"` // set by Writer.Finish
}

// Shard is part Index of Count of a dataset, 0-based.
type Shard struct {
	Index int `json:"index"`
	Count int `json:"count"`
}

// Input is a file that the dataset was made from.
type Input struct {
	Name   string `json:"name"` // as the user gave it, without folders
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes"`
}

// Count is a named number.
type Count struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
}

// Refusal counts what was left out of the dataset for one reason and seed.
type Refusal struct {
	Reason string `json:"reason"` // a short fixed name
	SeedID string `json:"seed_id"`
	Count  int    `json:"count"`
	Detail string `json:"detail,omitempty"` // the first case in words: slot, step, pointer
}

// Code is the program that made the rows.
type Code struct {
	Module   string   `json:"module"`
	Version  string   `json:"version"`
	Revision string   `json:"revision,omitempty"` // commit, where the build knows it
	Modified bool     `json:"modified,omitempty"` // built from a tree with uncommitted changes
	Go       string   `json:"go"`
	Platform string   `json:"platform"`        // GOOS/GOARCH and its level, e.g. linux/amd64 v1
	Tools    []Module `json:"tools,omitempty"` // the libraries that shape the bytes
}

// Module is a Go module and its version.
type Module struct {
	Path    string `json:"path"`
	Version string `json:"version"`
}

// Table is one config and split of the dataset.
type Table struct {
	Config string      `json:"config"`
	Split  string      `json:"split"`
	Rows   int         `json:"rows"`
	Files  []TableFile `json:"files"`
}

// TableFile is one file of a table; Name is relative to the dataset folder.
type TableFile struct {
	Name   string `json:"name"`
	Rows   int    `json:"rows"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// RefusalsByReason sums the refusals, in order of first appearance.
func (m *Manifest) RefusalsByReason() []Count {
	var sums []Count
	for _, r := range m.Refusals {
		sums = addCount(sums, Count{r.Reason, r.Count})
	}
	return sums
}

// Rows is the number of rows of a config, over all splits.
func (m *Manifest) Rows(config string) int {
	n := 0
	for _, t := range m.Tables {
		if t.Config == config {
			n += t.Rows
		}
	}
	return n
}

func addCount(sums []Count, c Count) []Count {
	i := slices.IndexFunc(sums, func(s Count) bool { return s.Name == c.Name })
	if i < 0 {
		return append(sums, c)
	}
	sums[i].Count += c.Count
	return sums
}

func (m *Manifest) encode() ([]byte, error) {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(m); err != nil {
		return nil, fmt.Errorf("%s: %w", manifestName, err)
	}
	return buf.Bytes(), nil
}

// ReadManifest reads the manifest of a dataset folder. A folder without one
// gives ErrNotDataset.
func ReadManifest(dir string) (*Manifest, error) { return readManifest(dir, parquetFormat) }

// ManifestHash identifies a dataset folder by the SHA-256 of its manifest, which holds the hashes of all its files.
func ManifestHash(dir string) (string, error) {
	text, err := os.ReadFile(filepath.Join(dir, manifestName))
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

func readManifest(dir, format string) (*Manifest, error) {
	path := filepath.Join(dir, manifestName)
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w: it has no %s", dir, ErrNotDataset, manifestName)
	}
	if err != nil {
		return nil, err
	}
	if _, err := strictjson.Parse(text); err != nil { // encoding/json would take repeated keys
		return nil, fmt.Errorf("%s:%w", path, err)
	}
	m := new(Manifest)
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(m); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if m.Format != format {
		return nil, fmt.Errorf("%s: %w: format is %q, expected %q", path, ErrNotDataset, m.Format, format)
	}
	for _, t := range m.Tables {
		if schemas[t.Config] == nil || !slices.Contains(Splits, t.Split) {
			return nil, fmt.Errorf("%s: %w: it lists the unknown table %s/%s", path, ErrCorrupt, t.Config, t.Split)
		}
		for _, f := range t.Files {
			if !filepath.IsLocal(filepath.FromSlash(f.Name)) {
				return nil, fmt.Errorf("%s: %w: it lists the file %q outside the folder", path, ErrCorrupt, f.Name)
			}
		}
	}
	return m, nil
}

// byteShapers are the modules whose version can change the bytes of a dataset.
var byteShapers = []string{
	"github.com/expr-lang/expr", "github.com/klauspost/compress", "github.com/parquet-go/parquet-go", "github.com/xitongsys/parquet-go",
}

// BuildCode describes the running program.
func BuildCode() Code {
	c := Code{Module: "terraloom", Version: "unknown", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return c
	}
	c.Module, c.Version = info.Main.Path, info.Main.Version
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			c.Revision = s.Value
		case "vcs.modified":
			c.Modified = s.Value == "true"
		case "GOAMD64", "GOARM64":
			c.Platform += " " + s.Value
		}
	}
	for _, m := range info.Deps {
		if slices.Contains(byteShapers, m.Path) {
			c.Tools = append(c.Tools, Module{m.Path, m.Version})
		}
	}
	return c
}
