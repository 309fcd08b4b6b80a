package run

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"terraloom/data"
	"terraloom/lora/wheel"
)

func check(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func open(t *testing.T, dir string, resume bool) *Folder {
	t.Helper()
	f, err := Open(dir, resume)
	check(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

var start = time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC)

func record(kind string, step int, values ...Value) Record {
	return Record{Time: start.Add(time.Duration(step) * time.Second), Kind: kind, Step: step, Values: values}
}

// fill writes the records of some steps.
func fill(t *testing.T, f *Folder, from, to int) {
	t.Helper()
	for step := from; step <= to; step++ {
		check(t, f.Append(record(Train, step, Value{"loss", 3 / float64(step)}, Value{"grad_norm", 1})))
		check(t, f.Line(SkippedFile, map[string]any{"step": step, "rows": []string{"a"}}))
	}
	check(t, f.Append(record(Validation, to, Value{"loss", 2})))
}

// D2: a metric that is NaN or infinite neither fails nor loses the line, and text comes back as it was.
func TestRecordsRoundTrip(t *testing.T) {
	f := open(t, t.TempDir(), false)
	want := []Record{
		record(Train, 1, Value{"loss", math.NaN()}, Value{"tokens/s", 1e21}, Value{"x", -0.1}),
		record(Train, 2, Value{"loss", math.Inf(1)}),
		{Time: start, Kind: Event, Step: 2, Note: "<b> & \"quotes\"\n"},
	}
	for _, r := range want {
		check(t, f.Append(r))
	}
	got, err := Records(f.Dir)
	check(t, err)
	if len(got) != 3 || !got[0].Time.Equal(want[0].Time) || !math.IsNaN(got[0].Values[0].Number) || !math.IsNaN(got[1].Values[0].Number) ||
		!slices.Equal(got[0].Values[1:], want[0].Values[1:]) || got[2].Note != want[2].Note || got[2].Step != 2 || got[2].Kind != Event {
		t.Errorf("read %+v", got)
	}
	text, err := os.ReadFile(f.Path(MetricsFile))
	check(t, err)
	for line := range strings.Lines(string(text)) {
		if !json.Valid([]byte(line)) {
			t.Errorf("not JSON: %s", line)
		}
	}
}

func TestRecordsWithACutLine(t *testing.T) {
	f := open(t, t.TempDir(), false)
	fill(t, f, 1, 2)
	_, err := f.metrics.WriteString(`{"time":"2026-01-0`)
	check(t, err)
	if got, err := Records(f.Dir); err != nil || len(got) != 3 {
		t.Errorf("%d records, %v", len(got), err)
	}
	_, err = f.metrics.WriteString("\n")
	check(t, err)
	if _, err := Records(f.Dir); err == nil || !strings.Contains(err.Error(), MetricsFile+":4") {
		t.Errorf("a broken line in the middle: %v", err)
	}
}

func TestRewindDropsLaterSteps(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir, false)
	fill(t, f, 1, 5)
	check(t, f.Close())
	if _, err := Open(dir, false); !errors.Is(err, data.ErrExists) {
		t.Fatalf("used folder: %v", err)
	}
	again := open(t, dir, true)
	check(t, again.Rewind(3))
	check(t, again.Append(record(Train, 4, Value{"loss", 7})))
	check(t, again.Line(SkippedFile, map[string]any{"step": 9}))
	got, err := Records(dir)
	check(t, err)
	var steps []int
	for _, r := range got {
		steps = append(steps, r.Step)
	}
	if !slices.Equal(steps, []int{1, 2, 3, 4}) {
		t.Errorf("records of the steps %v", steps)
	}
	text, err := os.ReadFile(again.Path(SkippedFile))
	check(t, err)
	if n := strings.Count(string(text), "\n"); n != 4 || !strings.Contains(string(text), `{"step":9}`) {
		t.Errorf("lines left:\n%s", text)
	}
	if events := readEvents(t, again.Path(TensorBoardDir)); len(events) != 4 {
		t.Errorf("TensorBoard has the events %v", events)
	}
}

func TestOpenIsExclusive(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir, false)
	if _, err := Open(dir, true); !errors.Is(err, data.ErrLocked) {
		t.Errorf("second: %v", err)
	}
	check(t, f.Close())
	open(t, dir, true)
}

// readEvents parses the event files of a folder as TensorBoard does, checksums included, into "step tag value".
func readEvents(t *testing.T, dir string) (out []string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*tfevents*"))
	check(t, err)
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		check(t, err)
		for first := true; len(raw) > 0; first = false {
			n := binary.LittleEndian.Uint64(raw)
			if binary.LittleEndian.Uint32(raw[8:]) != masked(raw[:8]) || binary.LittleEndian.Uint32(raw[12+n:]) != masked(raw[12:12+n]) {
				t.Fatalf("%s: wrong checksum", path)
			}
			step, tag, value := parseEvent(t, raw[12:12+n])
			if first != (tag == "file_version brain.Event:2") {
				t.Errorf("%s: the version is not the first event", path)
			}
			if !first {
				out = append(out, fmt.Sprintf("%d %s %v", step, tag, value))
			}
			raw = raw[16+n:]
		}
	}
	return out
}

