package sft

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"terraloom/lora/codec"
	"terraloom/lora/train"
	"terraloom/lora/train/run"
)

// describe says what a split looks like.
func (r *Rows) describe(enc *codec.Codec) string {
	lengths := r.lengths()
	slices.Sort(lengths)
	total, labels := 0, 0
	for i := range r.Rows {
		total += len(r.Rows[i].Tokens)
		labels += r.Rows[i].Labels()
	}
	end, _ := enc.Tokenizer.Token(r.Terminator)
	return fmt.Sprintf("%s: %d rows, %d tokens (%d to %d in a row, median %d), %d labelled (%.1f %%); end of turn %q (id %d) trained: %s\n",
		r.Split, len(r.Rows), total, lengths[0], lengths[len(lengths)-1], lengths[len(lengths)/2],
		labels, 100*float64(labels)/float64(total), end, r.Terminator, yesNo(r.terminated()))
}

// terminated reports whether some row ends with the end-of-turn token; truncated ones do not.
func (r *Rows) terminated() bool {
	return slices.ContainsFunc(r.Rows, func(row Row) bool { return row.Tokens[len(row.Tokens)-1] == r.Terminator })
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// DryRun prints what the run would do, with one example as the model sees it, and fails where the run would fail before
// its first step. resume is as in [Prepared.Run].
func (p *Prepared) DryRun(w io.Writer, resume string) error {
	c := p.Config
	if err := p.tryFolder(resume); err != nil {
		return err
	}
	banner, err := p.Banner()
	if err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString(banner)
	if err := p.describeSteps(&b); err != nil {
		return err
	}
	row := p.Train.Rows[0]
	text, err := render(p.Base.Codec, row)
	if err != nil {
		return err
	}
	fmt.Fprintf(&b, "\nexample: row %s, %d tokens, the last %d labelled\n%s", row.ID, len(row.Tokens), row.Labels(), text)
	fmt.Fprintf(&b, "\ndry run passed: start with the same command without --dry-run; results go to %s\n", c.Out)
	_, err = io.WriteString(w, b.String())
	return err
}

// tryFolder looks whether the run folder could be used, without making it.
func (p *Prepared) tryFolder(resume string) error {
	again := resume != "" && resume != "never"
	if err := run.Usable(p.Config.Out, again); err != nil {
		return err
	}
	from, err := train.Resumable(p.Config.Out, resume)
	if err != nil || from == "" {
		return err
	}
	return nil
}

// describeSteps lays out all steps of the first epoch and estimates memory and arithmetic.
func (p *Prepared) describeSteps(b *strings.Builder) error {
	c := p.Config
	order, err := train.NewOrder(p.Train.ids(), c.Seed, c.Batch.Rows, 1)
	if err != nil {
		return err
	}
	per, layout, cost := order.StepsPerEpoch(), c.layout(), p.Base.Cost()
	total := c.Schedule.Total(per)
	shapes := map[[2]int]int{}
	var all train.Tokens
	var flops float64
	for step := range per {
		_, _, _, rows := order.At(step)
		var samples []train.Sample
		var lengths []int
		labels := 0
		for _, r := range rows {
			samples = append(samples, p.Train.Rows[r].Sample)
			lengths = append(lengths, len(p.Train.Rows[r].Tokens))
			labels += p.Train.Rows[r].Labels()
		}
		plan, err := layout.Plan(lengths)
		if err != nil {
			return err
		}
		flops += cost.Of(lengths, labels)
		for _, micro := range plan {
			batch := micro.Batch(samples)
			shapes[[2]int{batch.Rows, batch.Len}]++
			all.Add(batch.Count)
		}
	}
	fmt.Fprintf(b, "steps: %d an epoch, %d in all, %d of warm-up; %s\n", per, total, c.Schedule.WarmupSteps(total), c.Schedule)
	fmt.Fprintf(b, "layout of an epoch: %d tokens computed, %.1f %% padding, %.1f rectangles a step in %d shapes:",
		all.All, 100*float64(all.All-all.Real)/float64(all.All), float64(count(shapes))/float64(per), len(shapes))
	largest := int64(0)
	sorted := make([][2]int, 0, len(shapes))
	for s := range shapes {
		sorted = append(sorted, s)
	}
	slices.SortFunc(sorted, func(x, y [2]int) int { return y[0]*y[1] - x[0]*x[1] + (y[1]-x[1])/1024 })
	for _, s := range sorted {
		fmt.Fprintf(b, " %d×%d (%d)", s[0], s[1], shapes[s])
		largest = max(largest, p.Base.Memory(s[0], s[1]))
	}
	fmt.Fprintf(b, "\nmemory: about %.1f GB on each device, layer by layer", float64(largest)/1e9)
	if c.Device.WholeGraph {
		b.WriteString(" (one whole graph needs more: every layer's activations)")
	}
	fmt.Fprintf(b, "\narithmetic: %.3g TFLOP a step", flops/float64(per)/1e12)
	if c.Device.PeakTFLOPs > 0 {
		seconds := flops / float64(per) * float64(total) / (0.4 * c.Device.PeakTFLOPs * 1e12)
		fmt.Fprintf(b, ", %.2g hours in all at 40 %% of the peak", seconds/3600)
	}
	b.WriteByte('\n')
	return nil
}

func count(shapes map[[2]int]int) (n int) {
	for _, k := range shapes {
		n += k
	}
	return n
}

// render shows a row as text with marks where the labels begin and end, and the tokens around the border.
func render(enc *codec.Codec, row Row) (string, error) {
	prompt, err := enc.Tokenizer.Decode(row.Tokens[:row.Prompt])
	if err != nil {
		return "", err
	}
	answer, err := enc.Tokenizer.Decode(row.Tokens[row.Prompt:])
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s⟦%s⟧\n\ntokens around the border (* is labelled):\n", prompt, answer)
	for i := max(row.Prompt-4, 0); i < min(row.Prompt+4, len(row.Tokens)); i++ {
		mark := " "
		if row.Label[i] {
			mark = "*"
		}
		text, err := enc.Tokenizer.Decode(row.Tokens[i : i+1])
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, " %s %6d %q\n", mark, row.Tokens[i], text)
	}
	return b.String(), nil
}
