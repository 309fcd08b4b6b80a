package train

import (
	"strings"

	"terraloom/lora/checkpoint"
)

// Cost counts the floating-point operations that a training step needs, forward and backward, recomputation left out:
//
//	adapters     4·N + 6·P       N weights of the layers' matrices, P of the adapter
//	all weights  6·N
//
// per real token, 4·V·H (6·V·H) for the head per labelled token, causal attention with 6·n²·d_q per layer for a document
// of n tokens, and 18·d_k·d_v per token, layer and value head for the recurrence of the delta rule. Frozen matrices need
// no product for their own gradient: hence 4 instead of 6.
type Cost struct {
	perToken, perLabel, perSquare float64
}

// NewCost makes the count for a model with trainable parameters, or for one of which all weights are trained.
func NewCost(c *checkpoint.Config, trainable int64, all bool) Cost {
	var n float64
	for _, t := range c.TensorSpecs() {
		if strings.HasPrefix(t.Name, "layers.") && len(t.Shape) == 2 {
			n += float64(t.Shape[0]) * float64(t.Shape[1])
		}
	}
	head := float64(c.VocabSize) * float64(c.HiddenSize)
	cost := Cost{perToken: 4*n + 6*float64(trainable), perLabel: 4 * head}
	if all {
		cost = Cost{perToken: 6 * n, perLabel: 6 * head}
	}
	cost.perSquare = 6 * float64(c.NumHeads*c.HeadDim) * float64(c.CountLayers(checkpoint.FullAttention))
	l := c.LinearAttn
	cost.perToken += 18 * float64(l.KeyHeadDim) * float64(l.ValueDim()) * float64(c.CountLayers(checkpoint.LinearAttention))
	return cost
}

// Of is the count for documents of these lengths with labelled tokens.
func (c Cost) Of(lengths []int, labelled int) float64 {
	total := c.perLabel * float64(labelled)
	for _, n := range lengths {
		total += c.perToken*float64(n) + c.perSquare*float64(n)*float64(n)
	}
	return total
}
