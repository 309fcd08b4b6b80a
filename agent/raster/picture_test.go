package raster

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"math"
	"testing"
)

// shade is the test picture: a different value in every channel.
func shade(x, y int) color.NRGBA64 {
	return color.NRGBA64{uint16(x * 5000), uint16(y * 7000), uint16((x + y) * 3000), 0xffff}
}

func openBytes(t *testing.T, b []byte) *Dataset {
	t.Helper()
	ds, err := OpenReader(bytes.NewReader(b), int64(len(b)), "picture")
	if err != nil {
		t.Fatal(err)
	}
	return ds
}

func TestPNG(t *testing.T) {
	const w, h = 11, 8
	rect := image.Rect(0, 0, w, h)
	palette := color.Palette{}
	for i := range 200 {
		palette = append(palette, color.NRGBA{uint8(i), uint8(2 * i), 7, 255})
	}
	clear := append(color.Palette{color.NRGBA{9, 9, 9, 0}}, palette...)
	paletted := func(p color.Palette) *image.Paletted { // entry x+y
		m := image.NewPaletted(rect, p)
		for i := range m.Pix {
			m.Pix[i] = uint8(i%w + i/w)
		}
		return m
	}
	filled := func(m interface {
		image.Image
		Set(x, y int, c color.Color)
	}, alpha uint16) image.Image {
		for y := range h {
			for x := range w {
				c := shade(x, y)
				if x == 0 {
					c.A = alpha
				}
				m.Set(x, y, c)
			}
		}
		return m
	}
	tests := []struct {
		name   string
		m      image.Image
		bands  int
		kind   DataType
		masked bool // column 0 is transparent
		value  func(x, y, band int) uint16
	}{
		{"gray", filled(image.NewGray(rect), 0xffff), 1, Uint8, false, nil},
		{"gray16", filled(image.NewGray16(rect), 0xffff), 1, Uint16, false, nil},
		{"rgb", filled(image.NewRGBA(rect), 0xffff), 3, Uint8, false, nil},
		{"rgb16", filled(image.NewRGBA64(rect), 0xffff), 3, Uint16, false, nil},
		{"rgba", filled(image.NewNRGBA(rect), 0), 4, Uint8, true, nil},
		{"rgba16", filled(image.NewNRGBA64(rect), 0), 4, Uint16, true, nil},
		{"palette", paletted(palette), 3, Uint8, false, nil},
		{"palette with transparency", paletted(clear), 4, Uint8, false, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var b bytes.Buffer
			if err := png.Encode(&b, tt.m); err != nil {
				t.Fatal(err)
			}
			ds := openBytes(t, b.Bytes())
			i := ds.Info()
			if i.Format != "PNG" || i.Width != w || i.Height != h || len(i.Bands) != tt.bands || i.Type != tt.kind || i.HasMask != (tt.bands == 4) || !i.CRS.IsZero() {
				t.Fatalf("info %+v", i)
			}
			for band := 1; band <= tt.bands; band++ {
				g, err := ds.ReadBand(band)
				if err != nil {
					t.Fatal(err)
				}
				for y := range h {
					for x := range w {
						c := color.NRGBA64Model.Convert(tt.m.At(x, y)).(color.NRGBA64)
						want := [4]uint16{c.R, c.G, c.B, c.A}[band-1]
						if tt.kind == Uint8 {
							want >>= 8
						}
						transparent := c.A == 0 && band < 4
						if got := g.At(x, y); Finite(got) == transparent || !transparent && got != float32(want) {
							t.Fatalf("band %d (%d,%d): %v, want %v", band, x, y, got, want)
						}
					}
				}
			}
		})
	}
}

// chunk returns a PNG chunk.
func chunk(name string, data []byte) []byte {
	out := binary.BigEndian.AppendUint32(nil, uint32(len(data)))
	out = append(append(out, name...), data...)
	return binary.BigEndian.AppendUint32(out, crc32.ChecksumIEEE(out[4:]))
}

