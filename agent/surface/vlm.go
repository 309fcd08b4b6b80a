package surface

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"terraloom/agent/tools"
	"terraloom/agent/tools/perception"
	"terraloom/data/strictjson"
)

// prompts are what a vision-language model is asked for in each mode (Appendix
// B.4 gives the keys of the answers).
var prompts = map[string]string{
	"evidence": `List what can be seen that bears on the objective. Do not choose an answer.
Keys: evidence_kind (scene, diagram, plot, map, document, geometry or change), observations (a list of {"claim", "view_index", "confidence" from 0 to 1}), visible_text, measurements, spatial_relations,
quality {"visibility": clear, limited or unusable, "readability": clear, limited or unreadable, "issues": a list}, missing_evidence, uncertainty. Read values of a plot from at least two of its tick marks.`,
	"document": `Write down the text, axes, legends and labels that can be read, and how they are arranged. Do not interpret them.
Keys: text, structure, confidence (0 to 1).`,
	"measurement": `Find the two landmarks and one scale bar in the same image, in pixels from the upper left corner. Mark a labelled feature itself, not its label; mark the ends of the bar, not its text.
Keys: measurement {"point_a": {"label", "xy"}, "point_b": {"label", "xy"}, "scale_bar": {"start_xy", "end_xy", "ground_length", "unit"}, "confidence" from 0 to 1}. Do not compute a distance.`,
	"scene":   `Give each image one class of the list. Keys: predictions, a list with exactly one {"image_index" from 1, "class_name", "confidence" from 0 to 1} for each image.`,
	"objects": `Mark each instance of the targets once. Keys: objects, a list of {"target_group_id", "label", "confidence" from 0 to 1, "bbox_xyxy": [x1, y1, x2, y2] in pixels of the image}.`,
	"regions": `Mark each region of the targets once. Keys: regions, a list of {"target_group_id", "label", "confidence" from 0 to 1, "bbox_xyxy": [x1, y1, x2, y2] in pixels of the image}.`,
	"change":  `Mark what changed from the first image to the second. Keys: change, a list of {"target_group_id", "label", "confidence" from 0 to 1, "bbox_xyxy": [x1, y1, x2, y2] in pixels of the second image}.`,
}

// prompt is the question to the model.
func prompt(v *view, extra ...string) string {
	var b strings.Builder
	b.WriteString("Look at the remote-sensing images and report only what they show. Reply with one JSON object and nothing else.\n")
	if v.goal != "" {
		fmt.Fprintf(&b, "Objective: %s\n", v.goal)
	}
	if len(v.gsd) > 0 {
		fmt.Fprintf(&b, "Metres per pixel: %s\n", numbers(v.gsd...).JSON())
	}
	if v.targets.Len() > 0 {
		fmt.Fprintf(&b, "Targets: %s\n", v.targets.JSON())
	}
	for _, e := range extra {
		b.WriteString(e + "\n")
	}
	b.WriteString(prompts[v.mode])
	return b.String()
}

// consult asks the model about images and reads its answer as an object.
func (s *Surface) consult(ctx context.Context, v *view, images []string, extra ...string) (strictjson.Value, error) {
	var pictures []perception.Image
	for i, p := range images {
		r, err := s.files.OpenRaster(p)
		if err != nil {
			return strictjson.Value{}, bad(fmt.Sprintf("%simage_paths/%d", v.param, i), "%v", err)
		}
		name, w, h := r.Name, r.Info.Width, r.Info.Height
		r.Close()
		data, err := s.files.Read(p, maxPicture)
		if err != nil {
			return strictjson.Value{}, bad(fmt.Sprintf("%simage_paths/%d", v.param, i), "%v", err)
		}
		pictures = append(pictures, perception.Image{Path: name, Data: data, Width: w, Height: h})
	}
	text, err := s.vlm(ctx, prompt(v, extra...), pictures)
	if err != nil {
		return strictjson.Value{}, err
	}
	answer, err := strictjson.Parse([]byte(text))
	if err != nil || answer.Kind() != strictjson.Object {
		return strictjson.Value{}, &tools.Error{Kind: tools.ErrEnvironment, Cause: perception.ErrReply, Msg: fmt.Sprintf("the model's reply is no JSON object: %.200q", text)}
	}
	return answer, nil
}

