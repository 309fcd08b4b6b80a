package seeds

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"terraloom/agent/environment"
	"terraloom/data"
)

// bundledSpec reads the specifications beside the bundled seeds.
func bundledSpec(t testing.TB) *Spec {
	t.Helper()
	spec, err := Load(data.SeedFiles())
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

func openEnvironment(t testing.TB, spec *Spec) *environment.Environment {
	t.Helper()
	env, err := spec.Environment(environment.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Close(); err != nil {
			t.Error(err)
		}
	})
	return env
}

// bundled are the seeds by id.
func bundled(t testing.TB, regime string) map[string]*data.Trajectory {
	t.Helper()
	res, err := data.Seeds(regime)
	if err != nil {
		t.Fatal(err)
	}
	byID := map[string]*data.Trajectory{}
	for _, s := range res.Trajectories {
		if byID[s.ID] != nil {
			t.Fatalf("%s is there twice", s.ID)
		}
		byID[s.ID] = s
	}
	return byID
}

// core is what the tests need of a task core of the public question file.
type core struct {
	Dialogs []struct {
		Content json.RawMessage `json:"content"`
		Role    string          `json:"role"`
		Calls   []struct {
			Function struct {
				Name string `json:"name"`
			} `json:"function"`
		} `json:"tool_calls"`
	} `json:"dialogs"`
	Evaluation []struct {
		Question string `json:"question"`
	} `json:"evaluation"`
}

// publicCores is the public question file, or the test is skipped.
func publicCores(t testing.TB) map[string]core {
	t.Helper()
	root := os.Getenv("TERRALOOM_SHARED")
	if root == "" {
		root = filepath.Join("..", "..", "..", "shared")
	}
	path := filepath.Join(root, "earth-bench", "question.json")
	src, err := os.ReadFile(path)
	if err != nil {
		t.Skipf("the public question file is not here (%s); set TERRALOOM_SHARED", path)
	}
	var cores map[string]core
	if err := json.Unmarshal(src, &cores); err != nil {
		t.Fatal(err)
	}
	return cores
}
