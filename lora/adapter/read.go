package adapter

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"terraloom/data/strictjson"
	"terraloom/lora/checkpoint"
)

// Load reads a PEFT folder for the base. Keys may carry the prefix of a text class or of a multimodal wrapper, whichever
// the base is. Every key must bind to a module of the base with its shape, and every module that target_modules names
// must have its tensors: anything less is [ErrBinding], because a server would go on and answer as the bare base.
func Load(dir string, base *checkpoint.Config) (*Adapter, error) {
	a, err := load(dir, base)
	if err != nil {
		return nil, fmt.Errorf("adapter %s: %w", dir, err)
	}
	return a, nil
}

func load(dir string, base *checkpoint.Config) (*Adapter, error) {
	raw, err := os.ReadFile(filepath.Join(dir, configFile))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	a := &Adapter{}
	if a.Config, a.Base, err = parseConfig(raw); err != nil {
		return nil, fmt.Errorf("%s: %w", configFile, err)
	}
	file, err := checkpoint.OpenSafetensors(filepath.Join(dir, weightsFile))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	defer file.Close()
	if err := a.bind(file, base); err != nil {
		return nil, fmt.Errorf("%s: %w", weightsFile, err)
	}
	return a, nil
}

// plainValues are settings under which PEFT computes something that is not computed here, with the values that switch
// them off. Absent and null are off everywhere.
var plainValues = map[string][]string{
	"bias":                    {`"none"`},
	"fan_in_fan_out":          {`false`},
	"lora_bias":               {`false`},
	"modules_to_save":         {`[]`},
	"rank_pattern":            {`{}`},
	"alpha_pattern":           {`{}`},
	"layers_to_transform":     {`[]`},
	"layers_pattern":          {`[]`},
	"layer_replication":       {`[]`},
	"exclude_modules":         {`[]`},
	"target_parameters":       {`[]`},
	"trainable_token_indices": {`[]`, `{}`},
	"alora_invocation_tokens": {`[]`},
	"use_qalora":              {`false`},
	"use_bdlora":              {`false`},
	"arrow_config":            {},
	"kasa_config":             {},
	"velora_config":           {},
	"monteclora_config":       {},
	"megatron_config":         {},
	"eva_config":              {`{}`},
	"corda_config":            {`{}`},
	"loftq_config":            {`{}`},
	"lora_ga_config":          {`{}`},
	"ensure_weight_tying":     {`false`},
}

func parseConfig(raw []byte) (c Config, base string, err error) {
	v, err := strictjson.Parse(raw)
	if err != nil {
		return c, "", fmt.Errorf("%w: %w", ErrFormat, err)
	}
	if v.Kind() != strictjson.Object {
		return c, "", fmt.Errorf("%w: expected an object", ErrFormat)
	}
	var errs []error
	bad := func(kind error, key, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w: %s %s", kind, key, fmt.Sprintf(format, args...)))
	}
	get := func(key string) (strictjson.Value, bool) {
		m := v.Get(key)
		return m, !m.IsAbsent() && m.Kind() != strictjson.Null
	}
	number := func(key string, missing float64) float64 {
		m, ok := get(key)
		if !ok {
			return missing
		}
		f, ok := m.Float()
		if !ok {
			bad(ErrFormat, key, "is %s, expected a number", m.JSON())
		}
		return f
	}
	flag := func(key string) bool {
		m, ok := get(key)
		if ok && m.Kind() != strictjson.Bool {
			bad(ErrFormat, key, "is %s, expected true or false", m.JSON())
		}
		return ok && m.True()
	}
	if m, _ := get("peft_type"); m.Text() != "LORA" {
		bad(ErrConfig, "peft_type", "is %s, expected \"LORA\"", m.JSON())
	}
	for i := range v.Len() {
		m := v.Index(i)
		if off, known := plainValues[v.Key(i)]; known && m.Kind() != strictjson.Null && !slices.Contains(off, m.JSON()) {
			bad(ErrConfig, v.Key(i), "is %s, which is not computed here", m.JSON())
		}
	}
	r := number("r", 0)
	c.R, c.Alpha, c.Dropout = int(r), number("lora_alpha", 8), number("lora_dropout", 0)
	if float64(c.R) != r {
		bad(ErrFormat, "r", "is %v, expected an integer", r)
	}
	c.RSLoRA, c.DoRA = flag("use_rslora"), flag("use_dora")
	switch m, _ := get("target_modules"); m.Kind() {
	case strictjson.Array:
		for i := range m.Len() {
			if m.Index(i).Kind() != strictjson.String {
				bad(ErrFormat, "target_modules", "holds %s, expected names", m.Index(i).JSON())
				break
			}
			c.Targets = append(c.Targets, m.Index(i).Text())
		}
	case strictjson.String: // PEFT: all-linear, or a regular expression; the keys of the tensors then say which
		c.Targets = []string{m.Text()}
	default:
		bad(ErrFormat, "target_modules", "is %s, expected a list of names", m.JSON())
	}
	if m, ok := get("base_model_name_or_path"); ok {
		base = m.Text()
	}
	if len(errs) == 0 {
		if err := c.Validate(); err != nil {
			errs = append(errs, err)
		}
	}
	return c, base, errors.Join(errs...)
}

