// Package perception is the border between the tools and the models that look at
// images: one request, one reply, and the rules that a reply must keep before
// anything is computed from it.
package perception

import (
	"context"
	"errors"
	"fmt"
	"math"
)

// Task is what a model is asked to do.
type Task string

// The tasks.
const (
	Classify Task = "classify" // the scene class of an image
	Detect   Task = "detect"   // boxes of all objects of a class
	Ground   Task = "ground"   // the box of the one object that a sentence describes
	Count    Task = "count"    // the number of objects of a class
	Segment  Task = "segment"  // the mask of the objects in given boxes
	Change   Task = "change"   // the mask of buildings that two images do not share; of one image, its buildings
)

// Sentinels for what callers branch on.
var (
	ErrUnknownImage = errors.New("the model does not know the image") // of backends that know certain images only
	ErrReply        = errors.New("the model's reply is not usable")
	ErrServer       = errors.New("the model server failed")
)

// Image is a picture as the model gets it.
type Image struct {
	Path          string // as the call names it
	Data          []byte // the file: PNG, JPEG or TIFF
	Width, Height int
}

// Box is x1, y1, x2, y2 in pixels from the upper left corner.
type Box [4]float64

// Request is one question to a model.
type Request struct {
	Model  string // the tool's name: MSCN, SAM2, …
	Task   Task
	Images []Image // one; for Change two, before and after, or one twice
	Prompt string  // class or sentence, for Detect, Ground and Count
	Boxes  []Box   // for Segment
}

// Label is a class with the model's belief in it.
type Label struct {
	Name  string
	Score float64
}

// Reply is a model's answer. Which of Labels, Boxes, Count and Mask it holds
// follows from the task.
type Reply struct {
	Weights    string // the model and its version
	Sensor     string // "" if not known
	Resolution float64
	Thresholds map[string]float64 // by which candidates were dropped
	Labels     []Label            // best first
	Boxes      []Box
	Scores     []float64 // one for each box
	Count      int
	Filtered   int    // candidates dropped
	Mask       []bool // Width·Height of the (last) image, in row order
	Exact      bool   // coordinates come from a geometric model, not from a language model's guess
}

// Perceiver answers requests. It must be safe for concurrent use, and the same
// request must give the same reply while the model stays the same.
type Perceiver interface {
	Backend() string
	Perceive(ctx context.Context, r Request) (Reply, error)
}

// Check refuses replies that break the contract: scores outside 0 … 1, boxes
// outside the image or turned round, a mask of another size.
func (r *Request) Check(reply *Reply) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%s: %s: %w", r.Model, fmt.Sprintf(format, args...), ErrReply)
	}
	last := r.Images[len(r.Images)-1]
	for i, l := range reply.Labels {
		if l.Name == "" || !unit(l.Score) || i > 0 && l.Score > reply.Labels[i-1].Score {
			return bad("label %d is %q with the score %g; names, and scores of 0 … 1 in falling order, are needed", i, l.Name, l.Score)
		}
	}
	for i, b := range reply.Boxes {
		if !(b[0] >= 0 && b[1] >= 0 && b[0] < b[2] && b[1] < b[3] && b[2] <= float64(last.Width) && b[3] <= float64(last.Height)) {
			return bad("box %d is %v in an image of %d×%d pixels", i, b, last.Width, last.Height)
		}
	}
	if len(reply.Scores) != len(reply.Boxes) {
		return bad("%d scores for %d boxes", len(reply.Scores), len(reply.Boxes))
	}
	for i, s := range reply.Scores {
		if !unit(s) {
			return bad("score %d is %g, not 0 … 1", i, s)
		}
	}
	switch r.Task {
	case Classify:
		if len(reply.Labels) == 0 {
			return bad("it names no class")
		}
	case Ground:
		if len(reply.Boxes) > 1 {
			return bad("%d boxes for one object", len(reply.Boxes))
		}
	case Count:
		if reply.Count < 0 {
			return bad("the count %d", reply.Count)
		}
	case Segment, Change:
		if len(reply.Mask) != last.Width*last.Height {
			return bad("a mask of %d pixels for an image of %d×%d", len(reply.Mask), last.Width, last.Height)
		}
	}
	if reply.Weights == "" {
		return bad("it does not state its weights")
	}
	if reply.Filtered < 0 || reply.Resolution < 0 || math.IsNaN(reply.Resolution) || math.IsInf(reply.Resolution, 0) {
		return bad("%d dropped candidates at %g m", reply.Filtered, reply.Resolution)
	}
	return nil
}

func unit(f float64) bool { return f >= 0 && f <= 1 }
