package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"terraloom/lora/backend"
	"terraloom/lora/checkpoint"
	"terraloom/lora/decoder"
)

// Compared is how far a reference model's results are from those of PyTorch and transformers.
type Compared struct {
	Family     string      `json:"family"`
	Deviations []Deviation `json:"deviations"`
}

// Deviation is the largest absolute difference of one result, and the tolerance that comes with it.
type Deviation struct {
	What    string  `json:"what"`
	Max     float64 `json:"max_error"`
	Allowed float64 `json:"allowed"`
}

// compareGoldens runs every model below dir that has golden.safetensors and golden.json, in float32. The error names what is outside
// its tolerance.
func compareGoldens(ctx context.Context, b *backend.Backend, dir string) (any, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*", "golden.safetensors"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no */golden.safetensors in %s: name the folder of the reference models with --goldens, or its parent in TERRALOOM_SHARED", dir)
	}
	var all []Compared
	var errs []error
	for _, file := range files {
		folder := filepath.Dir(file)
		c := Compared{Family: filepath.Base(folder)}
		if err := ctx.Err(); err != nil {
			errs = append(errs, fmt.Errorf("%s: not run: %w", c.Family, err))
			continue
		}
		if c.Deviations, err = compareFamily(b, folder); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", c.Family, err))
		}
		for _, d := range c.Deviations {
			if d.Max > d.Allowed {
				errs = append(errs, fmt.Errorf("%s: %s is off by %.3g, allowed is %.3g", c.Family, d.What, d.Max, d.Allowed))
			}
		}
		all = append(all, c)
	}
	return all, errors.Join(errs...)
}

// golden is a pair of golden.safetensors and golden.json.
type golden struct {
	*checkpoint.Safetensors
	info struct {
		Scalars map[string]struct{ Value, Atol float64 }
		Tensors map[string]struct{ Atol float64 }
	}
}

func openGolden(folder string) (*golden, error) {
	path := filepath.Join(folder, "golden.json")
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	g := &golden{}
	if err := json.Unmarshal(raw, &g.info); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	g.Safetensors, err = checkpoint.OpenSafetensors(filepath.Join(folder, "golden.safetensors"))
	return g, err
}

// ints reads a tensor of small integers.
func (g *golden) ints(name string) ([]int32, error) {
	x, err := g.Float32(name)
	out := make([]int32, len(x))
	for i, v := range x {
		out[i] = int32(v)
	}
	return out, err
}

// tensor compares all numbers with a golden of the same order.
func (g *golden) tensor(name string, got []float32) (d Deviation, err error) {
	want, err := g.Float32(name)
	if err != nil {
		return d, err
	}
	return g.numbers(name, got, want)
}

func (g *golden) numbers(name string, got, want []float32) (d Deviation, err error) {
	d = Deviation{What: name, Allowed: g.info.Tensors[name].Atol}
	if len(got) != len(want) || d.Allowed <= 0 {
		return d, fmt.Errorf("%s: %d numbers, %d in the golden file, tolerance %v", name, len(got), len(want), d.Allowed)
	}
	for i := range got {
		diff := math.Abs(float64(got[i]) - float64(want[i]))
		if math.IsNaN(diff) || math.IsInf(diff, 0) {
			return d, fmt.Errorf("%s: element %d is %v, expected %v", name, i, got[i], want[i])
		}
		d.Max = max(d.Max, diff)
	}
	return d, nil
}

func (g *golden) scalar(name string, got float64) (d Deviation, err error) {
	want, ok := g.info.Scalars[name]
	if !ok || want.Atol <= 0 || math.IsNaN(got) || math.IsInf(got, 0) {
		return d, fmt.Errorf("%s: got %v, expected %v, tolerance %v", name, got, want.Value, want.Atol)
	}
	return Deviation{name, math.Abs(got - want.Value), want.Atol}, nil
}

