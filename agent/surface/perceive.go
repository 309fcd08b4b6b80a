package surface

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/draw"
	_ "image/jpeg" // tiles are cut from both formats
	"image/png"
	"path"
	"slices"
	"strings"

	"terraloom/agent/tools"
	"terraloom/data/strictjson"
)

// view is one perception: what perceive's arguments and measure's sources share.
type view struct {
	param   string // where the arguments stand, for messages
	mode    string
	images  []string
	targets strictjson.Value
	tiles   bool
	backend string
	gsd     []float64 // one, or one for each image; none if not given
	goal    string
}

func (s *Surface) perceive(ctx context.Context, args strictjson.Value) (tools.Result, error) {
	v := view{mode: args.Get("mode").Text(), images: strs(args.Get("image_paths")), targets: args.Get("target_groups"),
		tiles: args.Get("view").Text() == "tiles", backend: textOr(args.Get("backend"), "auto"), goal: args.Get("objective").Text()}
	if f, ok := args.Get("gsd").Float(); ok {
		v.gsd = []float64{f}
	} else if v.gsd, _ = floats(args.Get("gsd")); len(v.gsd) > 1 && len(v.gsd) != len(v.images) {
		return tools.Result{}, bad("gsd", "%d values for %d images; give one, or one for each", len(v.gsd), len(v.images))
	}
	switch v.mode {
	case "scene":
		return s.scene(ctx, &v, strs(args.Get("label_space")))
	case "evidence", "document", "measurement":
		return s.ask(ctx, &v, strs(args.Get("landmarks")))
	}
	layers, e, err := s.look(ctx, &v)
	if err != nil {
		return tools.Result{}, err
	}
	return s.layered(layers, e, args.Get("quality_policy").Text() == "strict")
}

// local reports whether the kit's own models are to be asked.
func (s *Surface) local(v *view) (bool, error) {
	have := s.kit.Computes("SM3Det")
	switch {
	case v.backend == "vlm" || v.backend == "auto" && !have && s.vlm != nil:
		if s.vlm == nil {
			return false, unavailable("the backend vlm needs a vision-language model, which this environment lacks; use the backend local")
		}
		return false, nil
	case !have:
		return false, unavailable("there is no perception model in this environment")
	}
	return true, nil
}

func unavailable(msg string) error { return &tools.Error{Kind: tools.ErrUnavailable, Msg: msg} }

// look finds the layers of the modes objects, regions and change.
func (s *Surface) look(ctx context.Context, v *view) ([]*layer, *tools.Evidence, error) {
	local, err := s.local(v)
	if err != nil {
		return nil, nil, err
	}
	e := &tools.Evidence{Family: tools.Perceive}
	e.Model.Complete = true
	var layers []*layer
	images := v.images
	if v.mode == "change" {
		images = images[len(images)-1:] // the layer lies on the later image
	}
	for i, img := range images {
		l := &layer{mode: v.mode, exact: local}
		if err := s.measureImage(v, i, img, l); err != nil {
			return nil, nil, err
		}
		switch {
		case !local:
			err = s.guess(ctx, v, i, l, e)
		case v.mode == "change":
			err = s.changed(ctx, v, l, e)
		default:
			err = s.found(ctx, v, l, e)
		}
		if err != nil {
			return nil, nil, err
		}
		layers = append(layers, l)
	}
	e.Model.Geometry = "approximate"
	if local {
		e.Model.Geometry = "exact"
	}
	e.Used = len(v.images)
	return layers, e, nil
}

// measureImage fills in the image's size.
func (s *Surface) measureImage(v *view, i int, img string, l *layer) error {
	r, err := s.files.OpenRaster(img)
	if err != nil {
		return bad(fmt.Sprintf("%simage_paths/%d", v.param, i), "%v", err)
	}
	defer r.Close()
	l.image, l.width, l.height = r.Name, r.Info.Width, r.Info.Height
	if len(v.gsd) > 0 {
		l.gsd = v.gsd[min(i, len(v.gsd)-1)]
	}
	return nil
}

