package adapter

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"terraloom/data/strictjson"
	"terraloom/lora/checkpoint"
)

// Files of an adapter folder.
const (
	configFile     = "adapter_config.json"
	weightsFile    = "adapter_model.safetensors"
	provenanceFile = "terraloom.json"
)

// Key prefixes. PEFT writes the module path of the class that was trained on: each class binds only its own.
const (
	TextPrefix       = "base_model.model.model."                // a text class: …layers.N.…
	MultimodalPrefix = "base_model.model.model.language_model." // a wrapper with a vision tower
)

// PrefixOf is the key prefix that goes with a base: that of its own tensor names.
func PrefixOf(base *checkpoint.Model) string { return "base_model.model." + base.Prefix }

// peftVersion is the PEFT release whose files ours equal.
const peftVersion = "0.21.2"

// SaveOptions of [Adapter.Save].
type SaveOptions struct {
	Prefix     string // of the keys: PrefixOf(base); empty: TextPrefix
	Provenance any    // written to terraloom.json; nil: no such file
}

// Save writes the adapter as a PEFT folder, which must not exist yet ([ErrExists]): adapter_config.json,
// adapter_model.safetensors (float32) and terraloom.json. The folder is made under a temporary name beside dir, synced
// and renamed.
func (a *Adapter) Save(dir string, opts SaveOptions) (err error) {
	if err := a.Config.Validate(); err != nil {
		return err
	}
	dir = filepath.Clean(dir)
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("saving the adapter to %s: %w: choose another or remove it", dir, ErrExists)
	}
	prefix := opts.Prefix
	if prefix == "" {
		prefix = TextPrefix
	}
	parent := filepath.Dir(dir)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return fmt.Errorf("saving the adapter: %w", err)
	}
	tmp, err := os.MkdirTemp(parent, "."+filepath.Base(dir)+".*.tmp")
	if err != nil {
		return fmt.Errorf("saving the adapter: %w", err)
	}
	defer func() {
		if err != nil {
			os.RemoveAll(tmp)
			err = fmt.Errorf("saving the adapter to %s: %w", dir, err)
		}
	}()
	if opts.Provenance != nil {
		text, err := marshal(opts.Provenance)
		if err != nil {
			return fmt.Errorf("%s: %w", provenanceFile, err)
		}
		if err := writeSynced(filepath.Join(tmp, provenanceFile), text); err != nil {
			return err
		}
	}
	if err := writeSynced(filepath.Join(tmp, configFile), a.configJSON()); err != nil {
		return err
	}
	if err := checkpoint.WriteSafetensors(filepath.Join(tmp, weightsFile), nil, a.sources(prefix)); err != nil {
		return err
	}
	if err := os.Chmod(tmp, 0o755); err != nil { // MkdirTemp makes folders private
		return err
	}
	if err := syncDir(tmp); err != nil {
		return err
	}
	if err := os.Rename(tmp, dir); err != nil {
		return err
	}
	return syncDir(parent)
}

// sources are the tensors under PEFT's keys: no adapter name, magnitudes without ".weight".
func (a *Adapter) sources(prefix string) []checkpoint.Source {
	var out []checkpoint.Source
	for i, m := range a.Modules {
		key := prefix + m.Name()
		out = append(out,
			checkpoint.FromFloat32(key+".lora_A.weight", checkpoint.F32, []int{a.Config.R, m.In}, a.A[i]),
			checkpoint.FromFloat32(key+".lora_B.weight", checkpoint.F32, []int{m.Out, a.Config.R}, a.B[i]))
		if a.Config.DoRA {
			out = append(out, checkpoint.FromFloat32(key+".lora_magnitude_vector", checkpoint.F32, []int{m.Out}, a.Magnitude[i]))
		}
	}
	return out
}

// configJSON is adapter_config.json as PEFT writes it: what PEFT and vLLM read, with PEFT's defaults for the rest.
// target_modules lists exactly the leaf names that are there, for PEFT creates modules by it.
func (a *Adapter) configJSON() []byte {
	var leaves []string
	for _, m := range a.Modules {
		leaves = append(leaves, m.Leaf)
	}
	slices.Sort(leaves)
	var targets []strictjson.Value
	for _, l := range slices.Compact(leaves) {
		targets = append(targets, strictjson.Text(l))
	}
	null, no := strictjson.NullValue(), strictjson.Boolean(false)
	alpha := strictjson.Float(a.Config.Alpha)
	if a.Config.Alpha == float64(int(a.Config.Alpha)) {
		alpha = strictjson.Int(int(a.Config.Alpha)) // vLLM insists on an integer
	}
	base := null
	if a.Base != "" {
		base = strictjson.Text(a.Base)
	}
	members := []strictjson.Member{
		{Key: "alpha_pattern", Value: strictjson.Obj()},
		{Key: "auto_mapping", Value: null},
		{Key: "base_model_name_or_path", Value: base},
		{Key: "bias", Value: strictjson.Text("none")},
		{Key: "fan_in_fan_out", Value: no},
		{Key: "inference_mode", Value: strictjson.Boolean(true)},
		{Key: "init_lora_weights", Value: strictjson.Boolean(true)},
		{Key: "layers_pattern", Value: null},
		{Key: "layers_to_transform", Value: null},
		{Key: "lora_alpha", Value: alpha},
		{Key: "lora_dropout", Value: strictjson.Float(a.Config.Dropout)},
		{Key: "modules_to_save", Value: null},
		{Key: "peft_type", Value: strictjson.Text("LORA")},
		{Key: "peft_version", Value: strictjson.Text(peftVersion)},
		{Key: "r", Value: strictjson.Int(a.Config.R)},
		{Key: "rank_pattern", Value: strictjson.Obj()},
		{Key: "revision", Value: null},
		{Key: "target_modules", Value: strictjson.List(targets...)},
		{Key: "task_type", Value: strictjson.Text("CAUSAL_LM")},
		{Key: "use_dora", Value: strictjson.Boolean(a.Config.DoRA)},
		{Key: "use_rslora", Value: strictjson.Boolean(a.Config.RSLoRA)},
	}
	var b strings.Builder
	b.WriteString("{\n")
	for i, m := range members {
		fmt.Fprintf(&b, "  %s: %s", strictjson.AppendString(nil, m.Key), m.Value.JSON())
		if i < len(members)-1 {
			b.WriteByte(',')
		}
		b.WriteByte('\n')
	}
	b.WriteString("}\n")
	return []byte(b.String())
}

// marshal is indented JSON that leaves <, > and & as they are.
func marshal(v any) ([]byte, error) {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return []byte(b.String()), nil
}

func writeSynced(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	if _, err := f.Write(content); err != nil {
		f.Close()
		return err
	}
	if err := f.Sync(); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
