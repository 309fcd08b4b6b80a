package data

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"terraloom/data/strictjson"
)

// The formats that Import reads.
const (
	FormatEarthBench     = "earth-bench"    // question.json: one object of numbered entries
	FormatOpenEarthAgent = "openearthagent" // conversations: a JSON array or JSONL
	FormatOwn            = "own"            // JSONL of trajectories as Trajectory.Value writes them
)

var formats = []string{FormatEarthBench, FormatOpenEarthAgent, FormatOwn}

// ErrFormat is returned where a file is in none of the formats.
var ErrFormat = errors.New("unknown format")

// ImportOptions are the options of Import.
type ImportOptions struct {
	// Regime chooses the query of an Earth-Bench entry: "if" (its instruction
	// following text), "ap" (its autonomous planning text) or "user" (the
	// dialog's own user turn). "" means "ap".
	Regime string
}

// ImportResult is what a file held.
type ImportResult struct {
	Trajectories []*Trajectory
	Report       *ImportReport
	Inputs       []Input // the files read
}

// Import reads trajectories from a file, or from all .json and .jsonl files of
// a folder in the order of their names. format is one of the Format constants,
// or "" to choose by each file's content. What is odd in the source but has one
// reading is repaired and listed in the report; what is broken is an error with
// file, line or JSON pointer. Ids are unique over all files.
func Import(path, format string, o ImportOptions) (*ImportResult, error) {
	if format != "" && !slices.Contains(formats, format) {
		return nil, fmt.Errorf("%w %q: known are %s", ErrFormat, format, strings.Join(formats, ", "))
	}
	if o.Regime == "" {
		o.Regime = "ap"
	}
	if !slices.Contains([]string{"if", "ap", "user"}, o.Regime) {
		return nil, fmt.Errorf("regime %q: known are if, ap, user", o.Regime)
	}
	paths, err := importFiles(path)
	if err != nil {
		return nil, err
	}
	res := &ImportResult{Report: &ImportReport{}}
	seen := map[string]string{}
	for _, p := range paths {
		before := len(res.Trajectories)
		if err := importFile(res, p, format, o); err != nil {
			return nil, err
		}
		for _, t := range res.Trajectories[before:] {
			if other, ok := seen[t.ID]; ok {
				return nil, fmt.Errorf("%s: trajectory id %q is already in %s", p, t.ID, other)
			}
			seen[t.ID] = p
		}
	}
	res.Report.finish(res.Trajectories)
	if len(res.Trajectories) == 0 {
		return nil, fmt.Errorf("%s: no usable trajectory\n%s", path, res.Report)
	}
	return res, nil
}

func importFiles(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path) // sorted by name
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); e.Type()&fs.ModeDir == 0 && (ext == ".json" || ext == ".jsonl") {
			paths = append(paths, filepath.Join(path, e.Name()))
		}
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("%s: the folder holds no .json or .jsonl file", path)
	}
	return paths, nil
}

func importFile(res *ImportResult, path, format string, o ImportOptions) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	shape, err := sniff(f)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if format == "" {
		if format = shape.format; format == "" {
			return fmt.Errorf("%s: %w: its first record has the keys %q; name the format if it is one of %s",
				path, ErrFormat, shape.keys, strings.Join(formats, ", "))
		}
	}
	if shape.bom {
		res.Report.add(ByteOrderMark, "", -1, "%s", filepath.Base(path))
	}
	if shape.crlf {
		res.Report.add(CRLF, "", -1, "%s", filepath.Base(path))
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	h := sha256.New()
	in := &countingReader{r: io.TeeReader(f, h)}
	switch format {
	case FormatEarthBench:
		err = importEarthBench(res, path, in, o)
	case FormatOpenEarthAgent:
		err = importOpenEarthAgent(res, path, in, shape.array)
	case FormatOwn:
		err = importOwn(res, path, in)
	}
	if err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, in); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	res.Report.Formats = append(res.Report.Formats, format)
	res.Inputs = append(res.Inputs, Input{Name: filepath.Base(path), SHA256: hex.EncodeToString(h.Sum(nil)), Bytes: in.n})
	return nil
}

type countingReader struct {
	r io.Reader
	n int64
}

func (c *countingReader) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n += int64(n)
	return n, err
}

// fileShape is what the first record of a file looks like.
type fileShape struct {
	format string // "" where the keys tell nothing
	array  bool
	keys   []string
	bom    bool // begins with a byte order mark
	crlf   bool // has lines ending in CR LF near its beginning
}

// sniff reads tokens until a key decides the format. Broken JSON ends the
// search without an error: the importer will say where it is broken.
func sniff(r io.Reader) (s fileShape, err error) {
	br := bufio.NewReaderSize(r, 64<<10)
	head, err := br.Peek(64 << 10)
	if err != nil && !errors.Is(err, io.EOF) {
		return s, err
	}
	if len(head) == 0 {
		return s, errors.New("the file is empty")
	}
	s.crlf = bytes.Contains(head, []byte("\r\n"))
	if s.bom = bytes.HasPrefix(head, []byte("\xef\xbb\xbf")); s.bom {
		br.Discard(3)
	}
	d := json.NewDecoder(br)
	type bracket struct{ object, keyNext bool }
	var open []bracket
	base := 1 // number of brackets open around a record's keys
	for {
		tok, err := d.Token()
		if err != nil {
			return s, nil
		}
		top := len(open) - 1
		if key, ok := tok.(string); ok && top >= 0 && open[top].keyNext {
			open[top].keyNext = false
			if s.decide(key, len(open), base) {
				return s, nil
			}
			continue
		}
		delim, _ := tok.(json.Delim)
		if delim == '}' || delim == ']' {
			open = open[:top]
			if len(open) < base && len(s.keys) > 0 {
				return s, nil // the first record ends undecided
			}
			continue
		}
		if top >= 0 {
			open[top].keyNext = open[top].object
		}
		if delim != 0 {
			if top < 0 && delim == '[' {
				s.array, base = true, 2
			}
			open = append(open, bracket{delim == '{', delim == '{'})
		}
	}
}

// decide looks at one key and reports whether it settles the format.
func (s *fileShape) decide(key string, depth, base int) bool {
	switch {
	case depth == base && (key == "steps" || key == "seed_id"):
		s.format = FormatOwn
	case depth == base && key == "conversation":
		s.format = FormatOpenEarthAgent
	case depth == base+1 && !s.array && (key == "dialogs" || key == "evaluation"):
		s.format = FormatEarthBench
	}
	if depth == base {
		s.keys = append(s.keys, key)
	}
	return s.format != ""
}

// maxImportErrors bad lines are shown at once.
const maxImportErrors = 20

// importOwn reads JSONL of Trajectory.Value objects. All bad lines are
// reported together, as name:line: /pointer: message.
func importOwn(res *ImportResult, name string, r io.Reader) error {
	var bad []error
	count := 0
	err := strictjson.Lines(r, name, func(line int, v strictjson.Value) error {
		t, err := DecodeTrajectory(v)
		if err != nil {
			if count++; count <= maxImportErrors {
				bad = append(bad, fmt.Errorf("%s:%d: %w", name, line, err))
			}
			return nil
		}
		res.Trajectories = append(res.Trajectories, &t)
		return nil
	})
	if err != nil {
		bad = append(bad, err)
	}
	if count > maxImportErrors {
		bad = append(bad, fmt.Errorf("%s: %d bad lines in all", name, count))
	}
	return errors.Join(bad...)
}
