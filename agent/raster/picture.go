package raster

import (
	"encoding/binary"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"io"
	"strings"
)

const (
	pngMagic  = "\x89PNG\r\n\x1a\n"
	jpegMagic = "\xff\xd8\xff"
)

// isPicture reports whether head begins a PNG or JPEG file.
func isPicture(head []byte) bool {
	return strings.HasPrefix(string(head), pngMagic) || strings.HasPrefix(string(head), jpegMagic)
}

// picture is a PNG or JPEG; its one block is the whole picture, decoded at the first read.
type picture struct {
	layout
	r    io.ReaderAt
	size int64
	png  bool
	gray bool
}

func (p *picture) Close() error { return nil }

// openPicture reads the head of a PNG or JPEG. Gray pictures have one band, others red, green and blue; an alpha band follows where
// the file has one. Palettes become colours.
func openPicture(r io.ReaderAt, size int64) (*Dataset, error) {
	head := make([]byte, 26)
	n, err := r.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return nil, err
	}
	p := &picture{r: r, size: size, png: strings.HasPrefix(string(head[:n]), pngMagic)}
	info := Info{Format: "JPEG", Compression: "jpeg"}
	decode := jpeg.DecodeConfig
	if p.png {
		info.Format, info.Compression = "PNG", "deflate"
		decode = png.DecodeConfig
	}
	cfg, err := decode(io.NewSectionReader(r, 0, size))
	if err != nil {
		return nil, pictureError(info.Format, err)
	}
	p.width, p.height, p.kind, p.bands = cfg.Width, cfg.Height, Uint8, 3
	if p.width <= 0 || p.height <= 0 {
		return nil, fmt.Errorf("%s of %d×%d pixels: %w", info.Format, p.width, p.height, ErrFormat)
	}
	switch cfg.ColorModel {
	case color.GrayModel:
		p.bands, p.gray = 1, true
	case color.Gray16Model:
		p.bands, p.gray, p.kind = 1, true, Uint16
	case color.RGBA64Model:
		p.kind = Uint16
	case color.NRGBAModel:
		p.bands = 4
	case color.NRGBA64Model:
		p.bands, p.kind = 4, Uint16
	}
	if p.png {
		transparent, err := hasTransparency(r, size)
		switch {
		case err != nil:
			return nil, fmt.Errorf("PNG: %w", err)
		case head[25] == 4, transparent && p.gray: // colour type 4, gray with alpha, which the decoder reports as colour
			p.bands, p.gray = 2, true
		case transparent:
			p.bands = 4
		}
	}
	if err := p.bounded(info.Format); err != nil {
		return nil, err
	}
	p.blockW, p.blockH, p.interleaved = p.width, p.height, p.bands > 1
	info.Bands = make([]BandInfo, p.bands)
	alpha := 0
	for i := range info.Bands {
		name := [4]string{"red", "green", "blue", "alpha"}[i]
		if p.gray {
			name = [2]string{"gray", "alpha"}[i]
		}
		info.Bands[i] = BandInfo{Scale: 1, Description: name, Alpha: name == "alpha"}
		if name == "alpha" {
			alpha = i + 1
			info.HasMask = true
		}
	}
	ds := newDataset(info, p.layout, p)
	ds.alpha = alpha
	return ds, nil
}

// hasTransparency reports whether a PNG has a tRNS chunk, which lies before the pixels.
func hasTransparency(r io.ReaderAt, size int64) (bool, error) {
	head := make([]byte, 8) // length and name
	for at := int64(len(pngMagic)); at+8 <= size; {
		if n, err := r.ReadAt(head, at); n < len(head) {
			return false, readError(err)
		}
		switch string(head[4:]) {
		case "tRNS":
			return true, nil
		case "IDAT", "IEND":
			return false, nil
		}
		at += int64(binary.BigEndian.Uint32(head)) + 12 // and the checksum
	}
	return false, nil
}

