package run

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// Kinds of records.
const (
	Train      = "train"      // one optimiser step
	Validation = "validation" // measurements on held-out rows
	Event      = "event"      // something that happened, in words
)

// Value is a named number. It may be NaN or infinite, which the file holds as null.
type Value struct {
	Name   string
	Number float64
}

// Record is one line of metrics.jsonl.
type Record struct {
	Time   time.Time
	Kind   string
	Step   int // optimiser steps done
	Values []Value
	Note   string // for events
}

// Get is the number of a name.
func (r Record) Get(name string) (float64, bool) {
	for _, v := range r.Values {
		if v.Name == name {
			return v.Number, true
		}
	}
	return 0, false
}

// The members of a line that are not values.
const (
	timeKey = "time"
	kindKey = "kind"
	stepKey = "step"
	noteKey = "note"
)

// line is the record as JSON, with a line feed. encoding/json cannot write NaN, and a metric that is NaN is the last
// thing that may be lost.
func (r Record) line() []byte {
	b := []byte(`{"` + timeKey + `":`)
	b = appendText(b, r.Time.UTC().Format(time.RFC3339Nano))
	b = appendText(append(b, `,"`+kindKey+`":`...), r.Kind)
	b = strconv.AppendInt(append(b, `,"`+stepKey+`":`...), int64(r.Step), 10)
	if r.Note != "" {
		b = appendText(append(b, `,"`+noteKey+`":`...), r.Note)
	}
	for _, v := range r.Values {
		b = append(appendText(append(b, ','), v.Name), ':')
		if math.IsNaN(v.Number) || math.IsInf(v.Number, 0) {
			b = append(b, "null"...)
			continue
		}
		b = strconv.AppendFloat(b, v.Number, 'g', -1, 64)
	}
	return append(b, '}', '\n')
}

func appendText(b []byte, s string) []byte {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // strings always marshal
	}
	return append(b, text...)
}

// Records reads the metrics of a run. A last line without its end, as a killed process leaves it, is passed over; any
// other line that cannot be read is an error with its number.
func Records(dir string) ([]Record, error) {
	path := filepath.Join(dir, MetricsFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: no run folder: %w", dir, err)
	}
	if err != nil {
		return nil, err
	}
	var out []Record
	at := 0
	for line := range lines(text) {
		at++
		r, err := parse(line)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, at, err)
		}
		out = append(out, r)
	}
	return out, nil
}

// lines iterates over the complete lines of a text, without their ends.
func lines(text []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for {
			end := bytes.IndexByte(text, '\n')
			if end < 0 || !yield(text[:end]) {
				return
			}
			text = text[end+1:]
		}
	}
}

// parse reads one line, keeping the order of the values.
func parse(line []byte) (r Record, err error) {
	dec := json.NewDecoder(bytes.NewReader(line))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return r, fmt.Errorf("expected a JSON object, found %.40q", line)
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return r, err
		}
		name, _ := key.(string)
		switch name {
		case timeKey:
			err = dec.Decode(&r.Time)
		case kindKey:
			err = dec.Decode(&r.Kind)
		case stepKey:
			err = dec.Decode(&r.Step)
		case noteKey:
			err = dec.Decode(&r.Note)
		default:
			var x *float64
			if err = dec.Decode(&x); err == nil {
				v := Value{name, math.NaN()}
				if x != nil {
					v.Number = *x
				}
				r.Values = append(r.Values, v)
			}
		}
		if err != nil {
			return r, fmt.Errorf("member %q: %w", name, err)
		}
	}
	if _, err := dec.Token(); err != nil {
		return r, err
	}
	return r, nil
}
