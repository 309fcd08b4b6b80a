package backend

import (
	"fmt"
	"math"
	"time"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
)

// Report is what [Check] found.
type Report struct {
	Backend   string        // as Backend.String
	Device    string        // what the engine says of its first device
	Devices   int           // how many there are
	Precision string        // what a float32 matrix product is computed in: "float32" or "tf32", as measured
	GradError float64       // largest error of a small gradient against float64, relative to its largest element
	Compile   time.Duration // of the gradient: graph, compilation and first run
	Float32   float64       // GFLOP/s of float32 matrix products
	BFloat16  float64       // GFLOP/s of bfloat16 matrix products
}

// Check compiles and runs a small gradient, compares it with float64 arithmetic, and times matrix products.
func Check(b *Backend) (r Report, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("backend %s: %v", b.Name, p)
		}
	}()
	r = Report{Backend: b.String(), Devices: b.Devices(), Device: b.Engine.DeviceDescription(0)}
	start := time.Now()
	if r.GradError, err = gradError(b); err != nil {
		return r, fmt.Errorf("backend %s: gradient: %w", b.Name, err)
	}
	r.Compile = time.Since(start)
	if r.Precision, err = precision(b); err != nil {
		return r, fmt.Errorf("backend %s: precision: %w", b.Name, err)
	}
	limit := 1e-5
	if r.Precision != "float32" {
		limit = 1e-2
	}
	if !(r.GradError <= limit) {
		return r, fmt.Errorf("backend %s computes wrong gradients: error %.2g, at most %.2g is right: use another backend and report this plugin",
			b.Name, r.GradError, limit)
	}
	// Large enough for a GPU to show what it has, small enough for the Go engine to end soon.
	size := map[string]int{CUDA: 8192, CPU: 1024, Go: 256}[b.Name]
	if r.Float32, err = matmulRate(b, dtypes.Float32, size); err != nil {
		return r, fmt.Errorf("backend %s: float32 products: %w", b.Name, err)
	}
	if r.BFloat16, err = matmulRate(b, dtypes.BFloat16, size); err != nil {
		return r, fmt.Errorf("backend %s: bfloat16 products: %w", b.Name, err)
	}
	return r, nil
}

// gradError computes d/dW Σ tanh(xW) = xᵀ(1 − tanh²(xW)) on the engine and in float64.
func gradError(b *Backend) (float64, error) {
	const n, in, out = 16, 24, 8
	x, w := make([]float32, n*in), make([]float32, in*out)
	for i := range x {
		x[i] = float32(math.Sin(float64(3*i + 1)))
	}
	for i := range w {
		w[i] = float32(math.Cos(float64(5*i+2))) / 4
	}
	exec, err := graph.NewExec(b.Engine, func(x, w *graph.Node) *graph.Node {
		return graph.Gradient(graph.ReduceAllSum(graph.Tanh(graph.MatMul(x, w))), w)[0]
	})
	if err != nil {
		return 0, err
	}
	defer exec.Finalize()
	got, err := exec.Call1(tensors.FromFlatDataAndDimensions(x, n, in), tensors.FromFlatDataAndDimensions(w, in, out))
	if err != nil {
		return 0, err
	}
	want := make([]float64, in*out)
	for r := range n {
		for c := range out {
			var z float64
			for k := range in {
				z += float64(x[r*in+k]) * float64(w[k*out+c])
			}
			d := 1 - math.Tanh(z)*math.Tanh(z)
			for k := range in {
				want[k*out+c] += float64(x[r*in+k]) * d
			}
		}
	}
	flat, err := tensors.CopyFlatData[float32](got)
	if err != nil {
		return 0, err
	}
	var worst, largest float64
	for i, v := range want {
		worst = max(worst, math.Abs(float64(flat[i])-v))
		largest = max(largest, math.Abs(v))
	}
	return worst / largest, nil
}

// precision multiplies 1+2⁻¹² by one: TF32 keeps ten bits of mantissa and answers 1.
func precision(b *Backend) (string, error) {
	const n = 64 // smaller products may take another path
	exec, err := graph.NewExec(b.Engine, func(x, w *graph.Node) *graph.Node { return graph.MatMul(x, w) })
	if err != nil {
		return "", err
	}
	defer exec.Finalize()
	x, w := make([]float32, n*n), make([]float32, n*n)
	for i := range n {
		x[i*n+i], w[i*n+i] = 1+1.0/4096, 1
	}
	got, err := exec.Call1(tensors.FromFlatDataAndDimensions(x, n, n), tensors.FromFlatDataAndDimensions(w, n, n))
	if err != nil {
		return "", err
	}
	flat, err := tensors.CopyFlatData[float32](got)
	if err != nil {
		return "", err
	}
	if flat[0] == 1 {
		return "tf32", nil
	}
	return "float32", nil
}

// matmulRate times products of square matrices that stay on the device.
func matmulRate(b *Backend, dtype dtypes.DType, n int) (float64, error) {
	exec, err := graph.NewExec(b.Engine, func(x *graph.Node) *graph.Node { return graph.MatMul(x, x) })
	if err != nil {
		return 0, err
	}
	defer exec.Finalize()
	x, err := tensors.FromShapeForBackend(b.Engine, 0, shapes.Make(dtype, n, n))
	if err != nil {
		return 0, err
	}
	defer x.MustFinalizeAll()
	// Engines may return before the product is done: reading one element of it waits.
	first, err := graph.NewExec(b.Engine, func(x *graph.Node) *graph.Node {
		return graph.ConvertDType(graph.Slice(x, graph.AxisElem(0), graph.AxisElem(0)), dtypes.Float32)
	})
	if err != nil {
		return 0, err
	}
	defer first.Finalize()
	best := time.Duration(math.MaxInt64)
	for i := range 6 {
		start := time.Now()
		y, err := exec.Call1(x)
		if err != nil {
			return 0, err
		}
		e, err := first.Call1(y)
		if err != nil {
			return 0, err
		}
		if _, err := tensors.CopyFlatData[float32](e); err != nil {
			return 0, err
		}
		if i > 0 { // the first call compiles
			best = min(best, time.Since(start))
		}
		y.MustFinalizeAll()
	}
	return 2 * math.Pow(float64(n), 3) / best.Seconds() / 1e9, nil
}
