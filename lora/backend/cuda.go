package backend

import (
	"os"
	"path/filepath"
	"strings"
)

// deviceGlob matches the device files of NVIDIA GPUs. /dev/dxg is the one of WSL.
var deviceGlob = []string{"/dev/nvidia[0-9]*", "/dev/dxg"}

// nvidiaDevice is nil if there is an NVIDIA GPU with a driver.
func nvidiaDevice() error {
	for _, pattern := range deviceGlob {
		if found, _ := filepath.Glob(pattern); len(found) > 0 {
			return nil
		}
	}
	return fail(ErrNoDevice, "no NVIDIA GPU here (no %s): check `nvidia-smi`, give the container its GPUs, or use --backend cpu", deviceGlob[0])
}

// HasGPU reports whether this machine shows an NVIDIA device, which [Auto] then tries first.
func HasGPU() bool { return nvidiaDevice() == nil }

// cudaLibraries are the libraries that the CUDA plugin and cuDNN look up by name while running, with the folders below
// nvidia/ where the wheels of CUDA 13 and of CUDA 12 put them. They are loaded first, dependencies before dependents,
// as JAX's own plugin package does, so that the right copies are found and a missing one is named.
var cudaLibraries = []struct {
	dir  []string
	name []string
}{
	{[]string{"cu13", "cuda_runtime"}, []string{"libcudart.so.13", "libcudart.so.12"}},
	{[]string{"cu13", "cuda_nvrtc"}, []string{"libnvrtc.so.13", "libnvrtc.so.12"}},
	{[]string{"cu13", "nvjitlink"}, []string{"libnvJitLink.so.13", "libnvJitLink.so.12"}},
	{[]string{"cu13", "cublas"}, []string{"libcublasLt.so.13", "libcublasLt.so.12"}},
	{[]string{"cu13", "cublas"}, []string{"libcublas.so.13", "libcublas.so.12"}},
	{[]string{"nccl"}, []string{"libnccl.so.2"}},
	{[]string{"cu13", "cuda_cupti"}, []string{"libcupti.so.13", "libcupti.so.12"}},
	{[]string{"cu13", "cusparse"}, []string{"libcusparse.so.12"}},
	{[]string{"cu13", "cusolver"}, []string{"libcusolver.so.12", "libcusolver.so.11"}},
	{[]string{"cu13", "cufft"}, []string{"libcufft.so.12", "libcufft.so.11"}},
	{[]string{"cudnn"}, []string{"libcudnn.so.9"}},
}

// loadCUDALibraries loads NVIDIA's libraries from the folder beside the plugin or, for what is not there, from where
// the system's loader finds them.
func (p plugin) loadCUDALibraries() error {
	for _, lib := range cudaLibraries {
		if err := p.loadCUDALibrary(lib.dir, lib.name); err != nil {
			return err
		}
	}
	return nil
}

func (p plugin) loadCUDALibrary(dirs, names []string) error {
	var failure error
	for i, name := range names {
		for _, dir := range dirs {
			path := filepath.Join(p.nvidia, dir, "lib", name)
			if _, err := os.Stat(path); p.nvidia == "" || err != nil {
				continue
			}
			if err := loadLibrary(path); err != nil {
				return fail(ErrLibrary, "plugin %s: loading %s: %v: install the NVIDIA libraries anew", p.path, path, err)
			}
			return nil
		}
		err := loadLibrary(name)
		if err == nil {
			return nil
		}
		if i == 0 {
			failure = err
		}
	}
	return fail(ErrLibrary, "plugin %s: %s is neither below %s nor on the library path (%v): run `terraloom backend install cuda`, or install the nvidia wheels of the same Python", p.path, names[0], p.nvidia, failure)
}

// setCUDAEnvironment tells XLA where ptxas, nvlink and libdevice are.
func (p plugin) setCUDAEnvironment() error {
	const dataDirFlag = "--xla_gpu_cuda_data_dir"
	// go-xla's own search expects another layout, and would print a page about it.
	if err := os.Setenv("GOPJRT_CUDA_CHECKS", "0"); err != nil {
		return err
	}
	flags := os.Getenv("XLA_FLAGS")
	if strings.Contains(flags, dataDirFlag) {
		return nil
	}
	for _, dir := range []string{"cu13", "cuda_nvcc"} {
		if path := filepath.Join(p.nvidia, dir); p.nvidia != "" && isDir(path) {
			return os.Setenv("XLA_FLAGS", strings.TrimSpace(flags+" "+dataDirFlag+"="+path))
		}
	}
	return nil
}
