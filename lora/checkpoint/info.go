package checkpoint

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"terraloom/data/strictjson"
)

// Workload is what memory is estimated for.
type Workload struct {
	Batch  int `json:"batch"`  // rows computed together
	Tokens int `json:"tokens"` // per row, prompt and completion
	Rank   int `json:"rank"`   // of the LoRA adapters, on every projection
}

// Info describes an open model for people.
type Info struct {
	Path         string         `json:"path"`
	Architecture string         `json:"architecture"`
	Parameters   int64          `json:"parameters"`
	Stored       map[DType]int  `json:"stored"` // text tensors by dtype
	StoredBytes  int64          `json:"stored_bytes"`
	Skipped      map[string]int `json:"skipped"` // tensors left out, by kind
	Tokenizer    string         `json:"tokenizer"`
	ChatTemplate bool           `json:"chat_template"`
	EOS          []int          `json:"eos"`
	MaxPositions int            `json:"max_positions"`

	Run   Workload `json:"run"`
	Train Workload `json:"train"`
	// Memory by the dtype in which the matrices are held on the device, whatever they are stored in.
	RunBytes   map[DType]int64 `json:"run_bytes"`
	TrainBytes map[DType]int64 `json:"train_bytes"`

	Notes []string `json:"notes"` // assumptions, and what was settled on opening
}

// Info gathers what `terraloom model info` prints, with memory for one row of 4,096 tokens to run and for 4 rows of
// 1,024 at rank 16 to train (or the model's longest text, if that is shorter).
func (m *Model) Info() (Info, error) {
	c := &m.Config
	tokenizer, err := m.tokenizerKind()
	if err != nil {
		return Info{}, err
	}
	info := Info{
		Path: m.Path, Architecture: c.Architecture, Parameters: c.Parameters(), Stored: map[DType]int{}, Skipped: m.Skipped,
		Tokenizer: tokenizer, ChatTemplate: m.ChatTemplate != "", EOS: c.EOS, MaxPositions: c.MaxPositions,
		Run:      Workload{Batch: 1, Tokens: min(4096, c.MaxPositions)},
		Train:    Workload{Batch: 4, Tokens: min(1024, c.MaxPositions), Rank: 16},
		Notes:    slices.Concat(c.Assumed, m.Notes),
		RunBytes: map[DType]int64{}, TrainBytes: map[DType]int64{},
	}
	for _, held := range []DType{F32, BF16} {
		c := *c
		c.DType = held
		info.RunBytes[held], info.TrainBytes[held] = c.RunMemory(info.Run), c.TrainMemory(info.Train)
	}
	for _, name := range m.names {
		t := m.tensors[name]
		info.Stored[t.DType]++
		info.StoredBytes += int64(len(t.Data))
	}
	if m.Quantised() {
		info.Notes = append(info.Notes, "weights are quantised: they are expanded to float32, and merged adapters keep the quantisation error of the base")
	}
	if m.ChatTemplate == "" {
		info.Notes = append(info.Notes, "no chat template ships with the model: conversations cannot be rendered without naming one")
	}
	return info, nil
}

// tokenizerKind names the tokenizer and counts its tokens.
func (m *Model) tokenizerKind() (string, error) {
	if v := m.Vocab; v != nil {
		return fmt.Sprintf("%s (GGUF, pre-tokenizer %q), %d tokens", v.Model, v.Pre, len(v.Tokens)), nil
	}
	path, ok := m.TokenizerFiles["tokenizer.json"]
	if !ok {
		if len(m.TokenizerFiles) == 0 {
			return "none", nil
		}
		return "no tokenizer.json, only " + strings.Join(slices.Sorted(maps.Keys(m.TokenizerFiles)), ", "), nil
	}
	p, err := readJSON(path)
	if err != nil {
		return "", err
	}
	model := p.value.Get("model")
	added := 0
	vocab := model.Get("vocab")
	list := p.value.Get("added_tokens")
	for i := range list.Len() {
		if vocab.Get(list.Index(i).Get("content").Text()).Kind() == strictjson.Absent {
			added++
		}
	}
	return fmt.Sprintf("%s (tokenizer.json), %d tokens", model.Get("type").Text(), vocab.Len()+added), nil
}

// weightBytes is the size of one weight in memory.
func (c *Config) weightBytes() int64 {
	if c.DType == BF16 || c.DType == F16 {
		return 2
	}
	return 4
}

