package checkpoint

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	nlp "github.com/nlpodyssey/safetensors"
)

// file puts a header and data together.
func file(header string, data int) []byte {
	raw := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(raw, header...), make([]byte, data)...)
}

// hostile are files that must be refused, with what the error must say.
var hostile = []struct {
	name string
	raw  []byte
	says string
}{
	{"empty", nil, "0 bytes"},
	{"seven bytes", make([]byte, 7), "7 bytes"},
	{"header longer than the file", binary.LittleEndian.AppendUint64(nil, 10), "header of 10 bytes"},
	{"header over the limit", append(binary.LittleEndian.AppendUint64(nil, maxHeader+1), '{'), "at most 100000000"},
	{"header of 2^63", append(binary.LittleEndian.AppendUint64(nil, 1<<63), '{'), "at most 100000000"},
	{"no header", file("", 0), "unexpected EOF"},
	{"cut header", file(`{"a":{"dtype":"F32"`, 0), "unexpected EOF"},
	{"not an object", file(`[1]`, 0), "expected an object"},
	{"not UTF-8", file("{\"\xff\":{}}", 0), "UTF-8"},
	{"after the object", file(`{} {}`, 0), "follow the object"},
	{"tensor is a number", file(`{"a":1}`, 0), `"a"`},
	{"no dtype", file(`{"a":{"shape":[1],"data_offsets":[0,4]}}`, 4), "expected dtype, shape"},
	{"no shape", file(`{"a":{"dtype":"F32","data_offsets":[0,4]}}`, 4), "expected dtype, shape"},
	{"no offsets", file(`{"a":{"dtype":"F32","shape":[1]}}`, 4), "expected dtype, shape"},
	{"one offset", file(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[4]}}`, 4), "two data_offsets"},
	{"three offsets", file(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,4]}}`, 4), "more than 2"},
	{"unknown key", file(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1}}`, 4), `"x"`},
	{"unknown dtype", file(`{"a":{"dtype":"F31","shape":[1],"data_offsets":[0,4]}}`, 4), `"F31"`},
	{"quantised dtype", file(`{"a":{"dtype":"Q4_0","shape":[32],"data_offsets":[0,18]}}`, 18), `"Q4_0"`},
	{"dtype is null", file(`{"a":{"dtype":null,"shape":[1],"data_offsets":[0,4]}}`, 4), "expected a string"},
	{"shape is null", file(`{"a":{"dtype":"F32","shape":null,"data_offsets":[0,4]}}`, 4), "expected a list"},
	{"negative dimension", file(`{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}`, 4), "-1"},
	{"fractional dimension", file(`{"a":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}}`, 4), "1.0"},
	{"dimension of 2^63", file(`{"a":{"dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,4]}}`, 4), "63 bits"},
	{"product overflows", file(`{"a":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}}`, 0), "2^63"},
	{"bytes overflow", file(`{"a":{"dtype":"F64","shape":[4611686018427387904],"data_offsets":[0,0]}}`, 0), "2^63"},
	{"rank 65", file(`{"a":{"dtype":"U8","shape":[`+strings.Repeat("1,", 64)+`1],"data_offsets":[0,1]}}`, 1), "more than 64"},
	{"half a byte", file(`{"a":{"dtype":"F4","shape":[3],"data_offsets":[0,1]}}`, 1), "whole number of bytes"},
	{"size differs", file(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}`, 4), "takes 8 bytes"},
	{"end before begin", file(`{"a":{"dtype":"F32","shape":[0],"data_offsets":[4,0]}}`, 4), "[4, 0]"},
	{"truncated data", file(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`, 7), "truncated"},
	{"trailing bytes", file(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`, 9), "trailing"},
	{"gap", file(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}}`, 3), `gap from 1 to 2 before tensor "b"`},
	{"gap at the start", file(`{"b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}`, 2), `gap from 0 to 1`},
	{"overlap", file(`{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}`, 3), `"b" begins at 1`},
	{"same place", file(`{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}`, 2), "begins at 0"},
	{"repeated tensor", file(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}`, 2), `"a" is there twice`},
	{"repeated, escaped", file(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"\u0061":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}`, 2), `"a" is there twice`},
	{"repeated key", file(`{"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, 1), "dtype is there twice"},
	{"repeated metadata", file(`{"__metadata__":{},"__metadata__":{}}`, 0), "is there twice"},
	{"repeated metadata key", file(`{"__metadata__":{"a":"1","a":"2"}}`, 0), `"a" is there twice`},
	{"metadata not text", file(`{"__metadata__":{"a":1}}`, 0), "expected a string"},
}

func TestSafetensorsRefusesHostileFiles(t *testing.T) {
	for _, c := range hostile {
		t.Run(c.name, func(t *testing.T) {
			_, err := ParseSafetensors(c.raw)
			wantError(t, err, ErrFormat, c.says)
			path := filepath.Join(t.TempDir(), "x.safetensors")
			write(t, path, c.raw)
			_, err = OpenSafetensors(path)
			wantError(t, err, ErrFormat, path, c.says)
		})
	}
}

func TestSafetensorsReadsOddButSoundFiles(t *testing.T) {
	// Keys in any order, tensors not listed in the order of their data, a scalar, empty tensors, padding, no metadata.
	s, err := ParseSafetensors(file(`{"b":{"shape":[],"data_offsets":[2,6],"dtype":"F32"},"none":{"dtype":"I64","shape":[3,0],"data_offsets":[2,2]},`+
		`"a":{"data_offsets":[0,2],"dtype":"F8_E4M3","shape":[2]},"end":{"dtype":"F4","shape":[0],"data_offsets":[6,6]}}   `, 6))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := s.Names(), []string{"a", "none", "b", "end"}; !slices.Equal(got, want) {
		t.Errorf("names %q, expected %q", got, want)
	}
	b, err := s.Float32("b")
	if err != nil || len(b) != 1 {
		t.Errorf("scalar: %v, %v", b, err)
	}
	none, err := s.Float32("none")
	if err != nil || len(none) != 0 {
		t.Errorf("empty tensor: %v, %v", none, err)
	}
	if _, err := s.Tensor("c"); !errors.Is(err, ErrNoTensor) {
		t.Errorf("absent tensor: %v", err)
	}
}

// TestWriterReproducesReferenceFiles: every safetensors file among the goldens, all written by the reference
// implementation, comes out byte for byte when it is read and written again.
func TestWriterReproducesReferenceFiles(t *testing.T) {
	var files []string
	for _, pattern := range []string{"*/model*.safetensors", "*/golden.safetensors", "*/peft/*/*.safetensors"} {
		found, _ := filepath.Glob(filepath.Join(golden(t), pattern))
		files = append(files, found...)
	}
	files = append(files, "testdata/blocks.safetensors")
	if len(files) < 20 {
		t.Fatalf("only %d files", len(files))
	}
	for _, path := range files {
		s, err := OpenSafetensors(path)
		if err != nil {
			t.Fatal(err)
		}
		var sources []Source
		for _, name := range s.Names() {
			tensor, err := s.Tensor(name)
			if err != nil {
				t.Fatal(err)
			}
			sources = append(sources, FromTensor(name, tensor))
		}
		slices.Reverse(sources)
		copied := filepath.Join(t.TempDir(), "copy")
		if err := WriteSafetensors(copied, s.Metadata, sources); err != nil {
			t.Fatal(err)
		}
		want := read(t, path)
		if len(s.Metadata) == 0 { // the writer always says format=pt
			again, err := OpenSafetensors(copied)
			if err != nil {
				t.Fatal(err)
			}
			defer again.Close()
			if again.Metadata["format"] != "pt" || !bytes.Equal(again.data, s.data) {
				t.Errorf("%s: data or metadata %v differ", path, again.Metadata)
			}
		} else if !bytes.Equal(read(t, copied), want) {
			t.Errorf("%s: the copy differs", path)
		}
		s.Close()
	}
}

// view adapts a source for the foreign library.
type view struct {
	dtype nlp.DType
	shape []uint64
	data  []byte
}

func (v view) DType() nlp.DType { return v.dtype }
func (v view) Shape() []uint64  { return v.shape }
func (v view) Data() []byte     { return v.data }
func (v view) DataLen() uint64  { return uint64(len(v.data)) }

// TestAgreesWithForeignLibrary: the same bytes as nlpodyssey/safetensors where it lists tensors in the order of their
// data (its header is sorted by name), the same content everywhere, and each reads the other's files.
func TestAgreesWithForeignLibrary(t *testing.T) {
	types := map[DType]nlp.DType{BOOL: nlp.BOOL, U8: nlp.U8, I8: nlp.I8, I16: nlp.I16, U16: nlp.U16, F16: nlp.F16, BF16: nlp.BF16,
		I32: nlp.I32, U32: nlp.U32, F32: nlp.F32, F64: nlp.F64, I64: nlp.I64, U64: nlp.U64}
	all := slices.Sorted(maps.Keys(types))
	cases := []struct {
		name      string
		dtypes    []DType
		sameBytes bool
	}{
		{"one float32", []DType{F32}, true},
		{"three bfloat16", []DType{BF16, BF16, BF16}, true},
		{"wide to narrow", []DType{F64, F32, I32, BF16, F16, U8, BOOL}, true},
		{"every type", all, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var ours []Source
			theirs := map[string]view{}
			for i, dtype := range c.dtypes {
				name, shape := fmt.Sprintf("layers.%02d.weight", i), []int{2, i + 1}
				size, _ := dtype.size(int64(2 * (i + 1)))
				data := bytes.Repeat([]byte{byte(i), 1, 0}, int(size))[:size]
				ours = append(ours, FromTensor(name, Tensor{name, dtype, shape, data}))
				theirs[name] = view{types[dtype], []uint64{2, uint64(i + 1)}, data}
			}
			path := filepath.Join(t.TempDir(), "ours")
			if err := WriteSafetensors(path, nil, ours); err != nil {
				t.Fatal(err)
			}
			got := read(t, path)
			want, err := nlp.Serialize(theirs, map[string]string{"format": "pt"})
			if err != nil {
				t.Fatal(err)
			}
			if c.sameBytes && !bytes.Equal(got, want) {
				t.Errorf("bytes differ:\n%q\n%q", got, want)
			}
			foreign, err := nlp.Deserialize(got)
			if err != nil {
				t.Fatal(err)
			}
			for name, v := range theirs {
				if x, ok := foreign.Tensor(name); !ok || !bytes.Equal(x.Data(), v.data) || x.DType() != v.dtype || !slices.Equal(x.Shape(), v.shape) {
					t.Errorf("the foreign library reads %q differently", name)
				}
			}
			s, err := ParseSafetensors(want)
			if err != nil {
				t.Fatal(err)
			}
			for name, v := range theirs {
				x, err := s.Tensor(name)
				if err != nil || !bytes.Equal(x.Data, v.data) || types[x.DType] != v.dtype || len(x.Shape) != 2 {
					t.Errorf("%q reads differently (%v)", name, err)
				}
			}
		})
	}
}

func TestSafetensorsIsMapped(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	if err := WriteSafetensors(path, nil, []Source{FromFloat32("a", F32, []int{2}, []float32{1, -2})}); err != nil {
		t.Fatal(err)
	}
	s, err := OpenSafetensors(path)
	if err != nil {
		t.Fatal(err)
	}
	// Replacing the file, as the writer does, leaves the open one alone.
	if err := WriteSafetensors(path, nil, []Source{FromFloat32("a", F32, []int{2}, []float32{3, 4})}); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Float32("a"); err != nil || got[0] != 1 || got[1] != -2 {
		t.Errorf("open file changed: %v, %v", got, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	if _, err := s.Tensor("a"); !errors.Is(err, ErrNoTensor) {
		t.Errorf("after Close: %v", err)
	}
	if _, err := OpenSafetensors(t.TempDir()); err == nil {
		t.Error("a folder was opened")
	}
	if _, err := OpenSafetensors(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("absent file: %v", err)
	}
}

// FuzzSafetensors: no panic; whatever is accepted tiles its data and survives writing and reading.
func FuzzSafetensors(f *testing.F) {
	for _, c := range hostile {
		f.Add(c.raw)
	}
	f.Add(file(`{"b":{"shape":[],"data_offsets":[2,6],"dtype":"F32"},"a":{"data_offsets":[0,2],"dtype":"F8_E4M3","shape":[2]}}  `, 6))
	f.Add(file(`{"__metadata__":{"format":"pt"},"w":{"dtype":"BF16","shape":[2,3],"data_offsets":[0,12]}}`, 12))
	f.Fuzz(func(t *testing.T, raw []byte) {
		s, err := ParseSafetensors(raw)
		if err != nil {
			if !errors.Is(err, ErrFormat) {
				t.Fatalf("error of no kind: %v", err)
			}
			return
		}
		total := 0
		var sources []Source
		for _, name := range s.Names() {
			x, err := s.Tensor(name)
			if err != nil {
				t.Fatal(err)
			}
			total += len(x.Data)
			if _, err := x.Float32(); err != nil && !errors.Is(err, ErrUnsupported) {
				t.Fatal(err)
			}
			if name == "" {
				return // readable, but not written
			}
			sources = append(sources, FromTensor(name, x))
		}
		if total != len(s.data) {
			t.Fatalf("%d bytes of %d belong to tensors", total, len(s.data))
		}
		head, ordered, err := makeHeader(s.Metadata, sources)
		if err != nil {
			t.Fatal(err)
		}
		out := bytes.NewBuffer(head)
		for _, x := range ordered {
			if err := x.Write(out); err != nil {
				t.Fatal(err)
			}
		}
		again, err := ParseSafetensors(out.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range s.Names() {
			a, _ := s.Tensor(name)
			b, err := again.Tensor(name)
			if err != nil || a.DType != b.DType || !slices.Equal(a.Shape, b.Shape) || !bytes.Equal(a.Data, b.Data) {
				t.Fatalf("%q changed (%v)", name, err)
			}
		}
	})
}