// ask answers the modes whose observation is the model's own object.
func (s *Surface) ask(ctx context.Context, v *view, words []string) (tools.Result, error) {
	if s.vlm == nil {
		return tools.Result{}, unavailable("the mode " + v.mode + " needs a vision-language model, which this environment lacks; use objects, regions, scene or change")
	}
	e := tools.Evidence{Family: tools.Perceive, Used: len(v.images)}
	e.Model = tools.ModelEvidence{Backend: "vlm", Weights: "vision-language model", Geometry: "none", Complete: true}
	for _, p := range v.images {
		e.Nodes = append(e.Nodes, tools.Node{Name: p, Output: strictjson.NullValue(), Valid: 1, Total: 1, Status: tools.OK})
	}
	var extra []string
	switch v.mode {
	case "scene":
		extra = []string{"Classes: " + texts(words...).JSON()}
	case "measurement":
		e.Model.Geometry = "approximate"
		extra = []string{"Landmark A: " + words[0], "Landmark B: " + words[1]}
	}
	answer, err := s.consult(ctx, v, v.images, extra...)
	if err != nil {
		return tools.Result{}, err
	}
	reason, err := review(v, words, answer, &e)
	if err != nil {
		return tools.Result{}, &tools.Error{Kind: tools.ErrEnvironment, Cause: perception.ErrReply, Msg: "the model's reply breaks the contract: " + err.Error()}
	}
	if reason != "" {
		for i := range e.Nodes {
			e.Nodes[i].Status, e.Nodes[i].Reason = tools.Insufficient, reason
		}
		return lacking(e, "%s", reason), nil
	}
	return tools.Result{Value: answer, Evidence: e}, nil
}

// review checks an answer. reason says why it is no sufficient observation.
func review(v *view, words []string, a strictjson.Value, e *tools.Evidence) (reason string, err error) {
	score := func(at string, v strictjson.Value) error {
		f, ok := v.Float()
		if !ok || f < 0 || f > 1 {
			return fmt.Errorf("%s is %s, expected 0 to 1", at, v.JSON())
		}
		e.Model.Scores = append(e.Model.Scores, f)
		return nil
	}
	switch v.mode {
	case "evidence":
		for _, key := range []string{"answer", "answer_label", "preferred_option"} {
			if !a.Get(key).IsAbsent() {
				return "", fmt.Errorf("it has the key %q, but must not answer", key)
			}
		}
		q := a.Get("quality")
		for key, known := range map[string][]string{"visibility": {"clear", "limited", "unusable"}, "readability": {"clear", "limited", "unreadable"}} {
			if !slices.Contains(known, q.Get(key).Text()) {
				return "", fmt.Errorf("quality.%s is %s, expected %s", key, q.Get(key).JSON(), strings.Join(known, ", "))
			}
		}
		if a.Get("observations").Kind() != strictjson.Array {
			return "", fmt.Errorf("observations is no list")
		}
		for i := range a.Get("observations").Len() {
			if err := score(fmt.Sprintf("observations/%d/confidence", i), a.Get("observations").Index(i).Get("confidence")); err != nil {
				return "", err
			}
		}
		if q.Get("visibility").Text() == "unusable" {
			return "the image is unusable: " + q.Get("issues").JSON(), nil
		}
	case "document":
		if a.Get("text").IsAbsent() {
			return "", fmt.Errorf("it has no text")
		}
		if err := score("confidence", a.Get("confidence")); err != nil {
			return "", err
		}
		if a.Get("text").Kind() == strictjson.String && strings.TrimSpace(a.Get("text").Text()) == "" {
			return "no text can be read", nil
		}
	case "measurement":
		ms := a.Get("measurement")
		if err := score("measurement.confidence", ms.Get("confidence")); err != nil {
			return "", err
		}
		for _, at := range []strictjson.Value{ms.Get("point_a").Get("xy"), ms.Get("point_b").Get("xy"), ms.Get("scale_bar").Get("start_xy"), ms.Get("scale_bar").Get("end_xy")} {
			if xy, ok := floats(at); !ok || len(xy) != 2 {
				return "two landmarks and a scale bar with two ends are needed; not all were found", nil
			}
		}
		if f, ok := ms.Get("scale_bar").Get("ground_length").Float(); !ok || f <= 0 {
			return "the length of the scale bar cannot be read", nil
		}
	case "scene":
		list := a.Get("predictions")
		seen := map[int]bool{}
		for i := range list.Len() {
			p := list.Index(i)
			at, err := strconv.Atoi(p.Get("image_index").Text())
			if err != nil || at < 1 || at > len(v.images) || seen[at] {
				return "", fmt.Errorf("prediction %d is for image %s of %d, or for one that has a prediction already", i, p.Get("image_index").JSON(), len(v.images))
			}
			seen[at] = true
			if !slices.Contains(words, p.Get("class_name").Text()) {
				return "", fmt.Errorf("class %q is not in label_space", p.Get("class_name").Text())
			}
			if err := score(fmt.Sprintf("predictions/%d/confidence", i), p.Get("confidence")); err != nil {
				return "", err
			}
		}
		if len(seen) != len(v.images) {
			return "", fmt.Errorf("%d predictions for %d images", len(seen), len(v.images))
		}
	}
	return "", nil
}

