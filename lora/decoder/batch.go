package decoder

import (
	"fmt"
	"slices"
)

// Batch is a rectangle of tokens: rows of documents, padded to a length that few compiled shapes serve.
type Batch struct {
	Rows, Len int
	Tokens    []int32 // [Rows, Len]
	Lengths   []int   // real tokens of each row
	// Segments numbers the runs of each row from 0: documents and padding, [Rows, Len]. nil: each row is one document
	// from its first column, then padding.
	Segments []int32

	padLeft bool // the real tokens of a row are its last ones
}

// Bucket rounds a length up to one of few, two to an octave: 32, 64, 96, 128, 192, 256, 384 …
func Bucket(n int) int {
	if n <= 32 {
		return 32
	}
	for size := 64; ; size *= 2 {
		switch {
		case n <= size:
			return size
		case n <= size+size/2:
			return size + size/2
		}
	}
}

// PadRight makes a batch of one document per row, padded on the right. Rows may be empty: they only fill the batch.
func PadRight(rows [][]int32) Batch {
	b := newBatch(rows)
	for r, row := range rows {
		copy(b.Tokens[r*b.Len:], row)
	}
	return b
}

// PadLeft makes a batch of one document per row, padded on the left: the last column of every row is its last token.
// That is what decoding goes on from.
func PadLeft(rows [][]int32) Batch {
	b := newBatch(rows)
	b.padLeft = true
	b.Segments = make([]int32, len(b.Tokens))
	for r, row := range rows {
		from := (r+1)*b.Len - len(row)
		copy(b.Tokens[from:], row)
		if len(row) < b.Len {
			for i := from; i < (r+1)*b.Len; i++ {
				b.Segments[i] = 1
			}
		}
	}
	return b
}

// Pack makes a batch of several documents per row, which do not see each other. Empty documents are skipped.
func Pack(rows [][][]int32) Batch {
	joined := make([][]int32, len(rows))
	for r, docs := range rows {
		for _, d := range docs {
			joined[r] = append(joined[r], d...)
		}
	}
	b := PadRight(joined)
	b.Segments = make([]int32, len(b.Tokens))
	for r, docs := range rows {
		at, segment := r*b.Len, int32(0)
		for _, d := range docs {
			for range d {
				b.Segments[at] = segment
				at++
			}
			if len(d) > 0 {
				segment++
			}
		}
		for ; at < (r+1)*b.Len; at++ {
			b.Segments[at] = segment
		}
	}
	return b
}

func newBatch(rows [][]int32) Batch {
	b := Batch{Rows: len(rows), Lengths: make([]int, len(rows))}
	longest := 0
	for r, row := range rows {
		b.Lengths[r] = len(row)
		longest = max(longest, len(row))
	}
	b.Len = Bucket(longest)
	b.Tokens = make([]int32, b.Rows*b.Len)
	return b
}

// Positions are the positions of the tokens in their documents, [Rows, Len]; without Segments one row serves all.
func (b Batch) Positions() []int32 {
	if b.Segments == nil {
		p := make([]int32, b.Len)
		for i := range p {
			p[i] = int32(i)
		}
		return p
	}
	p := make([]int32, len(b.Segments))
	for i := range p {
		if i%b.Len > 0 && b.Segments[i] == b.Segments[i-1] {
			p[i] = p[i-1] + 1
		}
	}
	return p
}

// check verifies what a graph cannot: gathers clamp ids silently.
func (b Batch) check(vocab, maxPositions, devices int) error {
	switch {
	case b.Rows < 1 || b.Len < 1 || len(b.Tokens) != b.Rows*b.Len || len(b.Lengths) != b.Rows:
		return fmt.Errorf("batch of %d rows × %d holds %d tokens", b.Rows, b.Len, len(b.Tokens))
	case b.Segments != nil && len(b.Segments) != len(b.Tokens):
		return fmt.Errorf("batch of %d tokens has %d segment numbers", len(b.Tokens), len(b.Segments))
	case b.Rows%devices != 0:
		return fmt.Errorf("batch of %d rows cannot be split over %d devices: add empty rows", b.Rows, devices)
	}
	for i, t := range b.Tokens {
		if t < 0 || int(t) >= vocab {
			return fmt.Errorf("batch row %d column %d: token id %d is not in 0 … %d: is this the model's tokenizer?", i/b.Len, i%b.Len, t, vocab-1)
		}
	}
	for i, s := range b.Segments {
		if before := i%b.Len - 1; s < 0 || before >= 0 && s < b.Segments[i-1] {
			return fmt.Errorf("batch row %d column %d: segment %d: numbers must be ≥ 0 and not fall along a row", i/b.Len, i%b.Len, s)
		}
	}
	positions := b.Positions()
	for r, n := range b.Lengths {
		// Packed rows hold several documents: the last position of the longest counts.
		last := n - 1
		if b.Segments != nil {
			last = int(slices.Max(positions[r*b.Len : (r+1)*b.Len]))
		}
		if last >= maxPositions {
			return fmt.Errorf("batch row %d: a document has position %d, the model goes up to %d: shorten it", r, last, maxPositions-1)
		}
	}
	return nil
}
