package decoder

import (
	"fmt"
	"unsafe"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/distributed"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
)

// placement is how a value lies on the devices of a model.
type placement bool

const (
	shared placement = false // every device holds all of it
	split  placement = true  // each device holds an equal part of the first axis
)

// value is a tensor on the devices: one part each.
type value []*tensors.Tensor

// free releases the device memory now instead of at the next garbage collection. Nil values are skipped.
func free(values ...value) {
	for _, v := range values {
		for _, t := range v {
			_ = t.FinalizeAll() // an engine that is gone has released its memory
		}
	}
}

// devices are where a model lives: the first n of an engine.
type devices struct {
	engine compute.Backend
	n      int
	mesh   *distributed.DeviceMesh // nil for one device
}

func newDevices(engine compute.Backend, n int) (devices, error) {
	n = max(n, 1)
	if have := engine.NumDevices(); n > have {
		return devices{}, fmt.Errorf("%d devices asked for, the backend has %d", n, have)
	}
	d := devices{engine: engine, n: n}
	if n > 1 {
		var err error
		if d.mesh, err = distributed.NewDeviceMesh([]int{n}, []string{"batch"}); err != nil {
			return d, fmt.Errorf("device mesh: %w", err)
		}
	}
	return d, nil
}

// spec is GoMLX's form of a placement for a value of the given rank.
func (d devices) spec(p placement) (*distributed.ShardingSpec, error) {
	if p == shared {
		return distributed.NewReplicatedShardingSpec(d.mesh), nil
	}
	return distributed.BuildSpec(d.mesh).S("batch").Done()
}

// fits reports whether a first axis of this length can be split over the devices.
func (d devices) fits(length int) bool { return length%d.n == 0 }

// element is a Go type of tensor elements used here.
type element interface{ float32 | int32 | uint64 }

// put copies host data to the devices.
func put[T element](d devices, p placement, data []T, dims ...int) (value, error) {
	return d.putBytes(p, shapes.Make(dtypes.FromGenericsType[T](), dims...), bytesOf(data))
}

// putBytes copies the little-endian elements of a row-major tensor to the devices.
func (d devices) putBytes(p placement, shape shapes.Shape, data []byte) (value, error) {
	v := make(value, d.n)
	if p == split && d.n > 1 {
		dims := append([]int{}, shape.Dimensions...)
		if len(dims) == 0 || !d.fits(dims[0]) {
			return nil, fmt.Errorf("the first axis of %s cannot be split over %d devices", shape, d.n)
		}
		dims[0] /= d.n
		shape = shapes.Make(shape.DType, dims...)
	}
	size := int(shape.ByteSize())
	for i := range v {
		part := data
		if p == split {
			part = data[i*size : (i+1)*size]
		}
		var err error
		if v[i], err = tensors.FromRaw(d.engine, compute.DeviceNum(i), shape, part); err != nil {
			free(v[:i])
			return nil, fmt.Errorf("copying %s to device %d: %w", shape, i, err)
		}
	}
	return v, nil
}

// fetch copies a value to the host.
func fetch[T element](p placement, v value) ([]T, error) {
	var out []T
	for _, t := range v {
		part, err := tensors.CopyFlatData[T](t)
		if err != nil {
			return nil, fmt.Errorf("copying %s to the host: %w", t.Shape(), err)
		}
		if p == shared || len(v) == 1 {
			return part, nil
		}
		out = append(out, part...)
	}
	return out, nil
}

func bytesOf[T element](data []T) []byte {
	if len(data) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(data))), len(data)*int(unsafe.Sizeof(data[0])))
}

// program is a graph function that is compiled once for every set of input shapes.
type program struct {
	exec *graph.Exec
	n    int
}

// newProgram prepares a graph function. in and out place its inputs and outputs; the last entry stands for all that
// follow. Graph building may panic, as GoMLX's functions do; run turns that into an error.
func (d devices) newProgram(name string, build func(in []*graph.Node) []*graph.Node, in, out []placement) (*program, error) {
	exec, err := graph.NewExec(d.engine, build)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	exec.WithName(name).SetMaxCache(-1)
	if d.n > 1 {
		specs := func(places []placement) (out []*distributed.ShardingSpec, err error) {
			for _, p := range places {
				s, err := d.spec(p)
				if err != nil {
					return nil, err
				}
				out = append(out, s)
			}
			return out, nil
		}
		inSpecs, err := specs(in)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		outSpecs, err := specs(out)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		exec.AutoSharding(d.mesh).WithInputShardingSpecs(inSpecs...).WithOutputShardingSpecs(outSpecs...)
	}
	return &program{exec, d.n}, nil
}

// run executes the program.
func (p *program) run(in ...value) (out []value, err error) {
	defer func() {
		if r := recover(); r != nil {
			out, err = nil, fmt.Errorf("%s: %v", p.exec.Name(), r)
		}
	}()
	args := make([]*tensors.Tensor, 0, p.n*len(in))
	for device := range p.n {
		for _, v := range in {
			args = append(args, v[device])
		}
	}
	flat, err := p.exec.Call(args)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.exec.Name(), err)
	}
	per := len(flat) / p.n
	out = make([]value, per)
	for i := range out {
		out[i] = make(value, p.n)
		for device := range p.n {
			out[i][device] = flat[device*per+i]
		}
	}
	return out, nil
}
