package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"terraloom/agent/archive"
	"terraloom/agent/archive/folder"
	"terraloom/agent/archive/stac"
	"terraloom/agent/archive/synthetic"
	"terraloom/agent/mcp"
	"terraloom/agent/tools"
	"terraloom/agent/tools/acquire"
	"terraloom/agent/tools/perception"
	"terraloom/agent/tools/scenes"
	"terraloom/agent/tools/workspace"
	"terraloom/data"
)

// toolsFlags are the flags of verbs that run tools.
type toolsFlags struct {
	workspace, compat, perceiver, archive, cache string
}

func (f *toolsFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.workspace, "workspace", "", "folder of the files that raster tools read and write (default: only tools without files)")
	cmd.Flags().StringVar(&f.compat, "compat", "", "earth-agent gives the public kit's values, faults included")
	cmd.Flags().StringVar(&f.archive, "archive", "", "where download_product gets its rasters: synthetic, folder:DIR, or stac:URL or stac:CONFIG.yaml")
	cmd.Flags().StringVar(&f.cache, "cache", "", "folder that keeps what the archive gave, by content (default: one for this run)")
	cmd.Flags().StringVar(&f.perceiver, "perceiver", "", "perception models: scenes:TRUTHS.json, URL of a model server, or mcp:URL or \"mcp:COMMAND ARGS\" of an MCP server")
}

// toolsEnv is what the flags open.
type toolsEnv struct {
	kit   *tools.Registry
	files *workspace.Workspace // nil without --workspace
	done  []func()
}

func (e *toolsEnv) close() {
	for i := len(e.done) - 1; i >= 0; i-- {
		e.done[i]()
	}
}

// open opens the tools and what they need. close ends it, error or not.
func (f *toolsFlags) open(ctx context.Context) (_ *toolsEnv, err error) {
	e := &toolsEnv{}
	defer func() {
		if err != nil {
			e.close()
		}
	}()
	var options []tools.Option
	if f.workspace != "" {
		if e.files, err = workspace.Open(f.workspace, workspace.DefaultLimits); err != nil {
			return nil, inputError{err}
		}
		e.done = append(e.done, func() { _ = e.files.Close() }) // nothing is written through it any more
		options = append(options, tools.WithWorkspace(e.files))
	} else if f.archive != "" || f.perceiver != "" {
		return nil, usageError{errors.New("--archive and --perceiver need --workspace DIR for their files")}
	}
	if f.perceiver != "" {
		p, done, err := openPerceiver(ctx, f.perceiver)
		if err != nil {
			return nil, err
		}
		e.done = append(e.done, done)
		options = append(options, tools.WithPerceiver(p))
	}
	if f.archive != "" {
		a, done, err := openArchive(f.archive, f.cache)
		if err != nil {
			return nil, err
		}
		e.done = append(e.done, done)
		options = append(options, tools.WithArchive(acquire.From(a)))
	} else if f.cache != "" {
		return nil, usageError{errors.New("--cache needs --archive")}
	}
	if e.kit, err = tools.New(tools.Compat(f.compat), options...); err != nil {
		return nil, usageError{fmt.Errorf("--compat: %w", err)}
	}
	return e, nil
}

// worldSeed is the seed of the synthetic archive's world.
const worldSeed = 1

// openArchive opens the archive that --archive names. A cache in the folder dir
// keeps its rasters; the assets of a STAC server need one, so without dir it
// lasts as long as the run.
func openArchive(source, dir string) (a archive.Archive, done func(), err error) {
	kind, where, _ := strings.Cut(source, ":")
	done = func() {}
	if dir == "" && kind == "stac" {
		if dir, err = os.MkdirTemp("", "terraloom-assets-"); err != nil {
			return nil, nil, err
		}
		temporary := dir
		remove := func() { _ = os.RemoveAll(temporary) } // the system clears what is left of it
		done = remove
		defer func() {
			if err != nil {
				remove()
			}
		}()
	}
	var cache *archive.Cache
	if dir != "" {
		if cache, err = archive.OpenCache(dir); err != nil {
			return nil, nil, inputError{err}
		}
	}
	switch {
	case source == "synthetic":
		return synthetic.New(worldSeed, cache), done, nil
	case kind == "folder" && where != "":
		a, err := folder.Open(where, cache)
		if err != nil {
			return nil, nil, inputError{err}
		}
		return a, done, nil
	case kind == "stac" && where != "":
		cfg, err := stacConfig(where)
		if err != nil {
			return nil, nil, err
		}
		a, err := stac.New(cfg, cache)
		if err != nil {
			return nil, nil, inputError{fmt.Errorf("--archive %s: %w", source, err)}
		}
		return a, done, nil
	}
	return nil, nil, usageError{fmt.Errorf("--archive %q: give synthetic, folder:DIR, stac:URL or stac:CONFIG.yaml", source)}
}

// stacConfig is the config of a file, or for the URL of an API one of its own
// collections that the product table names.
func stacConfig(where string) (stac.Config, error) {
	if !strings.Contains(where, "://") {
		cfg, err := stac.LoadConfig(where)
		if err != nil {
			return cfg, inputError{err}
		}
		return cfg, nil
	}
	return stac.Config{URL: where, Collections: stac.PublicCollections()}, nil
}

// openPerceiver opens the models that --perceiver names.
func openPerceiver(ctx context.Context, source string) (p tools.Perceiver, done func(), err error) {
	done = func() {}
	kind, where, _ := strings.Cut(source, ":")
	switch {
	case kind == "mcp" && where != "":
		server := mcp.Source{URL: where}
		if !strings.Contains(where, "://") {
			server = mcp.Source{Command: strings.Fields(where)}
		} else if server.Key, err = mcp.KeyFromEnv(mcpKeyVar); err != nil {
			return nil, nil, usageError{err}
		}
		m, err := mcp.Mount(ctx, server, mcp.MountOptions{Prefix: "model", Version: data.BuildCode().Version, CallTimeout: perception.DefaultTimeout, MaxResult: perception.MaxReply})
		if err != nil {
			return nil, nil, inputError{fmt.Errorf("--perceiver %s: %w", source, err)}
		}
		return perception.NewMCP(m), m.Close, nil
	case kind == "scenes" && where != "":
		file, err := os.Open(where)
		if err != nil {
			return nil, nil, inputError{err}
		}
		defer file.Close()
		truths, err := scenes.ReadTruths(file)
		if err != nil {
			return nil, nil, inputError{fmt.Errorf("%s: %w", where, err)}
		}
		l, err := scenes.NewLibrary(0, scenes.DefaultErrors, truths...)
		if err != nil {
			return nil, nil, inputError{fmt.Errorf("%s: %w", where, err)}
		}
		return l, done, nil
	case kind == "http" || kind == "https":
		h, err := perception.NewHTTP(source)
		if err != nil {
			return nil, nil, usageError{fmt.Errorf("--perceiver: %w", err)}
		}
		return h, done, nil
	}
	return nil, nil, usageError{fmt.Errorf("--perceiver %q: give scenes:TRUTHS.json, http://HOST/PATH, mcp:URL or \"mcp:COMMAND ARGS\"", source)}
}
