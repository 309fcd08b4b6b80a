package grpo

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"terraloom/lora/checkpoint"
	"terraloom/lora/codec"
	"terraloom/lora/decoder"
	"terraloom/lora/train"
	"terraloom/lora/train/run"
	"terraloom/reward"
)

// describe says what a split looks like.
func (r *Rows) describe(enc *codec.Codec) string {
	var prompts, answers []int
	for _, row := range r.Rows {
		prompts, answers = append(prompts, len(row.Prompt)), append(answers, row.Answer)
	}
	slices.Sort(prompts)
	slices.Sort(answers)
	last := len(r.Rows) - 1
	end, _ := enc.Tokenizer.Token(r.Terminator)
	return fmt.Sprintf("%s: %d prompts of %d to %d tokens (median %d), reference answers of %d to %d (median %d); an answer ends with %q (id %d)\n",
		r.Split, len(r.Rows), prompts[0], prompts[last], prompts[last/2], answers[0], answers[last], answers[last/2], end, r.Terminator)
}

// DryRun prints what the run would do, with one prompt as the model sees it and what its reference answer and a few probes
// would earn, and fails where the run would fail before its first step. resume is as in [Prepared.Run].
func (p *Prepared) DryRun(ctx context.Context, w io.Writer, resume string) error {
	c := p.Config
	if err := run.Usable(c.Out, resume != "" && resume != "never"); err != nil {
		return err
	}
	if _, err := train.Resumable(c.Out, resume); err != nil {
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
	row := &p.Train.Rows[0]
	prompt, err := p.Base.Codec.Tokenizer.Decode(row.Prompt)
	if err != nil {
		return err
	}
	fmt.Fprintf(&b, "\nexample: row %s, a prompt of %d tokens\n%s⟦%s⟧\n", row.ID, len(row.Prompt), prompt, row.Target)
	if err := p.describeRewards(ctx, &b, row, prompt); err != nil {
		return err
	}
	fmt.Fprintf(&b, "\ndry run passed: start with the same command without --dry-run; results go to %s\n", c.Out)
	_, err = io.WriteString(w, b.String())
	return err
}

// describeSteps lays out the first epoch with answers as long as the references and as long as can be, and estimates memory
// and arithmetic.
func (p *Prepared) describeSteps(b *strings.Builder) error {
	c := p.Config
	order, err := train.NewOrder(p.Train.ids(), c.Seed, c.Batch.Prompts, c.Batch.Updates)
	if err != nil {
		return err
	}
	per, layout, cost := order.StepsPerEpoch(), c.layout(), p.Base.Cost()
	total := c.Schedule.Total(per)
	fmt.Fprintf(b, "steps: %d an epoch, %d in all, %d of warm-up; %s\n", per, total, c.Schedule.WarmupSteps(total), c.Schedule)
	for _, longest := range []bool{false, true} {
		var all train.Tokens
		var flops float64
		var rectangle [2]int
		rectangles := 0
		for step := 0; step < per; step += c.Batch.Updates {
			_, _, _, rows := order.At(step)
			var lengths []int
			labels := 0
			for _, r := range rows {
				row := &p.Train.Rows[r]
				answer := row.Answer
				if longest {
					answer = c.Rollout.MaxTokens
				}
				for range c.Group.Size {
					lengths = append(lengths, len(row.Prompt)+answer)
					labels += answer
				}
			}
			plan, err := layout.Plan(lengths)
			if err != nil {
				return err
			}
			rectangles += len(plan)
			flops += cost.Of(lengths, labels) * float64(c.Batch.Updates)
			for _, micro := range plan {
				rows, tokens := size(micro, lengths)
				all.All += rows * tokens
				if rows*tokens > rectangle[0]*rectangle[1] {
					rectangle = [2]int{rows, tokens}
				}
			}
			for _, n := range lengths {
				all.Real += n
			}
		}
		rounds := float64(per / c.Batch.Updates)
		name := "as long as the references"
		if longest {
			name = "of rollout.max_tokens"
		}
		fmt.Fprintf(b, "answers %s: %.1f rectangles an update, %.1f %% padding, the largest %d×%d; memory: about %.1f GB on each device; %.3g TFLOP a step for training",
			name, float64(rectangles)/rounds, 100*float64(all.All-all.Real)/float64(all.All), rectangle[0], rectangle[1],
			float64(p.Base.Memory(rectangle[0], rectangle[1]))/1e9, flops/float64(per)/1e12)
		if c.Device.PeakTFLOPs > 0 {
			fmt.Fprintf(b, ", %.2g hours in all at 40 %% of the peak", flops/float64(per)*float64(total)/(0.4*c.Device.PeakTFLOPs*1e12)/3600)
		}
		b.WriteByte('\n')
	}
	if c.Rollout.Engine == Local {
		m := p.Base.Model.Config
		m.DType = c.Device.DType()
		rows := min(c.Rollout.Rows, c.Batch.Prompts*c.Group.Size)
		fmt.Fprintf(b, "memory while drawing: about %.1f GB more on one device, for merged weights and the caches of %d answers\n",
			float64(m.RunMemory(checkpoint.Workload{Batch: rows, Tokens: c.Data.MaxPromptTokens + c.Rollout.MaxTokens}))/1e9, rows)
	}
	return nil
}

// size is the shape of a rectangle.
func size(m train.Micro, lengths []int) (rows, tokens int) {
	for _, row := range m {
		n := 0
		for _, i := range row {
			n += lengths[i]
		}
		tokens = max(tokens, n)
	}
	return len(m), decoder.Bucket(tokens)
}

// describeRewards shows what some answers would earn. The probes are answers that hope to please without being right: each must
// earn less than the reference answer, or the reward teaches to write it.
func (p *Prepared) describeRewards(ctx context.Context, b *strings.Builder, row *Row, prompt string) error {
	probes := []struct{ name, text string }{
		{"the reference answer", row.Target}, {"nothing", ""}, {"an empty object", "{}"}, {"another object", `{"answer":true}`},
		{"the reference answer in a fence", "```json\n" + row.Target + "\n```"}, {"its first half", row.Target[:len(row.Target)/2]},
		{"it twice", row.Target + row.Target}, {"the prompt", prompt}, {"one word, a thousand times", strings.Repeat("yes ", 1000)},
	}
	items := make([]reward.Item, len(probes))
	for i, probe := range probes {
		items[i] = reward.Item{Completion: probe.text, Reference: row.Reference}
	}
	results := p.scorer.Score(ctx, items)
	if err := ctx.Err(); err != nil {
		return err
	}
	b.WriteString("\nrewards:\n")
	for i, r := range results {
		if err := r.Err(); err != nil {
			return fmt.Errorf("scoring %s: %w", probes[i].name, err)
		}
		fmt.Fprintf(b, "  %7.4f  %s: %s\n", r.Reward, probes[i].name, r.Score.Reason)
		if i > 0 && probes[i].text != row.Target && !(r.Reward < results[0].Reward) && !p.Config.Reward.Extract {
			return fmt.Errorf("%w: reward: %s earns %g, the reference answer %g: policies would learn to write that", ErrConfig, probes[i].name, r.Reward, results[0].Reward)
		}
	}
	return nil
}
