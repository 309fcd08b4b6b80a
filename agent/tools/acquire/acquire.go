// Package acquire lets the tools download from an archive.
package acquire

import (
	"context"
	"errors"
	"fmt"

	"terraloom/agent/archive"
	"terraloom/agent/tools"
)

// From is an archive as the tools see it.
func From(a archive.Archive) tools.Archive { return adapter{a} }

type adapter struct{ archive archive.Archive }

func (a adapter) Products() []tools.ArchiveProduct {
	var out []tools.ArchiveProduct
	for _, p := range a.archive.Products() {
		q := tools.ArchiveProduct{ID: p.ID, Title: p.Title, Aliases: p.Aliases}
		for _, b := range p.Bands {
			q.Bands = append(q.Bands, tools.ArchiveBand{Name: b.Name, Aliases: b.Aliases})
		}
		out = append(out, q)
	}
	return out
}

// name stands in for the caller's own file name, which the tool makes itself.
const name = "product"

func (a adapter) Fetch(ctx context.Context, r tools.ArchiveRequest) ([]tools.ArchiveFile, error) {
	pending, err := a.archive.Find(ctx, archive.Spec{
		Product: r.Product, Bands: r.Bands, Box: archive.Box{West: r.West, South: r.South, East: r.East, North: r.North},
		Start: r.From, End: r.To, Interval: r.Interval, ScaleM: r.Scale, Name: name,
	})
	switch {
	case errors.Is(err, archive.ErrNoData):
		return nil, fmt.Errorf("%w: %w", err, tools.ErrNoData)
	case errors.Is(err, archive.ErrSpec):
		return nil, fmt.Errorf("%w: %w", err, tools.ErrRequest)
	case err != nil:
		return nil, err
	}
	files := make([]tools.ArchiveFile, len(pending))
	for i, p := range pending {
		files[i] = tools.ArchiveFile{Band: p.Band, Time: p.Date, Clock: p.Clock, Write: func(ctx context.Context, path string) error {
			_, err := p.Write(ctx, path)
			return err
		}}
	}
	return files, nil
}
