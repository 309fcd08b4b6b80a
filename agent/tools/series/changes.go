package series

import (
	"math"
	"slices"
)

// Cost is what a segment of a series costs in ChangePoints.
type Cost string

// The costs of a segment.
const (
	L1  Cost = "l1"  // Σ |x - median|: robust to outliers
	L2  Cost = "l2"  // Σ (x - mean)²: shifts of the mean
	RBF Cost = "rbf" // Gaussian kernel scatter: any change of distribution
)

// minSegment is the shortest segment between change points.
const minSegment = 2

// ChangePoints returns the ends of the segments of the cheapest segmentation
// Σ (cost + penalty) over segments, the last end being len(x). Ends are multiples
// of jump, at least two values apart. It is PELT (Killick, Fearnhead & Eckley
// 2012) with the pruning delayed by the shortest segment, so that the optimum is
// never lost. Of equally cheap segmentations the one with longer last segments wins.
// RBF needs n²/2 numbers of memory.
func ChangePoints(x []float64, cost Cost, penalty float64, jump int) ([]int, error) {
	n := len(x)
	if err := needAtLeast(1, n); err != nil {
		return nil, err
	}
	best := make([]float64, n+1) // price of the cheapest segmentation of x[:end]
	from := make([]int, n+1)     // start of its last segment
	for i := range best {
		best[i] = math.Inf(1)
	}
	best[0] = 0
	segment := newSegment(x, cost)
	for start := 0; start < n; start += jump {
		if math.IsInf(best[start], 1) {
			continue
		}
		segment.reset(start)
		last := n // the last end for which start can begin the last segment
		for end := start + 1; end <= last; end++ {
			segment.push()
			admissible := end == n || end%jump == 0
			short := end-start < minSegment && n >= minSegment
			if !admissible || short {
				continue
			}
			unfinished := best[start] + segment.cost()
			if unfinished > best[end] { // breaking at end is as cheap for every later end it allows
				last = min(last, end+minSegment-1)
			}
			if price := unfinished + penalty; price < best[end] {
				best[end], from[end] = price, start
			}
		}
	}
	ends := []int{n}
	for from[ends[0]] > 0 {
		ends = slices.Insert(ends, 0, from[ends[0]])
	}
	return ends, nil
}

// segment is a growing stretch of the series whose cost is known at each length.
type segment interface {
	reset(start int)
	push()
	cost() float64
}

func newSegment(x []float64, cost Cost) segment {
	switch cost {
	case L1:
		return &l1Segment{x: x}
	case RBF:
		return newRBF(x)
	}
	return &l2Segment{x: x}
}

// l2Segment keeps the mean and the scatter by Welford's update.
type l2Segment struct {
	x             []float64
	next, n       int
	mean, scatter float64
}

func (s *l2Segment) reset(start int) { s.next, s.n, s.mean, s.scatter = start, 0, 0, 0 }

func (s *l2Segment) push() {
	v := s.x[s.next]
	s.next++
	s.n++
	d := v - s.mean
	s.mean += d / float64(s.n)
	s.scatter += d * (v - s.mean)
}

func (s *l2Segment) cost() float64 { return s.scatter }

// l1Segment keeps the values sorted and the sum of the lower half.
type l1Segment struct {
	x              []float64
	next           int
	sorted         []float64
	sum, lowerHalf float64
}

func (s *l1Segment) reset(start int) {
	s.next, s.sorted, s.sum, s.lowerHalf = start, s.sorted[:0], 0, 0
}

func (s *l1Segment) push() {
	v := s.x[s.next]
	s.next++
	before, after := len(s.sorted)/2, (len(s.sorted)+1)/2 // sizes of the lower half
	at, _ := slices.BinarySearch(s.sorted, v)
	s.sorted = slices.Insert(s.sorted, at, v)
	s.sum += v
	if at < before {
		s.lowerHalf += v
		before++
	}
	if before > after {
		s.lowerHalf -= s.sorted[after]
	} else if before < after {
		s.lowerHalf += s.sorted[before]
	}
}

// cost pairs each value of the lower half with one of the upper; an odd one out is the median.
func (s *l1Segment) cost() float64 {
	c := s.sum - 2*s.lowerHalf
	if n := len(s.sorted); n%2 == 1 {
		c -= s.sorted[n/2]
	}
	return c
}

// rbfSegment is the kernel scatter n - (1/n) ΣΣ k(x_i, x_j) with
// k = exp(-γ (x_i - x_j)²), γ one over the median squared distance (1 if that
// is 0) and γ (x_i - x_j)² kept within [0.01, 100] for different i, j.
type rbfSegment struct {
	tail       [][]float64 // tail[j][i] = Σ k(x_h, x_j), h = i … j-1
	start, end int
	sum        float64
}

func newRBF(x []float64) *rbfSegment {
	distances := make([]float64, 0, len(x)*(len(x)-1)/2)
	for i := range x {
		for j := range i {
			distances = append(distances, (x[i]-x[j])*(x[i]-x[j]))
		}
	}
	gamma := 1.0
	if m, err := Median(distances); err == nil && m != 0 {
		gamma = 1 / m
	}
	s := &rbfSegment{tail: make([][]float64, len(x))}
	for j := range x {
		s.tail[j] = make([]float64, j+1)
		for i := j - 1; i >= 0; i-- {
			d := (x[i] - x[j]) * (x[i] - x[j]) * gamma
			s.tail[j][i] = s.tail[j][i+1] + math.Exp(-min(max(d, 0.01), 100))
		}
	}
	return s
}

func (s *rbfSegment) reset(start int) { s.start, s.end, s.sum = start, start, 0 }

func (s *rbfSegment) push() {
	s.sum += 1 + 2*s.tail[s.end][s.start]
	s.end++
}

func (s *rbfSegment) cost() float64 {
	n := float64(s.end - s.start)
	return n - s.sum/n
}
