package backend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"terraloom/lora/wheel"
)

// dataDir is the folder of installed plugins.
func dataDir() (string, error) {
	home, err := wheel.Home()
	return filepath.Join(home, "backends"), err
}

// findCPU is the installed XLA:CPU plugin.
func findCPU() (plugin, error) { return findManaged(cpuBundle) }

// findCUDA is the installed CUDA plugin or, without one, the JAX plugin of the user's Python.
func findCUDA() (plugin, error) {
	p, err := findManaged(cudaBundle)
	if err == nil || !errors.Is(err, ErrNotInstalled) {
		return p, err
	}
	if q, ok := findPythonCUDA(); ok {
		return q, nil
	}
	return plugin{}, err
}

// findManaged finds what [Install] wrote and checks that the plugin file still has the size that was installed.
func findManaged(b bundle) (plugin, error) {
	root, err := dataDir()
	if err != nil {
		return plugin{}, err
	}
	p := plugin{kind: b.kind, path: filepath.Join(root, b.folder(), b.plugin), managed: true}
	if b.kind == CUDA {
		p.nvidia = filepath.Join(root, b.folder(), "nvidia")
	}
	info, err := os.Stat(p.path)
	if errors.Is(err, os.ErrNotExist) {
		return plugin{}, fail(ErrNotInstalled, "the %s plugin is not there: run `terraloom backend install %s`", b.kind, b.kind)
	}
	if err != nil {
		return plugin{}, fmt.Errorf("plugin %s: %w", p.path, err)
	}
	if info.Size() != b.size {
		return plugin{}, fail(ErrTruncated, "plugin %s: %d bytes, installed were %d: run `terraloom backend install %s`", p.path, info.Size(), b.size, b.kind)
	}
	return p, nil
}

// The interpreter only prints its search path; nothing is imported.
const printPath = `import json, sys; print(json.dumps([p for p in sys.path if p]))`

// findPythonCUDA looks for the JAX CUDA plugin (jax_plugins/xla_cuda*/xla_cuda_plugin.so) on the user's Python path.
func findPythonCUDA() (plugin, bool) {
	exe, err := wheel.Python()
	if err != nil {
		return plugin{}, false
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, exe, "-c", printPath).Output()
	if err != nil {
		return plugin{}, false
	}
	var path []string
	if json.Unmarshal(out, &path) != nil {
		return plugin{}, false
	}
	return findCUDAIn(path)
}

func findCUDAIn(path []string) (plugin, bool) {
	var found plugin
	for _, dir := range path {
		if found.nvidia == "" {
			if nvidia := filepath.Join(dir, "nvidia"); isDir(nvidia) {
				found.nvidia = nvidia
			}
		}
		if found.path != "" {
			continue
		}
		// Newest CUDA first: xla_cuda13 before xla_cuda12.
		matches, _ := filepath.Glob(filepath.Join(dir, "jax_plugins", "xla_cuda*", "xla_cuda_plugin.so"))
		if len(matches) > 0 {
			found.kind, found.path = CUDA, matches[len(matches)-1]
		}
	}
	return found, found.path != ""
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// Status says of one backend whether it can be opened.
type Status struct {
	Name   string
	Plugin string // path, if there is one
	Source string // "installed", "python", "built in", or empty
	Err    error  // why it cannot be opened; nil if nothing is known against it
}

// List tells what is known of every backend without loading a plugin.
func List() []Status {
	cuda := Status{Name: CUDA}
	if p, err := findCUDA(); err != nil {
		cuda.Err = err
	} else {
		cuda.Plugin, cuda.Source = p.path, "python"
		if p.managed {
			cuda.Source = "installed"
		}
		cuda.Err = p.prepare()
	}
	if err := nvidiaDevice(); err != nil {
		cuda.Err = err
	}
	cpu := Status{Name: CPU}
	if p, err := findCPU(); err != nil {
		cpu.Err = err
	} else {
		cpu.Plugin, cpu.Source, cpu.Err = p.path, "installed", p.prepare()
	}
	return []Status{cuda, cpu, {Name: Go, Source: "built in"}}
}