// parts of a module's tensors, by the end of their keys.
var keyEnds = []string{".lora_A.weight", ".lora_B.weight", ".lora_magnitude_vector"}

// bind sorts the file's tensors into the base's modules.
func (a *Adapter) bind(file *checkpoint.Safetensors, base *checkpoint.Config) error {
	linears := Linears(base)
	index := make(map[string]int, len(linears))
	for i, m := range linears {
		index[m.Name()] = i
	}
	found := make([][3]string, len(linears)) // keys by part
	var foreign []string
	for _, key := range file.Names() {
		i, part := locate(key, index)
		if i < 0 || part == 2 && !a.Config.DoRA {
			foreign = append(foreign, key)
			continue
		}
		if found[i][part] != "" {
			return fmt.Errorf("%w: %s and %s are the same tensor under two prefixes", ErrBinding, found[i][part], key)
		}
		found[i][part] = key
	}
	if len(foreign) == len(file.Names()) {
		return fmt.Errorf("%w: none of its %d tensors binds to %s: %s: expected keys like %slayers.0.….lora_A.weight: is this the right base?",
			ErrBinding, len(foreign), base.Architecture, some(foreign), TextPrefix)
	}
	if len(foreign) > 0 {
		return fmt.Errorf("%w: %d of %d tensors bind to nothing in %s: %s", ErrBinding, len(foreign), len(file.Names()), base.Architecture, some(foreign))
	}

	wanted := func(m Module) bool { return slices.Contains(a.Config.Targets, m.Leaf) }
	if slices.Equal(a.Config.Targets, []string{AllLinear}) {
		wanted = func(Module) bool { return true }
	}
	parts := 2
	if a.Config.DoRA {
		parts = 3
	}
	var missing []string
	leaves := make(map[string]bool)
	for i, m := range linears {
		have := 0
		for _, key := range found[i][:parts] {
			if key != "" {
				have++
			}
		}
		if have < parts && (have > 0 || wanted(m)) {
			for p, key := range found[i][:parts] {
				if key == "" {
					missing = append(missing, m.Name()+keyEnds[p])
				}
			}
		}
		if have < parts {
			continue
		}
		leaves[m.Leaf] = true
		a.Modules = append(a.Modules, m)
		if err := a.read(file, m, found[i]); err != nil {
			return err
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("%w: %d tensors that target_modules %q promises are missing: %s", ErrBinding, len(missing), a.Config.Targets, some(missing))
	}
	if !slices.Equal(a.Config.Targets, []string{AllLinear}) {
		a.Config.Targets = nil
		for _, m := range linears {
			if leaves[m.Leaf] && !slices.Contains(a.Config.Targets, m.Leaf) {
				a.Config.Targets = append(a.Config.Targets, m.Leaf)
			}
		}
		slices.Sort(a.Config.Targets)
	}
	return nil
}

// locate finds the module and the part that a key belongs to; −1 if none.
func locate(key string, index map[string]int) (module, part int) {
	for part, end := range keyEnds {
		name, ok := strings.CutSuffix(key, end)
		if !ok {
			continue
		}
		for _, prefix := range []string{MultimodalPrefix, TextPrefix} {
			if rest, ok := strings.CutPrefix(name, prefix); ok {
				if i, ok := index[rest]; ok {
					return i, part
				}
			}
		}
	}
	return -1, 0
}

// read takes one module's tensors; 16-bit files are widened.
func (a *Adapter) read(file *checkpoint.Safetensors, m Module, keys [3]string) error {
	take := func(key string, shape ...int) ([]float32, error) {
		t, err := file.Tensor(key)
		if err != nil {
			return nil, err
		}
		if !slices.Equal(t.Shape, shape) {
			return nil, fmt.Errorf("%w: %s has shape %v, expected %v (r %d, base [%d, %d])", ErrBinding, key, t.Shape, shape, a.Config.R, m.Out, m.In)
		}
		return t.Float32()
	}
	A, err := take(keys[0], a.Config.R, m.In)
	if err != nil {
		return err
	}
	B, err := take(keys[1], m.Out, a.Config.R)
	if err != nil {
		return err
	}
	a.A, a.B = append(a.A, A), append(a.B, B)
	if a.Config.DoRA {
		magnitude, err := take(keys[2], m.Out)
		if err != nil {
			return err
		}
		a.Magnitude = append(a.Magnitude, magnitude)
	}
	return nil
}

// some lists the first few names.
func some(names []string) string {
	const shown = 4
	if len(names) <= shown {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
}
