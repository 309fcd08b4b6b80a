package data

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"terraloom/data/strictjson"
)

// benchRows makes trajectories of the size and kind of the real ones: lists of
// dated paths, numbers, about 15 KB a trajectory, 10 KB a planner prompt and
// 8 KB an executor prompt, 5 or 6 steps.
func benchRows(i int) (*Trajectory, PlannerRow, []ExecutorRow) {
	r := rand.New(rand.NewPCG(1, uint64(i)))
	seed := fmt.Sprintf("bench-%d", i/10)
	id := fmt.Sprintf("%s-%d", seed, i%10)
	place := []string{"Riga", "Lake Urmia", "Loess Plateau", "Taklamakan", "Reykholt"}[r.IntN(5)]
	day := time.Date(2000+r.IntN(20), 1, 1, 0, 0, 0, 0, time.UTC)
	var names, in, out, values []strictjson.Value
	for range 60 {
		day = day.AddDate(0, 0, 16)
		date := day.Format("2006-01-02")
		names = append(names, strictjson.Text(place+"_"+date+"_LST.tif"))
		in = append(in, strictjson.Text("benchmark/data/question1/"+place+"_"+date+"_LST.tif"))
		out = append(out, strictjson.Text("benchmark/out/question1/tvdi_"+date+".tif"))
		values = append(values, strictjson.Float(r.Float64()))
	}
	arg := func(key string, list []strictjson.Value) strictjson.Value {
		return strictjson.Obj(strictjson.Member{Key: key, Value: strictjson.List(list...)})
	}
	t := &Trajectory{
		ID: id, SeedID: seed, Source: "earth-bench", Domain: "spectrum", Regime: "ap",
		Query: "How did the dryness around " + place + " change?", Inputs: arg("x", nil),
		Steps: []Step{
			{Tool: "get_filelist", Arguments: strictjson.Obj(strictjson.Member{Key: "dir_path", Value: strictjson.Text("benchmark/data/question1")}), Observation: strictjson.List(names...)},
			{Tool: "compute_tvdi", Arguments: arg("lst_path", in), Observation: strictjson.List(out...)},
			{Tool: "calc_batch_image_mean", Arguments: arg("file_list", out), Observation: strictjson.List(values...)},
			{Tool: "mean", Arguments: arg("x", values), Observation: values[0]},
			{Tool: "compute_linear_trend", Arguments: arg("y", values), Observation: values[1]},
		},
		Answer: strictjson.Text("C"),
	}
	if i%2 == 0 {
		t.Steps = append(t.Steps, Step{Tool: "mean", Arguments: arg("x", values), Observation: values[2]})
	}
	for s := 1; s < len(t.Steps); s++ {
		for j := range 20 {
			t.Steps[s].Uses = append(t.Steps[s].Uses, Use{fmt.Sprintf("/x/%d", j), s - 1, fmt.Sprintf("/%d", j), "identity"})
		}
	}
	p := PlannerRow{
		Prompt:     []Message{{"system", strings.Repeat("Choose the tools and their order. ", 20)}, {"user", t.Query + benchSchemas}},
		Completion: []Message{{"assistant", `{"tool_sequence":["get_filelist","mean"]}`}}, TrajectoryID: id, SeedID: seed, Domain: t.Domain, Source: t.Source,
	}
	var e []ExecutorRow
	for n, s := range t.Steps {
		ref := s.Arguments.JSON()
		e = append(e, ExecutorRow{
			Prompt:     []Message{{"system", "Give the arguments."}, {"user", t.Query + benchSchemas[:2000] + t.Steps[1].Arguments.JSON()}},
			Completion: []Message{{"assistant", ref}}, Reference: ref, Tool: s.Tool, Node: n, TrajectoryID: id, SeedID: seed, Domain: t.Domain, Source: t.Source,
		})
	}
	return t, p, e
}

