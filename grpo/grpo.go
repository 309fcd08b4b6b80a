package grpo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"terraloom/data"
	"terraloom/lora/backend"
	"terraloom/lora/provenance"
	"terraloom/lora/train"
	"terraloom/lora/train/rowset"
	"terraloom/lora/train/run"
	"terraloom/lora/train/settings"
	"terraloom/lora/train/setup"
	"terraloom/reward"
)

// Prepared is a run that is ready to go to a device: everything that can be wrong with its inputs has been looked at.
type Prepared struct {
	Config     Config
	Origins    settings.Origins
	Base       *setup.Base
	Train      *Rows
	Validation *Rows // nil: none
	Notices    []string

	scorer  *reward.Scorer
	dataset string  // SHA-256 of its manifest
	sampler sampler // that several runs share and none closes; nil: the run opens its own
}

// Prepare opens base and dataset and encodes every prompt. Nothing is put on a device, nothing is written, no server is asked.
// Close it.
func Prepare(ctx context.Context, c Config, origins settings.Origins) (p *Prepared, err error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	p = &Prepared{Config: c, Origins: origins}
	if p.scorer, err = reward.New(c.Reward); err != nil {
		return nil, err
	}
	ds, err := data.OpenDataset(c.Dataset)
	if err != nil {
		return nil, fmt.Errorf("dataset: %w", err)
	}
	if p.dataset, err = data.ManifestHash(c.Dataset); err != nil {
		return nil, fmt.Errorf("dataset: %w", err)
	}
	if p.Base, err = setup.Open(c.Config, c.Seed); err != nil {
		return nil, err
	}
	if err := p.read(ctx, ds); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	p.notice()
	return p, nil
}

func (p *Prepared) read(ctx context.Context, ds *data.Dataset) (err error) {
	c := p.Config
	longest := c.Data.MaxPromptTokens + c.Rollout.MaxTokens
	if limit := p.Base.Model.Config.MaxPositions; longest > limit {
		return fmt.Errorf("%w: data.max_prompt_tokens %d and rollout.max_tokens %d do not fit the %d positions of the base together", ErrConfig, c.Data.MaxPromptTokens, c.Rollout.MaxTokens, limit)
	}
	if _, err := c.layout().Plan([]int{longest}); err != nil {
		return fmt.Errorf("%w: batch.tokens: %w: raise it, or lower data.max_prompt_tokens or rollout.max_tokens", ErrConfig, err)
	}
	if p.Train, err = readRows(ctx, ds, c, c.Data.Train, c.Data.TrainRows, p.Base.Codec); err != nil {
		return err
	}
	if c.Data.Validation != "" {
		if p.Validation, err = readRows(ctx, ds, c, c.Data.Validation, c.Data.ValidationRows, p.Base.Codec); err != nil {
			return err
		}
		if err := rowset.Apart(p.Train.Split, p.Train.ids(), p.Validation.Split, p.Validation.ids()); err != nil {
			return err
		}
	}
	if _, err := train.NewOrder(p.Train.ids(), c.Seed, c.Batch.Prompts, c.Batch.Updates); err != nil {
		return fmt.Errorf("dataset %s: %w: %w", c.Dataset, ErrRows, err)
	}
	return nil
}

// notice collects what a person should know before the run.
func (p *Prepared) notice() {
	p.Notices = append(p.Notices, p.Base.Notices...)
	add := func(format string, args ...any) { p.Notices = append(p.Notices, fmt.Sprintf(format, args...)) }
	for _, rows := range []*Rows{p.Train, p.Validation} {
		if rows != nil && len(rows.Dropped) > 0 {
			add("split %s: left out %s, of %d rows", rows.Split, rowset.Counts(rows.Dropped), rows.Read)
		}
	}
	c := p.Config
	if p.Base.Start.Config.Dropout > 0 {
		add("the adapter's dropout of %g is off here: probabilities of drawing and training must agree", p.Base.Start.Config.Dropout)
	}
	if c.Objective.Beta > 0 && c.Objective.KL == K3 {
		add("objective.kl k3 estimates KL(p‖p_ref) without bias, its gradient is that of KL(p_ref‖p); k2, k3rho and exact have the gradient of KL(p‖p_ref)")
	}
	if c.Objective.Reference == Bare && p.Base.Parent != "" {
		add("objective.reference base: KL pulls away from the adapter that training starts from")
	}
}

// Close releases the base's files.
func (p *Prepared) Close() error { return p.Base.Close() }

// Run trains on an engine, see [setup.Base.Backend]. resume is never, auto, or a checkpoint's name (see
// [train.Resumable]). progress may be nil.
func (p *Prepared) Run(ctx context.Context, engine *backend.Backend, resume string, progress func(train.Status)) (res *setup.Result, err error) {
	c := p.Config
	folder, err := run.Open(c.Out, resume != "" && resume != "never")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, folder.Close()) }()
	from, err := train.Resumable(c.Out, resume)
	if err != nil {
		return nil, err
	}
	if err := setup.WriteConfig(folder, "grpo", &p.Config, p.Origins, from != ""); err != nil {
		return nil, err
	}
	on, err := p.Base.Load(engine)
	if err != nil {
		return nil, err
	}
	defer on.Close()
	slog.Info("training", "backend", on.Backend, "prompts", len(p.Train.Rows), "out", c.Out)
	return p.train(ctx, on, folder, from, progress)
}

