package catalogue

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

// call is one recorded tool call.
type call struct {
	question, name string
	args           strictjson.Value
}

// recordedCalls returns the reference calls of the public question file, in order.
func recordedCalls(t *testing.T) []call {
	t.Helper()
	root, err := strictjson.Parse(sharedFile(t, "earth-bench/question.json"))
	if err != nil {
		t.Fatal(err)
	}
	var calls []call
	for q := range root.Len() {
		dialogs := root.Index(q).Get("dialogs")
		for i := range dialogs.Len() {
			turns := dialogs.Index(i).Get("tool_calls")
			for k := range turns.Len() {
				f := turns.Index(k).Get("function")
				calls = append(calls, call{root.Key(q), f.Get("name").Text(), f.Get("arguments")})
			}
		}
	}
	return calls
}
