package slots

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"terraloom/data"
	"terraloom/data/strictjson"
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

func sampleSeeds(t testing.TB) []*data.Trajectory {
	t.Helper()
	res, err := data.Import(filepath.Join("..", "data", "testdata", "sample.jsonl"), data.FormatOwn, data.ImportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return res.Trajectories
}

// arithmetic computes mean and difference, as a kit of pure tools does.
type arithmetic struct{}

func (arithmetic) Computes(tool string) bool { return tool == "mean" || tool == "difference" }

func (arithmetic) Call(tool string, args strictjson.Value) (strictjson.Value, error) {
	number := func(v strictjson.Value) float64 {
		f, err := floatArg(v)
		if err != nil {
			panic(err)
		}
		return f
	}
	switch x := args.Get("x"); {
	case tool == "mean" && x.Len() > 0:
		sum := 0.0
		for i := range x.Len() {
			sum += number(x.Index(i))
		}
		return strictjson.Float(sum / float64(x.Len())), nil
	case tool == "difference" && !args.Get("a").IsAbsent():
		return strictjson.Float(max(number(args.Get("a"))-number(args.Get("b")), number(args.Get("b"))-number(args.Get("a")))), nil
	}
	return strictjson.Value{}, fmt.Errorf("%s does not take %s", tool, args.JSON())
}

func parse(t testing.TB, src string) strictjson.Value {
	t.Helper()
	v, err := strictjson.Parse([]byte(src))
	if err != nil {
		t.Fatalf("%v in %s", err, src)
	}
	return v
}

// seedOf makes a seed of the question, its steps written {tool, arguments,
// observation} and further members of the object.
func seedOf(t testing.TB, query, steps, more string) *data.Trajectory {
	t.Helper()
	tr, err := data.DecodeTrajectory(parse(t, fmt.Sprintf(`{"id":"s","seed_id":"s","source":"own","domain":"products","query":%q,"steps":[%s]%s}`, query, steps, more)))
	if err != nil {
		t.Fatal(err)
	}
	return &tr
}

// step writes one step for seedOf.
func step(tool, arguments, observation string) string {
	return fmt.Sprintf(`{"tool":%q,"arguments":%s,"observation":%s}`, tool, arguments, observation)
}

// programOf reads a program of the seed from the YAML of its slots, occurrences
// and so on.
func programOf(t testing.TB, seed *data.Trajectory, rest string) *Program {
	t.Helper()
	p, err := ParseProgram([]byte("program: 1\nseed: "+seed.ID+"\nseed_hash: "+HashSeed(seed)+"\norigin: test\n"+rest), "test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if p.Answer == "" {
		p.Answer = AnswerNone
	}
	return p
}

func compile(t testing.TB, p *Program, seed *data.Trajectory, tools Tools) *Compiled {
	t.Helper()
	c, err := Compile(p, seed, tools)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// discovered compiles the program that analysis finds, which must pass lint.
func discovered(t testing.TB, seed *data.Trajectory, tools Tools) *Compiled {
	t.Helper()
	p, err := Discover(seed, tools)
	if err != nil {
		t.Fatal(err)
	}
	c, err := Check(p, seed, tools)
	if err != nil {
		t.Fatalf("%v\n%s", err, p.YAML())
	}
	return c
}

// sample composes and verifies the k-th instance that works.
func sample(t testing.TB, c *Compiled, tools Tools, k uint64) (*data.Trajectory, Values) {
	t.Helper()
	var last error
	for try := range uint64(60) {
		v := c.Draw(rand.New(rand.NewPCG(k, try)))
		in, err := c.Instance(v, tools)
		if err == nil {
			err = c.Verify(in, v, tools)
		}
		if err == nil {
			return in, v
		}
		last = err
	}
	t.Fatalf("no instance verifies: %v", last)
	return nil, nil
}

// wantError checks that an error is there and says what it must.
func wantError(t testing.TB, name string, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: no error, want one with %q", name, parts)
		return
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%s: error %q, want %q in it", name, err, part)
		}
	}
}

func rngOf(k uint64) *rand.Rand { return rand.New(rand.NewPCG(k, 0)) }

// show prints a slot value.
func show(v any) string {
	if o, ok := v.(strictjson.Value); ok {
		return o.JSON()
	}
	return fmt.Sprint(v)
}