func compareFamily(b *backend.Backend, folder string) (out []Deviation, err error) {
	base, err := checkpoint.Open(folder)
	if err != nil {
		return nil, err
	}
	defer base.Close()
	m, err := decoder.Load(b, base.Config, base, decoder.Options{})
	if err != nil {
		return nil, err
	}
	defer m.Close()
	g, err := openGolden(folder)
	if err != nil {
		return nil, err
	}
	defer g.Close()
	if out, err = compareBatch(m, g); err != nil {
		return out, err
	}
	long, err := compareLong(m, g)
	return append(out, long...), err
}

// compareBatch runs the golden batch, [2, columns] padded on the right: its logits, its loss, and the log-probabilities of its
// first row.
func compareBatch(m *decoder.Model, g *golden) (out []Deviation, err error) {
	ids, err := g.ints("batch/input_ids")
	if err != nil {
		return nil, err
	}
	mask, err := g.ints("batch/attention_mask")
	if err != nil {
		return nil, err
	}
	wanted, err := g.ints("batch/labels")
	if err != nil {
		return nil, err
	}
	logits, err := g.Float32("batch/logits")
	if err != nil {
		return nil, err
	}
	shape, err := g.Tensor("batch/input_ids")
	if err != nil {
		return nil, err
	}
	columns, vocab := shape.Shape[1], m.Config.VocabSize
	var rows [][]int32
	for r := range shape.Shape[0] {
		n := 0
		for _, real := range mask[r*columns : (r+1)*columns] {
			n += int(real)
		}
		rows = append(rows, ids[r*columns:r*columns+n])
	}
	batch := decoder.PadRight(rows)
	labelled := make([]bool, len(batch.Tokens))
	var at []int32
	var want []float32
	for r, row := range rows {
		for c := range row {
			labelled[r*batch.Len+c] = wanted[r*columns+c] != -100
			at = append(at, int32(r*batch.Len+c))
		}
		want = append(want, logits[r*columns*vocab:(r*columns+len(row))*vocab]...)
	}
	pass, err := m.Forward(batch, nil, decoder.Train{})
	if err != nil {
		return nil, err
	}
	defer pass.Free()
	got, err := pass.Logits(at)
	if err != nil {
		return nil, err
	}
	d, err := g.numbers("batch/logits", got, want)
	if err != nil {
		return out, err
	}
	out = append(out, d)
	scores, err := pass.Score(batch.NextTokens(labelled))
	if err != nil {
		return out, err
	}
	if d, err = g.scalar("batch_loss", meanLoss(scores.LogProb)); err != nil {
		return out, err
	}
	out = append(out, d)
	for _, temperature := range []float64{1, 0.7} {
		name := fmt.Sprintf("row0/logprobs_t%.1f", temperature)
		l := decoder.Labels{Temperature: temperature}
		for c := range len(rows[0]) - 1 {
			l.At, l.Token = append(l.At, int32(c)), append(l.Token, rows[0][c+1])
		}
		if scores, err = pass.Score(l); err != nil {
			return out, err
		}
		if d, err = g.tensor(name, scores.LogProb); err != nil {
			return out, err
		}
		out = append(out, d)
	}
	return out, nil
}

// compareLong runs a row of several chunks of the delta rule: its last eight logits and its loss.
func compareLong(m *decoder.Model, g *golden) (out []Deviation, err error) {
	long, err := g.ints("long/input_ids")
	if err != nil {
		return nil, err
	}
	batch := decoder.PadRight([][]int32{long})
	pass, err := m.Forward(batch, nil, decoder.Train{})
	if err != nil {
		return nil, err
	}
	defer pass.Free()
	var at []int32
	for c := max(len(long)-8, 0); c < len(long); c++ {
		at = append(at, int32(c))
	}
	logits, err := pass.Logits(at)
	if err != nil {
		return nil, err
	}
	d, err := g.tensor("long/logits_last8", logits)
	if err != nil {
		return nil, err
	}
	out = append(out, d)
	scores, err := pass.Score(batch.NextTokens(nil))
	if err != nil {
		return out, err
	}
	if d, err = g.scalar("long_loss", meanLoss(scores.LogProb)); err != nil {
		return out, err
	}
	return append(out, d), nil
}
