package tools

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"terraloom/agent/raster"
	"terraloom/agent/tools/workspace"
	"terraloom/data/strictjson"
)

// maxBatch bounds the files of one call.
const maxBatch = 10_000

// paths is an argument that is one path or a list of them. single tells which.
func (c *Call) paths(param string) (list []string, single bool, err error) {
	v := c.Args.Get(param)
	switch v.Kind() {
	case strictjson.String:
		return []string{v.Text()}, true, nil
	case strictjson.Array:
	default:
		return nil, false, badArgument(param, "expected a path or a list of paths")
	}
	if v.Len() == 0 {
		return nil, false, badArgument(param, "the list is empty; give at least one path")
	}
	if v.Len() > maxBatch {
		return nil, false, badArgument(param, "%d paths; give at most %d", v.Len(), maxBatch)
	}
	list = make([]string, v.Len())
	for i := range list {
		list[i] = v.Index(i).Text()
	}
	return list, false, nil
}

// equalLists are path parameters of which each has one path per scene.
func equalLists(c *Call, params ...string) ([][]string, error) {
	lists := make([][]string, len(params))
	for i, p := range params {
		var err error
		if lists[i], _, err = c.paths(p); err != nil {
			return nil, err
		}
		if len(lists[i]) != len(lists[0]) {
			return nil, badArgument(p, "%d paths, but %s has %d; give one of each per scene", len(lists[i]), params[0], len(lists[0]))
		}
	}
	return lists, nil
}

// pointer names the i-th path of a parameter in messages.
func pointer(param string, i int, single bool) string {
	if single {
		return param
	}
	return fmt.Sprintf("%s/%d", param, i)
}

// ref is a band of a file that a call names.
type ref struct {
	param string // where the call names it, as "file_list/3"
	path  string
	band  int // from 1; 0 is all bands, where a tool takes them
}

// open opens an input raster.
func (c *Call) open(param, path string) (*workspace.Raster, error) {
	r, err := c.env.workspace.OpenRaster(path)
	return r, badInput(param, err)
}

// hasBand refuses a band that a file does not have; band counts from 1, the
// message from the number that the caller's numbering begins with.
func hasBand(r *workspace.Raster, band, first int, param string) error {
	n := len(r.Info.Bands)
	if band >= 1 && band <= n {
		return nil
	}
	return &Error{Kind: ErrBadArguments, Cause: raster.ErrRange, Param: param,
		Msg: fmt.Sprintf("%s has %d bands, %d to %d; there is no band %d", r.Name, n, first, n-1+first, band-1+first)}
}

// layers are bands in memory.
type layers struct {
	grids   []*raster.Grid
	files   []*workspace.Raster // closed, but their Info and Name stay
	release func()
}

// close gives the memory back; the grids must not be used after it.
func (l *layers) close() {
	if l.release != nil {
		l.release()
	}
}

// layers reads bands as grids, and reserves the memory of extra more of the size
// of the largest. Invalid pixels are NaN; under Compat EarthAgent the values are
// those of the file, fill values included.
func (c *Call) layers(extra int, refs ...ref) (*layers, error) {
	l := &layers{}
	defer func() {
		for _, f := range l.files {
			f.Close()
		}
	}()
	var bytes, largest int64
	for _, r := range refs {
		f, err := c.open(r.param, r.path)
		if err != nil {
			return nil, err
		}
		l.files = append(l.files, f)
		if err := hasBand(f, r.band, 1, r.param); err != nil {
			return nil, err
		}
		size := int64(f.Info.Width) * int64(f.Info.Height) * 4
		if size > raster.MaxBytes {
			return nil, badInput(r.param, fmt.Errorf("%s: a band of %d MiB does not fit in memory; use a smaller region or a coarser resolution: %w", f.Name, size>>20, raster.ErrTooLarge))
		}
		bytes, largest = bytes+size, max(largest, size)
	}
	if c.public() {
		bytes *= 3 // raw samples pass through float64
	}
	release, err := c.env.workspace.Reserve(c.Context, bytes+int64(extra)*largest)
	if err != nil {
		return nil, badInput(refs[0].param, err)
	}
	l.release = release
	for i, r := range refs {
		g, err := c.band(l.files[i], r.band)
		if err != nil {
			release()
			return nil, badInput(r.param, err)
		}
		l.grids = append(l.grids, g)
	}
	return l, nil
}

// band reads one band, as layers does.
func (c *Call) band(f *workspace.Raster, band int) (*raster.Grid, error) {
	if c.public() {
		return publicBand(f, band)
	}
	return f.ReadBand(band)
}

// match refuses grids that do not cover the same pixels. The public kit only
// looks at sizes.
func (c *Call) match(l *layers, refs []ref) error {
	for i, g := range l.grids[1:] {
		if c.public() && g.Width == l.grids[0].Width && g.Height == l.grids[0].Height {
			continue
		}
		if err := l.grids[0].Match(g); err != nil {
			return badInput(refs[i+1].param, fmt.Errorf("%s and %s: %w", l.files[0].Name, l.files[i+1].Name, err))
		}
	}
	return nil
}

// each calls f(0) … f(n-1) on all cores and returns the error of the lowest index
// that failed. A panic of f is raised again where it can be caught.
func (c *Call) each(n int, f func(i int) error) error {
	ctx, cancel := context.WithCancel(c.Context)
	defer cancel()
	var (
		next   atomic.Int64
		wg     sync.WaitGroup
		mu     sync.Mutex
		failed error
		at     = n
		panics any
	)
	for range min(runtime.GOMAXPROCS(0), n) {
		wg.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					mu.Lock()
					panics = p
					mu.Unlock()
					cancel()
				}
			}()
			for {
				i := int(next.Add(1)) - 1
				if i >= n || ctx.Err() != nil {
					return
				}
				if err := f(i); err != nil {
					mu.Lock()
					if i < at {
						failed, at = err, i
					}
					mu.Unlock()
					cancel()
				}
			}
		})
	}
	wg.Wait()
	switch {
	case panics != nil:
		panic(panics)
	case failed != nil:
		return failed
	}
	return c.Context.Err()
}

// scaled warns where a file says that its numbers are not physical values yet.
func (e *Evidence) scaled(f *workspace.Raster, bands ...int) {
	for _, b := range bands {
		if i := f.Info.Bands[b-1]; i.Scale != 1 || i.Offset != 0 {
			e.warn("%s holds stored numbers (value = number·%g + %g); they were used as they are: run apply_scale_offset first if physical values are meant", f.Name, i.Scale, i.Offset)
		}
	}
}

// masks notes what can make a pixel of a file invalid.
func (e *Evidence) masks(f *workspace.Raster) {
	add := func(m string) {
		for _, have := range e.Masks {
			if have == m {
				return
			}
		}
		e.Masks = append(e.Masks, m)
	}
	add("not finite")
	if f.Info.HasMask {
		add("mask or opacity band")
	}
	for _, b := range f.Info.Bands {
		if b.NoData != nil {
			add("nodata value")
		}
	}
}
