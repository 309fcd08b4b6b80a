package world

import "math"

// Lights returns the radiance of the night lights, nW/cm²/sr.
func (s *Scene) Lights() []float32 {
	y := s.now.years
	at := lags{snow: s.ago(10), fallen: s.ago(20)}
	out := s.field()
	for i := range out {
		u := s.builtShare(i, 0) * float64(s.land[i]) // lights have a trend of their own
		rich := 70 * (1 + 0.25*float64(s.use[i]))
		glow := rich * math.Pow(u, 1.4) * math.Exp(s.trends[i].Lights*y) * (1 + 0.02*float64(s.yearly[i]))
		glow *= 1 + 0.1*s.snowShare(i, &at) // snow throws light back
		out[i] = float32(0.15 + 0.05*math.Abs(float64(s.soil[i])) + max(glow, 0))
	}
	return out
}

// Built returns the built-up share of each pixel and the mean height of its
// buildings in metres.
func (s *Scene) Built() (share, height []float32) {
	y := s.now.years
	share, height = s.field(), s.field()
	for i := range share {
		b := s.builtShare(i, y) * float64(s.land[i]) * (1 - boolean(s.lake[i] > 0))
		share[i] = float32(b)
		height[i] = float32(3.5 + 17*b*b*(1+0.25*float64(s.use[i])))
	}
	return share, height
}

// NonResidential returns the share of the built-up area that is not lived in.
func (s *Scene) NonResidential() []float32 {
	out := s.field()
	for i := range out {
		out[i] = float32(ramp(-0.4, 1.9, float64(s.use[i])))
	}
	return out
}
