package surface

import (
	"context"
	"image"
	"image/png"
	"os"
	"strings"
	"testing"

	"terraloom/agent/tools"
	"terraloom/agent/tools/perception"
)

func writePNG(t *testing.T, name string, w, h int) {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := png.Encode(f, image.NewGray(image.Rect(0, 0, w, h))); err != nil {
		t.Fatal(err)
	}
}

// saying is a model with one answer; it keeps the last prompt.
func saying(answer string, asked *string) VLM {
	return func(_ context.Context, prompt string, images []perception.Image) (string, error) {
		if asked != nil {
			*asked = prompt
		}
		if len(images) == 0 || len(images[0].Data) == 0 {
			return "", os.ErrInvalid
		}
		return answer, nil
	}
}

func TestModesOfALanguageModel(t *testing.T) {
	const quality = `"quality":{"visibility":"clear","readability":"limited","issues":[]}`
	for _, c := range []struct{ args, answer, want string }{
		{`{"mode":"evidence","image_paths":["img.tif"],"objective":"colour"}`, `{"observations":[{"claim":"red","view_index":1,"confidence":0.8}],` + quality + `}`, "ok"},
		{`{"mode":"evidence","image_paths":["img.tif"]}`, `{"observations":[],` + quality + `,"answer":"B"}`, "must not answer"},
		{`{"mode":"evidence","image_paths":["img.tif"]}`, `{"observations":[{"claim":"red","confidence":1.8}],` + quality + `}`, "expected 0 to 1"},
		{`{"mode":"evidence","image_paths":["img.tif"]}`, `{"observations":[],"quality":{"visibility":"fine","readability":"clear"}}`, "quality.visibility"},
		{`{"mode":"evidence","image_paths":["img.tif"]}`, `{"observations":[],"quality":{"visibility":"unusable","readability":"clear","issues":["haze"]}}`, "insufficient"},
		{`{"mode":"document","image_paths":["img.tif"]}`, `{"text":"km 0 5 10","structure":"scale","confidence":0.9}`, "ok"},
		{`{"mode":"document","image_paths":["img.tif"]}`, `{"text":" ","confidence":0.9}`, "insufficient"},
		{`{"mode":"document","image_paths":["img.tif"]}`, `It says km`, "no JSON object"},
		{`{"mode":"measurement","image_paths":["img.tif"],"landmarks":["tower","gate"]}`,
			`{"measurement":{"point_a":{"label":"tower","xy":[1,2]},"point_b":{"label":"gate","xy":[9,2]},"scale_bar":{"start_xy":[0,50],"end_xy":[20,50],"ground_length":100,"unit":"m"},"confidence":0.7}}`, "ok"},
		{`{"mode":"measurement","image_paths":["img.tif"],"landmarks":["tower","gate"]}`,
			`{"measurement":{"point_a":{"label":"tower","xy":[1,2]},"confidence":0.7}}`, "insufficient"},
		{`{"mode":"scene","image_paths":["img.tif"],"backend":"vlm","label_space":["port","beach"]}`, `{"predictions":[{"image_index":1,"class_name":"port","confidence":0.7}]}`, "ok"},
		{`{"mode":"scene","image_paths":["img.tif"],"backend":"vlm","label_space":["port","beach"]}`, `{"predictions":[{"image_index":1,"class_name":"A","confidence":0.7}]}`, "not in label_space"},
		{`{"mode":"scene","image_paths":["img.tif","img.tif"],"backend":"vlm","label_space":["port","beach"]}`, `{"predictions":[{"image_index":1,"class_name":"port","confidence":0.7}]}`, "1 predictions for 2 images"},
		{`{"mode":"objects","image_paths":["img.tif"],"backend":"vlm","target_groups":{"a":["ship"]}}`, `{"objects":[{"target_group_id":"a","label":"ship","confidence":0.5,"bbox_xyxy":[1,1,5,5]}]}`, "ok"},
		{`{"mode":"objects","image_paths":["img.tif"],"backend":"vlm","target_groups":{"a":["ship"]}}`, `{"objects":[{"target_group_id":"a","label":"ship","confidence":0.5,"bbox_xyxy":[1,1,500,5]}]}`, "in an image of 100×60"},
		{`{"mode":"objects","image_paths":["img.tif"],"backend":"vlm","target_groups":{"a":["ship"]}}`, `{"objects":[{"target_group_id":"b","label":"ship","confidence":0.5,"bbox_xyxy":[1,1,5,5]}]}`, "of the target"},
	} {
		var asked string
		l := newLab(t, nil, saying(c.answer, &asked))
		res, err := l.invoke("perceive", c.args)
		got := string(res.Evidence.Status)
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%s with %s: %s, want %s", c.args, c.answer, got, c.want)
		}
		if !strings.Contains(asked, "one JSON object") {
			t.Errorf("the prompt is %q", asked)
		}
	}
}

// A box that a language model guessed is not measured; the same box of a local
// model is.
func TestApproximateGeometryIsRefused(t *testing.T) {
	const box = `{"objects":[{"target_group_id":"a","label":"ship","confidence":0.5,"bbox_xyxy":[1,1,5,5]}]}`
	l := newLab(t, &eye{boxes: map[string][]perception.Box{"ship": {{1, 1, 5, 5}}}}, saying(box, nil))
	for backend, want := range map[string]tools.Status{"vlm": tools.Insufficient, "local": tools.OK} {
		args := `{"mode":"objects","image_paths":["img.tif"],"gsd":1,"target_groups":{"a":["ship"]},"backend":"` + backend + `"}`
		layer := l.call("perceive", args).Get("layer_paths").Index(0).Text()
		for _, source := range []string{args, `{"mode":"objects","gsd":1,"layer_path":"` + layer + `"}`} {
			res, err := l.invoke("measure", `{"sources":[`+source+`],"spec":{"metric":"area"}}`)
			if err != nil || res.Evidence.Status != want || want == tools.OK && res.Value.JSON() != "16.0" {
				t.Errorf("%s: %v %s %s %s", backend, err, res.Evidence.Status, res.Value.JSON(), res.Evidence.Reason)
			}
		}
	}
}