var benchSchemas = func() string {
	var b strings.Builder
	for i := range 25 {
		fmt.Fprintf(&b, `{"name":"tool_%d","description":"Computes index %d of a raster and writes it.","parameters":{"type":"object","properties":{"input_path":{"type":"string"},"output_path":{"type":"string"},"threshold":{"type":"number","default":0.%d}},"required":["input_path"]}}`, i, i*7, i)
	}
	return b.String()
}()

const benchTrajectories = 2480

// benchBytes is the length of all texts of the benchmark's rows.
func benchBytes() int64 {
	n := 0
	for i := range benchTrajectories {
		t, p, e := benchRows(i)
		n += rowOf(t).rowBytes() + p.rowBytes()
		for j := range e {
			n += e[j].rowBytes()
		}
	}
	return int64(n)
}

func writeBench(tb testing.TB, dir string, n int) {
	w, err := CreateDataset(dir, WriterOptions{Force: true})
	if err != nil {
		tb.Fatal(err)
	}
	defer w.Abort()
	for i := range n {
		t, p, e := benchRows(i)
		if err := w.Add(Splits[[]int{0, 0, 0, 0, 0, 0, 0, 0, 1, 2}[i/10%10]], t, p, e); err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Finish(&Manifest{}); err != nil {
		tb.Fatal(err)
	}
}

func BenchmarkWrite(b *testing.B) {
	type rows struct {
		t *Trajectory
		p PlannerRow
		e []ExecutorRow
	}
	var all []rows
	for i := range benchTrajectories {
		t, p, e := benchRows(i)
		all = append(all, rows{t, p, e})
	}
	b.SetBytes(benchBytes())
	dir := filepath.Join(b.TempDir(), "ds")
	for b.Loop() {
		w, err := CreateDataset(dir, WriterOptions{Force: true})
		if err != nil {
			b.Fatal(err)
		}
		for i, r := range all {
			if err := w.Add(Splits[[]int{0, 0, 0, 0, 0, 0, 0, 0, 1, 2}[i/10%10]], r.t, r.p, r.e); err != nil {
				b.Fatal(err)
			}
		}
		if err := w.Finish(&Manifest{}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(benchTrajectories*float64(b.N)/b.Elapsed().Seconds(), "trajectories/s")
}

func BenchmarkRead(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "ds")
	writeBench(b, dir, benchTrajectories)
	ds, err := OpenDataset(dir)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(benchBytes())
	rows := 0
	for b.Loop() {
		for _, split := range Splits {
			for _, err := range ds.Trajectories(split) {
				if err != nil {
					b.Fatal(err)
				}
				rows++
			}
			for _, err := range ds.Planner(split) {
				if err != nil {
					b.Fatal(err)
				}
				rows++
			}
			for _, err := range ds.Executor(split) {
				if err != nil {
					b.Fatal(err)
				}
				rows++
			}
		}
	}
	b.ReportMetric(float64(rows)/b.Elapsed().Seconds(), "rows/s")
}

func BenchmarkImportEarthBench(b *testing.B) {
	path := sharedFile(b, "earth-bench/question.json")
	info, err := os.Stat(path)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(info.Size())
	for b.Loop() {
		if _, err := Import(path, "", ImportOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(248*float64(b.N)/b.Elapsed().Seconds(), "trajectories/s")
}

// sharedFile finds a file of the shared folder: $TERRALOOM_SHARED, or ../shared
// beside the repository.
func sharedFile(tb testing.TB, name string) string {
	tb.Helper()
	dir := os.Getenv("TERRALOOM_SHARED")
	if dir == "" {
		_, here, _, _ := runtime.Caller(0)
		dir = filepath.Join(filepath.Dir(here), "..", "..", "shared")
	}
	path := filepath.Join(dir, filepath.FromSlash(name))
	if _, err := os.Stat(path); err != nil {
		tb.Skipf("needs %s of the shared folder; set TERRALOOM_SHARED", name)
	}
	return path
}
