package train

import (
	"errors"
	"fmt"
	"slices"

	"terraloom/lora/decoder"
)

// ErrTooLong: a sample is longer than a row may be.
var ErrTooLong = errors.New("sample too long")

// Sample is one document: its tokens and which of them count in the objective.
type Sample struct {
	Tokens []int32
	Label  []bool // of the same length; a first token never counts, for nothing comes before it
}

// Labels is the number of tokens that count.
func (s Sample) Labels() int {
	n := 0
	for i, l := range s.Label {
		if l && i > 0 {
			n++
		}
	}
	return n
}

// Layout says how samples become rectangles for the device. It changes speed and memory, never the objective, which is
// a sum over labelled tokens whatever rectangle they are in.
type Layout struct {
	// Tokens is the largest rectangle: rows × padded length, on all devices together.
	Tokens int
	// Row is the capacity of a row for packing; 0: one sample per row.
	Row int
	// Devices divide the rows among them.
	Devices int
}

// Micro is one rectangle: rows of samples by index. Rows may be empty: they fill the rectangle to a shape that other
// rectangles have too, because every shape is compiled once.
type Micro [][]int

// Plan distributes samples of the given lengths over rectangles. Samples of like lengths share one: without packing
// they are sorted by length; with packing rows are filled best-fit decreasing (the longest first, each into the fullest
// row that still has room). The number of rows is the largest that fits Tokens, or a power of two below it.
// A sample that fits no rectangle is [ErrTooLong].
func (l Layout) Plan(lengths []int) ([]Micro, error) {
	order := make([]int, len(lengths))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return lengths[b] - lengths[a] })
	devices := max(l.Devices, 1)
	if len(order) > 0 {
		if n := lengths[order[0]]; l.Row > 0 && n > l.Row || decoder.Bucket(n)*devices > l.Tokens {
			return nil, fmt.Errorf("%w: sample %d has %d tokens; with %d devices a rectangle of %d tokens has rows of at most %d",
				ErrTooLong, order[0], n, devices, l.Tokens, l.longest())
		}
	}
	rows := l.rows(order, lengths)
	length := func(row []int) (n int) {
		for _, i := range row {
			n += lengths[i]
		}
		return n
	}
	slices.SortStableFunc(rows, func(a, b []int) int { return length(b) - length(a) })
	var out []Micro
	for len(rows) > 0 {
		most := max(l.Tokens/decoder.Bucket(length(rows[0]))/devices, 1) * devices
		take := min(most, len(rows))
		size := devices
		for size < take {
			size = min(2*size, most)
		}
		m := make(Micro, size)
		copy(m, rows[:take])
		out, rows = append(out, m), rows[take:]
	}
	return out, nil
}

// longest is the longest row that fits a rectangle.
func (l Layout) longest() int {
	n := 0
	for next := 32; decoder.Bucket(next)*max(l.Devices, 1) <= l.Tokens; next = decoder.Bucket(n + 1) {
		n = decoder.Bucket(next)
	}
	if l.Row > 0 {
		n = min(n, l.Row)
	}
	return n
}

// rows fills rows with samples, which come longest first.
func (l Layout) rows(order, lengths []int) (rows [][]int) {
	if l.Row == 0 {
		for _, i := range order {
			rows = append(rows, []int{i})
		}
		return rows
	}
	var room []int
	for _, i := range order {
		best := -1
		for r, left := range room {
			if left >= lengths[i] && (best < 0 || left < room[best]) {
				best = r
			}
		}
		if best < 0 {
			best = len(rows)
			rows, room = append(rows, nil), append(room, l.Row)
		}
		rows[best] = append(rows[best], i)
		room[best] -= lengths[i]
	}
	return rows
}

// Batch is a rectangle with its labels.
type Batch struct {
	decoder.Batch
	Labels decoder.Labels
	Owner  []int // sample of each label
	Count  Tokens
}

// Batch lays the samples of a rectangle out.
func (m Micro) Batch(samples []Sample) Batch {
	packed := false
	rows := make([][][]int32, len(m))
	for r, row := range m {
		packed = packed || len(row) > 1
		for _, i := range row {
			rows[r] = append(rows[r], samples[i].Tokens)
		}
	}
	var b Batch
	if packed {
		b.Batch = decoder.Pack(rows)
	} else {
		plain := make([][]int32, len(m))
		for r, docs := range rows {
			if len(docs) > 0 {
				plain[r] = docs[0]
			}
		}
		b.Batch = decoder.PadRight(plain)
	}
	mask, owner := make([]bool, len(b.Tokens)), make([]int, len(b.Tokens))
	for r, row := range m {
		at := r * b.Len
		for _, i := range row {
			copy(mask[at:], samples[i].Label)
			for range samples[i].Tokens {
				owner[at] = i
				at++
			}
		}
		b.Count.Real += at - r*b.Len
	}
	b.Labels = b.NextTokens(mask)
	for _, at := range b.Labels.At {
		b.Owner = append(b.Owner, owner[at])
	}
	b.Count.All, b.Count.Labelled = b.Rows*b.Len, len(b.Labels.At)
	return b
}

// Tokens counts tokens three ways.
type Tokens struct {
	All      int `json:"all"`      // what the device computed, padding included
	Real     int `json:"real"`     // without padding
	Labelled int `json:"labelled"` // that count in the objective
}

// Add sums counts.
func (t *Tokens) Add(u Tokens) {
	t.All += u.All
	t.Real += u.Real
	t.Labelled += u.Labelled
}
