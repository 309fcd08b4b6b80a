package reward

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"terraloom/data/strictjson"
)

// realArguments returns the argument objects of the public question file, in
// order and without the empty ones, or skips.
func realArguments(tb testing.TB) []strictjson.Value {
	tb.Helper()
	args, err := loadArguments()
	if err != nil {
		tb.Skipf("set TERRALOOM_SHARED to the folder that holds earth-bench/question.json: %v", err)
	}
	return args
}

var loadArguments = sync.OnceValues(func() ([]strictjson.Value, error) {
	dir := os.Getenv("TERRALOOM_SHARED")
	if dir == "" {
		dir = filepath.Join("..", "..", "shared")
	}
	text, err := os.ReadFile(filepath.Join(dir, "earth-bench", "question.json"))
	if err != nil {
		return nil, err
	}
	root, err := strictjson.Parse(text)
	if err != nil {
		return nil, err
	}
	var args []strictjson.Value
	for q := range root.Len() {
		dialogs := root.Index(q).Get("dialogs")
		for i := range dialogs.Len() {
			calls := dialogs.Index(i).Get("tool_calls")
			for k := range calls.Len() {
				if a := calls.Index(k).Get("function").Get("arguments"); a.Len() > 0 {
					args = append(args, a)
				}
			}
		}
	}
	return args, nil
})

// reference is NewReference for texts that are right.
func reference(tb testing.TB, text string) *Reference {
	tb.Helper()
	ref, err := NewReference(text, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return ref
}

// parsed is strictjson.Parse for texts that are right.
func parsed(tb testing.TB, text string) strictjson.Value {
	tb.Helper()
	v, err := strictjson.Parse([]byte(text))
	if err != nil {
		tb.Fatal(err)
	}
	return v
}