// overlap from which two boxes of one group are the same object.
const sameObject = 0.5

// found asks the detector for each prompt of each group, and for regions the
// segmenter for the masks of what was found.
func (s *Surface) found(ctx context.Context, v *view, l *layer, e *tools.Evidence) error {
	for i := range v.targets.Len() {
		g := group{id: v.targets.Key(i)}
		for _, prompt := range strs(v.targets.Index(i)) {
			boxes, scores, err := s.detect(ctx, v, l, prompt, e)
			if err != nil {
				return err
			}
			for k, b := range boxes {
				g.instances = append(g.instances, instance{label: prompt, score: scores[k], box: b})
			}
		}
		g.instances = fuse(g.instances)
		for _, n := range g.instances {
			e.Model.Boxes, e.Model.Scores = append(e.Model.Boxes, n.box[:]), append(e.Model.Scores, n.score)
		}
		if v.mode == "regions" && len(g.instances) > 0 {
			boxes := make([]strictjson.Value, len(g.instances))
			for k, n := range g.instances {
				boxes[k] = numbers(n.box[:]...)
			}
			target := fmt.Sprintf("surface/%s_%s_%s.png", stem(l.image), digest(l.image, v.targets.JSON(), v.backend), safe(g.id))
			res, err := s.kit.Invoke(ctx, "SAM2", obj(m("input_image_path", strictjson.Text(l.image)), m("bbox", strictjson.List(boxes...)), m("output_path", strictjson.Text(target))))
			if err != nil {
				return err
			}
			l.weights += " " + res.Evidence.Model.Weights
			g.mask = res.Artefacts[0].Path
			e.Warnings = append(e.Warnings, res.Evidence.Warnings...)
		}
		l.groups = append(l.groups, g)
	}
	return nil
}

// detect finds the boxes of a prompt, in the whole image or tile by tile.
func (s *Surface) detect(ctx context.Context, v *view, l *layer, prompt string, e *tools.Evidence) (boxes [][4]float64, scores []float64, err error) {
	parts := []tile{{l.image, 0, 0}}
	if v.tiles {
		if parts, err = s.tiles(l); err != nil {
			return nil, nil, err
		}
	}
	for _, p := range parts {
		res, err := s.kit.Invoke(ctx, "SM3Det", obj(m("input_image_path", strictjson.Text(p.path)), m("text_prompt", strictjson.Text(prompt))))
		if err != nil {
			return nil, nil, err
		}
		from := &res.Evidence.Model
		l.backend, l.weights = from.Backend, from.Weights
		e.Model.Backend, e.Model.Weights, e.Model.Sensor, e.Model.Resolution = from.Backend, from.Weights, from.Sensor, from.Resolution
		for _, t := range from.Thresholds {
			if !slices.Contains(e.Model.Thresholds, t) {
				e.Model.Thresholds = append(e.Model.Thresholds, t)
			}
		}
		e.Model.Filtered += from.Filtered
		for k, b := range from.Boxes {
			boxes = append(boxes, [4]float64{b[0] + p.x, b[1] + p.y, b[2] + p.x, b[3] + p.y})
			scores = append(scores, from.Scores[k])
		}
	}
	return boxes, scores, nil
}

// fuse keeps the best of boxes that show the same object.
func fuse(list []instance) []instance {
	slices.SortStableFunc(list, func(a, b instance) int {
		switch {
		case a.score > b.score:
			return -1
		case a.score < b.score:
			return 1
		}
		return 0
	})
	var out []instance
	for _, n := range list {
		if !slices.ContainsFunc(out, func(o instance) bool {
			both := shared(&n, &o)
			return both > sameObject*(n.pixels()+o.pixels()-both)
		}) {
			out = append(out, n)
		}
	}
	return out
}

