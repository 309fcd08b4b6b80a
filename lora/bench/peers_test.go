package bench

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"terraloom/lora/backend"
	"terraloom/lora/backend/backendtest"
	"terraloom/lora/wheel"
)

func TestMain(m *testing.M) {
	if code, done := backend.Startup(); done {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// comparison is one of this project's benchmarks and the program of the peer that does the same work.
type comparison struct {
	name   string
	pkg    string // below terraloom/lora
	bench  string // sub-benchmark
	times  int    // iterations of ours in a round
	script string
	args   string
	decode bool    // tokens/s count, more is better; else seconds of a step
	target float64 // of the ratio: at most for steps, at least for tokens/s
}

var comparisons = []comparison{
	{"step/toy", "decoder", "BenchmarkLoRAStep/toy-whole", 15, "lora_step.py", "--n 15", false, 0.85},
	{"step/toy-layers", "decoder", "BenchmarkLoRAStep/toy", 15, "lora_step.py", "--n 15 --ckpt", false, 0.9},
	{"step/smol", "decoder", "BenchmarkLoRAStep/smol-whole", 3, "lora_step.py", "--model smol --T 512 --r 16 --n 3", false, 0.83},
	{"step/smol-layers", "decoder", "BenchmarkLoRAStep/smol", 3, "lora_step.py", "--model smol --T 512 --r 16 --n 3 --ckpt", false, 0.9},
	{"decode/toy/1", "generate", "BenchmarkDecode/toy/1/greedy", 4, "hf_decode.py", "--S 512 --B 1", true, 2},
	{"decode/toy/4", "generate", "BenchmarkDecode/toy/4/greedy", 4, "hf_decode.py", "--S 512 --B 4", true, 2},
	{"decode/toy/16", "generate", "BenchmarkDecode/toy/16/greedy", 4, "hf_decode.py", "--S 512 --B 16", true, 2},
	{"decode/smol/1", "generate", "BenchmarkDecode/smol/1/greedy", 3, "hf_decode.py", "--model smol --S 512 --B 1", true, 2},
	{"decode/smol/4", "generate", "BenchmarkDecode/smol/4/greedy", 3, "hf_decode.py", "--model smol --S 512 --B 4", true, 2},
	{"decode/smol/16", "generate", "BenchmarkDecode/smol/16/greedy", 3, "hf_decode.py", "--model smol --S 512 --B 16 --reps 2", true, 2},
}

// measured is what a side of a round reports, by unit.
type measured map[string]float64

// BenchmarkPeers runs this project and PyTorch in turn, each round of each side in a process of its own, and prints the
// medians side by side. It needs the peers' programs below bench of TERRALOOM_SHARED and a Python (TERRALOOM_PYTHON)
// with torch, transformers and peft. An iteration is one round:
//
//	go test -run '^$' -bench 'Peers/step/toy$' -benchtime 3x ./lora/bench
//
// Other work on the machine falls on the two sides unequally: run it alone.
func BenchmarkPeers(b *testing.B) {
	python, scripts := peer(b)
	var table bytes.Buffer
	t := tabwriter.NewWriter(&table, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "case\tours\tpeer\tratio\ttarget\tour MB\tpeer MB\ttok/s\tpeer tok/s\tGFLOP/s\tMFU\tMB/token\tof bandwidth\tcompile s\t")
	programs, folder := map[string]string{}, b.TempDir()
	machine := sync.OnceValue(func() limits { return measureMachine(b) })
	for _, c := range comparisons {
		b.Run(c.name, func(b *testing.B) {
			m := machine()
			if programs[c.pkg] == "" {
				programs[c.pkg] = build(b, folder, c.pkg)
			}
			var ours, theirs []measured
			for b.Loop() {
				ours = append(ours, runOurs(b, c, programs[c.pkg]))
				theirs = append(theirs, runPeer(b, c, python, scripts))
			}
			o, p := median(ours), median(theirs)
			row := func(cells ...string) { fmt.Fprintln(t, strings.Join(cells, "\t")+"\t") }
			memory := []string{number(o["peak-MB"]), number(p["peak-MB"])}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(o["peak-MB"]/p["peak-MB"], "memory-ratio")
			if c.decode {
				ratio := o["tok/s"] / p["tok/s"]
				b.ReportMetric(ratio, "speedup")
				row(slices.Concat([]string{c.name, number(o["ms/step"]) + " ms", number(p["ms/step"]) + " ms", fmt.Sprintf("%.2f×", ratio), fmt.Sprintf("≥ %.2g×", c.target)}, memory,
					[]string{number(o["tok/s"]), number(p["tok/s"]), "", "", number(o["MB/tok"]), percent(o["GB/s"], m.bandwidth), number(o["compile-s"])})...)
				return
			}
			ratio := o["med-ms/step"] / p["med-ms/step"]
			tokens := o["tokens/s"] * o["min-ms/step"] // of a step, in thousandths
			b.ReportMetric(ratio, "time-ratio")
			row(slices.Concat([]string{c.name, number(o["med-ms/step"]) + " ms", number(p["med-ms/step"]) + " ms", fmt.Sprintf("%.2f×", ratio), fmt.Sprintf("≤ %.2g×", c.target)}, memory,
				[]string{number(tokens / o["med-ms/step"]), number(tokens / p["med-ms/step"]), number(o["GFLOP/s"]), percent(o["GFLOP/s"], m.float32), "", "", number(o["compile-s"])})...)
		})
	}
	if len(programs) == 0 {
		return // -bench picked none
	}
	if err := t.Flush(); err != nil {
		b.Fatal(err)
	}
	m := machine()
	fmt.Printf("\n%s; float32 products %.0f GFLOP/s, memory reads %.1f GB/s; steps are of LoRA on all projections, batch 4 × 256 (toy) and 4 × 512 (smol);\ndecoding is greedy, 64 tokens after 448; medians of the rounds.\n%s", m.engine, m.float32, m.bandwidth, table.String())
}

// peer finds what the other side needs.
func peer(b *testing.B) (python, scripts string) {
	root := os.Getenv("TERRALOOM_SHARED")
	if root == "" {
		root = filepath.Join("..", "..", "..", "shared")
	}
	scripts = filepath.Join(root, "bench")
	if _, err := os.Stat(filepath.Join(scripts, "lora_step.py")); err != nil {
		b.Skipf("the peers' programs are not here (set TERRALOOM_SHARED): %v", err)
	}
	python, err := wheel.Python()
	if err != nil {
		b.Skip(err)
	}
	if out, err := exec.Command(python, "-c", "import torch, transformers, peft").CombinedOutput(); err != nil {
		b.Skipf("%s lacks torch, transformers or peft (TERRALOOM_PYTHON names another Python): %v %s", python, err, out)
	}
	return python, scripts
}

// build compiles a package's benchmarks, so that a round is not a compilation.
func build(b *testing.B, folder, pkg string) string {
	path := filepath.Join(folder, pkg+".test")
	if out, err := exec.Command("go", "test", "-c", "-o", path, "terraloom/lora/"+pkg).CombinedOutput(); err != nil {
		b.Fatalf("building the benchmarks of %s: %v\n%s", pkg, err, out)
	}
	return path
}

func runOurs(b *testing.B, c comparison, program string) measured {
	pattern := "^" + strings.ReplaceAll(c.bench, "/", "$/^") + "$"
	out, err := exec.CommandContext(b.Context(), program, "-test.run", "^$", "-test.bench", pattern, "-test.benchtime", fmt.Sprintf("%dx", c.times)).CombinedOutput()
	if err != nil {
		b.Fatalf("%s: %v\n%s", c.bench, err, out)
	}
	m := parseBenchmark(string(out))
	if len(m) == 0 {
		b.Fatalf("%s measured nothing:\n%s", c.bench, out)
	}
	return m
}

// parseBenchmark reads the values of the only benchmark in go test's output, by unit.
func parseBenchmark(out string) measured {
	m := measured{}
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		for i := 2; i+1 < len(fields); i += 2 {
			if v, err := strconv.ParseFloat(fields[i], 64); err == nil {
				m[fields[i+1]] = v
			}
		}
	}
	return m
}

var (
	stepLine   = regexp.MustCompile(`first ([\d.]+)s min (\d+) med (\d+) ms/step .* peak RSS (\d+) MB`)
	decodeLine = regexp.MustCompile(`([\d.]+) ms/step ([\d.]+) tok/s .* RSS (\d+) MB`)
)

func runPeer(b *testing.B, c comparison, python, scripts string) measured {
	cmd := exec.CommandContext(b.Context(), python, append([]string{c.script}, strings.Fields(c.args)...)...)
	cmd.Dir = scripts
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		b.Fatalf("%s %s: %v\n%s", c.script, c.args, err, errs.String())
	}
	m := parsePeer(string(out), c.decode)
	if m == nil {
		b.Fatalf("%s %s printed %q", c.script, c.args, out)
	}
	return m
}

