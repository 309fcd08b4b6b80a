package perception

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"time"
)

// DefaultTimeout is how long a model may take for one request.
const DefaultTimeout = 2 * time.Minute

// MaxReply bounds the bytes of an answer.
const MaxReply = 64 << 20

// wireRequest and wireReply are requests and answers as model servers see them;
// HTTP describes the fields.
type wireRequest struct {
	Model  string   `json:"model"`
	Task   Task     `json:"task"`
	Prompt string   `json:"prompt,omitempty"`
	Boxes  []Box    `json:"boxes,omitempty"`
	Images [][]byte `json:"images"`
}

type wireReply struct {
	Weights    string             `json:"weights"`
	Sensor     string             `json:"sensor"`
	Resolution float64            `json:"resolution"`
	Thresholds map[string]float64 `json:"thresholds"`
	Labels     []struct {
		Name  string  `json:"name"`
		Score float64 `json:"score"`
	} `json:"labels"`
	Boxes    []Box     `json:"boxes"`
	Scores   []float64 `json:"scores"`
	Count    int       `json:"count"`
	Filtered int       `json:"filtered"`
	Mask     []byte    `json:"mask"`
	Exact    bool      `json:"exact"`
}

func encode(r *Request) ([]byte, error) {
	body := wireRequest{Model: r.Model, Task: r.Task, Prompt: r.Prompt, Boxes: r.Boxes}
	for _, i := range r.Images {
		body.Images = append(body.Images, i.Data)
	}
	return json.Marshal(body)
}

func decode(r *Request, data []byte) (Reply, error) {
	var a wireReply
	if err := json.Unmarshal(data, &a); err != nil {
		return Reply{}, fmt.Errorf("%s: %w: %w", r.Model, err, ErrReply)
	}
	out := Reply{Weights: a.Weights, Sensor: a.Sensor, Resolution: a.Resolution, Thresholds: a.Thresholds,
		Boxes: a.Boxes, Scores: a.Scores, Count: a.Count, Filtered: a.Filtered, Exact: a.Exact}
	for _, l := range a.Labels {
		out.Labels = append(out.Labels, Label(l))
	}
	if r.Task == Segment || r.Task == Change {
		last := r.Images[len(r.Images)-1]
		mask, err := decodeMask(a.Mask, last.Width, last.Height)
		if err != nil {
			return Reply{}, fmt.Errorf("%s: mask: %w: %w", r.Model, err, ErrReply)
		}
		out.Mask = mask
	}
	return out, nil
}

// decodeMask reads a PNG of the given size; its header is looked at before it is
// decoded, so that a small file cannot ask for much memory.
func decodeMask(data []byte, width, height int) ([]bool, error) {
	c, err := png.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	if c.Width != width || c.Height != height {
		return nil, fmt.Errorf("%d×%d pixels, the image has %d×%d", c.Width, c.Height, width, height)
	}
	img, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	mask := make([]bool, width*height)
	if g, ok := img.(*image.Gray); ok {
		for y := range height {
			for x, v := range g.Pix[y*g.Stride:][:width] {
				mask[y*width+x] = v != 0
			}
		}
		return mask, nil
	}
	for y := range height {
		for x := range width {
			red, green, blue, _ := img.At(x, y).RGBA()
			mask[y*width+x] = red|green|blue != 0
		}
	}
	return mask, nil
}
