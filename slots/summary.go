package slots

import (
	"fmt"
	"strings"

	"terraloom/data"
)

// Summary counts the origins of the argument leaves of seeds.
type Summary struct {
	Trajectories int            `json:"trajectories"`
	Calls        int            `json:"calls"`
	Leaves       int            `json:"leaves"`
	Edges        int            `json:"edges"` // a list copied whole is one
	Origins      map[Origin]int `json:"origins"`
	Nowhere      []LeafReport   `json:"nowhere,omitempty"` // leaves that nothing earlier gives
	Seeds        []LeafReport   `json:"seeds,omitempty"`   // every leaf, where few seeds were asked for
}

// LeafReport is one argument leaf in a report.
type LeafReport struct {
	Seed      string `json:"seed"`
	Step      int    `json:"step"`
	Pointer   string `json:"pointer"`
	Value     string `json:"value"`
	Origin    Origin `json:"origin"`
	From      *int   `json:"from,omitempty"`
	Place     string `json:"observation,omitempty"`
	Transform string `json:"transform,omitempty"`
}

// manySeeds is from how many seeds on a summary leaves out the single leaves.
const manySeeds = 20

// Summarize analyses seeds and counts.
func Summarize(seeds []*data.Trajectory) *Summary {
	s := &Summary{Trajectories: len(seeds), Origins: map[Origin]int{}}
	for _, t := range seeds {
		a := Analyze(t)
		s.Calls += len(t.Steps)
		s.Leaves += len(a.Leaves)
		for _, uses := range a.Uses {
			s.Edges += len(uses)
		}
		for _, l := range a.Leaves {
			s.Origins[l.Origin]++
			r := LeafReport{Seed: t.ID, Step: l.Step, Pointer: l.Pointer, Value: clip(l.Value.JSON(), 120), Origin: l.Origin}
			if l.Use.From >= 0 {
				r.From, r.Place, r.Transform = &l.Use.From, l.Use.Observation, l.Use.Transform
			}
			if l.Origin == FromNowhere {
				s.Nowhere = append(s.Nowhere, r)
			}
			if len(seeds) < manySeeds {
				s.Seeds = append(s.Seeds, r)
			}
		}
	}
	return s
}

// String is a table for people.
func (s *Summary) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d trajectories, %d calls, %d argument leaves, %d edges\n\n", s.Trajectories, s.Calls, s.Leaves, s.Edges)
	for _, o := range Origins {
		if n := s.Origins[o]; n > 0 {
			fmt.Fprintf(&b, "  %-14s %7d %5.1f %%\n", o, n, 100*float64(n)/float64(s.Leaves))
		}
	}
	for _, l := range s.Seeds {
		from := ""
		if l.From != nil {
			from = fmt.Sprintf(" ← step %d %s (%s)", *l.From, l.Place, l.Transform)
		}
		fmt.Fprintf(&b, "\n%s step %d %s %s: %s%s", l.Seed, l.Step, l.Pointer, clip(l.Value, 60), l.Origin, from)
	}
	if len(s.Seeds) > 0 {
		b.WriteByte('\n')
	}
	return b.String()
}
