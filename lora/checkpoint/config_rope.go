package checkpoint

import (
	"math"

	"terraloom/data/strictjson"
)

// readRope reads rope_parameters (transformers 5), or rope_theta with rope_scaling (transformers 4). Where both objects
// are there, rope_scaling wins, as in transformers.
func (c *Config) readRope(p *fields) {
	r := &c.Rope
	params := p.object("rope_scaling")
	if params == nil || params.value.Len() == 0 {
		params = p.object("rope_parameters")
	}
	if params == nil {
		params = &fields{name: p.name + ": rope_parameters", parent: p}
	}
	r.Type = params.text("rope_type")
	if r.Type == "" {
		r.Type = params.text("type") // before transformers 4.43
	}
	if r.Type == "" {
		for i := range params.value.Len() {
			if params.value.Index(i).Kind() == strictjson.Object {
				params.fail(ErrUnsupported, params.value.Key(i), "RoPE parameters per layer type are not computed here")
			}
		}
		r.Type = RopeDefault
	}

	// The base may stand inside the object or, in the older layout, beside it.
	r.Theta = params.number("rope_theta", func() float64 {
		return p.number("rope_theta", func() float64 {
			c.assume("rope_theta is missing: 10000")
			return 10000
		})
	})
	if !(r.Theta > 1) {
		p.fail(ErrFormat, "rope_theta", "%v is not above 1", r.Theta)
	}
	partial := params.number("partial_rotary_factor", func() float64 {
		return p.number("partial_rotary_factor", func() float64 { return defaults[c.Family].partial })
	})
	if !(partial > 0 && partial <= 1) {
		p.fail(ErrFormat, "partial_rotary_factor", "%v is not in (0, 1]", partial)
		partial = 1
	}
	if partial != 1 && c.Family != Qwen35 {
		p.fail(ErrUnsupported, "partial_rotary_factor", "%v; %s rotates whole heads", partial, c.Architecture)
	}
	r.Dim = int(float64(c.HeadDim) * partial)
	if c.HeadDim > 0 && (r.Dim < 2 || r.Dim%2 != 0) {
		p.fail(ErrFormat, "partial_rotary_factor", "%v of head_dim %d leaves %d rotated elements, expected an even number above 0",
			partial, c.HeadDim, r.Dim)
	}

	switch {
	case r.Type == RopeDefault:
	case r.Type == RopeLlama3 && c.Family != Qwen35:
		r.Factor = params.number("factor", nil)
		r.LowFreqFactor = params.number("low_freq_factor", nil)
		r.HighFreqFactor = params.number("high_freq_factor", nil)
		r.OriginalMaxPositions = params.required("original_max_position_embeddings", math.MaxInt32)
		if !(r.Factor >= 1) {
			params.fail(ErrFormat, "factor", "%v, expected a number of at least 1", r.Factor)
		}
		if !(r.LowFreqFactor > 0 && r.HighFreqFactor > r.LowFreqFactor) {
			params.fail(ErrFormat, "high_freq_factor", "low %v and high %v, expected 0 < low < high", r.LowFreqFactor, r.HighFreqFactor)
		}
	default:
		params.fail(ErrUnsupported, "rope_type", "RoPE type %q; this program knows %q and, for families that rotate whole heads, %q",
			r.Type, RopeDefault, RopeLlama3)
	}
}
