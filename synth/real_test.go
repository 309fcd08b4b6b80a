package synth

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"terraloom/agent/tools"
	"terraloom/data"
)

// realSeeds imports the real question file, or skips.
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

func TestRealRun(t *testing.T) {
	seeds := realSeeds(t)
	reg, err := tools.New(tools.Correct)
	if err != nil {
		t.Fatal(err)
	}
	w, err := data.CreateDataset(filepath.Join(t.TempDir(), "ds"), data.WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	o := Default()
	o.Workers = runtime.GOMAXPROCS(0)
	started := time.Now()
	rep, err := Run(context.Background(), seeds, Discovered{reg}, reg, w, o, nil)
	t.Logf("%s", time.Since(started))
	if err != nil {
		t.Error(err)
	}
	if err := w.Finish(rep.Manifest(o, nil)); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s %+v", time.Since(started), rep.Split)
	for _, r := range rep.Refusals {
		t.Logf("%+v", r)
	}
	r := *rep
	r.Refusals = nil
	t.Logf("%+v", r)
}
