package main

import (
	"context"
	"os"

	"terraloom/agent/archive"
	"terraloom/agent/environment"
	"terraloom/agent/tools"
	"terraloom/data"
	"terraloom/synth"
)

// world is what instances are carried out with in one mode.
type world struct {
	env   synth.Environment
	kit   *tools.Registry // of arithmetic alone; nil in execute mode
	close func()
}

// openWorld opens the tools of a mode. cache keeps what executions can take up again.
func openWorld(mode, cache string) (*world, error) {
	if mode == synth.Propagate {
		kit, err := tools.New(tools.Correct)
		if err != nil {
			return nil, err
		}
		return &world{env: synth.Shared{Tools: kit}, kit: kit, close: func() {}}, nil
	}
	version, err := programVersion()
	if err != nil {
		return nil, err
	}
	env, err := environment.OpenBundled(environment.Options{Cache: cache, Version: version})
	if err != nil {
		return nil, err
	}
	return &world{env: executed{env}, close: func() { _ = env.Close() }}, nil // the system clears what is left of it
}

// programs are the slot programs of the mode: those of a folder, or found and checked.
func (w *world) programs(folder string, approvedOnly bool) synth.Programs {
	switch {
	case folder != "" && w.kit != nil:
		return synth.Folder{Path: folder, Tools: w.kit, ApprovedOnly: approvedOnly}
	case folder != "":
		return synth.Folder{Path: folder, ApprovedOnly: approvedOnly}
	case w.kit != nil:
		return synth.Discovered{Tools: w.kit}
	}
	return synth.Executed{Files: data.SeedPrograms(), Environment: w.env}
}

// executed is the environment as synth sees it.
type executed struct{ env *environment.Environment }

// Session implements synth.Environment.
func (e executed) Session(ctx context.Context, name string) (synth.Session, error) {
	return e.env.Session(ctx, name)
}

// programVersion tells this build from any other by the running file itself.
func programVersion() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", err
	}
	return archive.FileSHA256(path)
}
