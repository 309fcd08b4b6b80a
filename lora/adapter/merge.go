package adapter

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"terraloom/lora/checkpoint"
	"terraloom/lora/tokenizer"
)

// MergeReport says what [Merge] wrote.
type MergeReport struct {
	Modules int
	// Vanished is the share of updated numbers that the dtype of the weights rounds back to what they were.
	Vanished float64
	// Rounding is the largest error, over all merged matrices, of a stored number, relative to the matrix's largest.
	Rounding float64
	// Notes are for the user: what was assumed, and a base that was quantised.
	Notes []string
}

// Merge writes base + adapter as a model folder, which must not exist yet ([checkpoint.ErrExists]): weights in the dtype
// of the base's (16-bit where those are quantised), its own key prefix, its tokenizer and template, tensors that are no
// part of the text model (the vision tower) unchanged, and terraloom.json if provenance is not nil. The head stays tied
// or becomes its own as the base's is. The folder is proven to open before it gets its name.
func Merge(dir string, base *checkpoint.Model, a *Adapter, provenance any) (report MergeReport, err error) {
	if err := a.CheckFits(&base.Config); err != nil {
		return report, err
	}
	if len(a.Modules) == 0 {
		return report, fmt.Errorf("%w: it has no modules: the merged model would be the base", ErrBinding)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("merging into %s: %w", dir, err)
		}
	}()
	side, err := os.MkdirTemp("", "terraloom-merge")
	if err != nil {
		return report, err
	}
	defer os.RemoveAll(side)
	folder, done, err := frame(base, side, provenance)
	if err != nil {
		return report, err
	}
	defer done()

	modules := make(map[string]int, len(a.Modules))
	for i, m := range a.Modules {
		modules[m.Name()+".weight"] = i
	}
	stats := &mergeStats{}
	for _, name := range base.Names() {
		t, err := base.Tensor(name)
		if err != nil {
			return report, err
		}
		dtype := storedDType(t.DType, &base.Config)
		file := folderName(base, name)
		if i, ok := modules[name]; ok {
			folder.Tensors = append(folder.Tensors, a.mergedSource(i, file, t, dtype, stats))
			report.Modules++
			continue
		}
		if dtype == t.DType {
			folder.Tensors = append(folder.Tensors, checkpoint.FromTensor(file, t))
			continue
		}
		folder.Tensors = append(folder.Tensors, checkpoint.Source{
			TensorSpec: checkpoint.TensorSpec{Name: file, DType: dtype, Shape: t.Shape},
			Write: func(w io.Writer) error {
				values, err := t.Float32()
				if err != nil {
					return err
				}
				return checkpoint.FromFloat32(file, dtype, t.Shape, values).Write(w)
			}})
	}
	if err := checkpoint.WriteFolder(dir, folder); err != nil {
		return report, err
	}
	report.Rounding = stats.rounding
	if stats.updated > 0 {
		report.Vanished = float64(stats.vanished) / float64(stats.updated)
	}
	report.Notes = append(report.Notes, base.Notes...)
	if base.Quantised() {
		report.Notes = append(report.Notes, "the base was quantised: its rounding stays in the merged weights; merge into the original for the best result")
	}
	return report, nil
}

// isFolder tells a model folder from a GGUF file.
func isFolder(base *checkpoint.Model) bool {
	info, err := os.Stat(base.Path)
	return err == nil && info.IsDir()
}

// folderName is the name of a text tensor in a model folder. GGUF files have names of their own.
func folderName(base *checkpoint.Model, canonical string) string {
	switch {
	case isFolder(base):
		return base.FileName(canonical)
	case canonical == "lm_head.weight":
		return canonical
	default:
		return base.Prefix + canonical
	}
}

// frame is everything of the merged folder but the text tensors. done closes what it opened.
func frame(base *checkpoint.Model, side string, provenance any) (f checkpoint.Folder, done func(), err error) {
	f.Copy = make(map[string]string)
	for name, path := range base.TokenizerFiles {
		f.Copy[name] = path
	}
	done = func() {}
	if isFolder(base) {
		if f.Config, err = os.ReadFile(filepath.Join(base.Path, "config.json")); err != nil {
			return f, done, err
		}
		said, err := checkpoint.ParseConfig(f.Config)
		if err != nil {
			return f, done, err
		}
		if said.Tied && !base.Config.Tied { // the file's own head won over the flag
			if f.Config, err = checkpoint.Untie(f.Config); err != nil {
				return f, done, err
			}
		}
		if path := filepath.Join(base.Path, "generation_config.json"); fileExists(path) {
			f.Copy["generation_config.json"] = path
		}
		f.Tensors, done, err = otherTensors(base)
		if err != nil {
			return f, done, err
		}
	} else {
		f.Config = base.Config.JSON()
		if base.Vocab != nil {
			if err := ggufTokenizer(base, side, f.Copy); err != nil {
				return f, done, err
			}
		}
	}
	if provenance != nil {
		text, err := marshal(provenance)
		if err != nil {
			return f, done, fmt.Errorf("%s: %w", provenanceFile, err)
		}
		f.Copy[provenanceFile] = filepath.Join(side, provenanceFile)
		if err := writeSynced(f.Copy[provenanceFile], text); err != nil {
			return f, done, err
		}
	}
	return f, done, nil
}