// changed asks the change detector about a pair.
func (s *Surface) changed(ctx context.Context, v *view, l *layer, e *tools.Evidence) error {
	id := "change"
	if v.targets.Len() > 0 {
		id = v.targets.Key(0)
	}
	target := fmt.Sprintf("surface/%s_%s_change.png", stem(l.image), digest(v.images...))
	res, err := s.kit.Invoke(ctx, "ChangeOS", obj(m("pre_image_path", strictjson.Text(v.images[0])), m("post_image_path", strictjson.Text(v.images[1])), m("output_path", strictjson.Text(target))))
	if err != nil {
		return err
	}
	from := &res.Evidence.Model
	l.backend, l.weights = from.Backend, from.Weights
	e.Model.Backend, e.Model.Weights, e.Model.Sensor, e.Model.Resolution, e.Model.Thresholds = from.Backend, from.Weights, from.Sensor, from.Resolution, from.Thresholds
	e.Warnings = append(e.Warnings, res.Evidence.Warnings...)
	l.groups = []group{{id: id, mask: res.Artefacts[0].Path}}
	return nil
}

// layered saves layers and makes the observation.
func (s *Surface) layered(layers []*layer, e *tools.Evidence, strict bool) (tools.Result, error) {
	var paths []string
	var objects []strictjson.Value
	counts := map[string]int{}
	var ids []string
	for i, l := range layers {
		name := fmt.Sprintf("surface/%s_%s_%s.json", stem(l.image), digest(l.value().JSON()), l.mode)
		p, err := s.saveLayer(l, name)
		if err != nil {
			return tools.Result{}, err
		}
		paths = append(paths, p)
		read, err := s.loadLayer("", p)
		if err != nil {
			return tools.Result{}, err
		}
		for _, g := range read.groups {
			if !slices.Contains(ids, g.id) {
				ids = append(ids, g.id)
			}
			counts[g.id] += len(g.instances)
			for k := range g.instances {
				n := &g.instances[k]
				objects = append(objects, obj(m("image_index", strictjson.Int(i+1)), m("target_group_id", strictjson.Text(g.id)), m("label", strictjson.Text(n.label)),
					m("confidence", strictjson.Float(n.score)), m("bbox_xyxy", numbers(n.box[:]...)), m("pixels", strictjson.Float(n.pixels()))))
			}
			node := nodeOf(p+"#"+g.id, l, tools.OK, "")
			node.Output = strictjson.Int(len(g.instances))
			if strict && len(g.instances) == 0 {
				node.Status, node.Reason, e.Model.Complete = tools.Insufficient, "nothing found", false
			}
			e.Nodes = append(e.Nodes, node)
		}
	}
	var missing []string
	members := make([]strictjson.Member, len(ids))
	for i, id := range ids {
		members[i] = m(id, strictjson.Int(counts[id]))
		if counts[id] == 0 {
			missing = append(missing, id)
		}
	}
	if strict && len(missing) > 0 {
		return lacking(*e, "nothing was found of %s; use other words for it, or view=tiles for small objects", strings.Join(missing, ", ")), nil
	}
	return tools.Result{Value: obj(m("counts", obj(members...)), m(layers[0].mode, strictjson.List(objects...)),
		m("geometry", strictjson.Text(e.Model.Geometry)), m("layer_paths", texts(paths...))), Evidence: *e}, nil
}

// lacking is a result without an estimate.
func lacking(e tools.Evidence, format string, args ...any) tools.Result {
	e.Status, e.Reason = tools.Insufficient, fmt.Sprintf(format, args...)
	return tools.Result{Value: strictjson.NullValue(), Evidence: e}
}

