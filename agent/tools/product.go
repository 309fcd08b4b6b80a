package tools

import (
	"errors"
	"fmt"
	"slices"

	"terraloom/agent/raster"
	"terraloom/agent/tools/pixel"
	"terraloom/agent/tools/workspace"
	"terraloom/data/strictjson"
)

// product is a tool that makes one raster of several, for one scene or for a
// batch of them.
type product struct {
	inputs  []input
	output  string // parameter of the output paths
	verb    string // of the public kit's message: save or saved
	formula string
	like    func(in []*raster.Grid) int // which input gives the grid; the first if nil. Others are resampled to it
	method  raster.Method
	correct kernel
	public  kernel

	// Of the public kit only:
	masked   bool // it honours nodata here
	untagged bool // it writes no nodata tag
	doubled  bool // it repeats the output folder in its message
}

// input is one raster that a product needs.
type input struct {
	param  string // of its path or paths
	symbol string // in the formula
	list   bool   // the parameter is a list of which every item is an input of the same scene
	key    string // the parameter is an object and this its member
}

// kernel computes the bands of a product from grids of one size.
type kernel func(c *Call, in []*raster.Grid) (*frame, error)

// scene is one set of inputs and an output.
type scene struct {
	refs   []ref
	output ref
}

// run is the tool function.
func (p *product) run(c *Call) (Result, error) {
	scenes, single, err := p.scenes(c)
	if err != nil {
		return Result{}, err
	}
	res := Result{Artefacts: make([]Artefact, len(scenes))}
	e := &res.Evidence
	e.Formula = p.formula
	e.Nodes = make([]Node, len(scenes))
	notes := make([]Evidence, len(scenes))
	messages := make([]strictjson.Value, len(scenes))
	work := func(i int) error {
		a, err := p.scene(c, &scenes[i], &e.Nodes[i], &notes[i])
		res.Artefacts[i], messages[i] = a, said(p.verb, a.Path)
		if p.doubled && c.public() {
			messages[i] = said(p.verb, workspace.OutDir+"/"+a.Path)
		}
		return err
	}
	if clash := sharedOutput(c, scenes); clash != "" { // in turn, so that the last one stays
		e.warn("several results share the path %s; the last one stays", clash)
		err = inTurn(c, len(scenes), work)
	} else {
		err = c.each(len(scenes), work)
	}
	if err != nil {
		return Result{}, err
	}
	for i := range scenes {
		n := e.Nodes[i]
		e.Used, e.Missing = e.Used+n.Valid, e.Missing+n.Total-n.Valid
		for _, w := range notes[i].Warnings {
			e.warn("%s", w)
		}
		for _, m := range notes[i].Masks {
			if !slices.Contains(e.Masks, m) {
				e.Masks = append(e.Masks, m)
			}
		}
		e.Bands = append(e.Bands, notes[i].Bands...)
		if n.Status != OK {
			messages[i] = strictjson.NullValue()
			e.warn("%s: %s", n.Name, n.Reason)
		}
	}
	res.Artefacts = slices.DeleteFunc(res.Artefacts, func(a Artefact) bool { return a.Path == "" })
	if len(res.Artefacts) == 0 {
		return insufficient(*e, "%s", e.Nodes[0].Reason), nil
	}
	if single {
		res.Value = messages[0]
	} else {
		res.Value = strictjson.List(messages...)
	}
	return res, nil
}

func inTurn(c *Call, n int, f func(i int) error) error {
	for i := range n {
		if err := c.Context.Err(); err != nil {
			return err
		}
		if err := f(i); err != nil {
			return err
		}
	}
	return nil
}

// sharedOutput is a path that two scenes write, or "".
func sharedOutput(c *Call, scenes []scene) string {
	seen := map[string]bool{}
	for _, s := range scenes {
		target, err := c.env.workspace.Target(s.output.path)
		if err == nil && seen[target] {
			return target
		}
		seen[target] = true
	}
	return ""
}

