package eval

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Slice is the part of a list between two positions, as Python's [from:to].
type Slice struct {
	from, to  int
	open, end bool // from, to were left out
}

// ParseSlice reads "FROM:TO"; either may be missing, and negative ones count
// from the end. "" is the whole list.
func ParseSlice(text string) (Slice, error) {
	if text == "" {
		return Slice{open: true, end: true}, nil
	}
	var s Slice
	from, to, ok := strings.Cut(text, ":")
	s.open, s.end = from == "", to == ""
	var errs [2]error
	if !s.open {
		s.from, errs[0] = strconv.Atoi(from)
	}
	if !s.end {
		s.to, errs[1] = strconv.Atoi(to)
	}
	if !ok || errors.Join(errs[:]...) != nil {
		return Slice{}, fmt.Errorf("bad slice %q: expected FROM:TO with whole numbers, such as 188: or 0:100", text)
	}
	return s, nil
}

// Of returns the part of the questions.
func (s Slice) Of(questions []Question) []Question {
	at := func(i int) int {
		if i < 0 {
			i += len(questions)
		}
		return min(max(i, 0), len(questions))
	}
	from, to := 0, len(questions)
	if !s.open {
		from = at(s.from)
	}
	if !s.end {
		to = at(s.to)
	}
	return slices.Clone(questions[min(from, to):to])
}
