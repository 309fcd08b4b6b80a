package raster

import (
	"fmt"
	"iter"
)

// Window is a rectangle of pixels: columns X … X+Width-1, rows Y … Y+Height-1.
type Window struct{ X, Y, Width, Height int }

// String returns the window as WIDTH×HEIGHT+X+Y.
func (w Window) String() string { return fmt.Sprintf("%d×%d+%d+%d", w.Width, w.Height, w.X, w.Y) }

// Pixels returns the number of pixels.
func (w Window) Pixels() int { return w.Width * w.Height }

// check returns ErrRange unless w is a non-empty part of a width × height raster.
func (w Window) check(width, height int) error {
	if w.Width <= 0 || w.Height <= 0 || w.X < 0 || w.Y < 0 || w.X > width-w.Width || w.Y > height-w.Height {
		return fmt.Errorf("window %v does not lie in the raster of %d×%d pixels: %w", w, width, height, ErrRange)
	}
	return nil
}

// Windows yields windows of stepX × stepY pixels that cover a width × height raster, in row order; those at the right and lower
// border are smaller. It yields nothing unless all arguments are positive.
func Windows(width, height, stepX, stepY int) iter.Seq[Window] {
	return func(yield func(Window) bool) {
		if width <= 0 || height <= 0 || stepX <= 0 || stepY <= 0 {
			return
		}
		for y := 0; y < height; y += stepY {
			for x := 0; x < width; x += stepX {
				if !yield(Window{x, y, min(stepX, width-x), min(stepY, height-y)}) {
					return
				}
			}
		}
	}
}

// windowPixels is the size that windowed reading aims at: 2 MiB of float32, large enough to hide the cost of a call and small
// enough that a window per core stays cheap.
const windowPixels = 1 << 19

// windowStep returns the size of windows that consist of whole blocks and hold about windowPixels pixels.
func windowStep(width, height, blockW, blockH int) (stepX, stepY int) {
	stepX = blockW * max(1, min((1024+blockW-1)/blockW, (width+blockW-1)/blockW))
	stepY = blockH * max(1, windowPixels/max(1, stepX*blockH))
	return min(stepX, width), min(stepY, height)
}
