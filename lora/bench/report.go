package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"terraloom/data"
	"terraloom/lora/backend"
)

// ErrFailed: a part of the run has an error; the report says which.
var ErrFailed = errors.New("measurement failed")

// Part is one measurement. Run returns what it found, also beside an error as far as it came, as a value for JSON; it looks at
// ctx between steps.
type Part struct {
	Name  string
	Share float64 // of the time that is left, against the shares of the parts to come
	Run   func(ctx context.Context) (any, error)
}

// Entry is what became of a part.
type Entry struct {
	Name    string          `json:"name"`
	Seconds float64         `json:"seconds"`
	Limit   float64         `json:"limit_seconds"`
	Error   string          `json:"error,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
}

// Report is the file that a run writes.
type Report struct {
	Backend  string            `json:"backend"`
	Device   string            `json:"device"`
	Devices  int               `json:"devices"`
	CPUs     int               `json:"cpus"`
	Shapes   string            `json:"shapes"`
	Versions map[string]string `json:"versions"`
	Started  time.Time         `json:"started"`
	Limit    float64           `json:"limit_seconds"`
	Seconds  float64           `json:"seconds"`
	Complete bool              `json:"complete"` // every part was tried
	Parts    []Entry           `json:"parts"`
}

// Options of [Run].
type Options struct {
	Out      string        // the report's file
	Shapes   string        // [Small] or [Full]
	Limit    time.Duration // of all parts together
	Progress func(Entry)   // told after each part; may be nil
}

// grace is how long a part may go on after its time: a compilation or a step that has begun cannot be stopped.
var grace = 20 * time.Second

// Run tries every part in order and writes the report anew after each, so that nothing is lost when the process ends. A part that
// fails, panics or takes too long has its error in the report, and the next one begins; only one that cannot be
// stopped ends the run. The error wraps [ErrFailed] if a part failed, or ctx's if that ended the run.
func Run(ctx context.Context, b *backend.Backend, parts []Part, o Options) (*Report, error) {
	r := &Report{Backend: b.String(), Device: b.Engine.DeviceDescription(0), Devices: b.Devices(), CPUs: runtime.NumCPU(), Shapes: o.Shapes,
		Versions: versions(), Started: time.Now().UTC(), Limit: o.Limit.Seconds(), Parts: []Entry{}}
	if err := r.write(o.Out); err != nil { // before the work, not after it
		return r, err
	}
	var failed []string
	end := r.Started.Add(o.Limit)
	stopped := ""
	for i, p := range parts {
		e := Entry{Name: p.Name}
		switch {
		case ctx.Err() != nil:
			e.Error = "not run: " + context.Cause(ctx).Error()
		case stopped != "":
			e.Error = "not run: " + stopped + " did not stop"
		default:
			var shares float64
			for _, q := range parts[i:] {
				shares += q.Share
			}
			limit := max(time.Duration(float64(time.Until(end))*p.Share/shares), 0)
			var done bool
			if e, done = p.try(ctx, limit); !done {
				stopped = p.Name
			}
		}
		if e.Error != "" {
			failed = append(failed, e.Name)
		}
		r.Parts, r.Seconds, r.Complete = append(r.Parts, e), time.Since(r.Started).Seconds(), i == len(parts)-1
		if err := r.write(o.Out); err != nil {
			return r, err
		}
		if o.Progress != nil {
			o.Progress(e)
		}
	}
	if err := ctx.Err(); err != nil {
		return r, err
	}
	if len(failed) > 0 {
		return r, fmt.Errorf("%w: %s: see the errors in %s", ErrFailed, strings.Join(failed, ", "), o.Out)
	}
	return r, nil
}

// try runs a part; done is false if it goes on although its time is over.
func (p Part) try(ctx context.Context, limit time.Duration) (e Entry, done bool) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	type outcome struct {
		result any
		err    error
	}
	began := time.Now()
	ended := make(chan outcome, 1)
	go func() {
		var o outcome
		defer func() {
			if c := recover(); c != nil { // graph building panics
				o.err = fmt.Errorf("%v", c)
			}
			ended <- o
		}()
		o.result, o.err = p.Run(ctx)
	}()
	e = Entry{Name: p.Name, Limit: limit.Seconds()}
	var o outcome
	select {
	case o = <-ended:
		done = true
	case <-ctx.Done():
		select {
		case o = <-ended:
			done = true
		case <-time.After(grace):
			o.err = fmt.Errorf("still busy %v after its limit: %w", grace, ctx.Err())
		}
	}
	e.Seconds = time.Since(began).Seconds()
	if done && o.result != nil {
		raw, err := json.Marshal(o.result)
		if err != nil { // a figure that is no number
			o.err = errors.Join(o.err, err)
		} else {
			e.Result = raw
		}
	}
	if o.err != nil {
		e.Error = o.err.Error()
	}
	return e, done
}

func (r *Report) write(path string) error {
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return data.WriteFile(path, append(raw, '\n'))
}

// versions are those of Go, of this program's commit and of what computes.
func versions() map[string]string {
	v := map[string]string{"go": runtime.Version(), "os": runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" || s.Key == "vcs.modified" {
			v[s.Key] = s.Value
		}
	}
	for _, d := range info.Deps {
		if strings.HasPrefix(d.Path, "github.com/gomlx/") {
			v[d.Path] = d.Version
		}
	}
	return v
}
