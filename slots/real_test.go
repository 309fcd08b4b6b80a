package slots

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"terraloom/data"
	"terraloom/data/strictjson"
)

// benchmark imports the real question file, or skips.
func benchmark(t testing.TB) []*data.Trajectory {
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

// noTools computes nothing: every observation is the program's.
type noTools struct{}

func (noTools) Computes(string) bool { return false }
func (noTools) Call(tool string, _ strictjson.Value) (strictjson.Value, error) {
	return strictjson.Value{}, fmt.Errorf("%s is not computed here", tool)
}

func TestOriginsOfRealArguments(t *testing.T) {
	count := map[Origin]int{}
	total := 0
	for _, seed := range benchmark(t) {
		for _, l := range Analyze(seed).Leaves {
			count[l.Origin]++
			total++
		}
	}
	for _, o := range Origins {
		t.Logf("%-14s %6d", o, count[o])
	}
	if total != 18294 {
		t.Errorf("%d argument leaves, want 18294", total)
	}
}

func TestEveryRealSeedGetsAProgram(t *testing.T) {
	bad, refused, made := 0, map[string]int{}, 0
	for _, seed := range benchmark(t) {
		p, err := Discover(seed, noTools{})
		if err != nil {
			t.Errorf("%s: %v", seed.ID, err)
			continue
		}
		c, err := Compile(p, seed, noTools{})
		if err != nil {
			bad++
			if bad < 15 {
				t.Errorf("%s: %v", seed.ID, err)
			}
			continue
		}
		v, err := c.SeedValues()
		if err != nil {
			t.Fatal(err)
		}
		same, err := c.instance(v, noTools{}, false)
		if err != nil {
			t.Errorf("%s: %v", seed.ID, err)
			continue
		}
		for i := range same.Steps {
			if !same.Steps[i].Arguments.Equal(seed.Steps[i].Arguments) {
				t.Errorf("%s step %d\n%.300s\n%.300s", seed.ID, i, same.Steps[i].Arguments.JSON(), seed.Steps[i].Arguments.JSON())
			}
			if !same.Steps[i].Observation.Equal(seed.Steps[i].Observation) {
				t.Errorf("%s step %d\n%.300s\n%.300s", seed.ID, i, same.Steps[i].Observation.JSON(), seed.Steps[i].Observation.JSON())
			}
		}
		if same.Query != seed.Query {
			t.Errorf("%s\n%s\n%s", seed.ID, same.Query, seed.Query)
		}
		for k := range 5 {
			rng := rand.New(rand.NewPCG(uint64(k), 1))
			v := c.Draw(rng)
			in, err := c.Instance(v, noTools{})
			if err == nil {
				err = c.Verify(in, v, noTools{})
			}
			made++
			if err != nil {
				refused[seed.ID]++
				if refused[seed.ID] == 1 {
					t.Logf("refused: %v", err)
				}
				continue
			}
			if k == 0 && os.Getenv("SHOW") != "" {
				t.Logf("%s\n  %s\n  %s\n  %s | %s", seed.ID, seed.Query, in.Query, seed.Answer.JSON(), in.Answer.JSON())
			}
		}
	}
	t.Logf("%d made, refused for %d seeds", made, len(refused))
}
