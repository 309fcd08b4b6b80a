package workspace

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"terraloom/data/spelling"
)

// nearest tells what lies where a missing file was looked for: the names most
// like it, or the nearest folder that exists.
func (w *Workspace) nearest(rel string) string {
	dir, base := path.Dir(rel), path.Base(rel)
	for _, d := range []string{dir, target(dir)} {
		names, err := w.names(d)
		if err != nil {
			continue
		}
		if len(names) == 0 {
			return fmt.Sprintf("; the folder %s is empty", d)
		}
		const look = 2000 // names compared; a folder of a million gives no hint worth its time
		names = names[:min(len(names), look)]
		slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(unlike(a, base), unlike(b, base)) })
		return fmt.Sprintf("; the folder %s has %s", d, strings.Join(quoted(names[:min(len(names), 3)]), ", "))
	}
	for d := dir; ; d = path.Dir(d) {
		if names, err := w.names(d); err == nil {
			return fmt.Sprintf("; of its path only %s exists, with %s", d, strings.Join(quoted(names[:min(len(names), 5)]), ", "))
		}
		if d == "." {
			return ""
		}
	}
}

func quoted(names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = fmt.Sprintf("%q", n)
	}
	return out
}

// unlike is the edit distance of two names, over at most their first 64 bytes.
func unlike(a, b string) int {
	a, b = a[:min(len(a), 64)], b[:min(len(b), 64)]
	return spelling.Distance(a, b)
}
