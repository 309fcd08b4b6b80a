package train

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"strings"

	"terraloom/lora/decoder"
	"terraloom/lora/train/run"
	"terraloom/lora/train/settings"
)

// snapshot copies the run's state to the host.
func (a *active) snapshot() (s *Snapshot, err error) {
	s = &Snapshot{State: a.state}
	if a.All {
		s.Weights, err = a.Params.Tensors()
	} else {
		s.Adapter, err = a.Params.Adapter()
	}
	if err != nil {
		return nil, err
	}
	if s.M, err = a.moments.M.Host(); err != nil {
		return nil, err
	}
	if s.V, err = a.moments.V.Host(); err != nil {
		return nil, err
	}
	if t, ok := a.Task.(Stateful); ok {
		if s.Task, err = t.State(); err != nil {
			return nil, fmt.Errorf("state of the task: %w", err)
		}
	}
	return s, nil
}

// restore takes parameters, moments and state from the checkpoint, after making sure that it is one of this run.
func (a *active) restore() (err error) {
	l, err := Load(a.Resume, &a.Model.Config)
	if err != nil {
		return err
	}
	defer l.Close()
	if err := a.fits(l.State); err != nil {
		return fmt.Errorf("%s: %w", a.Resume, err)
	}
	if err := a.takeParams(l); err != nil {
		return fmt.Errorf("%s: %w", a.Resume, err)
	}
	m, v, err := l.Moments(a.sizes)
	if err != nil {
		return err
	}
	a.moments = &decoder.Moments{Step: l.State.Updates}
	if a.moments.M, err = a.Params.FromHost(m); err != nil {
		return err
	}
	if a.moments.V, err = a.Params.FromHost(v); err != nil {
		return err
	}
	if t, ok := a.Task.(Stateful); ok {
		if err := t.Restore(l.Task); err != nil {
			return fmt.Errorf("%s: state of the task: %w", a.Resume, err)
		}
	}
	l.State.Config = a.Config
	a.state, a.saved, a.checked = l.State, l.State.Step, l.State.Updates > 0
	if err := a.Folder.Rewind(a.state.Step); err != nil {
		return err
	}
	return a.record(run.Event, nil, fmt.Sprintf("resumed after step %d", a.state.Step))
}

// fits verifies that a checkpoint belongs to a run with this configuration and these rows.
func (a *active) fits(s State) error {
	if changed := settings.Changed(s.Config, a.Config, a.Free); len(changed) > 0 {
		return fmt.Errorf("%w: the configuration has changed: %s: use the old values, or start a new run", ErrResume, strings.Join(changed, "; "))
	}
	if s.Seed != a.state.Seed || s.Order != a.state.Order {
		return fmt.Errorf("%w: the rows, their order or the batch size have changed since: use the same dataset, or start a new run", ErrResume)
	}
	if s.Total != a.state.Total {
		return fmt.Errorf("%w: the schedule had %d steps and has %d", ErrResume, s.Total, a.state.Total)
	}
	if s.Start != a.state.Start {
		return fmt.Errorf("%w: the run started from other parameters: use the same base and starting adapter", ErrResume)
	}
	return nil
}

func (a *active) takeParams(l *Loaded) error {
	var fresh *decoder.Params
	var err error
	switch all := a.All; {
	case all && l.Weights != nil:
		fresh, err = a.Model.Full(l.Weights)
	case !all && l.Adapter != nil:
		fresh, err = a.Model.Bind(l.Adapter)
	default:
		return fmt.Errorf("%w: it holds an adapter where all weights are trained, or the other way round", ErrResume)
	}
	if err != nil {
		return err
	}
	a.Params.Free()
	a.Params.Vectors = fresh.Vectors
	return nil
}

// hashVectors identifies parameters by their bits.
func hashVectors(vectors [][]float32) string {
	h := sha256.New()
	buf := make([]byte, 0, 1<<16)
	for _, v := range vectors {
		buf = binary.LittleEndian.AppendUint64(buf, uint64(len(v)))
		for _, x := range v {
			if buf = binary.LittleEndian.AppendUint32(buf, math.Float32bits(x)); len(buf) >= 1<<16-16 {
				h.Write(buf)
				buf = buf[:0]
			}
		}
	}
	h.Write(buf)
	return hex.EncodeToString(h.Sum(nil))
}