// train runs the loop and writes the result.
func (p *Prepared) train(ctx context.Context, on *setup.Placed, folder *run.Folder, from string, progress func(train.Status)) (res *setup.Result, err error) {
	c := p.Config
	id, err := p.Base.Identity()
	if err != nil {
		return nil, err
	}
	entries, err := p.Base.Entries(&p.Config, p.Origins, id, c.Dataset, p.dataset)
	if err != nil {
		return nil, err
	}
	t, err := p.task(ctx, on, folder)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	loop := &train.Loop{
		Model: on.Model, Params: on.Params, Task: t, Options: c.Options, Batch: c.Batch.Prompts, Updates: c.Batch.Updates,
		Folder: folder, Resume: from, Config: entries, Free: free, Peak: c.Device.PeakTFLOPs * 1e12, Progress: progress,
	}
	if p.Validation == nil {
		loop.Options.Checkpoint.Metric, loop.Options.Stop.Patience = "", 0
	}
	summary, err := loop.Run(ctx)
	if err != nil {
		return nil, err
	}
	record := provenance.New(provenance.Record{Method: "grpo", Role: "executor", Name: c.Base, Identity: id, Variables: c.Template.Variables, Dataset: p.dataset, Config: entries})
	path, err := p.Base.WriteResult(folder, summary.Result, record)
	if err != nil {
		return nil, err
	}
	return &setup.Result{Path: path, Summary: summary}, nil
}

// task puts together what the loop trains.
func (p *Prepared) task(ctx context.Context, on *setup.Placed, folder *run.Folder) (t *task, err error) {
	t = &task{
		config: p.Config, base: p.Base, on: on, scorer: p.scorer, folder: folder, layout: p.Config.layout(), cost: p.Base.Cost(),
		rows: p.Train, validation: p.Validation, ids: p.Train.ids(), targets: map[string]string{},
	}
	for _, r := range p.Train.Rows {
		t.targets[r.ID] = r.Target
	}
	// A new adapter changes nothing yet: with it the base is the base alone.
	if p.Config.Objective.Beta > 0 && p.Config.Objective.Reference == Start && p.Base.Parent != "" {
		if t.reference, err = on.Model.Bind(p.Base.Start); err != nil {
			return nil, err
		}
	}
	if err := p.openSampler(ctx, t); err != nil {
		return nil, errors.Join(err, t.close())
	}
	return t, nil
}

func (p *Prepared) openSampler(ctx context.Context, t *task) error {
	if p.sampler != nil {
		t.sampler, t.shared = p.sampler, true
		return nil
	}
	if p.Config.Rollout.Engine == Local {
		l, err := newLocal(p.Config, p.Base, t.on, p.Train.Terminator)
		if err == nil {
			t.sampler = l
		}
		return err
	}
	s, err := newServer(p.Config, p.Base, t.folder, p.Train.Terminator)
	if err != nil {
		return err
	}
	t.sampler = s
	return t.handshake(ctx, s)
}

func (t *task) close() (err error) {
	if t.sampler != nil && !t.shared {
		err = t.sampler.close()
	}
	if t.reference != nil {
		t.reference.Free()
	}
	return err
}

// Banner describes the run before it starts: what is trained on what, and every setting with where it came from.
func (p *Prepared) Banner() (string, error) {
	var b strings.Builder
	c := p.Config
	b.WriteString(p.Base.Describe())
	for _, rows := range []*Rows{p.Train, p.Validation} {
		if rows != nil {
			b.WriteString(rows.describe(p.Base.Codec))
		}
	}
	reference := "the base alone"
	if c.Objective.Reference == Start && p.Base.Parent != "" {
		reference = "the base with the adapter " + c.Adapter
	}
	fmt.Fprintf(&b, "step: %d prompts × %d answers, %d updates on each answer; drawn by %s at temperature %g, at most %d tokens\n",
		c.Batch.Prompts, c.Group.Size, c.Batch.Updates, c.Rollout.Engine, c.Rollout.Temperature, c.Rollout.MaxTokens)
	fmt.Fprintf(&b, "loss: −min(ρA, clip(ρ, %g, %g)·A) + %g·KL(p‖p_ref) − %g·H(p); A = (r − mean)/(std + %g), %s deviation; KL by %s; p_ref: %s; mean: %s\n",
		1-c.Objective.ClipLow, 1+c.Objective.ClipHigh, c.Objective.Beta, c.Objective.Entropy, c.Group.Eps, c.Group.Std, c.Objective.KL, reference, c.meaning())
	if err := setup.WriteSettings(&b, &c, p.Origins, p.Notices); err != nil {
		return "", err
	}
	return b.String(), nil
}

// meaning says what the loss's mean is over.
func (c Config) meaning() string {
	switch c.Objective.Aggregation {
	case SequenceMean:
		return "over each answer's tokens, then over the answers of the step"
	case DrGRPO:
		return fmt.Sprintf("over the answers of the step × %d tokens", c.Rollout.MaxTokens)
	}
	return "over all answer tokens of the step"
}