// guess takes boxes from the model; they are approximate.
func (s *Surface) guess(ctx context.Context, v *view, i int, l *layer, e *tools.Evidence) error {
	images := []string{v.images[i]}
	if v.mode == "change" {
		images = v.images
	}
	answer, err := s.consult(ctx, v, images)
	if err != nil {
		return err
	}
	l.backend, l.weights = "vlm", "vision-language model"
	e.Model.Backend, e.Model.Weights = l.backend, l.weights
	for k := range v.targets.Len() {
		l.groups = append(l.groups, group{id: v.targets.Key(k)})
	}
	if len(l.groups) == 0 {
		l.groups = []group{{id: "change"}}
	}
	list := answer.Get(v.mode)
	broken := func(format string, args ...any) error {
		return &tools.Error{Kind: tools.ErrEnvironment, Cause: perception.ErrReply, Msg: "the model's reply breaks the contract: " + fmt.Sprintf(format, args...)}
	}
	if list.Kind() != strictjson.Array {
		return broken("it has no list %q", v.mode)
	}
	for k := range list.Len() {
		item := list.Index(k)
		box, ok := floats(item.Get("bbox_xyxy"))
		score, okScore := item.Get("confidence").Float()
		g := slices.IndexFunc(l.groups, func(g group) bool { return g.id == item.Get("target_group_id").Text() })
		if g < 0 && len(l.groups) == 1 && item.Get("target_group_id").IsAbsent() {
			g = 0
		}
		switch {
		case g < 0:
			return broken("item %d is of the target %s", k, item.Get("target_group_id").JSON())
		case !okScore || score < 0 || score > 1:
			return broken("item %d has the confidence %s", k, item.Get("confidence").JSON())
		case !ok || len(box) != 4 || !(box[0] >= 0 && box[1] >= 0 && box[0] < box[2] && box[1] < box[3] && box[2] <= float64(l.width) && box[3] <= float64(l.height)):
			return broken("item %d has the box %s in an image of %d×%d pixels", k, item.Get("bbox_xyxy").JSON(), l.width, l.height)
		}
		l.groups[g].instances = append(l.groups[g].instances, instance{label: item.Get("label").Text(), score: score, box: [4]float64(box)})
		e.Model.Boxes, e.Model.Scores = append(e.Model.Boxes, box), append(e.Model.Scores, score)
	}
	return nil
}
