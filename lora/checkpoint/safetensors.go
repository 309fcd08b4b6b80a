package checkpoint

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"unicode/utf8"
)

// maxHeader is the limit of the format's reference implementation.
const maxHeader = 100_000_000

// Safetensors is one open .safetensors file (https://github.com/huggingface/safetensors, "Format").
type Safetensors struct {
	// Metadata is the header's __metadata__, empty if there is none.
	Metadata map[string]string

	path    string
	entries map[string]entry
	order   []string // by position in the file
	data    []byte   // the part after the header
	release func() error
}

// entry is a tensor of the header; begin and end are offsets into the data part.
type entry struct {
	dtype      DType
	shape      []int
	begin, end int64
}

// OpenSafetensors maps a file and checks its header: every byte of the data belongs to exactly one tensor. Damage is
// [ErrFormat]. Close it after the last use of its tensors.
func OpenSafetensors(path string) (*Safetensors, error) {
	raw, release, err := mapFile(path)
	if err != nil {
		return nil, err
	}
	s, err := ParseSafetensors(raw)
	if err != nil {
		release()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	s.path, s.release = path, release
	return s, nil
}

// ParseSafetensors reads a file held in memory; tensors alias raw.
func ParseSafetensors(raw []byte) (*Safetensors, error) {
	if len(raw) < 8 {
		return nil, fmt.Errorf("safetensors: %d bytes, shorter than the length of a header: %w", len(raw), ErrFormat)
	}
	n := binary.LittleEndian.Uint64(raw)
	if n > maxHeader {
		return nil, fmt.Errorf("safetensors: header of %d bytes, at most %d are allowed: %w", n, maxHeader, ErrFormat)
	}
	if n > uint64(len(raw)-8) {
		return nil, fmt.Errorf("safetensors: header of %d bytes in a file of %d: %w", n, len(raw), ErrFormat)
	}
	s := &Safetensors{Metadata: map[string]string{}, entries: map[string]entry{}, data: raw[8+n:], release: func() error { return nil }}
	if err := s.parseHeader(raw[8 : 8+n]); err != nil {
		return nil, fmt.Errorf("safetensors header: %w", err)
	}
	return s, s.checkLayout()
}

// checkLayout verifies that the tensors tile the data part without gap or overlap.
func (s *Safetensors) checkLayout() error {
	for name := range s.entries {
		s.order = append(s.order, name)
	}
	slices.SortFunc(s.order, func(a, b string) int {
		x, y := s.entries[a], s.entries[b]
		if x.begin != y.begin {
			return cmp64(x.begin, y.begin)
		}
		if x.end != y.end {
			return cmp64(x.end, y.end)
		}
		return bytes.Compare([]byte(a), []byte(b))
	})
	var at int64
	for _, name := range s.order {
		e := s.entries[name]
		switch {
		case e.begin < at:
			return fmt.Errorf("safetensors: tensor %q begins at %d inside the one before it, which ends at %d: %w", name, e.begin, at, ErrFormat)
		case e.begin > at:
			return fmt.Errorf("safetensors: gap from %d to %d before tensor %q: %w", at, e.begin, name, ErrFormat)
		}
		at = e.end
	}
	if at != int64(len(s.data)) {
		return fmt.Errorf("safetensors: tensors end at %d, the data at %d (truncated or trailing bytes): %w", at, len(s.data), ErrFormat)
	}
	return nil
}

func cmp64(a, b int64) int {
	if a < b {
		return -1
	}
	return 1
}

// parseHeader reads {"__metadata__": {…}, NAME: {"dtype", "shape", "data_offsets"}, …} padded with spaces. It goes
// token by token: Go's map decoder would accept repeated keys.
func (s *Safetensors) parseHeader(header []byte) error {
	if !utf8.Valid(header) {
		return fmt.Errorf("not valid UTF-8: %w", ErrFormat)
	}
	h := &headerReader{dec: json.NewDecoder(bytes.NewReader(header))}
	h.dec.UseNumber()
	seen := map[string]bool{}
	err := h.object(func(name string) error {
		if seen[name] {
			return fmt.Errorf("%q is there twice: %w", name, ErrFormat)
		}
		seen[name] = true
		if name == "__metadata__" {
			return h.object(func(key string) error {
				if _, twice := s.Metadata[key]; twice {
					return fmt.Errorf("metadata key %q is there twice: %w", key, ErrFormat)
				}
				value, err := h.text()
				s.Metadata[key] = value
				return err
			})
		}
		e, err := h.entry()
		if err != nil {
			return fmt.Errorf("tensor %q: %w", name, err)
		}
		s.entries[name] = e
		return nil
	})
	if err != nil {
		return err
	}
	if rest := bytes.TrimRight(header[h.dec.InputOffset():], " "); len(rest) > 0 {
		return fmt.Errorf("%d bytes follow the object: %w", len(rest), ErrFormat)
	}
	return nil
}

// headerReader pulls the few shapes of JSON that a header may hold.
type headerReader struct{ dec *json.Decoder }

func (h *headerReader) token() (json.Token, error) {
	tok, err := h.dec.Token()
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	return tok, nil
}

func (h *headerReader) object(member func(key string) error) error {
	tok, err := h.token()
	if err != nil {
		return err
	}
	if tok != json.Delim('{') {
		return fmt.Errorf("%v, expected an object: %w", tok, ErrFormat)
	}
	for {
		tok, err := h.token()
		if err != nil {
			return err
		}
		if tok == json.Delim('}') {
			return nil
		}
		if err := member(tok.(string)); err != nil { // between braces the decoder gives only strings here
			return err
		}
	}
}

func (h *headerReader) text() (string, error) {
	tok, err := h.token()
	if err != nil {
		return "", err
	}
	s, ok := tok.(string)
	if !ok {
		return "", fmt.Errorf("%v, expected a string: %w", tok, ErrFormat)
	}
	return s, nil
}

// integers reads a list of integers from 0 to the largest int64.
func (h *headerReader) integers(limit int) ([]int64, error) {
	tok, err := h.token()
	if err != nil {
		return nil, err
	}
	if tok != json.Delim('[') {
		return nil, fmt.Errorf("%v, expected a list: %w", tok, ErrFormat)
	}
	list := []int64{}
	for {
		tok, err := h.token()
		if err != nil {
			return nil, err
		}
		if tok == json.Delim(']') {
			return list, nil
		}
		number, _ := tok.(json.Number)
		n, err := strconv.ParseInt(string(number), 10, 64)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("%v, expected an integer of at most 63 bits: %w", tok, ErrFormat)
		}
		if len(list) == limit {
			return nil, fmt.Errorf("a list of more than %d integers: %w", limit, ErrFormat)
		}
		list = append(list, n)
	}
}

