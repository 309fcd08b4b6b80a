package synth

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"terraloom/agent/tools"
	"terraloom/data"
	"terraloom/data/strictjson"
	"terraloom/slots"
)

// realSeeds imports the public question file, or skips.
func realSeeds(t testing.TB) []*data.Trajectory {
	t.Helper()
	root := os.Getenv("TERRALOOM_SHARED")
	if root == "" {
		root = filepath.Join("..", "..", "shared")
	}
	path := filepath.Join(root, "earth-bench", "question.json")
	if _, err := os.Stat(path); err != nil {
		t.Skipf("the public question file is not here (%s); set TERRALOOM_SHARED", path)
	}
	res, err := data.Import(path, "", data.ImportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return res.Trajectories
}

// sampleSeeds are eight small seeds with prepared files.
func sampleSeeds(t testing.TB) []*data.Trajectory {
	t.Helper()
	res, err := data.Import(filepath.Join("..", "data", "testdata", "sample.jsonl"), data.FormatOwn, data.ImportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return res.Trajectories
}

func sampleSeed(t testing.TB, id string) *data.Trajectory {
	t.Helper()
	for _, s := range sampleSeeds(t) {
		if s.ID == id {
			return s
		}
	}
	t.Fatalf("no sample seed %s", id)
	return nil
}

func kit(t testing.TB) *tools.Registry {
	t.Helper()
	reg, err := tools.New(tools.Correct)
	if err != nil {
		t.Fatal(err)
	}
	return reg
}

// parse reads a JSON value that the test wrote.
func parse(t testing.TB, src string) strictjson.Value {
	t.Helper()
	v, err := strictjson.Parse([]byte(src))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// seedOf reads a trajectory that the test wrote.
func seedOf(t testing.TB, src string) *data.Trajectory {
	t.Helper()
	tr, err := data.DecodeTrajectory(parse(t, src))
	if err != nil {
		t.Fatal(err)
	}
	return &tr
}

// row is what a sink was given.
type row struct {
	split    string
	t        *data.Trajectory
	planner  data.PlannerRow
	executor []data.ExecutorRow
}

// text is everything in a row.
func (r *row) text() string {
	var b strings.Builder
	fmt.Fprintln(&b, r.split, r.t.Value().JSON())
	fmt.Fprintln(&b, r.planner.Value().JSON())
	for i := range r.executor {
		fmt.Fprintln(&b, r.executor[i].Value().JSON())
	}
	return b.String()
}

// memory keeps the rows.
type memory struct{ rows []row }

func (m *memory) Add(split string, t *data.Trajectory, planner data.PlannerRow, executor []data.ExecutorRow) error {
	m.rows = append(m.rows, row{split, t, planner, executor})
	return nil
}

// runAll runs the seeds with discovered programs.
func runAll(t testing.TB, seeds []*data.Trajectory, sink Sink, o Options) (*Report, error) {
	t.Helper()
	reg := kit(t)
	return Run(context.Background(), seeds, Discovered{reg}, Shared{reg}, sink, o, nil)
}

// fixedPrograms hands out programs that the test wrote.
type fixedPrograms map[string]*slots.Program

func (f fixedPrograms) For(seed *data.Trajectory) (*slots.Compiled, error) {
	return slots.Compile(f[seed.ID], seed, noTools{})
}

// noTools computes nothing.
type noTools struct{}

func (noTools) Computes(string) bool { return false }
func (noTools) Call(tool string, _ strictjson.Value) (strictjson.Value, error) {
	return strictjson.Value{}, fmt.Errorf("%s is not computed here", tool)
}

// tinySeed is a seed of two steps in folder question7; tiny are its program's
// slots and occurrences.
const tinySeed = `{"id":"tiny","seed_id":"tiny","source":"own","domain":"products",
	"query":"How warm is the scene of 2020-02-05?","inputs":{"data_path":"benchmark/data/question7"},"steps":[
	{"tool":"get_filelist","arguments":{"dir_path":"benchmark/data/question7"},"observation":["scene_2020-02-05.tif"]},
	{"tool":"calc_batch_image_mean","arguments":{"file_list":["benchmark/data/question7/scene_2020-02-05.tif"]},"observation":[291.5]}]}`

// tinyProgram is a program of tinySeed with the given YAML slots; the folder
// number is {sample} where such a slot is given.
func tinyProgram(t testing.TB, slotsYAML string, occurrences ...string) (*data.Trajectory, fixedPrograms) {
	t.Helper()
	seed := seedOf(t, tinySeed)
	src := "program: 1\nseed: tiny\nseed_hash: " + slots.HashSeed(seed) + "\norigin: test\nslots:\n" + slotsYAML + "occurrences:\n"
	for _, o := range occurrences {
		src += "  - " + o + "\n"
	}
	p, err := slots.ParseProgram([]byte(src+"answer: none\n"), "tiny.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return seed, fixedPrograms{"tiny": p}
}

// inFolder are the occurrences of a sample slot in tinySeed.
var inFolder = []string{
	`{at: /inputs/data_path, text: "benchmark/data/question{sample}"}`,
	`{at: /steps/0/arguments/dir_path, text: "benchmark/data/question{sample}"}`,
	`{at: /steps/1/arguments/file_list/0, text: "benchmark/data/question{sample}/scene_2020-02-05.tif"}`,
}

func runTiny(t testing.TB, seed *data.Trajectory, programs Programs, sink Sink, o Options) (*Report, error) {
	t.Helper()
	return Run(context.Background(), []*data.Trajectory{seed}, programs, Shared{noTools{}}, sink, o, nil)
}
