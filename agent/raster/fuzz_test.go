package raster

import (
	"bytes"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"os"
	"path/filepath"
	"testing"
)

// FuzzOpen reads arbitrary bytes as a raster: no panic, and no more pixels than were asked for.
func FuzzOpen(f *testing.F) {
	for _, pattern := range []string{"testdata/*.tif", "testdata/matrix/*.tif"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			f.Fatalf("no files like %s (%v)", pattern, err)
		}
		for _, path := range files {
			b, err := os.ReadFile(path)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(b)
		}
	}
	m := image.NewNRGBA(image.Rect(0, 0, 9, 7))
	m.Set(3, 3, color.NRGBA{1, 2, 3, 4})
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		f.Fatal(err)
	}
	f.Add(bytes.Clone(b.Bytes()))
	b.Reset()
	if err := jpeg.Encode(&b, m, nil); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		ds, err := OpenReader(bytes.NewReader(b), int64(len(b)), "fuzz")
		if err != nil {
			return
		}
		i := ds.Info()
		if i.Width <= 0 || i.Height <= 0 || len(i.Bands) == 0 || i.Type.Size() == 0 {
			t.Fatalf("accepted %+v", i)
		}
		if int64(i.Width)*int64(i.Height) > 1<<20 || int64(i.BlockWidth)*int64(i.BlockHeight)*int64(len(i.Bands)) > 1<<22 {
			return // bounded by the reader, but slow to fuzz
		}
		for w := range ds.Windows() {
			g, err := ds.ReadWindow(1, w)
			if err != nil {
				return
			}
			mask := make([]bool, w.Pixels())
			if err := ds.ReadMask(1, w, mask); err != nil {
				t.Fatalf("mask of a readable window: %v", err)
			}
			if len(g.Data) != w.Pixels() {
				t.Fatalf("%d values for window %v", len(g.Data), w)
			}
		}
	})
}

// FuzzLZW decodes arbitrary bytes and writes nothing beyond what it reports.
func FuzzLZW(f *testing.F) {
	f.Add([]byte{0x80, 0x0b, 0x60, 0x50, 0x22, 0x0c, 0x0c, 0x85, 0x01}, 16)
	f.Fuzz(func(t *testing.T, src []byte, n int) {
		if n < 0 || n > 1<<16 {
			return
		}
		dst := bytes.Repeat([]byte{0xaa}, n+8)
		got, _ := unlzw(dst[:n:n], src)
		if got < 0 || got > n {
			t.Fatalf("%d of %d bytes", got, n)
		}
		for _, b := range dst[got:] {
			if b != 0xaa {
				t.Fatalf("wrote beyond %d", got)
			}
		}
	})
}