// maxRank bounds a tensor's shape; torch allows 64.
const maxRank = 64

func (h *headerReader) entry() (entry, error) {
	var e entry
	var shape, offsets []int64
	seen := map[string]bool{}
	err := h.object(func(key string) (err error) {
		if seen[key] {
			return fmt.Errorf("%s is there twice: %w", key, ErrFormat)
		}
		seen[key] = true
		switch key {
		case "dtype":
			var name string
			name, err = h.text()
			e.dtype = DType(name)
		case "shape":
			shape, err = h.integers(maxRank)
		case "data_offsets":
			offsets, err = h.integers(2)
		default:
			err = fmt.Errorf("unknown key %q: %w", key, ErrFormat)
		}
		return err
	})
	if err != nil {
		return e, err
	}
	if !seen["dtype"] || !seen["shape"] || len(offsets) != 2 {
		return e, fmt.Errorf("expected dtype, shape and two data_offsets: %w", ErrFormat)
	}
	if layouts[e.dtype].rank == 0 {
		return e, fmt.Errorf("unknown dtype %q: %w", e.dtype, ErrFormat)
	}
	e.shape = make([]int, len(shape))
	for i, d := range shape {
		e.shape[i] = int(d)
		if int64(e.shape[i]) != d {
			return e, fmt.Errorf("dimension %d does not fit this machine: %w", d, ErrFormat)
		}
	}
	n, ok := numElements(e.shape)
	size, ok2 := e.dtype.size(n)
	if !ok || !ok2 {
		return e, fmt.Errorf("%s%v has no whole number of bytes below 2^63: %w", e.dtype, e.shape, ErrFormat)
	}
	e.begin, e.end = offsets[0], offsets[1]
	if e.end < e.begin || e.end-e.begin != size {
		return e, fmt.Errorf("%s%v takes %d bytes, data_offsets are [%d, %d]: %w", e.dtype, e.shape, size, e.begin, e.end, ErrFormat)
	}
	return e, nil
}

// Names lists the tensors in the order of their data.
func (s *Safetensors) Names() []string { return slices.Clone(s.order) }

// Tensor returns a tensor by name, without copying its data; [ErrNoTensor] if there is none.
func (s *Safetensors) Tensor(name string) (Tensor, error) {
	e, ok := s.entries[name]
	if !ok {
		return Tensor{}, fmt.Errorf("%s: %q: %w", s.path, name, ErrNoTensor)
	}
	return Tensor{name, e.dtype, slices.Clone(e.shape), s.data[e.begin:e.end:e.end]}, nil
}

// Float32 decodes a tensor, see [Tensor.Float32].
func (s *Safetensors) Float32(name string) ([]float32, error) {
	t, err := s.Tensor(name)
	if err != nil {
		return nil, err
	}
	return t.Float32()
}

// Close releases the file. Tensors taken from it must not be used afterwards.
func (s *Safetensors) Close() error {
	release := s.release
	s.release = func() error { return nil }
	s.data, s.entries = nil, nil
	return release()
}
