package raster

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// craft returns a little-endian TIFF of one directory with the given entries, after the data, which begins at offset 8.
func craft(data []byte, entries ...entry) []byte {
	le := binary.LittleEndian
	out := append([]byte("II\x2a\x00\x00\x00\x00\x00"), data...)
	le.PutUint32(out[4:], uint32(len(out)))
	values := len(out) + 2 + 12*len(entries) + 4
	out = le.AppendUint16(out, uint16(len(entries)))
	var body []byte
	for _, e := range entries {
		out = le.AppendUint16(out, e.tag)
		out = le.AppendUint16(out, e.kind)
		out = le.AppendUint32(out, uint32(e.count))
		if len(e.data) <= 4 {
			out = append(out, append(e.data, make([]byte, 4-len(e.data))...)...)
			continue
		}
		out = le.AppendUint32(out, uint32(values+len(body)))
		body = append(body, e.data...)
	}
	return append(append(out, 0, 0, 0, 0), body...)
}

// image8 returns the entries of an 8-bit strip image whose one strip is the data of craft, changed by the given ones.
func image8(width, height, compression, count uint32, change ...entry) []entry {
	out := []entry{
		longEntry(tagImageWidth, width), longEntry(tagImageLength, height), shortsEntry(tagBitsPerSample, 8),
		longEntry(tagCompression, compression), longEntry(tagStripOffsets, 8), longEntry(tagStripByteCounts, count),
	}
	for _, c := range change {
		replaced := false
		for i := range out {
			if out[i].tag == c.tag {
				out[i], replaced = c, true
			}
		}
		if !replaced {
			out = append(out, c)
		}
	}
	return out
}

// readAll opens a raster and reads at most a million pixels of each of its first bands.
func readAll(b []byte) error {
	ds, err := OpenReader(bytes.NewReader(b), int64(len(b)), "test")
	if err != nil {
		return err
	}
	i := ds.Info()
	for band := range min(len(i.Bands), 4) {
		for w := range ds.Windows() {
			w.Width, w.Height = min(w.Width, 1024), min(w.Height, 1024)
			if _, err := ds.ReadWindow(band+1, w); err != nil {
				return err
			}
			break
		}
	}
	return nil
}

