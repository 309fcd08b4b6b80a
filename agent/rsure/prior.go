package rsure

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// ErrPrior is returned for a prior that cannot be read or fitted.
var ErrPrior = errors.New("no usable reliability prior")

// PriorFormat is the format's name in the file.
const PriorFormat = "terraloom-reliability-prior-1"

// Count is what calibration saw of one configuration on one task type.
type Count struct {
	Task   string `json:"task"`
	Config string `json:"config"`
	Valid  int    `json:"valid"` // n_valid: observations that matched the reference
	Calls  int    `json:"calls"` // n
}

// Reliability is the smoothed share of valid calls (Eq. R6).
func (c *Count) Reliability() float64 { return float64(c.Valid+1) / float64(c.Calls+2) }

// Prior is the task–tool reliability matrix (RSure-Agent §4.3). Each level has
// its own counts. It is frozen after calibration: nothing online changes it.
type Prior struct {
	Format string   `json:"format"`
	Coarse []Count  `json:"coarse"`
	Fine   []Count  `json:"fine"`
	Tasks  []string `json:"tasks"` // ids of the calibration tasks
}

// Sample is one calibration call.
type Sample struct {
	Task   string // type of the question
	Config Config
	Valid  bool
}

// Fit counts samples. tasks are the ids of the calibration tasks; one that is
// also in test is an error, for a prior must not know its test set.
func Fit(samples []Sample, tasks, test []string) (*Prior, error) {
	var both []string
	for _, id := range test {
		if slices.Contains(tasks, id) {
			both = append(both, id)
		}
	}
	if len(both) > 0 {
		return nil, fmt.Errorf("%w: %d calibration tasks are in the test set: %s", ErrPrior, len(both), strings.Join(both[:min(len(both), 5)], ", "))
	}
	if len(samples) == 0 {
		return nil, fmt.Errorf("%w: the runs hold no call that could be compared with a reference", ErrPrior)
	}
	coarse, fine := map[[2]string]*Count{}, map[[2]string]*Count{}
	count := func(m map[[2]string]*Count, s Sample, config string) {
		if config == "" {
			return
		}
		c := m[[2]string{s.Task, config}]
		if c == nil {
			c = &Count{Task: s.Task, Config: config}
			m[[2]string{s.Task, config}] = c
		}
		if c.Calls++; s.Valid {
			c.Valid++
		}
	}
	for _, s := range samples {
		count(coarse, s, s.Config.Coarse)
		count(fine, s, s.Config.Fine)
	}
	p := &Prior{Format: PriorFormat, Coarse: sorted(coarse), Fine: sorted(fine), Tasks: slices.Clone(tasks)}
	slices.Sort(p.Tasks)
	p.Tasks = slices.Compact(p.Tasks)
	return p, nil
}

func sorted(m map[[2]string]*Count) []Count {
	out := make([]Count, 0, len(m))
	for _, c := range m {
		out = append(out, *c)
	}
	slices.SortFunc(out, func(a, b Count) int {
		if c := strings.Compare(a.Task, b.Task); c != 0 {
			return c
		}
		return strings.Compare(a.Config, b.Config)
	})
	return out
}

// Lookup is Eq. R7: the fine configuration where it has at least least calls,
// else the coarse one where that has, else none.
func (p *Prior) Lookup(task string, c Config, least int) (r *float64, level string) {
	for _, l := range []struct {
		name, config string
		counts       []Count
	}{{"fine", c.Fine, p.Fine}, {"coarse", c.Coarse, p.Coarse}} {
		at := slices.IndexFunc(l.counts, func(n Count) bool { return n.Task == task && n.Config == l.config })
		if at >= 0 && l.counts[at].Calls >= least {
			f := l.counts[at].Reliability()
			return &f, l.name
		}
	}
	return nil, ""
}

// Hash is the SHA-256 of the matrix, in hex.
func (p *Prior) Hash() string {
	text, err := json.Marshal(p)
	if err != nil {
		panic("rsure: " + err.Error()) // texts and whole numbers have a JSON form
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// Write writes the prior to a file.
func (p *Prior) Write(path string) error {
	text, err := json.MarshalIndent(p, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

// ReadPrior reads a file that Write wrote. Errors wrap ErrPrior.
func ReadPrior(path string) (*Prior, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPrior, err)
	}
	defer file.Close()
	d := json.NewDecoder(file)
	d.DisallowUnknownFields()
	var p Prior
	if err := d.Decode(&p); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrPrior, path, err)
	}
	if p.Format != PriorFormat {
		return nil, fmt.Errorf("%w: %s: the format is %q, expected %q; make it with terraloom agent prior fit", ErrPrior, path, p.Format, PriorFormat)
	}
	for _, c := range slices.Concat(p.Coarse, p.Fine) {
		if c.Valid < 0 || c.Valid > c.Calls || !slices.Contains(TaskTypes, c.Task) {
			return nil, fmt.Errorf("%w: %s: %s on %q: %d of %d calls is no count of a known task type", ErrPrior, path, c.Config, c.Task, c.Valid, c.Calls)
		}
	}
	return &p, nil
}
