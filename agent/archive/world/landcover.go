package world

// LandCover returns the IGBP class of each pixel in the middle of the scene's span.
func (s *Scene) LandCover() []uint8 {
	c := s.makeCover()
	out := make([]uint8, s.pixels())
	for i := range out {
		out[i] = s.igbp(c, i)
	}
	return out
}

func (s *Scene) igbp(c *cover, i int) uint8 {
	tree, crop, grass := s.tree[i], s.crop[i], s.grass[i]
	lat := s.ax.lat[i/s.Width]
	switch {
	case c.water[i] > 0.5 || s.land[i] < 0.5:
		return 17
	case s.ice[i] > 0.5:
		return 15
	case c.urban[i] > 0.3:
		return 13
	case s.marsh[i] > 0.15:
		return 11
	case tree > 0.6 && s.evergreen[i] > 0.6 && (lat > 40 || lat < -40):
		return 1
	case tree > 0.6 && s.evergreen[i] > 0.6:
		return 2
	case tree > 0.6 && s.evergreen[i] < 0.3:
		return 4
	case tree > 0.6:
		return 5
	case crop > 0.5:
		return 12
	case tree > 0.35:
		return 8
	case crop > 0.3:
		return 14
	case tree > 0.15:
		return 9
	case grass > 0.45:
		return 10
	case grass > 0.15:
		return 7
	}
	return 16
}