func TestHostileFiles(t *testing.T) {
	deflated, err := deflate(make([]byte, 100))
	if err != nil {
		t.Fatal(err)
	}
	n := uint32(len(deflated))
	ring := craft(nil, image8(1, 1, 1, 1)...)
	binary.LittleEndian.PutUint32(ring[len(ring)-4:], 8)
	tests := []struct {
		name string
		file []byte
		part string
		want error
	}{
		{"good", craft(deflated, image8(10, 10, compDeflate, n)...), "", nil},
		{"good uncompressed", craft(make([]byte, 100), image8(10, 10, compNone, 100)...), "", nil},
		{"zero width", craft(nil, image8(0, 10, compNone, 100)...), "0×10", ErrFormat},
		{"huge", craft(deflated, image8(math.MaxUint32, 10, compDeflate, n)...), "4294967295", ErrFormat},
		{"block bomb", craft(deflated, image8(1<<15, 1<<15, compDeflate, n)...), "256 MiB", ErrTooLarge},
		{"lying deflate", craft(deflated, image8(1<<13, 1<<13, compDeflate, n)...), "cannot hold", ErrFormat},
		{"lying lzw", craft(deflated, image8(1<<13, 1<<13, compLZW, n)...), "cannot hold", ErrFormat},
		{"lying uncompressed", craft(deflated, image8(1<<13, 1<<13, compNone, n)...), "holds", ErrFormat},
		{"short deflate", craft(deflated, image8(20, 20, compDeflate, n)...), "deflate", ErrFormat},
		{"bad checksum", craft(append(deflated[:n-1:n-1], deflated[n-1]^1), image8(10, 10, compDeflate, n)...), "checksum", ErrFormat},
		{"bad zstd", craft(deflated, image8(10, 10, compZSTD, n)...), "ZSTD", ErrFormat},
		{"bad lzw", craft([]byte{0xff, 0xff, 0xff}, image8(1, 3, compLZW, 3)...), "LZW", ErrFormat},
		{"beyond end", craft(deflated, image8(10, 10, compDeflate, n, longEntry(tagStripOffsets, 1<<30))...), "of a file of", ErrFormat},
		{"no offsets", craft(deflated, longEntry(tagImageWidth, 1), longEntry(tagImageLength, 1), shortsEntry(tagBitsPerSample, 8)), "0 offsets", ErrFormat},
		{"few strips", craft(deflated, image8(10, 10, compDeflate, n, longEntry(tagRowsPerStrip, 1))...), "10 blocks needed", ErrFormat},
		{"zero rows per strip", craft(deflated, image8(10, 10, compDeflate, n, longEntry(tagRowsPerStrip, 0))...), "blocks of", ErrFormat},
		{"zero tile", craft(deflated, image8(10, 10, compDeflate, n, longEntry(tagTileWidth, 0), longEntry(tagTileLength, 16))...), "blocks of 0", ErrFormat},
		{"tiny tiles", craft(deflated, image8(1<<20, 1<<20, compDeflate, n, longEntry(tagTileWidth, 1), longEntry(tagTileLength, 1))...), "strips or tiles", ErrUnsupported},
		{"many bands", craft(deflated, image8(1<<14, 1<<14, compDeflate, n, longEntry(tagSamplesPerPixel, 60000))...), "decode to more", ErrTooLarge},
		{"no bands", craft(deflated, image8(1, 1, compDeflate, n, longEntry(tagSamplesPerPixel, 0))...), "0 samples", ErrFormat},
		{"12 bits", craft(deflated, image8(1, 1, compDeflate, n, shortsEntry(tagBitsPerSample, 12))...), "12-bit", ErrUnsupported},
		{"half float", craft(deflated, image8(1, 1, compDeflate, n, shortsEntry(tagBitsPerSample, 16), shortsEntry(tagSampleFormat, 3))...), "16-bit", ErrUnsupported},
		{"mixed types", craft(deflated, image8(1, 1, compDeflate, n, shortsEntry(tagSamplesPerPixel, 2), shortsEntry(tagBitsPerSample, 8, 16))...), "different sample types", ErrUnsupported},
		{"jpeg", craft(deflated, image8(1, 1, 7, n)...), "compression jpeg", ErrUnsupported},
		{"scheme 999", craft(deflated, image8(1, 1, 999, n)...), "compression 999", ErrUnsupported},
		{"predictor 9", craft(deflated, image8(1, 1, compDeflate, n, shortsEntry(tagPredictor, 9))...), "predictor 9", ErrUnsupported},
		{"float predictor", craft(deflated, image8(1, 1, compDeflate, n, shortsEntry(tagPredictor, 3))...), "predictor 3", ErrFormat},
		{"planar 3", craft(deflated, image8(1, 1, compDeflate, n, shortsEntry(tagPlanarConfig, 3))...), "planar", ErrFormat},
		{"fill order", craft(deflated, image8(1, 1, compDeflate, n, shortsEntry(tagFillOrder, 2))...), "fill order", ErrUnsupported},
		{"YCbCr", craft(deflated, image8(1, 1, compDeflate, n, shortsEntry(tagPhotometric, 6))...), "YCbCr", ErrUnsupported},
		{"offsets as text", craft(deflated, image8(1, 1, compDeflate, n, textEntry(tagStripOffsets, "abc"))...), "unsigned integer", ErrFormat},
		{"count", craft(deflated, image8(1, 1, compDeflate, n, entry{tagGDALMetadata, typeASCII, 1 << 30, make([]byte, 8)})...), "more than the file holds", ErrFormat},
		{"nodata", craft(deflated, image8(1, 1, compDeflate, n, textEntry(tagGDALNoData, "n/a"))...), `"n/a"`, ErrFormat},
		{"metadata", craft(deflated, image8(1, 1, compDeflate, n, textEntry(tagGDALMetadata, "<GDALMetadata>"))...), "GDAL_METADATA", ErrFormat},
		{"scale", craft(deflated, image8(1, 1, compDeflate, n, textEntry(tagGDALMetadata,
			`<GDALMetadata><Item name="SCALE" sample="0" role="scale">x</Item></GDALMetadata>`))...), "scale", ErrFormat},
		{"sample", craft(deflated, image8(1, 1, compDeflate, n, textEntry(tagGDALMetadata,
			`<GDALMetadata><Item name="A" sample="7">x</Item></GDALMetadata>`))...), `sample "7"`, ErrFormat},
		{"geokeys", craft(deflated, image8(1, 1, compDeflate, n, shortsEntry(tagGeoKeyDirectory, 1, 1, 0, 9))...), "announces 9 keys", ErrFormat},
		{"geokey double", craft(deflated, image8(1, 1, compDeflate, n, shortsEntry(tagGeoKeyDirectory, 1, 1, 0, 1, keyLinearSize, tagGeoDoubleParams, 1, 5))...), "double", ErrFormat},
		{"geokey text", craft(deflated, image8(1, 1, compDeflate, n, shortsEntry(tagGeoKeyDirectory, 1, 1, 0, 1, keyCitation, tagGeoASCIIParams, 1, 5))...), "text", ErrFormat},
		{"transform", craft(deflated, image8(1, 1, compDeflate, n, doublesEntry(tagPixelScale, math.NaN(), 1, 0), doublesEntry(tagTiepoint, 0, 0, 0, 0, 0, 0))...), "geotransform", ErrFormat},
		{"alpha", craft(deflated, image8(1, 1, compDeflate, n, shortsEntry(tagExtraSamples, 1, 1))...), "extra samples", ErrFormat},
		{"ring", ring, "ring", ErrFormat},
		{"directory beyond end", []byte("II\x2a\x00\xff\xff\xff\x7f"), "of a file of 8", ErrFormat},
		{"empty directory", []byte("II\x2a\x00\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00"), "0 entries", ErrFormat},
		{"big directory", []byte("II\x2b\x00\x08\x00\x00\x00\x10\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff"), "entries", ErrFormat},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := readAll(tt.file)
			runtime.ReadMemStats(&after)
			if !errors.Is(err, tt.want) || err != nil && !strings.Contains(err.Error(), tt.part) {
				t.Errorf("%v, want %v with %q", err, tt.want, tt.part)
			}
			// ZSTD's decoder keeps tables of its own.
			if grown := after.TotalAlloc - before.TotalAlloc; grown > 16<<20 {
				t.Errorf("a file of %d bytes made the reader allocate %d MiB", len(tt.file), grown>>20)
			}
		})
	}
}

