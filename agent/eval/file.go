package eval

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"terraloom/data/strictjson"
)

// ErrScores is returned for a file that is no score file.
var ErrScores = errors.New("not a score file")

// ReadScored reads a score file, the output of terraloom eval score --json.
// The summary is taken anew from the records. Errors wrap ErrScores.
func ReadScored(path string) (*Scored, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrScores, err)
	}
	defer file.Close()
	text, err := readLimited(file)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrScores, path, err)
	}
	return parseScored(path, text)
}

func parseScored(path string, text []byte) (*Scored, error) {
	v, err := strictjson.Parse(text) // for what encoding/json lets pass
	if err != nil {
		return nil, fmt.Errorf("%w: %s:%w", ErrScores, path, err)
	}
	for i := range v.Get("records").Len() {
		for _, key := range []string{"question", "tao", "tio", "tem", "predicted", "correct"} {
			if kind := v.Get("records").Index(i).Get(key).Kind(); kind == strictjson.Absent || kind == strictjson.Null {
				return nil, fmt.Errorf("%w: %s: /records/%d/%s: missing", ErrScores, path, i, key)
			}
		}
	}
	var s Scored
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrScores, path, err)
	}
	if s.Run == "" || s.Setting == "" || len(s.Records) == 0 {
		return nil, fmt.Errorf("%w: %s: it needs a run, a setting and at least one record", ErrScores, path)
	}
	seen := map[string]bool{}
	for i := range s.Records {
		r := &s.Records[i]
		if r.Question == "" || seen[r.Question] {
			return nil, fmt.Errorf("%w: %s: /records/%d/question: %q is empty or repeated", ErrScores, path, i, r.Question)
		}
		seen[r.Question] = true
		if err := r.check(); err != nil {
			return nil, fmt.Errorf("%w: %s: /records/%d: %w", ErrScores, path, i, err)
		}
	}
	judge, embedding := s.Summary.Judge, s.Summary.Embedding
	s.Summary = Summarize(s.Records)
	s.Summary.Judge, s.Summary.Embedding = judge, embedding
	return &s, nil
}

// check refuses figures that no scorer gives.
func (r *Record) check() error {
	share := map[string]*float64{"tao": &r.TAO, "tio": &r.TIO, "tem": &r.TEM, "param": r.Param, "rouge_l": &r.RougeL}
	for _, name := range []string{"tao", "tio", "tem", "param", "rouge_l"} {
		if f := share[name]; f != nil && (*f < 0 || *f > 1) {
			return fmt.Errorf("%s is %v, expected 0 to 1", name, *f)
		}
	}
	if r.Efficiency != nil && *r.Efficiency < 0 {
		return fmt.Errorf("efficiency is %v, expected 0 or more", *r.Efficiency)
	}
	if s := r.Similarity; s != nil && (*s < -1 || *s > 1) {
		return fmt.Errorf("similarity is %v, expected -1 to 1", *s)
	}
	return nil
}
