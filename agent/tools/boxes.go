package tools

import (
	"fmt"
	"math"

	"terraloom/data/strictjson"
)

const (
	boxForm   = "box [x1, y1, x2, y2]"
	pointForm = "point [x, y]"
)

// bboxExpansion grows every box by radius/gsd pixels on each side. It knows no
// image size, so boxes may reach beyond the image.
func bboxExpansion(c *Call) (Result, error) {
	boxes, err := c.points("bboxes", 4, boxForm)
	if err != nil {
		return Result{}, err
	}
	r := c.float("radius") / c.float("gsd")
	out := make([]strictjson.Value, len(boxes))
	for i, b := range boxes {
		grown := []float64{b[0] - r, b[1] - r, b[2] + r, b[3] + r}
		if !allFinite(grown...) {
			return Result{}, undefined("the result is beyond 64-bit range")
		}
		out[i] = floats(grown)
	}
	return Result{Value: strictjson.List(out...), Evidence: Evidence{Used: len(boxes)}}, nil
}

// bboxCentroids is the list of box centres.
func bboxCentroids(c *Call) (Result, error) {
	boxes, err := c.points("bboxes", 4, boxForm)
	if err != nil {
		return Result{}, err
	}
	out := make([]strictjson.Value, len(boxes))
	for i, b := range boxes {
		center := []float64{(b[0] + b[2]) / 2, (b[1] + b[3]) / 2}
		if !allFinite(center...) {
			return Result{}, undefined("the result is beyond 64-bit range")
		}
		out[i] = floats(center)
	}
	return Result{Value: strictjson.List(out...), Evidence: Evidence{Used: len(boxes)}}, nil
}

// centroidDistanceExtremes is {min: [i, j, distance], max: [i, j, distance]}
// with i < j, the first pair in row order among equals.
func centroidDistanceExtremes(c *Call) (Result, error) {
	points, err := c.points("centroids", 2, pointForm)
	if err != nil {
		return Result{}, err
	}
	if len(points) < 2 {
		if c.public() {
			return publicSinglePoint(), nil
		}
		return Result{}, undefined("a distance needs at least 2 points, got %d", len(points))
	}
	if err := fewEnoughForPairs("centroids", len(points)); err != nil {
		return Result{}, err
	}
	type pair struct {
		i, j     int
		distance float64
	}
	nearest, farthest := pair{distance: math.Inf(1)}, pair{distance: -1}
	for i, p := range points {
		for j := i + 1; j < len(points); j++ {
			q := points[j]
			dx, dy := p[0]-q[0], p[1]-q[1]
			d := math.Sqrt(float64(dx*dx) + float64(dy*dy)) // the conversions forbid fused multiply-add
			if d < nearest.distance {
				nearest = pair{i, j, d}
			}
			if d > farthest.distance {
				farthest = pair{i, j, d}
			}
		}
	}
	if !allFinite(nearest.distance, farthest.distance) {
		return Result{}, undefined("the result is beyond 64-bit range")
	}
	triple := func(p pair) strictjson.Value {
		return strictjson.List(strictjson.Int(p.i), strictjson.Int(p.j), strictjson.Float(p.distance))
	}
	return Result{
		Value: strictjson.Obj(
			strictjson.Member{Key: "min", Value: triple(nearest)},
			strictjson.Member{Key: "max", Value: triple(farthest)},
		),
		Evidence: Evidence{Used: len(points)},
	}, nil
}

// bboxArea is Σ (x2-x1)(y2-y1)·gsd², overlaps counted twice; gsd null gives square pixels.
func bboxArea(c *Call) (Result, error) {
	boxes, err := c.points("bboxes", 4, boxForm)
	if err != nil {
		return Result{}, err
	}
	total := 0.0
	for i, b := range boxes {
		w, h := b[2]-b[0], b[3]-b[1]
		if c.public() {
			w, h = b[2], b[3] // reads [x, y, w, h], although the detectors return corners
		} else if w < 0 || h < 0 {
			return Result{}, badArgument(fmt.Sprintf("bboxes/%d", i), "x2 < x1 or y2 < y1; order the corners")
		}
		total += w * h
	}
	if c.Args.Get("gsd").Kind() != strictjson.Null {
		gsd := c.float("gsd")
		total *= gsd * gsd
	}
	return number(total, len(boxes))
}