// ggufTokenizer writes the tokenizer and template that a GGUF file carries as files.
func ggufTokenizer(base *checkpoint.Model, side string, files map[string]string) error {
	tok, err := tokenizer.FromGGUF(*base.Vocab)
	if err != nil {
		return err
	}
	if err := tok.Save(side); err != nil {
		return err
	}
	if base.ChatTemplate != "" {
		if err := writeSynced(filepath.Join(side, "chat_template.jinja"), []byte(base.ChatTemplate)); err != nil {
			return err
		}
	}
	entries, err := os.ReadDir(side)
	if err != nil {
		return err
	}
	for _, e := range entries {
		files[e.Name()] = filepath.Join(side, e.Name())
	}
	return nil
}

// otherTensors are the tensors of the base's files that are no part of its text model, which the base counts as skipped.
func otherTensors(base *checkpoint.Model) (out []checkpoint.Source, done func(), err error) {
	var open []*checkpoint.Safetensors
	done = func() {
		for _, s := range open {
			s.Close()
		}
	}
	want := 0
	for _, n := range base.Skipped {
		want += n
	}
	if want == 0 {
		return nil, done, nil
	}
	text := make(map[string]bool)
	for _, name := range base.Names() {
		text[base.FileName(name)] = true
	}
	text[base.FileName("lm_head.weight")] = true // a tied head that the file repeats
	files, err := filepath.Glob(filepath.Join(base.Path, "model*.safetensors"))
	if err != nil {
		return nil, done, err
	}
	for _, path := range files {
		s, err := checkpoint.OpenSafetensors(path)
		if err != nil {
			return nil, done, err
		}
		open = append(open, s)
		for _, name := range s.Names() {
			if text[name] {
				continue
			}
			t, err := s.Tensor(name)
			if err != nil {
				return nil, done, err
			}
			out = append(out, checkpoint.FromTensor(name, t))
		}
	}
	if len(out) != want {
		return nil, done, fmt.Errorf("%s: its weight files hold %d tensors beside the text model, on opening it had %d: remove files that the index does not name",
			base.Path, len(out), want)
	}
	return out, done, nil
}

// storedDType is what a base tensor of type d is written as.
func storedDType(d checkpoint.DType, c *checkpoint.Config) checkpoint.DType {
	switch {
	case d == checkpoint.F32 || d == checkpoint.F16 || d == checkpoint.BF16:
		return d
	case c.DType == checkpoint.F16 || c.DType == checkpoint.BF16:
		return c.DType
	default:
		return checkpoint.F32
	}
}

// mergeStats are filled while the tensors are written.
type mergeStats struct {
	updated, vanished int64
	rounding          float64
}

// mergedSource is W + s·B·A of module i, with DoRA's rows rescaled, computed when it is written.
func (a *Adapter) mergedSource(i int, file string, w checkpoint.Tensor, dtype checkpoint.DType, stats *mergeStats) checkpoint.Source {
	return checkpoint.Source{
		TensorSpec: checkpoint.TensorSpec{Name: file, DType: dtype, Shape: w.Shape},
		Write: func(out io.Writer) error {
			before, err := w.Float32()
			if err != nil {
				return err
			}
			after := a.mergeInto(i, before)
			var stored bytes.Buffer
			stored.Grow(4 * len(after))
			if err := checkpoint.FromFloat32(file, dtype, w.Shape, after).Write(&stored); err != nil {
				return err
			}
			read, err := checkpoint.Tensor{Name: file, DType: dtype, Shape: w.Shape, Data: stored.Bytes()}.Float32()
			if err != nil {
				return err
			}
			var worst, largest float64
			for j, v := range after {
				if v != before[j] {
					stats.updated++
					if read[j] == before[j] {
						stats.vanished++
					}
				}
				worst = max(worst, math.Abs(float64(read[j])-float64(v)))
				largest = max(largest, math.Abs(float64(v)))
			}
			if largest > 0 {
				stats.rounding = max(stats.rounding, worst/largest)
			}
			_, err = out.Write(stored.Bytes())
			return err
		}}
}

// mergeInto returns the matrix of module i with its update: rows in parallel, sums in float64.
func (a *Adapter) mergeInto(i int, w []float32) []float32 {
	m, r, scale := a.Modules[i], a.Config.R, a.Config.Scale()
	out := make([]float32, len(w))
	var wait sync.WaitGroup
	workers := runtime.GOMAXPROCS(0)
	for worker := range workers {
		wait.Add(1)
		go func() {
			defer wait.Done()
			sum := make([]float64, m.In)
			for o := worker; o < m.Out; o += workers {
				clear(sum)
				for k := range r {
					b := scale * float64(a.B[i][o*r+k])
					if b == 0 {
						continue
					}
					for j, v := range a.A[i][k*m.In : (k+1)*m.In] {
						sum[j] += b * float64(v)
					}
				}
				row := w[o*m.In : (o+1)*m.In]
				var square float64
				for j, v := range row {
					sum[j] += float64(v)
					square += sum[j] * sum[j]
				}
				stretch := 1.0
				if a.Config.DoRA {
					stretch = float64(a.Magnitude[i][o]) / math.Sqrt(square)
				}
				for j, v := range sum {
					out[o*m.In+j] = float32(v * stretch)
				}
			}
		}()
	}
	wait.Wait()
	return out
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
