package tools

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"terraloom/agent/raster"
	"terraloom/agent/tools/perception"
	"terraloom/data/strictjson"
)

// Perceiver is what the perception models run on.
type Perceiver = perception.Perceiver

// maxImageBytes bounds a picture that is handed to a model.
const maxImageBytes = 256 << 20

// modelFuncs are the perception models.
var modelFuncs = map[string]Func{
	"MSCN":        classify,
	"RemoteCLIP":  classify,
	"Strip_R_CNN": detect,
	"SM3Det":      detect,
	"RemoteSAM":   ground,
	"InstructSAM": countObjects,
	"SAM2":        segment,
	"ChangeOS":    buildingChange,
}

// picture reads an image argument for a model.
func (c *Call) picture(param string) (perception.Image, error) {
	p := c.text(param)
	r, err := c.open(param, p)
	if err != nil {
		return perception.Image{}, err
	}
	defer r.Close()
	data, err := c.env.workspace.Read(p, maxImageBytes)
	if err != nil {
		return perception.Image{}, badInput(param, err)
	}
	return perception.Image{Path: r.Name, Data: data, Width: r.Info.Width, Height: r.Info.Height}, nil
}

// ask puts a request to the perceiver and makes the evidence of its reply.
func (c *Call) ask(task perception.Task, params []string, r perception.Request) (perception.Reply, Evidence, error) {
	r.Model, r.Task = c.tool.Name, task
	for _, p := range params {
		img, err := c.picture(p)
		if err != nil {
			return perception.Reply{}, Evidence{}, err
		}
		r.Images = append(r.Images, img)
	}
	reply, err := c.env.perceiver.Perceive(c.Context, r)
	switch {
	case errors.Is(err, perception.ErrUnknownImage):
		return reply, Evidence{}, badInput(params[0], err)
	case err != nil:
		return reply, Evidence{}, err
	}
	if err := r.Check(&reply); err != nil {
		return reply, Evidence{}, err
	}
	e := Evidence{Family: Perceive, Used: len(r.Images)}
	m := &e.Model
	m.Backend, m.Weights, m.Sensor, m.Resolution = c.env.perceiver.Backend(), reply.Weights, reply.Sensor, reply.Resolution
	for _, name := range slices.Sorted(maps.Keys(reply.Thresholds)) {
		m.Thresholds = append(m.Thresholds, Threshold{name, reply.Thresholds[name]})
	}
	for _, b := range reply.Boxes {
		m.Boxes = append(m.Boxes, b[:])
	}
	m.Scores, m.Filtered, m.Complete = reply.Scores, reply.Filtered, true
	switch m.Geometry = "approximate"; {
	case len(reply.Boxes) == 0 && reply.Mask == nil:
		m.Geometry = "none"
	case reply.Exact:
		m.Geometry = "exact"
	}
	for _, img := range r.Images {
		e.Nodes = append(e.Nodes, Node{Name: img.Path, Output: strictjson.NullValue(), Valid: img.Width * img.Height, Total: img.Width * img.Height, Status: OK})
	}
	return reply, e, nil
}

// classify is {predicted_class, confidence, top5_predictions}.
func classify(c *Call) (Result, error) {
	reply, e, err := c.ask(perception.Classify, []string{"input_image_path"}, perception.Request{})
	if err != nil {
		return Result{}, err
	}
	var top []strictjson.Value
	for _, l := range reply.Labels[:min(len(reply.Labels), 5)] {
		top = append(top, strictjson.List(strictjson.Text(l.Name), strictjson.Float(l.Score)))
		e.Model.Scores = append(e.Model.Scores, l.Score)
	}
	best := reply.Labels[0]
	return Result{Value: object(member("predicted_class", strictjson.Text(best.Name)), member("confidence", strictjson.Float(best.Score)),
		member("top5_predictions", strictjson.List(top...))), Evidence: e}, nil
}

// detect is the list of the boxes of all objects of a class.
func detect(c *Call) (Result, error) {
	reply, e, err := c.ask(perception.Detect, []string{"input_image_path"}, perception.Request{Prompt: c.text("text_prompt")})
	if err != nil {
		return Result{}, err
	}
	boxes := make([]strictjson.Value, len(reply.Boxes))
	for i, b := range reply.Boxes {
		boxes[i] = floats(b[:])
	}
	return Result{Value: strictjson.List(boxes...), Evidence: e}, nil
}

