package backend

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// The child that [plugin.probe] starts finds its task in these variables.
const (
	probePath   = "TERRALOOM_PROBE_PLUGIN"
	probeKind   = "TERRALOOM_PROBE_KIND"
	probeNvidia = "TERRALOOM_PROBE_NVIDIA"
)

const probeTimeout = 2 * time.Minute // a first CUDA start can take long

// canProbe is set by [Startup]: only then does this program, started again, know how to be the child.
var canProbe bool

// probe loads the plugin and creates a client in a child process. Without a call of [Startup] it does nothing.
func (p plugin) probe() error {
	if !canProbe {
		return nil
	}
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program's own file to try plugin %s in a child process: %w", p.path, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, exe)
	cmd.Env = append(os.Environ(), probePath+"="+p.path, probeKind+"="+p.kind, probeNvidia+"="+p.nvidia)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fail(ErrPlugin, "plugin %s: no answer from a trial start within %v: is the device hung?", p.path, probeTimeout)
	case !errors.As(err, &exit):
		return fmt.Errorf("starting a child process to try plugin %s: %w", p.path, err)
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() && !strings.Contains(out.String(), "XLA_FLAGS") {
		return fail(ErrTruncated, "plugin %s: a trial start died of signal %v: install it anew with `terraloom backend install %s`", p.path, status.Signal(), p.kind)
	}
	// The child's own diagnosis is its last line: kind, NUL, message.
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if name, message, ok := strings.Cut(lines[len(lines)-1], "\x00"); ok {
		for _, kind := range probeErrors {
			if kind.Error() == name {
				return &failure{kind, message}
			}
		}
	}
	return p.explain(out.String())
}

// probeErrors are the kinds of error that the child reports.
var probeErrors = []error{ErrNoDevice, ErrLibrary, ErrPlugin, ErrTruncated, ErrTooOld, ErrXLAFlags, ErrNotInstalled}

// serveProbe is the child's whole life: it returns the exit code.
func serveProbe(out io.Writer) int {
	p := plugin{kind: os.Getenv(probeKind), path: os.Getenv(probePath), nvidia: os.Getenv(probeNvidia), managed: true}
	err := func() error {
		if err := p.prepare(); err != nil {
			return err
		}
		if p.kind == CUDA {
			if err := p.loadCUDALibraries(); err != nil {
				return err
			}
		}
		if _, _, err := apiVersion(p.path); err != nil {
			return err
		}
		if _, err := p.client(Options{}); err != nil {
			return p.explain(err.Error())
		}
		return nil
	}()
	if err == nil {
		return 0
	}
	for _, kind := range probeErrors {
		if errors.Is(err, kind) {
			fmt.Fprintf(out, "\n%s\x00%s\n", kind, err)
			break
		}
	}
	return 1
}

// xlaFlagComplaint is the part of XLA's message that names the flag.
func xlaFlagComplaint(said string) string {
	for line := range strings.Lines(said) {
		if i := strings.Index(line, "flag in XLA_FLAGS"); i >= 0 {
			if start := strings.LastIndex(line[:i], "] "); start >= 0 {
				return strings.TrimSpace(line[start+2:])
			}
			return strings.TrimSpace(line)
		}
	}
	return firstLine(said)
}
