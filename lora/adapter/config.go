// Package adapter holds low-rank adapters (Hu et al. 2021, https://arxiv.org/abs/2106.09685) on the host: which modules
// of a base they change, their tensors, the PEFT folder they are kept in, and merging them into the base.
//
//	y = W·x + s·B·(A·dropout(x)),  s = alpha/r, or alpha/√r when rank-stabilised
//
// Adapters are float32 whatever the base is stored in. Running and training them is the decoder package's work.
package adapter

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"terraloom/lora/checkpoint"
)

// AllLinear as the only target stands for every projection of the decoder layers, those of linear attention included;
// never the vision tower, the embedding or the head.
const AllLinear = "all-linear"

// Sentinel errors.
var (
	ErrConfig  = errors.New("adapter configuration")    // settings that cannot be used
	ErrFormat  = errors.New("adapter folder")           // files that cannot be read
	ErrBinding = errors.New("adapter does not fit")     // modules or shapes differ from the base's
	ErrExists  = errors.New("folder exists already")    // nothing is overwritten
	ErrServer  = errors.New("server would refuse this") // vLLM's limits
)

// Config is what defines an adapter, apart from its tensors.
type Config struct {
	R       int      // rank
	Alpha   float64  // numerator of the scale
	Dropout float64  // of the input of A, in training only; 0 ≤ p < 1
	Targets []string // leaf names of modules ("q_proj"), or AllLinear alone
	RSLoRA  bool     // scale alpha/√r (Kalajdzievski 2023, https://arxiv.org/abs/2312.03732)
	DoRA    bool     // trained row magnitudes (Liu et al. 2024, https://arxiv.org/abs/2402.09353)
}

// Scale is s.
func (c Config) Scale() float64 {
	if c.RSLoRA {
		return c.Alpha / math.Sqrt(float64(c.R))
	}
	return c.Alpha / float64(c.R)
}

// Validate reports every setting that cannot be used, whatever the base.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w: %s", ErrConfig, fmt.Sprintf(format, args...)))
	}
	if c.R < 1 || c.R > 1<<16 {
		bad("r is %d, expected 1 to 65536", c.R)
	}
	if !(c.Alpha > 0) || math.IsInf(c.Alpha, 0) {
		bad("alpha is %v, expected a number above 0", c.Alpha)
	}
	if !(c.Dropout >= 0 && c.Dropout < 1) {
		bad("dropout is %v, expected 0 ≤ dropout < 1", c.Dropout)
	}
	if len(c.Targets) == 0 {
		bad("no targets: name modules such as q_proj, or %s", AllLinear)
	}
	if len(c.Targets) > 1 && slices.Contains(c.Targets, AllLinear) {
		bad("targets %q: %s stands alone", c.Targets, AllLinear)
	}
	return errors.Join(errs...)
}

// Module is one projection that an adapter can change.
type Module struct {
	Layer   int
	Path    string // below "layers.N.", e.g. "self_attn.q_proj"
	Leaf    string // its last part, e.g. "q_proj"
	Out, In int    // shape of its matrix
}

// Name is the canonical module name, e.g. "layers.3.self_attn.q_proj".
func (m Module) Name() string { return fmt.Sprintf("layers.%d.%s", m.Layer, m.Path) }

// Linears lists all projections of the base's decoder layers in the order of computation.
func Linears(base *checkpoint.Config) []Module {
	var out []Module
	for _, t := range base.TensorSpecs() {
		rest, ok := strings.CutPrefix(t.Name, "layers.")
		name, isWeight := strings.CutSuffix(rest, ".weight")
		if !ok || !isWeight || len(t.Shape) != 2 {
			continue
		}
		layer, path, _ := strings.Cut(name, ".")
		m := Module{Path: path, Leaf: path[strings.LastIndexByte(path, '.')+1:], Out: t.Shape[0], In: t.Shape[1]}
		if _, err := fmt.Sscan(layer, &m.Layer); err == nil {
			out = append(out, m)
		}
	}
	return out
}