// parsePeer reads the one line that a peer's program prints. Its megabytes are MiB.
func parsePeer(out string, decode bool) measured {
	line, units := stepLine, []string{"first-s", "min-ms/step", "med-ms/step", "peak-MB"}
	if decode {
		line, units = decodeLine, []string{"ms/step", "tok/s", "peak-MB"}
	}
	found := line.FindStringSubmatch(out)
	if found == nil {
		return nil
	}
	m := measured{}
	for i, unit := range units {
		m[unit], _ = strconv.ParseFloat(found[i+1], 64) // the pattern takes nothing but numbers
	}
	m["peak-MB"] *= 1.048576
	return m
}

func median(rounds []measured) measured {
	m := measured{}
	for unit := range rounds[0] {
		values := make([]float64, len(rounds))
		for i, r := range rounds {
			values[i] = r[unit]
		}
		slices.Sort(values)
		m[unit] = (values[(len(values)-1)/2] + values[len(values)/2]) / 2
	}
	return m
}

func number(v float64) string {
	if v >= 100 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

func percent(v, of float64) string { return fmt.Sprintf("%.0f %%", 100*v/of) }

// limits is what the machine can do.
type limits struct {
	engine    string
	float32   float64 // GFLOP/s of a large matrix product
	bandwidth float64 // GB/s of reading memory
}

func measureMachine(b *testing.B) limits {
	engine := backendtest.Open(b)
	r, err := backend.Check(engine)
	if err != nil {
		b.Fatal(err)
	}
	return limits{fmt.Sprintf("%s, %d cores", r.Backend, runtime.NumCPU()), r.Float32, readBandwidth()}
}

// readBandwidth compares memory with itself, which reads at full width and does nothing else: GB/s of all cores.
func readBandwidth() float64 {
	const size = 256 << 20
	best := time.Duration(1<<63 - 1)
	blocks := make([][]byte, 2*runtime.NumCPU())
	for i := range blocks {
		blocks[i] = bytes.Repeat([]byte{1}, size/runtime.NumCPU())
	}
	for range 8 {
		var cores sync.WaitGroup
		start := time.Now()
		for i := 0; i < len(blocks); i += 2 {
			cores.Go(func() { bytes.Equal(blocks[i], blocks[i+1]) })
		}
		cores.Wait()
		best = min(best, time.Since(start))
	}
	return 2 * size / best.Seconds() / 1e9
}

func TestParse(t *testing.T) {
	m := parseBenchmark("goos: linux\nBenchmarkLoRAStep/toy-2 \t 10\t 480608818 ns/op\t 78.16 GFLOP/s\t 395.9 min-ms/step\nPASS\n")
	if m["GFLOP/s"] != 78.16 || m["min-ms/step"] != 395.9 || len(m) != 3 {
		t.Errorf("%v", m)
	}
	m = parsePeer("torch+peft toy B=4 T=256 r=8 attn=sdpa compile=False: first 4.18s min 368 med 426 ms/step loss 7.238 peak RSS 1000 MB\n", false)
	if m["med-ms/step"] != 426 || m["min-ms/step"] != 368 || m["first-s"] != 4.18 || m["peak-MB"] != 1048.576 {
		t.Errorf("%v", m)
	}
	m = parsePeer("hf toy float32 S=512 B=4: 8.85 ms/step 452.1 tok/s  prefill 160 ms (11200 tok/s)  RSS 700 MB\n", true)
	if m["ms/step"] != 8.85 || m["tok/s"] != 452.1 || m["peak-MB"] != 700*1.048576 {
		t.Errorf("%v", m)
	}
	if parsePeer("Traceback", true) != nil {
		t.Error("a line without figures was taken")
	}
	if m := median([]measured{{"a": 3}, {"a": 1}, {"a": 10}, {"a": 2}}); m["a"] != 2.5 {
		t.Errorf("%v", m)
	}
}