// RunMemory estimates the bytes needed to generate: the weights in Config.DType; in float32, keys and values of every
// token in the full-attention layers, state and convolution columns of the linear ones, and one row of logits per text.
func (c *Config) RunMemory(w Workload) int64 {
	batch, tokens, width := int64(w.Batch), int64(w.Tokens), c.weightBytes()
	l := c.LinearAttn
	cache := int64(c.CountLayers(FullAttention)) * 2 * int64(c.KVDim()) * tokens
	state := int64(c.CountLayers(LinearAttention)) * (int64(l.ValueDim())*int64(l.KeyHeadDim) + int64(l.ConvDim())*int64(max(l.ConvKernel-1, 0)))
	return c.Parameters()*width + 4*batch*(cache+state+int64(c.VocabSize))
}

// TrainMemory estimates the bytes needed to train LoRA adapters layer by layer: the weights; four float32 per adapter
// parameter (value, gradient, two Adam moments); the float32 residual stream kept at every layer border; twice the float32
// activations inside the widest layer (forward and backward), its attention scores included; and three float32 copies
// of the logits of one chunk of 256 tokens (logits, softmax, gradient).
func (c *Config) TrainMemory(w Workload) int64 {
	batch, tokens, width := int64(w.Batch), int64(w.Tokens), c.weightBytes()
	rows := batch * tokens
	hidden, l := int64(c.HiddenSize), c.LinearAttn
	residuals := 4 * rows * hidden * int64(c.NumLayers+1)
	full := rows*int64(c.QDim()+2*c.KVDim()+c.NumHeads*c.HeadDim) + batch*int64(c.NumHeads)*tokens*tokens
	linear := int64(0)
	if c.CountLayers(LinearAttention) > 0 {
		linear = rows * int64(2*l.ConvDim()+3*l.ValueDim())
	}
	inside := 2 * 4 * (rows*(4*hidden+3*int64(c.IntermediateSize)) + max(full, linear))
	chunk := 3 * 4 * min(rows, 256) * int64(c.VocabSize)
	return c.Parameters()*width + 16*c.LoRAParameters(w.Rank) + residuals + inside + chunk
}

// LoRAParameters counts the elements of A [rank, in] and B [out, rank] on every projection of every layer.
func (c *Config) LoRAParameters(rank int) int64 {
	var total int64
	for _, s := range c.TensorSpecs() {
		if len(s.Shape) == 2 && strings.Contains(s.Name, "_proj") {
			total += int64(rank) * int64(s.Shape[0]+s.Shape[1])
		}
	}
	return total
}

// String prints the description, one fact a line.
func (i Info) String() string {
	var b strings.Builder
	line := func(key, format string, args ...any) {
		fmt.Fprintf(&b, "%-13s %s\n", key, fmt.Sprintf(format, args...))
	}
	line("model", "%s", i.Path)
	line("architecture", "%s", i.Architecture)
	line("parameters", "%d (%.3g M)", i.Parameters, float64(i.Parameters)/1e6)
	var stored []string
	for _, d := range slices.Sorted(maps.Keys(i.Stored)) {
		stored = append(stored, fmt.Sprintf("%d × %s", i.Stored[d], d))
	}
	line("stored", "%s in tensors %s", binarySize(i.StoredBytes), strings.Join(stored, ", "))
	for _, kind := range slices.Sorted(maps.Keys(i.Skipped)) {
		line("skipped", "%d tensors of %s", i.Skipped[kind], kind)
	}
	line("tokenizer", "%s", i.Tokenizer)
	line("chat template", "%s", map[bool]string{true: "yes", false: "no"}[i.ChatTemplate])
	line("end of text", "%v", i.EOS)
	line("longest text", "%d tokens", i.MaxPositions)
	sizes := func(by map[DType]int64) string {
		return fmt.Sprintf("%s (matrices in float32) or %s (in bfloat16)", binarySize(by[F32]), binarySize(by[BF16]))
	}
	line("to run", "%s for %d row of %d tokens", sizes(i.RunBytes), i.Run.Batch, i.Run.Tokens)
	line("to train", "%s for %d rows of %d tokens, LoRA rank %d on every projection, layer by layer", sizes(i.TrainBytes), i.Train.Batch, i.Train.Tokens, i.Train.Rank)
	for _, note := range i.Notes {
		line("note", "%s", note)
	}
	return b.String()
}

func binarySize(n int64) string {
	if n < 1<<20 {
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	if n < 10<<30 {
		return fmt.Sprintf("%.0f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
}
