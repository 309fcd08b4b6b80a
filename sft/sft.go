package sft

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
)

// Prepared is a run that is ready to go to a device: everything that can be wrong with its inputs has been looked at.
type Prepared struct {
	Config     Config
	Origins    settings.Origins
	Base       *setup.Base
	Train      *Rows
	Validation *Rows // nil: none
	Notices    []string

	dataset string // SHA-256 of its manifest
}

// Prepare opens base and dataset, and tokenises, masks and lays out every row. Nothing is put on a device and nothing is
// written. Close it.
func Prepare(ctx context.Context, c Config, origins settings.Origins) (p *Prepared, err error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	p = &Prepared{Config: c, Origins: origins}
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
	p.Notices = append(p.Base.Notices, p.Notices...)
	return p, nil
}

func (p *Prepared) read(ctx context.Context, ds *data.Dataset) (err error) {
	c := p.Config
	if limit := p.Base.Model.Config.MaxPositions; c.Data.MaxTokens > limit {
		return fmt.Errorf("%w: data.max_tokens: %d is more than the %d positions of the base", ErrConfig, c.Data.MaxTokens, limit)
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
	for _, rows := range []*Rows{p.Train, p.Validation} {
		if rows == nil {
			continue
		}
		if _, err := c.layout().Plan(rows.lengths()); err != nil {
			return fmt.Errorf("%w: batch.tokens: %w: raise it, or lower data.max_tokens", ErrConfig, err)
		}
		if len(rows.Dropped) > 0 || rows.Truncated > 0 {
			p.Notices = append(p.Notices, fmt.Sprintf("split %s: left out %s; truncated %d of %d rows", rows.Split, rowset.Counts(rows.Dropped), rows.Truncated, rows.Read))
		}
	}
	if _, err := train.NewOrder(p.Train.ids(), c.Seed, c.Batch.Rows, 1); err != nil {
		return fmt.Errorf("dataset %s: %w: %w", c.Dataset, ErrRows, err)
	}
	return p.checkGeneration()
}

// checkGeneration refuses settings under which answering could not work.
func (p *Prepared) checkGeneration() error {
	g, c := p.Config.Generation, p.Config
	if p.Validation == nil || g.Rows == 0 {
		return nil
	}
	longest, positions := 0, p.Base.Model.Config.MaxPositions
	for _, r := range p.Validation.Rows {
		longest = max(longest, r.Prompt)
	}
	if longest+g.MaxTokens > positions {
		return fmt.Errorf("%w: generation.max_tokens: a prompt of %d tokens and %d more do not fit the %d positions of the base", ErrConfig, longest, g.MaxTokens, positions)
	}
	if c.Device.Count > 1 && c.Method == setup.Full {
		return fmt.Errorf("%w: generation.rows: answering needs one device or an adapter: set generation.rows to 0", ErrConfig)
	}
	return nil
}

func (r *Rows) lengths() []int {
	var out []int
	for _, row := range r.Rows {
		out = append(out, len(row.Tokens))
	}
	return out
}

func (r *Rows) ids() []string {
	var out []string
	for _, row := range r.Rows {
		out = append(out, row.ID)
	}
	return out
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
	if err := setup.WriteConfig(folder, "sft", &p.Config, p.Origins, from != ""); err != nil {
		return nil, err
	}
	on, err := p.Base.Load(engine)
	if err != nil {
		return nil, err
	}
	defer on.Close()
	slog.Info("training", "backend", on.Backend, "rows", len(p.Train.Rows), "out", c.Out)
	return p.train(ctx, on, folder, from, progress)
}

// train runs the loop and writes the result.
func (p *Prepared) train(ctx context.Context, on *setup.Placed, folder *run.Folder, from string, progress func(train.Status)) (*setup.Result, error) {
	c := p.Config
	id, err := p.Base.Identity()
	if err != nil {
		return nil, err
	}
	entries, err := p.Base.Entries(&p.Config, p.Origins, id, c.Dataset, p.dataset)
	if err != nil {
		return nil, err
	}
	t := p.task(on, folder)
	defer func() { t.writer.close() }()
	loop := &train.Loop{
		Model: on.Model, Params: on.Params, All: p.Base.Start == nil, Task: t, Options: c.Options, Batch: c.Batch.Rows,
		Folder: folder, Resume: from, Config: entries, Free: free, Peak: c.Device.PeakTFLOPs * 1e12, Progress: progress,
	}
	if p.Validation == nil {
		loop.Options.Checkpoint.Metric, loop.Options.Stop.Patience = "", 0
	}
	summary, err := loop.Run(ctx)
	if err != nil {
		return nil, err
	}
	record := provenance.New(provenance.Record{Method: "sft", Role: c.Role, Name: c.Base, Identity: id, Variables: c.Template.Variables, Dataset: p.dataset, Config: entries})
	path, err := p.Base.WriteResult(folder, summary.Result, record)
	if err != nil {
		return nil, err
	}
	return &setup.Result{Path: path, Summary: summary}, nil
}

func (p *Prepared) task(on *setup.Placed, folder *run.Folder) *task {
	return &task{
		config: p.Config, base: p.Base, on: on, enc: p.Base.Codec, folder: folder, layout: p.Config.layout(), cost: p.Base.Cost(),
		rows: p.Train, validation: p.Validation, ids: p.Train.ids(),
	}
}

// Banner describes the run before it starts: what is trained on what, and every setting with where it came from.
func (p *Prepared) Banner() (string, error) {
	var b strings.Builder
	b.WriteString(p.Base.Describe())
	for _, rows := range []*Rows{p.Train, p.Validation} {
		if rows != nil {
			b.WriteString(rows.describe(p.Base.Codec))
		}
	}
	fmt.Fprintf(&b, "loss: mean over the %s tokens of all rows of a step\n", map[bool]string{true: "answer", false: "prompt and answer"}[p.Config.Data.CompletionOnlyLoss])
	if err := setup.WriteSettings(&b, &p.Config, p.Origins, p.Notices); err != nil {
		return "", err
	}
	return b.String(), nil
}
