package surface

import (
	"errors"
	"testing"

	"terraloom/agent/tools"
	"terraloom/agent/tools/workspace"
	"terraloom/data/strictjson"
)

// No arguments make one of the four tools panic or fail without a type.
func FuzzInvoke(f *testing.F) {
	files, err := workspace.Open(f.TempDir(), workspace.Limits{FileBytes: 1 << 20, Pixels: 1 << 12, Memory: 1 << 22, Entries: 100})
	if err != nil {
		f.Fatal(err)
	}
	defer files.Close()
	kit, err := tools.New(tools.Correct, tools.WithWorkspace(files))
	if err != nil {
		f.Fatal(err)
	}
	s, err := New(kit, files, nil)
	if err != nil {
		f.Fatal(err)
	}
	for _, args := range []string{
		`{"image_paths":["a.png"],"mode":"objects","target_groups":{"a":["b"]}}`,
		`{"sources":[{"mode":"extent","extent":[0,0,4,4],"gsd":2}],"spec":{"metric":"area"}}`,
		`{"sources":[{"mode":"extent","extent":[0,0,4,4]},{"mode":"extent","label":"b","extent":[2.5,1,9,3]}],"spec":{"metric":"overlap","subject":"extent","reference":"b","relation":"intersects"}}`,
		`{"nodes":[{"id":"a","op":"mean","params":{"x":[1,2]}},{"id":"b","op":"decision.select","inputs":{"data":"@a"},"params":{"candidates":["1.2 m",3]}}]}`,
		`{"nodes":[{"id":"f","op":"asset.catalog","params":{"paths":["a_2020-01-01.tif"],"start":"2020"}},{"id":"r","op":"raster.batch_reduce","inputs":{"data":"@f"}}],"fields":["value"]}`,
		`{"query":"ndvi","top_k":2}`, `{}`, `[]`, `null`,
	} {
		f.Add(args)
	}
	f.Fuzz(func(t *testing.T, text string) {
		args, err := strictjson.Parse([]byte(text))
		if err != nil {
			return
		}
		for _, name := range []string{Perceive, Measure, Execute, Retrieve} {
			res, err := s.Invoke(t.Context(), name, args)
			var e *tools.Error
			switch {
			case errors.Is(err, tools.ErrInternal):
				t.Fatalf("%s %s: %v", name, text, err)
			case err != nil && !errors.As(err, &e) && !errors.Is(err, tools.ErrBadArguments):
				t.Fatalf("%s %s: an error without a type: %v", name, text, err)
			case err == nil && (res.Evidence.Status == tools.OK) == (res.Value.Kind() == strictjson.Null) && res.Value.Kind() == strictjson.Null:
				t.Fatalf("%s %s: status %s without a value", name, text, res.Evidence.Status)
			}
		}
	})
}