// ground is the box, in whole pixels, of the object that a sentence describes.
func ground(c *Call) (Result, error) {
	reply, e, err := c.ask(perception.Ground, []string{"input_image_path"}, perception.Request{Prompt: c.text("text_prompt")})
	if err != nil {
		return Result{}, err
	}
	if len(reply.Boxes) == 0 {
		return insufficient(e, "no object in the image fits %q; name its class and what sets it apart (largest, westernmost, …)", c.text("text_prompt")), nil
	}
	box := make([]strictjson.Value, 4)
	for i, v := range reply.Boxes[0] {
		box[i] = strictjson.Int(int(math.Round(v)))
	}
	return Result{Value: strictjson.List(box...), Evidence: e}, nil
}

// countObjects is the number of objects of a class.
func countObjects(c *Call) (Result, error) {
	reply, e, err := c.ask(perception.Count, []string{"input_image_path"}, perception.Request{Prompt: c.text("text_prompt")})
	if err != nil {
		return Result{}, err
	}
	return Result{Value: strictjson.Int(reply.Count), Evidence: e}, nil
}

// maxBoxes bounds the boxes of one segmentation.
const maxBoxes = 10_000

// segment writes the mask of the objects in boxes.
func segment(c *Call) (Result, error) {
	points, err := c.points("bbox", 4, boxForm)
	if err != nil {
		return Result{}, err
	}
	if len(points) > maxBoxes {
		return Result{}, badArgument("bbox", "%d boxes; give at most %d", len(points), maxBoxes)
	}
	boxes := make([]perception.Box, len(points))
	for i, p := range points {
		boxes[i] = perception.Box(p)
		if p[2] <= p[0] || p[3] <= p[1] {
			return Result{}, badArgument(fmt.Sprintf("bbox/%d", i), "x2 ≤ x1 or y2 ≤ y1; order the corners")
		}
	}
	reply, e, err := c.ask(perception.Segment, []string{"input_image_path"}, perception.Request{Boxes: boxes})
	if err != nil {
		return Result{}, err
	}
	for _, b := range boxes {
		e.Model.Boxes = append(e.Model.Boxes, b[:])
		e.Model.Scores = append(e.Model.Scores, 1)
	}
	return c.saveMask(&reply, e)
}

// buildingChange writes the mask of the buildings that two images do not share,
// or, for one image given twice, of its buildings.
func buildingChange(c *Call) (Result, error) {
	reply, e, err := c.ask(perception.Change, []string{"pre_image_path", "post_image_path"}, perception.Request{})
	if err != nil {
		return Result{}, err
	}
	return c.saveMask(&reply, e)
}

// saveMask writes a model's mask beside the image it belongs to.
func (c *Call) saveMask(reply *perception.Reply, e Evidence) (Result, error) {
	param := "input_image_path"
	if c.tool.Name == "ChangeOS" {
		param = "post_image_path"
	}
	r, err := c.open(param, c.text(param))
	if err != nil {
		return Result{}, err
	}
	r.Close()
	target, err := c.env.workspace.Target(c.text("output_path"))
	if err != nil {
		return Result{}, badInput("output_path", err)
	}
	g, err := raster.NewGrid(r.Info.Width, r.Info.Height, r.Info.CRS, r.Info.Transform)
	if err != nil {
		return Result{}, badInput(param, err)
	}
	for i, set := range reply.Mask {
		g.Data[i] = float32(255 * boolInt(set))
	}
	a, err := c.save(target, maskFrame(g, 255, "mask"))
	if err != nil {
		return Result{}, err
	}
	set := 0
	for _, s := range reply.Mask {
		set += boolInt(s)
	}
	e.Nodes = append(e.Nodes, Node{Name: target, Output: strictjson.Int(set), Valid: len(reply.Mask), Total: len(reply.Mask), Status: OK})
	if set == 0 {
		e.warn("the mask is empty")
	}
	return Result{Value: said(save, target), Artefacts: []Artefact{a}, Evidence: e}, nil
}