// scene chooses one class of label_space for each image.
func (s *Surface) scene(ctx context.Context, v *view, labels []string) (tools.Result, error) {
	local, err := s.local(v)
	if err != nil {
		return tools.Result{}, err
	}
	if !local {
		return s.ask(ctx, v, labels)
	}
	e := tools.Evidence{Family: tools.Perceive, Used: len(v.images)}
	e.Model.Geometry, e.Model.Complete = "none", true
	var predictions []strictjson.Value
	var open []string
	for i, img := range v.images {
		res, err := s.kit.Invoke(ctx, "MSCN", obj(m("input_image_path", strictjson.Text(img))))
		if err != nil {
			return tools.Result{}, err
		}
		from := &res.Evidence.Model
		e.Model.Backend, e.Model.Weights, e.Model.Sensor, e.Model.Resolution, e.Model.Thresholds = from.Backend, from.Weights, from.Sensor, from.Resolution, from.Thresholds
		node := tools.Node{Name: img, Output: res.Value, Valid: 1, Total: 1, Status: tools.OK}
		// The five best classes come best first; the first that may be chosen wins.
		top, chosen := res.Value.Get("top5_predictions"), -1
		for k := range top.Len() {
			at := slices.IndexFunc(labels, func(l string) bool { return plain(l) == plain(top.Index(k).Index(0).Text()) })
			if at >= 0 {
				score, _ := top.Index(k).Index(1).Float()
				e.Model.Scores = append(e.Model.Scores, score)
				predictions = append(predictions, obj(m("image_index", strictjson.Int(i+1)), m("class_name", strictjson.Text(labels[at])), m("confidence", strictjson.Float(score))))
				chosen = at
				break
			}
		}
		if chosen < 0 {
			node.Status, node.Reason = tools.Insufficient, "none of its five best classes is in label_space"
			open = append(open, img)
		}
		e.Nodes = append(e.Nodes, node)
	}
	if len(open) > 0 {
		return lacking(e, "none of the five best classes of %s is in label_space; widen it", strings.Join(open, ", ")), nil
	}
	return tools.Result{Value: obj(m("predictions", strictjson.List(predictions...))), Evidence: e}, nil
}

// plain is a class name without case, blanks and underscores.
func plain(name string) string {
	return strings.Map(func(r rune) rune {
		if r == ' ' || r == '_' || r == '-' {
			return -1
		}
		return r
	}, strings.ToLower(name))
}

// stem is the name of a file without its folder and suffix.
func stem(p string) string { return strings.TrimSuffix(path.Base(p), path.Ext(p)) }

// safe makes an id part of a file name.
func safe(id string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return '_'
	}, id)
}

// tile is a part of an image as a file of its own.
type tile struct {
	path string
	x, y float64 // of its corner in the image
}

const (
	tileSide   = 1024
	maxPicture = 256 << 20
)

// tiles cuts a PNG or JPEG into parts that do not overlap.
func (s *Surface) tiles(l *layer) ([]tile, error) {
	if l.width <= tileSide && l.height <= tileSide {
		return []tile{{l.image, 0, 0}}, nil
	}
	data, err := s.files.Read(l.image, maxPicture)
	if err != nil {
		return nil, bad("image_paths", "%v", err)
	}
	img, _, err := image.Decode(bytes.NewReader(data))
	if err != nil {
		return nil, bad("view", "tiles are cut from PNG and JPEG: %s: %v", l.image, err)
	}
	b := img.Bounds()
	var out []tile
	for y := 0; y < l.height; y += tileSide {
		for x := 0; x < l.width; x += tileSide {
			part := image.NewNRGBA(image.Rect(0, 0, min(tileSide, l.width-x), min(tileSide, l.height-y)))
			draw.Draw(part, part.Bounds(), img, b.Min.Add(image.Pt(x, y)), draw.Src)
			var file bytes.Buffer
			if err := png.Encode(&file, part); err != nil {
				return nil, err
			}
			target, err := s.files.Target(fmt.Sprintf("surface/%s_%s_tile_%d_%d.png", stem(l.image), digest(l.image), x, y))
			if err != nil {
				return nil, err
			}
			if _, err := s.files.WriteFile(target, file.Bytes()); err != nil {
				return nil, err
			}
			out = append(out, tile{target, float64(x), float64(y)})
		}
	}
	return out, nil
}