// bounded refuses a picture whose decoder would need too much memory, or more than a file of its size can fill: a pixel of PNG
// takes at least 1 bit, packed by at most 1032; an 8×8 block of JPEG takes at least one bit.
func (p *picture) bounded(format string) error {
	perPixel := p.bands*p.kind.Size() + 4*p.kind.Size() // ours and the decoder's
	if !p.png {
		perPixel += 12 // coefficients of a progressive JPEG
	}
	if p.width > MaxBytes/perPixel/p.height {
		return fmt.Errorf("%s of %d×%d pixels needs more than %d MiB to decode (convert it to a tiled GeoTIFF): %w",
			format, p.width, p.height, MaxBytes>>20, ErrTooLarge)
	}
	most := p.size * 512
	if p.png {
		most = p.size * 1032 * 8
	}
	if int64(p.width)*int64(p.height) > most {
		return fmt.Errorf("%s of %d bytes cannot hold %d×%d pixels: %w", format, p.size, p.width, p.height, ErrFormat)
	}
	return nil
}

// pictureError turns a decoder's error into one of this package's.
func pictureError(format string, err error) error {
	kind := ErrFormat
	switch err.(type) {
	case png.UnsupportedError, jpeg.UnsupportedError:
		kind = ErrUnsupported
	}
	return fmt.Errorf("%s: %v: %w", format, err, kind)
}

// decode decodes the whole picture.
func (p *picture) decode(blockKey) ([]byte, error) {
	format, decode := "JPEG", jpeg.Decode
	if p.png {
		format, decode = "PNG", png.Decode
	}
	m, err := decode(io.NewSectionReader(p.r, 0, p.size))
	if err != nil {
		return nil, pictureError(format, err)
	}
	if b := m.Bounds(); b.Dx() != p.width || b.Dy() != p.height {
		return nil, fmt.Errorf("%s: %d×%d pixels, the header says %d×%d: %w", format, b.Dx(), b.Dy(), p.width, p.height, ErrFormat)
	}
	out := newBlock(p.blockBytes())
	if p.kind == Uint16 {
		p.fill16(samples[uint16](out), m)
	} else {
		p.fill8(out, m)
	}
	return out, nil
}

// fill8 stores the 8-bit samples of m. The picture types that hold nearly all files are copied directly.
func (p *picture) fill8(out []byte, m image.Image) {
	b := m.Bounds()
	for y := range p.height {
		row := out[y*p.width*p.bands : (y+1)*p.width*p.bands]
		switch m := m.(type) {
		case *image.Gray:
			copy(row, m.Pix[y*m.Stride:])
			continue
		case *image.RGBA: // the PNG decoder uses it for opaque pictures only
			if p.bands == 3 {
				spread(row, m.Pix[y*m.Stride:], 3, 4)
				continue
			}
		case *image.YCbCr:
			for x := range p.width {
				i, j := m.YOffset(b.Min.X+x, b.Min.Y+y), m.COffset(b.Min.X+x, b.Min.Y+y)
				row[3*x], row[3*x+1], row[3*x+2] = color.YCbCrToRGB(m.Y[i], m.Cb[j], m.Cr[j])
			}
			continue
		case *image.NRGBA:
			if !p.gray {
				spread(row, m.Pix[y*m.Stride:], p.bands, 4)
				continue
			}
		}
		for x := range p.width {
			c := color.NRGBAModel.Convert(m.At(b.Min.X+x, b.Min.Y+y)).(color.NRGBA)
			pixel := [4]byte{c.R, c.G, c.B, c.A}
			if p.gray {
				pixel[1] = c.A
			}
			copy(row[x*p.bands:(x+1)*p.bands], pixel[:])
		}
	}
}

// spread copies the first n of every size samples.
func spread(dst, src []byte, n, size int) {
	for i, j := 0, 0; i+n <= len(dst); i, j = i+n, j+size {
		copy(dst[i:i+n], src[j:j+n])
	}
}

// fill16 stores the 16-bit samples of m.
func (p *picture) fill16(out []uint16, m image.Image) {
	b := m.Bounds()
	for y := range p.height {
		for x := range p.width {
			c := color.NRGBA64Model.Convert(m.At(b.Min.X+x, b.Min.Y+y)).(color.NRGBA64)
			pixel := [4]uint16{c.R, c.G, c.B, c.A}
			if p.gray {
				pixel[1] = c.A
			}
			i := (y*p.width + x) * p.bands
			copy(out[i:i+p.bands], pixel[:p.bands])
		}
	}
}
