package checkpoint

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unicode/utf8"

	"terraloom/data/strictjson"
)

// Source is a tensor to be written: its bytes are produced when their turn comes, so a model larger than memory can be
// written. Write must produce exactly the bytes of the shape, little-endian and row-major; it is called once.
type Source struct {
	TensorSpec
	Write func(w io.Writer) error
}

// FromTensor is a source of bytes that are already there.
func FromTensor(name string, t Tensor) Source {
	return Source{TensorSpec{name, t.DType, t.Shape}, func(w io.Writer) error {
		_, err := w.Write(t.Data)
		return err
	}}
}

// FromFloat32 is a source of float32 values stored as dtype: F32, F16 or BF16, rounded to nearest, ties to even.
func FromFloat32(name string, dtype DType, shape []int, values []float32) Source {
	return Source{TensorSpec{name, dtype, shape}, func(w io.Writer) error { return writeFloats(w, dtype, values) }}
}

func writeFloats(w io.Writer, dtype DType, values []float32) error {
	const chunk = 1 << 14
	buf := make([]byte, 0, 4*chunk)
	for part := range slices.Chunk(values, chunk) {
		buf = buf[:0]
		for _, v := range part {
			switch dtype {
			case F32:
				buf = binary.LittleEndian.AppendUint32(buf, math.Float32bits(v))
			case BF16:
				buf = binary.LittleEndian.AppendUint16(buf, toBFloat16(v))
			case F16:
				buf = binary.LittleEndian.AppendUint16(buf, toFloat16(v))
			default:
				return fmt.Errorf("float32 values cannot be written as %s: %w", dtype, ErrUnsupported)
			}
		}
		if _, err := w.Write(buf); err != nil {
			return err
		}
	}
	return nil
}

// WriteSafetensors writes a file under a temporary name beside path, syncs it, and renames it over path, so that
// readers see the old file or the whole new one. The bytes are those of the reference implementation: tensors by dtype
// from the widest, then by name; header padded to 8. metadata gains format=pt unless it names a format.
func WriteSafetensors(path string, metadata map[string]string, tensors []Source) error {
	header, ordered, err := makeHeader(metadata, tensors)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return writeAtomic(path, func(w io.Writer) error {
		if _, err := w.Write(header); err != nil {
			return err
		}
		for _, t := range ordered {
			n, _ := numElements(t.Shape)
			size, _ := t.DType.size(n)
			counted := &exactWriter{w: w, left: size}
			if err := t.Write(counted); err != nil {
				return fmt.Errorf("tensor %q: %w", t.Name, err)
			}
			if counted.left != 0 {
				return fmt.Errorf("tensor %q: its source wrote %d bytes, %s%v takes %d", t.Name, size-counted.left, t.DType, t.Shape, size)
			}
		}
		return nil
	})
}

// makeHeader returns the length and the JSON header, and the tensors in the order of their data.
func makeHeader(metadata map[string]string, tensors []Source) ([]byte, []Source, error) {
	ordered := slices.Clone(tensors)
	slices.SortFunc(ordered, func(a, b Source) int {
		if x, y := layouts[a.DType].rank, layouts[b.DType].rank; x != y {
			return y - x
		}
		return strings.Compare(a.Name, b.Name)
	})
	meta := map[string]string{"format": "pt"}
	maps.Copy(meta, metadata)
	head := []byte(`{"__metadata__":{`)
	for i, key := range slices.Sorted(maps.Keys(meta)) {
		if i > 0 {
			head = append(head, ',')
		}
		if !utf8.ValidString(key) || !utf8.ValidString(meta[key]) {
			return nil, nil, fmt.Errorf("metadata %q is not valid UTF-8", key)
		}
		head = strictjson.AppendString(head, key)
		head = append(head, ':')
		head = strictjson.AppendString(head, meta[key])
	}
	head = append(head, '}')
	var at int64
	for i, t := range ordered {
		n, ok := numElements(t.Shape)
		size, ok2 := t.DType.size(n)
		if !ok || !ok2 || layouts[t.DType].rank == 0 || at > math.MaxInt64-size {
			return nil, nil, fmt.Errorf("tensor %q: %s%v cannot be stored in safetensors", t.Name, t.DType, t.Shape)
		}
		if t.Name == "" || t.Name == "__metadata__" || !utf8.ValidString(t.Name) || i > 0 && ordered[i-1].Name == t.Name {
			return nil, nil, fmt.Errorf("tensor name %q is reserved, empty, invalid or used twice", t.Name)
		}
		head = append(head, ',')
		head = strictjson.AppendString(head, t.Name)
		head = append(head, `:{"dtype":"`+string(t.DType)+`","shape":[`...)
		for j, d := range t.Shape {
			if j > 0 {
				head = append(head, ',')
			}
			head = strconv.AppendInt(head, int64(d), 10)
		}
		head = append(head, `],"data_offsets":[`...)
		head = strconv.AppendInt(head, at, 10)
		head = append(head, ',')
		at += size
		head = strconv.AppendInt(head, at, 10)
		head = append(head, `]}`...)
	}
	head = append(head, '}')
	head = append(head, bytes.Repeat([]byte(" "), (8-len(head)%8)%8)...)
	if len(head) > maxHeader {
		return nil, nil, fmt.Errorf("header of %d bytes, the format allows %d", len(head), maxHeader)
	}
	return append(binary.LittleEndian.AppendUint64(nil, uint64(len(head))), head...), ordered, nil
}

// exactWriter refuses bytes beyond a limit.
type exactWriter struct {
	w    io.Writer
	left int64
}

func (e *exactWriter) Write(b []byte) (int, error) {
	if int64(len(b)) > e.left {
		return 0, fmt.Errorf("its source writes more bytes than its shape has")
	}
	n, err := e.w.Write(b)
	e.left -= int64(n)
	return n, err
}

// writeAtomic writes a file whole or not at all: temporary sibling, fsync, rename, fsync of the folder.
func writeAtomic(path string, write func(w io.Writer) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*.tmp")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
			err = fmt.Errorf("%s: %w", path, err)
		}
	}()
	w := bufio.NewWriterSize(f, 1<<20)
	if err := write(w); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if err := f.Chmod(0o644); err != nil { // CreateTemp makes files private
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// syncDir makes renames inside a folder durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, errors.ErrUnsupported) {
		return err // EINVAL: this file system does not sync folders
	}
	return nil
}

// toBFloat16 rounds to nearest even; NaN stays NaN.
func toBFloat16(v float32) uint16 {
	bits := math.Float32bits(v)
	if v != v {
		return uint16(bits>>16) | 0x40
	}
	return uint16((bits + 0x7fff + bits>>16&1) >> 16)
}

// toFloat16 rounds to nearest even; values beyond the largest half become infinite.
func toFloat16(v float32) uint16 {
	bits := math.Float32bits(v)
	sign := uint16(bits >> 16 & 0x8000)
	magnitude := bits & 0x7fffffff
	switch {
	case magnitude > 0x7f800000: // NaN
		return sign | 0x7e00
	case magnitude >= 0x47800000: // 2¹⁶ and up, infinity
		return sign | 0x7c00
	case magnitude < 0x38800000: // below 2⁻¹⁴: multiples of 2⁻²⁴, which RoundToEven counts exactly
		return sign | uint16(math.RoundToEven(float64(math.Float32frombits(magnitude))*(1<<24)))
	}
	rounded := magnitude + 0xfff + magnitude>>13&1
	return sign | uint16((rounded-(112<<23))>>13)
}