// One colour of an RGB or gray picture can be declared transparent.
func TestPNGTransparentColour(t *testing.T) {
	for name, m := range map[string]image.Image{"rgb": image.NewRGBA(image.Rect(0, 0, 4, 1)), "gray": image.NewGray(image.Rect(0, 0, 4, 1))} {
		for x := range 4 {
			m.(interface{ Set(x, y int, c color.Color) }).Set(x, 0, color.NRGBA{uint8(10 * x), uint8(10 * x), uint8(10 * x), 255})
		}
		var b bytes.Buffer
		if err := png.Encode(&b, m); err != nil {
			t.Fatal(err)
		}
		colour := []byte{0, 20, 0, 20, 0, 20}
		if name == "gray" {
			colour = colour[:2]
		}
		const headEnd = 8 + 25 // signature and IHDR
		file := append(bytes.Clone(b.Bytes()[:headEnd]), chunk("tRNS", colour)...)
		ds := openBytes(t, append(file, b.Bytes()[headEnd:]...))
		g, err := ds.ReadBand(1)
		if err != nil {
			t.Fatal(err)
		}
		if g.Data[1] != 10 || Finite(g.Data[2]) || g.Data[3] != 30 || !ds.Info().HasMask {
			t.Errorf("%s: %v, info %+v", name, g.Data, ds.Info())
		}
	}
}

func TestJPEG(t *testing.T) {
	m := image.NewRGBA(image.Rect(0, 0, 40, 24))
	for i := range m.Pix {
		m.Pix[i] = uint8(i / 4 % 40 * 6)
		if i%4 == 3 {
			m.Pix[i] = 255
		}
	}
	for _, gray := range []bool{false, true} {
		var src image.Image = m
		bands := 3
		if gray {
			g := image.NewGray(m.Rect)
			for i := range g.Pix {
				g.Pix[i] = m.Pix[4*i]
			}
			src, bands = g, 1
		}
		var b bytes.Buffer
		if err := jpeg.Encode(&b, src, &jpeg.Options{Quality: 95}); err != nil {
			t.Fatal(err)
		}
		ds := openBytes(t, b.Bytes())
		if i := ds.Info(); i.Format != "JPEG" || len(i.Bands) != bands || i.Type != Uint8 {
			t.Fatalf("info %+v", i)
		}
		for band := range bands {
			g, err := ds.ReadWindow(band+1, Window{8, 8, 16, 8})
			if err != nil {
				t.Fatal(err)
			}
			for i, v := range g.Data {
				if want := float32((8 + i%16) * 6); math.Abs(float64(v-want)) > 12 {
					t.Fatalf("band %d pixel %d: %v, want about %v", band+1, i, v, want)
				}
			}
		}
	}
}

func TestHostilePictures(t *testing.T) {
	head := func(w, h uint32, depth, colour byte) []byte {
		d := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, w), h)
		return append([]byte(pngMagic), chunk("IHDR", append(d, depth, colour, 0, 0, 0))...)
	}
	var b bytes.Buffer
	if err := jpeg.Encode(&b, image.NewGray(image.Rect(0, 0, 8, 8)), nil); err != nil {
		t.Fatal(err)
	}
	large := bytes.Clone(b.Bytes())
	at := bytes.Index(large, []byte{0xff, 0xc0})
	binary.BigEndian.PutUint16(large[at+5:], 6000)
	binary.BigEndian.PutUint16(large[at+7:], 6000)
	huge := bytes.Clone(large)
	binary.BigEndian.PutUint16(huge[at+5:], 65535)
	binary.BigEndian.PutUint16(huge[at+7:], 65535)
	idat := chunk("IDAT", nil)
	tests := []struct {
		name string
		file []byte
		want error
	}{
		{"empty PNG", []byte(pngMagic), ErrFormat},
		{"PNG without pixels", append(head(8, 8, 8, 2), idat...), ErrFormat},
		{"PNG bomb", append(head(10000, 10000, 8, 2), idat...), ErrFormat},
		{"PNG too large", append(head(1<<20, 1<<20, 16, 6), idat...), ErrTooLarge},
		{"PNG of depth 3", append(head(8, 8, 3, 2), idat...), ErrUnsupported},
		{"cut JPEG", b.Bytes()[:b.Len()/2], ErrFormat},
		{"JPEG bomb", large, ErrFormat},
		{"JPEG too large", huge, ErrTooLarge},
		{"empty JPEG", []byte(jpegMagic), ErrFormat},
	}
	for _, tt := range tests {
		if err := readAll(tt.file); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
}