// parseEvent reads step and the first summary value of an Event.
func parseEvent(t *testing.T, m []byte) (step uint64, tag string, value float32) {
	t.Helper()
	for len(m) > 0 {
		field, kind, n := protowire.ConsumeTag(m)
		m = m[n:]
		switch {
		case field == 2:
			step, n = protowire.ConsumeVarint(m)
		case field == 3:
			var text []byte
			text, n = protowire.ConsumeBytes(m)
			tag = "file_version " + string(text)
		case field == 5:
			var summary []byte
			summary, n = protowire.ConsumeBytes(m)
			_, _, k := protowire.ConsumeTag(summary)
			inner, _ := protowire.ConsumeBytes(summary[k:])
			_, _, k = protowire.ConsumeTag(inner)
			text, l := protowire.ConsumeBytes(inner[k:])
			_, _, j := protowire.ConsumeTag(inner[k+l:])
			bits, _ := protowire.ConsumeFixed32(inner[k+l+j:])
			tag, value = string(text), math.Float32frombits(bits)
		default:
			n = protowire.ConsumeFieldValue(field, kind, m)
		}
		if n < 0 {
			t.Fatal(protowire.ParseError(n))
		}
		m = m[n:]
	}
	return step, tag, value
}

func TestTensorBoardEvents(t *testing.T) {
	f := open(t, t.TempDir(), false)
	fill(t, f, 1, 2)
	if got, want := readEvents(t, f.Path(TensorBoardDir)), []string{"1 train/loss 3", "2 train/loss 1.5", "2 validation/loss 2"}; !slices.Equal(got, want) {
		t.Errorf("events %q, expected %q", got, want)
	}
	// CRC32C of "123456789" is 0xe3069283 (the check value of its definition); turned by 15 bits and shifted it is this.
	if got := masked([]byte("123456789")); got != 0xc78ab0e5 {
		t.Errorf("masked checksum %#x", got)
	}
}

// TensorBoard itself reads the files. Needs a Python with the tensorboard package, named by TERRALOOM_PYTHON.
func TestTensorBoardPython(t *testing.T) {
	python, err := wheel.Python()
	if err != nil {
		t.Skip(err)
	}
	if err := exec.Command(python, "-c", "import tensorboard").Run(); err != nil {
		t.Skipf("no Python with tensorboard (set TERRALOOM_PYTHON): %v", err)
	}
	f := open(t, t.TempDir(), false)
	fill(t, f, 1, 3)
	out, err := exec.Command(python, "-c", `
import sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
a = EventAccumulator(sys.argv[1]); a.Reload()
for tag in sorted(a.Tags()["scalars"]):
    print(tag, [(e.step, round(e.value, 6)) for e in a.Scalars(tag)])
`, f.Path(TensorBoardDir)).Output()
	check(t, err)
	want := "train/grad_norm [(1, 1.0), (2, 1.0), (3, 1.0)]\ntrain/loss [(1, 3.0), (2, 1.5), (3, 1.0)]\nvalidation/loss [(3, 2.0)]\n"
	if string(out) != want {
		t.Errorf("TensorBoard reads\n%s, expected\n%s", out, want)
	}
}

func TestReportPage(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "<run>")
	f := open(t, dir, false)
	fill(t, f, 1, 900)
	check(t, f.Append(record(Train, 901, Value{"loss", math.NaN()}, Value{"constant", 5})))
	check(t, f.Append(Record{Time: start, Kind: Event, Step: 900, Note: "resumed <here>"}))
	check(t, f.Line(SamplesFile, map[string]any{"step": 900, "answer": "</pre><script>"}))
	check(t, data.WriteFile(f.Path(ConfigFile), []byte("a: 1 # default\n")))
	check(t, f.Report())
	text, err := os.ReadFile(f.Path(ReportFile))
	check(t, err)
	page := string(text)
	for _, want := range []string{"<h2>loss</h2>", "<h2>grad_norm</h2>", "<polyline", "validation", "900 skipped", "resumed &lt;here&gt;", "&lt;run&gt;", "a: 1 # default", "0.0033333"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in the page", want)
		}
	}
	if strings.Contains(page, "<script") {
		t.Error("text of the run became markup")
	}
	if n := len(page); n > 60_000 {
		t.Errorf("%d bytes: curves are not thinned", n)
	}
	other := open(t, filepath.Join(t.TempDir(), "other"), false)
	fill(t, other, 1, 3)
	both, err := Page([]string{dir, other.Dir})
	check(t, err)
	if !strings.Contains(string(both), "other train") || !strings.Contains(string(both), "&lt;run&gt; train") {
		t.Error("two runs do not stand side by side")
	}
	if _, err := Page([]string{t.TempDir()}); err == nil {
		t.Error("a folder without a run has a page")
	}
}

func TestTicks(t *testing.T) {
	for _, c := range [][2]float64{{0, 1}, {0, 4}, {-3e-5, 6e-5}, {995, 1005}, {0.1, 0.10001}, {-1, 1e9}} {
		got := ticks(c[0], c[1])
		if len(got) < 3 || len(got) > 11 || got[0] < c[0]-1e-12 || got[len(got)-1] > c[1]+math.Abs(c[1])*1e-9 {
			t.Errorf("ticks of %v: %v", c, got)
		}
	}
}

func FuzzRecord(f *testing.F) {
	f.Add(string(record(Train, 1, Value{"loss", 1}).line()))
	f.Add(`{"time":"2026-01-02T03:04:05Z","kind":"event","step":1,"note":"x"}`)
	f.Add(`{"loss":null}`)
	f.Fuzz(func(t *testing.T, text string) {
		r, err := parse([]byte(text))
		if err != nil {
			return
		}
		again, err := parse(r.line())
		if err != nil || again.Step != r.Step || again.Kind != r.Kind || len(again.Values) != len(r.Values) {
			t.Errorf("%q became %q: %v", text, r.line(), err)
		}
	})
}
