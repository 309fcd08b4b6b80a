package environment

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"terraloom/agent/tools"
	"terraloom/data"
	"terraloom/data/strictjson"
)

const collections = `
collections:
  ships:
    size: 128
    gsd: 2
    images:
    - {name: harbour.png, classes: [Port], objects: {ship: 2-4}}
    - {name: before.png, after: after.png, classes: [DenseResidential, School], objects: {building: 3}, destroyed: 1}
`

func open(t *testing.T, o Options) *Environment {
	t.Helper()
	c, err := ParseCollections([]byte(collections), "scenes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	e, err := Open(c, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

func session(t *testing.T, e *Environment, name string) *Session {
	t.Helper()
	s, err := e.Session(context.Background(), name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func closed(t *testing.T, s *Session) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(s.Dir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the workspace is left behind (%v)", err)
	}
}

func parse(t *testing.T, text string) strictjson.Value {
	t.Helper()
	v, err := strictjson.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

const (
	download = `{"source":"MODIS/061/MOD13A2","bands":["NDVI"],"bbox":[10,45,10.2,45.2],"time_range":["2021-07-12","2021-07-12"],"interval":"16 days","scale_m":1000,"base_save_name":"Po"}`
	mean     = `{"file_list":["benchmark/out/Po_NDVI_2021-07-12.tif"]}`
)

// An image has the ground sampling distance of its collection unless it has its own.
func TestImagesOfOneFolderDifferInGSD(t *testing.T) {
	c, err := ParseCollections([]byte("collections:\n  two:\n    size: 64\n    gsd: 2\n    images:\n    - {name: A.png, classes: [Meadow]}\n    - {name: B.png, gsd: 0.5, classes: [Meadow]}\n"), "scenes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	drawn, err := c["two"].draw("two", 7)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := drawn[0].scene.Truth.GSD, drawn[1].scene.Truth.GSD; a != 2 || b != 0.5 {
		t.Errorf("%g and %g m per pixel, want 2 and 0.5", a, b)
	}
	if _, err := ParseCollections([]byte("collections:\n  two:\n    size: 64\n    gsd: 2\n    images:\n    - {name: A.png, gsd: -1, classes: [Meadow]}\n"), "scenes.yaml"); err == nil {
		t.Error("a negative distance is drawn")
	}
}

// Sessions see none of each other's files, and give the same observations.
func TestSessionsAreAloneAndAlike(t *testing.T) {
	e := open(t, Options{})
	a, b := session(t, e, "a"), session(t, e, "b")
	defer closed(t, a)
	defer closed(t, b)
	if _, err := a.Call("download_product", parse(t, download)); err != nil {
		t.Fatal(err)
	}
	first, err := a.Call("calc_batch_image_mean", parse(t, mean))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Call("calc_batch_image_mean", parse(t, mean)); !errors.Is(err, tools.ErrBadArguments) {
		t.Errorf("another session reads the file: %v", err)
	}
	c := session(t, e, "c")
	defer closed(t, c)
	if _, err := c.Call("download_product", parse(t, download)); err != nil {
		t.Fatal(err)
	}
	if again, err := c.Call("calc_batch_image_mean", parse(t, mean)); err != nil || !again.Equal(first) {
		t.Errorf("%s and %s (%v)", first.JSON(), again.JSON(), err)
	}
}

// A call that was made is not made again, within a session and after a restart;
// a new call after a restart finds the files of the recorded ones.
func TestRecordedSessionsGoOn(t *testing.T) {
	cache := t.TempDir()
	s := session(t, open(t, Options{Cache: cache, Version: "1"}), "x")
	want, err := s.Call("download_product", parse(t, download))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(s.Dir(), "benchmark", "out", "Po_NDVI_2021-07-12.tif")); err != nil {
		t.Fatal(err)
	}
	if v, err := s.Call("download_product", parse(t, download)); err != nil || !v.Equal(want) {
		t.Errorf("again: %s, %v", v.JSON(), err)
	}
	_, failure := s.Call("calc_batch_image_mean", parse(t, mean)) // the file is gone
	if failure == nil {
		t.Error("the call was answered without its file")
	}
	closed(t, s)

	s = session(t, open(t, Options{Cache: cache, Version: "1"}), "x")
	if v, err := s.Call("download_product", parse(t, download)); err != nil || !v.Equal(want) || len(s.order) != 2 || s.order[0].made {
		t.Errorf("after a restart: %s, %v, %d calls", v.JSON(), err, len(s.order))
	}
	if _, err := s.Call("calc_batch_image_mean", parse(t, mean)); err == nil || err.Error() != failure.Error() {
		t.Errorf("%v; recorded was %v", err, failure)
	}
	if _, err := s.Call("get_percentile_value_from_image", parse(t, `{"image_path":"benchmark/out/Po_NDVI_2021-07-12.tif","percentile":50}`)); err != nil {
		t.Errorf("a new call does not find the files of the recorded ones: %v", err)
	}
	closed(t, s)

	s = session(t, open(t, Options{Cache: cache, Version: "2"}), "x")
	if len(s.order) != 0 {
		t.Error("a record of another version is used")
	}
	closed(t, s)
}

// A damaged record is as good as none.
func TestDamagedRecord(t *testing.T) {
	cache := t.TempDir()
	e := open(t, Options{Cache: cache})
	s := session(t, e, "x")
	if _, err := s.Call("mean", parse(t, `{"x":[1,2]}`)); err != nil {
		t.Fatal(err)
	}
	record := s.record
	closed(t, s)
	if err := os.WriteFile(record, []byte(`[{"tool":`), 0o644); err != nil {
		t.Fatal(err)
	}
	s = session(t, e, "x")
	defer closed(t, s)
	if v, err := s.Call("mean", parse(t, `{"x":[1,2]}`)); err != nil || v.Text() != "1.5" {
		t.Errorf("%s, %v", v.Text(), err)
	}
}

// Folders of scenes are drawn by their names, the same in every session, and the
// models know what they show.
func TestScenesAreDrawnByName(t *testing.T) {
	e := open(t, Options{})
	look := func(folder string) (string, []byte) {
		s := session(t, e, "")
		defer closed(t, s)
		names, err := s.Call("get_filelist", parse(t, `{"dir_path":"`+folder+`"}`))
		if err != nil {
			t.Fatal(err)
		}
		if names.JSON() != `["after.png","before.png","harbour.png"]` {
			t.Errorf("%s: %s", folder, names.JSON())
		}
		boxes, err := s.Call("SM3Det", parse(t, `{"text_prompt":"ship","input_image_path":"`+folder+`/harbour.png"}`))
		if err != nil || boxes.Len() < 1 || boxes.Len() > 5 {
			t.Errorf("%s: %s, %v", folder, boxes.JSON(), err)
		}
		if _, err := s.Call("ChangeOS", parse(t, `{"pre_image_path":"`+folder+`/before.png","post_image_path":"`+folder+`/after.png","output_path":"m.png"}`)); err != nil {
			t.Error(err)
		}
		png, err := os.ReadFile(filepath.Join(s.Dir(), filepath.FromSlash(folder), "harbour.png"))
		if err != nil {
			t.Fatal(err)
		}
		return boxes.JSON(), png
	}
	boxes, png := look("benchmark/data/ships/question7")
	again, same := look("benchmark/data/ships/question7")
	_, other := look("benchmark/data/ships/question8")
	if boxes != again || string(png) != string(same) {
		t.Error("the same folder shows two scenes")
	}
	if string(png) == string(other) {
		t.Error("two folders show one scene")
	}
	s := session(t, e, "")
	defer closed(t, s)
	if _, err := s.Call("get_filelist", parse(t, `{"dir_path":"benchmark/data/planes/question7"}`)); err == nil {
		t.Error("a folder of no collection is there")
	}
}

func TestCollectionsAreChecked(t *testing.T) {
	for _, test := range []struct{ yaml, want string }{
		{`collections: {Ships: {size: 128, gsd: 2}}`, `collection "Ships"`},
		{`collections: {a: {size: 128, gsd: 2, images: [{name: x.png}]}}`, "image x.png: classes is empty"},
		{`collections: {a: {size: 128, gsd: 2, images: [{name: x.png, classes: [Moon]}]}}`, `class "Moon"`},
		{`collections: {a: {size: 128, gsd: 2, images: [{name: x.png, classes: [Port], objects: {ship: many}}]}}`, `many is no number such as 5 and no range such as "4-7"`},
		{`collections: {a: {size: 128, gsd: 2, images: [{name: x.png, classes: [Port], objects: {ship: 7-4}}]}}`, "7-4 is no number"},
		{`collections: {a: {sizes: 128}}`, `unknown key "collections.a.sizes"; did you mean "size"?`},
	} {
		if _, err := ParseCollections([]byte(test.yaml), "scenes.yaml"); err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(strings.TrimPrefix(err.Error(), "bad configuration: "), "scenes.yaml") {
			t.Errorf("%s: %v, want %q", test.yaml, err, test.want)
		}
	}
}

// A cancelled session fails as a whole: its calls say nothing about their arguments.
func TestCancelledSessionIsBroken(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	s, err := open(t, Options{Cache: t.TempDir()}).Session(ctx, "x")
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := s.Call("download_product", parse(t, download)); !errors.Is(err, context.Canceled) {
		t.Errorf("%v; want %v", err, context.Canceled)
	}
	if err := s.Close(); !errors.Is(err, context.Canceled) {
		t.Errorf("Close gives %v; want %v", err, context.Canceled)
	}
	if _, err := os.Stat(s.record); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a broken session is recorded (%v)", err)
	}
}

func TestBundledSceneCollectionsAreWhole(t *testing.T) {
	e, err := OpenBundled(Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if len(e.scenes) == 0 {
		t.Error("no collection")
	}
	if _, err := data.SeedFiles().Open("scenes.yaml"); err != nil {
		t.Error(err)
	}
}