// Modules lists the modules of the base that the targets name, in the order of computation. A target that names none is
// an error.
func (c Config) Modules(base *checkpoint.Config) ([]Module, error) {
	all := Linears(base)
	if slices.Equal(c.Targets, []string{AllLinear}) {
		return all, nil
	}
	leaves := make(map[string]int)
	for _, m := range all {
		leaves[m.Leaf]++
	}
	var errs []error
	for _, t := range c.Targets {
		switch {
		case leaves[t] > 0:
		case t == "lm_head" || t == "embed_tokens":
			errs = append(errs, fmt.Errorf("%w: target %q: the embedding and the head stay frozen here: remove it", ErrConfig, t))
		default:
			errs = append(errs, fmt.Errorf("%w: target %q names no module of %s: it has %s, or use %s",
				ErrConfig, t, base.Architecture, strings.Join(slices.Sorted(maps.Keys(leaves)), ", "), AllLinear))
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return slices.DeleteFunc(all, func(m Module) bool { return !slices.Contains(c.Targets, m.Leaf) }), nil
}

// Coverage says what the targets reach, for the banner of a run.
type Coverage struct {
	Modules    int
	Parameters int64
	Covered    map[string]int // modules by leaf name
	Skipped    map[string]int // projections that stay as they are, by leaf name
	// BareMixers are the layers none of whose mixer projections is covered: on hybrid models, naming only q, k, v and o
	// leaves three of four layers out.
	BareMixers []int
}

// Cover computes the coverage of the base.
func (c Config) Cover(base *checkpoint.Config) (Coverage, error) {
	modules, err := c.Modules(base)
	if err != nil {
		return Coverage{}, err
	}
	cov := Coverage{Modules: len(modules), Covered: map[string]int{}, Skipped: map[string]int{}}
	mixers := make([]bool, base.NumLayers)
	for _, m := range modules {
		cov.Covered[m.Leaf]++
		cov.Parameters += int64(c.R) * int64(m.In+m.Out)
		if c.DoRA {
			cov.Parameters += int64(m.Out)
		}
		mixers[m.Layer] = mixers[m.Layer] || !strings.HasPrefix(m.Path, "mlp.")
	}
	for _, m := range Linears(base) {
		if cov.Covered[m.Leaf] == 0 {
			cov.Skipped[m.Leaf]++
		}
	}
	for layer, covered := range mixers {
		if !covered {
			cov.BareMixers = append(cov.BareMixers, layer)
		}
	}
	return cov, nil
}

// ranks are the values that vLLM accepts for --max-lora-rank.
var ranks = []int{1, 8, 16, 32, 64, 128, 256, 320, 512}

// CheckVLLM tells before training what a vLLM server started with --max-lora-rank maxRank (16 when unset) would say of
// the finished adapter: an error if it would refuse it, a warning if the limit costs speed for nothing.
func (c Config) CheckVLLM(maxRank int) (warning string, err error) {
	if c.DoRA {
		return "", fmt.Errorf("%w: vLLM does not load DoRA adapters: train without DoRA, or merge before serving", ErrServer)
	}
	fit := slices.IndexFunc(ranks, func(r int) bool { return r >= c.R })
	if fit < 0 {
		return "", fmt.Errorf("%w: rank %d is above vLLM's largest, %d: lower r, or merge before serving", ErrServer, c.R, ranks[len(ranks)-1])
	}
	if c.R > maxRank {
		return "", fmt.Errorf("%w: rank %d is above the server's limit %d: start vLLM with --max-lora-rank %d", ErrServer, c.R, maxRank, ranks[fit])
	}
	if maxRank >= 4*ranks[fit] {
		return fmt.Sprintf("vLLM's --max-lora-rank %d is far above rank %d and slows decoding: %d is enough", maxRank, c.R, ranks[fit]), nil
	}
	return "", nil
}
