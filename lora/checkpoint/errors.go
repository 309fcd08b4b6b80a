package checkpoint

import "errors"

// What callers branch on. Each error that wraps one of these also names the file, the key or the tensor.
var (
	// ErrFormat: the file is not what its name says, or it is damaged.
	ErrFormat = errors.New("malformed file")
	// ErrUnsupported: a sound file that asks for something this program does not compute.
	ErrUnsupported = errors.New("unsupported model")
	// ErrTensors: a tensor of the architecture is missing, has the wrong shape, or does not belong to it.
	ErrTensors = errors.New("tensors do not fit the architecture")
	// ErrNoTensor: no tensor of that name.
	ErrNoTensor = errors.New("no such tensor")
	// ErrExists: the place to write to is taken.
	ErrExists = errors.New("already exists")
)