// Every shortened and every locally damaged file gives values or an error, never a panic or a hang.
func TestDamagedFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/matrix/*_le*.tif")
	if err != nil {
		t.Fatal(err)
	}
	files = append(files, "testdata/meta.tif", "testdata/mask.tif", "testdata/cog.tif", "testdata/sinusoidal.tif")
	for _, path := range files {
		good, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for cut := 0; cut < len(good); cut += 1 + len(good)/40 {
			if err := readAll(good[:cut]); err == nil && cut < len(good)/8 {
				t.Errorf("%s cut to %d of %d bytes reads without error", path, cut, len(good))
			}
		}
		for at := 0; at < len(good); at += 1 + len(good)/200 {
			bad := bytes.Clone(good)
			bad[at] ^= 0x55
			_ = readAll(bad) // any outcome but a panic
		}
	}
}

// An error of the medium is passed on, not taken for a damaged file.
func TestReadFailure(t *testing.T) {
	fault := errors.New("medium fault")
	_, err := OpenReader(faulty{fault}, 1000, "x")
	if !errors.Is(err, fault) || errors.Is(err, ErrFormat) {
		t.Errorf("%v", err)
	}
}

type faulty struct{ err error }

func (f faulty) ReadAt([]byte, int64) (int, error) { return 0, f.err }

var _ io.ReaderAt = faulty{}
