package run

import (
	"bytes"
	"image"
	"image/jpeg"
	"image/png"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"terraloom/agent/llm"
	"terraloom/agent/tools/workspace"
)

// RS-17: a verifier that can see gets the images of the task, and no other role does.
func TestRS17VerifierSeesImages(t *testing.T) {
	dir := t.TempDir()
	folder := filepath.Join(dir, "benchmark/data/question1")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	picture := image.NewGray(image.Rect(0, 0, 2, 2))
	var a, b bytes.Buffer
	if err := png.Encode(&a, picture); err != nil {
		t.Fatal(err)
	}
	if err := jpeg.Encode(&b, picture, nil); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"a.png": a.Bytes(), "b.JPG": b.Bytes(), "c.tif": a.Bytes(), "d.png": []byte("not a picture"), "e.png": make([]byte, maxImageBytes+1)} {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w, err := workspace.Open(dir, workspace.DefaultLimits)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for _, vision := range []bool{true, false} {
		s := protected(t, called("calc_batch_image_mean", meanArgs), said("x"), llm.Line{Role: "verifier", Reply: `{"decision": "accept"}`}, llm.Line{Role: "answer", Reply: "x"})
		s.agent.Config.Vision = vision
		s.task.Inputs = parse(t, `{"data_path":"benchmark/data/question1","image":"benchmark/data/question1/a.png","note":"ships, none.png"}`)
		e := s.env()
		e.Images = ImagesIn(w)
		o, err := s.agent.Run(t.Context(), s.task, e, s.dir)
		if err != nil {
			t.Fatal(err)
		}
		o.must(t, Answered)
		var want []llm.Image
		if vision {
			want = []llm.Image{{MIME: "image/png", Data: a.Bytes()}, {MIME: "image/jpeg", Data: b.Bytes()}}
		}
		for _, r := range s.script.Asked("") {
			for _, m := range r.Messages {
				if shown := r.Role == "verifier" && m.Role == "user"; shown && !reflect.DeepEqual(m.Images, want) || !shown && m.Images != nil {
					t.Errorf("vision %v: a %s message of the %s has %d images", vision, m.Role, r.Role, len(m.Images))
				}
			}
		}
		if len(s.script.Asked("verifier")) != 1 {
			t.Errorf("%d verifications", len(s.script.Asked("verifier")))
		}
	}
}
