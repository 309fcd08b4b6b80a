// Package kit puts an archive behind the tool download_product.
package kit

import (
	"context"
	"errors"
	"fmt"

	"terraloom/agent/archive"
	"terraloom/agent/tools"
)

// Archive is an archive as the tools see it.
type Archive struct{ archive archive.Archive }

var _ tools.Archive = Archive{}

// New wraps an archive.
func New(a archive.Archive) Archive { return Archive{a} }

// Products implements tools.Archive.
func (a Archive) Products() []tools.ArchiveProduct {
	var out []tools.ArchiveProduct
	for _, p := range a.archive.Products() {
		q := tools.ArchiveProduct{ID: p.ID, Title: p.Title, Aliases: p.Aliases}
		for i := range p.Bands {
			q.Bands = append(q.Bands, tools.ArchiveBand{Name: p.Bands[i].Name, Aliases: p.Bands[i].Aliases})
		}
		out = append(out, q)
	}
	return out
}

// Fetch implements tools.Archive.
func (a Archive) Fetch(ctx context.Context, r tools.ArchiveRequest) ([]tools.ArchiveFile, error) {
	spec := archive.Spec{Product: r.Product, Bands: r.Bands, Box: archive.Box{West: r.West, South: r.South, East: r.East, North: r.North},
		Start: r.From, End: r.To, Interval: r.Interval, ScaleM: r.Scale, Name: "raster"} // the tool names the files
	pending, err := a.archive.Find(ctx, spec)
	switch {
	case errors.Is(err, archive.ErrNoData):
		return nil, fmt.Errorf("%w: %w", tools.ErrNoData, err)
	case errors.Is(err, archive.ErrSpec):
		return nil, fmt.Errorf("%w: %w", tools.ErrRequest, err)
	case err != nil:
		return nil, err
	}
	files := make([]tools.ArchiveFile, len(pending))
	for i, p := range pending {
		files[i] = tools.ArchiveFile{Band: p.Band, Time: p.Date, Write: func(ctx context.Context, path string) error {
			_, err := p.Write(ctx, path)
			return err
		}}
	}
	return files, nil
}
