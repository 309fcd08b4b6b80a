package generate

import (
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"terraloom/lora/checkpoint"
	"terraloom/lora/decoder"
)

// device is where an engine computes: one device, the model whose shapes all weights have, and the graph functions
// compiled for them.
type device struct {
	engine compute.Backend
	base   *decoder.Model
	config *checkpoint.Config
	// updates: the engine writes a slice of a tensor in place inside a loop. GoMLX's Go engine has neither that nor a
	// need for loops on the device.
	updates bool
	live    int // ids below it can be drawn

	compiled atomic.Int64 // graphs

	mu       sync.Mutex
	programs map[string]*program
	tables   map[int][2]*tensors.Tensor // rotary tables by length
}

func newDevice(engine compute.Backend, base *decoder.Model) *device {
	ops := engine.Capabilities().Operations
	return &device{engine: engine, base: base, config: &base.Config, updates: ops[compute.OpTypeDynamicUpdateSlice] && ops[compute.OpTypeDynamicSlice],
		live: base.Config.VocabSize, programs: make(map[string]*program), tables: make(map[int][2]*tensors.Tensor)}
}

// program is a graph function, compiled once for every set of input shapes.
type program struct{ exec *graph.Exec }

// program returns the graph function called name, made at the first use. Everything that build depends on besides the
// shapes of its inputs must be in the name.
func (d *device) program(name string, build func(in []*graph.Node) []*graph.Node) (*program, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p, ok := d.programs[name]; ok {
		return p, nil
	}
	exec, err := graph.NewExec(d.engine, func(in []*graph.Node) []*graph.Node {
		d.compiled.Add(1)
		return build(in)
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	p := &program{exec.WithName(name).SetMaxCache(-1)}
	d.programs[name] = p
	return p, nil
}

// run executes the program. GoMLX panics when a graph cannot be built; that becomes an error here.
func (p *program) run(in ...*tensors.Tensor) (out []*tensors.Tensor, err error) {
	defer func() {
		if r := recover(); r != nil {
			out, err = nil, fmt.Errorf("%s: %v", p.exec.Name(), r)
		}
	}()
	if out, err = p.exec.Call(in); err != nil {
		return nil, fmt.Errorf("%s: %w", p.exec.Name(), err)
	}
	return out, nil
}

func (d *device) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, t := range d.tables {
		free(t[:]...)
	}
	for _, p := range d.programs {
		p.exec.Finalize()
	}
	d.programs = nil
}

// ropeTable is the rotary table of positions 0 … n−1, float32 [n, Rope.Dim/2] each.
func (d *device) ropeTable(n int) (cos, sin *tensors.Tensor, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t, ok := d.tables[n]; ok {
		return t[0], t[1], nil
	}
	positions := make([]int32, n)
	for i := range positions {
		positions[i] = int32(i)
	}
	c, s := decoder.RopeTable(d.config.Rope, positions)
	if cos, err = put(d, c, n, d.config.Rope.Dim/2); err != nil {
		return nil, nil, err
	}
	if sin, err = put(d, s, n, d.config.Rope.Dim/2); err != nil {
		free(cos)
		return nil, nil, err
	}
	d.tables[n] = [2]*tensors.Tensor{cos, sin}
	return cos, sin, nil
}

// element is a Go type of tensor elements used here.
type element interface{ float32 | int32 }

// put copies host data to the device.
func put[T element](d *device, data []T, dims ...int) (*tensors.Tensor, error) {
	shape := shapes.Make(dtypes.FromGenericsType[T](), dims...)
	raw := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(data))), len(data)*int(unsafe.Sizeof(*new(T))))
	t, err := tensors.FromRaw(d.engine, 0, shape, raw)
	if err != nil {
		return nil, fmt.Errorf("copying %s to the device: %w", shape, err)
	}
	return t, nil
}

// arguments are host data on their way into one run of a program.
type arguments struct {
	device  *device
	tensors []*tensors.Tensor
	err     error // of the first that could not be copied
}

// add copies data to the device as the next argument.
func add[T element](a *arguments, data []T, dims ...int) {
	t, err := put(a.device, data, dims...)
	a.tensors = append(a.tensors, t)
	if a.err == nil {
		a.err = err
	}
}

func (a *arguments) free() { free(a.tensors...) }

// zeros is a tensor of zeros on the device.
func (d *device) zeros(dims ...int) (*tensors.Tensor, error) {
	t, err := tensors.FromShapeForBackend(d.engine, 0, shapes.Make(dtypes.Float32, dims...))
	if err != nil {
		return nil, fmt.Errorf("making room for %v numbers on the device: %w", dims, err)
	}
	return t, nil
}

// fetch copies a tensor to the host and releases it on the device.
func fetch[T element](t *tensors.Tensor) ([]T, error) {
	defer free(t)
	flat, err := tensors.CopyFlatData[T](t)
	if err != nil {
		return nil, fmt.Errorf("copying %s from the device: %w", t.Shape(), err)
	}
	return flat, nil
}

// free releases device memory now instead of at the next garbage collection. Nil tensors are skipped.
func free(ts ...*tensors.Tensor) {
	for _, t := range ts {
		if t != nil {
			_ = t.FinalizeAll() // an engine that is gone has released its memory
		}
	}
}