// scenes sorts the paths of a call into scenes. Lists must have the same length;
// the public kit stops at the shortest.
func (p *product) scenes(c *Call) ([]scene, bool, error) {
	outputs, single, err := c.paths(p.output)
	if err != nil {
		return nil, false, err
	}
	n := len(outputs)
	type column struct {
		in     input
		paths  []string
		single bool
	}
	var columns []column
	for _, in := range p.inputs {
		if in.list || in.key != "" {
			single = true
		}
		if in.key != "" {
			columns = append(columns, column{in, []string{c.Args.Get(in.param).Get(in.key).Text()}, true})
			continue
		}
		paths, one, err := c.paths(in.param)
		if err != nil {
			return nil, false, err
		}
		columns = append(columns, column{in, paths, one})
		if in.list {
			continue
		}
		if len(paths) != len(outputs) && !c.public() {
			return nil, false, badArgument(in.param, "%d paths, but %s has %d; give one of each per scene", len(paths), p.output, len(outputs))
		}
		n = min(n, len(paths))
	}
	scenes := make([]scene, n)
	for i := range scenes {
		s := &scenes[i]
		s.output = ref{param: pointer(p.output, i, len(outputs) == 1 && single), path: outputs[i]}
		for _, col := range columns {
			switch {
			case col.in.list:
				for k, path := range col.paths {
					s.refs = append(s.refs, ref{pointer(col.in.param, k, false), path, 1})
				}
			case col.in.key != "":
				s.refs = append(s.refs, ref{col.in.param + "/" + col.in.key, col.paths[0], 1})
			default:
				s.refs = append(s.refs, ref{pointer(col.in.param, i, col.single), col.paths[i], 1})
			}
		}
	}
	return scenes, single, nil
}

// scene makes one raster. A scene without valid pixels makes none; its node says why.
func (p *product) scene(c *Call, s *scene, node *Node, e *Evidence) (Artefact, error) {
	target, err := c.env.workspace.Target(s.output.path)
	if err != nil {
		return Artefact{}, badInput(s.output.param, err)
	}
	node.Name = target
	reader := *c
	if p.masked {
		reader.Compat = Correct
	}
	l, err := reader.layers(4, s.refs...)
	if err != nil {
		return Artefact{}, err
	}
	defer l.close()
	for i, f := range l.files {
		e.Bands = append(e.Bands, BandUse{p.symbol(i), f.Name, 1})
		e.masks(f)
		e.scaled(f, 1)
	}
	if err := p.align(c, l, s.refs); err != nil {
		return Artefact{}, err
	}
	kernel := p.correct
	if c.public() && p.public != nil {
		kernel = p.public
	}
	f, err := kernel(c, l.grids)
	if errors.Is(err, pixel.ErrTooFew) {
		f, err = &frame{grids: l.grids, empty: err.Error()}, nil
		node.fail(f, 0, e)
		return Artefact{}, nil
	}
	if err != nil {
		return Artefact{}, err
	}
	e.Warnings = append(e.Warnings, f.warnings...)
	node.Valid, node.Total, node.Status = f.valid(), len(f.grids[0].Data), OK
	if node.Valid == 0 && !c.public() {
		node.fail(f, 0, e)
		return Artefact{}, nil
	}
	if c.public() && !p.untagged {
		publicTags(f, l.files[0])
	}
	if f.kind == raster.Uint8 && picture(target) && node.Valid < node.Total {
		e.warn("a picture cannot express missing data: %d missing pixels of %s became 0", node.Total-node.Valid, target)
	}
	a, err := c.save(target, f)
	if a.Time == "" {
		a.Time = TimeOf(l.files[0].Name)
	}
	node.Output = strictjson.Text(a.Path)
	return a, err
}

// fail marks a node without valid pixels.
func (n *Node) fail(f *frame, valid int, e *Evidence) {
	n.Valid, n.Total, n.Status, n.Output = valid, len(f.grids[0].Data), Insufficient, strictjson.NullValue()
	n.Reason = "no pixel is valid in all inputs"
	if f.empty != "" {
		n.Reason = f.empty
	}
	for _, w := range e.Warnings { // stored numbers are the usual cause
		n.Reason += "; " + w
	}
}

// symbol is the name of the i-th grid in the formula.
func (p *product) symbol(i int) string {
	if in := p.inputs[min(i, len(p.inputs)-1)]; !in.list {
		return in.symbol
	}
	return fmt.Sprintf("%s%d", p.inputs[0].symbol, i+1)
}

// align brings all grids to one.
func (p *product) align(c *Call, l *layers, refs []ref) error {
	if p.like == nil || c.public() {
		if c.public() && p.like != nil {
			return nil // the kernel resamples as the kit does
		}
		return c.match(l, refs)
	}
	like := l.grids[p.like(l.grids)]
	for i, g := range l.grids {
		if g == like || like.Match(g) == nil {
			continue
		}
		r, err := raster.Resample(g, like, p.method)
		if err != nil {
			return badInput(refs[i].param, fmt.Errorf("%s: %w", l.files[i].Name, err))
		}
		l.grids[i] = r
	}
	return nil
}

// one is a kernel result of a single float band.
func one(g *raster.Grid, name, unit string) *frame {
	return &frame{grids: []*raster.Grid{g}, bands: []raster.BandSpec{{Description: name, Unit: unit}}}
}
