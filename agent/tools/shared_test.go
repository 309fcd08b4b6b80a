package tools

import (
	"os"
	"path/filepath"
	"testing"

	"terraloom/data/strictjson"
)

// sharedFile reads a file of the shared folder ($TERRALOOM_SHARED, else ../shared
// beside the repository) or skips the test.
func sharedFile(t *testing.T, name string) []byte {
	t.Helper()
	dir := os.Getenv("TERRALOOM_SHARED")
	if dir == "" {
		root, err := os.Getwd()
		if err != nil {
			t.Fatal(err)
		}
		for ; ; root = filepath.Dir(root) {
			if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
				break
			}
			if root == filepath.Dir(root) {
				t.Fatal("no go.mod above the test")
			}
		}
		dir = filepath.Join(root, "..", "shared")
	}
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Skipf("set TERRALOOM_SHARED to the folder that holds %s: %v", name, err)
	}
	return data
}

func mustParse(t testing.TB, s string) strictjson.Value {
	t.Helper()
	v, err := strictjson.Parse([]byte(s))
	if err != nil {
		t.Fatalf("%s: %v", s, err)
	}
	return v
}

func mustNew(t testing.TB, compat Compat) *Registry {
	t.Helper()
	r, err := New(compat)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
