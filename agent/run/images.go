package run

import (
	"net/http"
	"path"
	"slices"
	"strings"

	"terraloom/agent/llm"
	"terraloom/agent/tools/workspace"
	"terraloom/data/strictjson"
)

// Bounds of what a verifier is shown.
const (
	maxImages     = 8
	maxImageBytes = 8 << 20
)

// ImagesIn finds the images I of a task (Eq. R10) in a workspace: the PNG and JPEG
// files that its inputs name or that lie in a folder which they name, in this
// order, at most 8 of at most 8 MiB each. Other rasters are no pictures to a
// model.
func ImagesIn(w *workspace.Workspace) func(inputs strictjson.Value) []llm.Image {
	return func(inputs strictjson.Value) []llm.Image {
		var files []string
		inputs.Leaves("", func(_ string, leaf strictjson.Value) {
			if leaf.Kind() != strictjson.String || leaf.Text() == "" {
				return
			}
			names, err := w.List(leaf.Text())
			if err != nil { // no folder
				files = append(files, leaf.Text())
			}
			for _, name := range names {
				files = append(files, path.Join(leaf.Text(), name))
			}
		})
		var out []llm.Image
		for i, p := range files {
			if len(out) == maxImages || slices.Contains(files[:i], p) || !slices.Contains([]string{".png", ".jpg", ".jpeg"}, strings.ToLower(path.Ext(p))) {
				continue
			}
			content, err := w.Read(p, maxImageBytes)
			if mime := http.DetectContentType(content); err == nil && strings.HasPrefix(mime, "image/") {
				out = append(out, llm.Image{MIME: mime, Data: content})
			}
		}
		return out
	}
}
