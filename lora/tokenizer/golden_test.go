package tokenizer

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"
)

// sharedPath finds a file of the reference data outside the repository and skips the test if it is not there.
func sharedPath(t testing.TB, parts ...string) string {
	t.Helper()
	root := os.Getenv("TERRALOOM_SHARED")
	if root == "" {
		dir, err := os.Getwd()
		if err != nil {
			t.Fatal(err)
		}
		for {
			if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
				break
			}
			if parent := filepath.Dir(dir); parent != dir {
				dir = parent
				continue
			}
			t.Skip("no go.mod above the package: cannot find the reference data; set TERRALOOM_SHARED")
		}
		root = filepath.Join(dir, "..", "shared")
	}
	path := filepath.Join(append([]string{root}, parts...)...)
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		t.Skipf("reference data %s is missing; set TERRALOOM_SHARED to the folder that has it", path)
	}
	return path
}

func gunzip(t testing.TB, path string) []byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// families are the tokenizers of the golden data, with ids and texts from Hugging Face tokenizers (Rust).
var families = []string{"gpt2", "qwen3", "qwen35like", "smollm2like"}

type goldenRow struct {
	Text     string  `json:"text"`
	IDs      []int32 `json:"ids"`
	Decoded  string  `json:"decoded"`
	Category string  `json:"category"`
	Skipped  *string `json:"skipped"`
}

var (
	goldenMu   sync.Mutex
	goldenToks = map[string]*BPE{}
)

// goldenTokenizer loads a family once per test run.
func goldenTokenizer(t testing.TB, family string) *BPE {
	t.Helper()
	path := sharedPath(t, "tokenizer-golden", family+".tokenizer.json.gz")
	goldenMu.Lock()
	defer goldenMu.Unlock()
	if b, ok := goldenToks[family]; ok {
		return b
	}
	b, err := ParseJSON(gunzip(t, path))
	if err != nil {
		t.Fatalf("%s: %v", family, err)
	}
	goldenToks[family] = b
	return b
}

func goldenRows(t testing.TB, family string) []goldenRow {
	t.Helper()
	return parseRows(t, gunzip(t, sharedPath(t, "tokenizer-golden", family+".ids.jsonl.gz")), 2000)
}

func parseRows(t testing.TB, data []byte, atLeast int) []goldenRow {
	t.Helper()
	var rows []goldenRow
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var row goldenRow
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	if len(rows) < atLeast {
		t.Fatalf("%d golden rows, expected at least %d", len(rows), atLeast)
	}
	return rows
}

// small are the tokenizers of testdata, made by testdata/make_golden.py with the same reference.
var small = []string{"trained", "llama3", "holes"}

func testdata(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func smallTokenizer(t testing.TB, name string) *BPE {
	t.Helper()
	b, err := ParseJSON(testdata(t, name+".json"))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return b
}

func TestGolden(t *testing.T) {
	for _, family := range families {
		t.Run(family, func(t *testing.T) { checkGolden(t, goldenTokenizer(t, family), goldenRows(t, family)) })
	}
	for _, name := range small {
		t.Run(name, func(t *testing.T) {
			checkGolden(t, smallTokenizer(t, name), parseRows(t, testdata(t, name+".ids.jsonl"), 250))
		})
	}
}

// checkGolden compares ids and texts with the reference: no difference is allowed.
func checkGolden(t *testing.T, b *BPE, rows []goldenRow) {
	different := 0
	report := func(format string, args ...any) {
		if different++; different <= 10 {
			t.Errorf(format, args...)
		}
	}
	for i, row := range rows {
		if got := b.Encode(row.Text); !slices.Equal(got, row.IDs) {
			report("row %d (%s): Encode(%q)\n got %v\nwant %v", i, row.Category, row.Text, got, row.IDs)
		}
		if got, err := b.Decode(row.IDs); err != nil || got != row.Decoded {
			report("row %d (%s): Decode(%v)\n got %q, %v\nwant %q", i, row.Category, row.IDs, got, err, row.Decoded)
		}
		if got := stream(t, b, row.IDs); got != row.Decoded {
			report("row %d (%s): streaming %v\n got %q\nwant %q", i, row.Category, row.IDs, got, row.Decoded)
		}
		if row.Skipped != nil {
			if got, err := b.DecodeSkipSpecial(row.IDs); err != nil || got != *row.Skipped {
				report("row %d: DecodeSkipSpecial(%v)\n got %q, %v\nwant %q", i, row.IDs, got, err, *row.Skipped)
			}
		}
	}
	if different > 0 {
		t.Errorf("%d differences in %d rows", different, len(rows))
	}
}

// stream decodes ids one by one and checks that every piece is whole characters.
func stream(t *testing.T, b *BPE, ids []int32) string {
	t.Helper()
	var text strings.Builder
	d := b.NewStreamDecoder(false)
	for _, id := range ids {
		piece, err := d.Push(id)
		if err != nil {
			t.Fatal(err)
		}
		if !utf8.ValidString(piece) {
			t.Errorf("Push(%d) returned %q", id, piece)
		}
		text.WriteString(piece)
	}
	text.WriteString(d.Flush())
	return text.String()
}
