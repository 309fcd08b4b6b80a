package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"terraloom/agent/mcp"
	"terraloom/agent/tools"
	"terraloom/data"
	"terraloom/data/catalogue"
	"terraloom/data/skills"
	"terraloom/data/strictjson"
)

// mcpKeyVar holds the bearer key of the HTTP server.
const mcpKeyVar = "TERRALOOM_MCP_KEY"

func newToolsServeCmd() *cobra.Command {
	var from toolsFlags
	var httpAddr, skill string
	var stdio bool
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the tools to any MCP client",
		Long: `Serves the tools over the Model Context Protocol: on standard input and output, or with --http as
streamable HTTP at http://ADDR` + mcp.Path + `. Progress goes to standard error. A failing tool answers with a result
that is marked as an error and says why; structuredContent has the reason, or the artefacts and evidence.

Without --workspace only the tools that need no files are served. An HTTP client must send the bearer key in
` + mcpKeyVar + `, if that is set; an address that other machines can reach needs one.`,
		Example: `  terraloom tools serve
  terraloom tools serve --skill earth-time-series-trend
  terraloom tools serve --http 127.0.0.1:8765 --workspace DIR --archive synthetic`,
		Args: exactArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			env, err := from.open(cmd.Context())
			if err != nil {
				return err
			}
			defer env.close()
			kit, err := servedKit(env, skill)
			if err != nil {
				return err
			}
			o := mcp.Options{Version: data.BuildCode().Version}
			if httpAddr != "" {
				if o.Key, err = mcp.KeyFromEnv(mcpKeyVar); err != nil {
					return usageError{err}
				}
			}
			server, err := mcp.NewServer(kit, o)
			if err != nil {
				return err
			}
			if httpAddr == "" {
				return serveStdio(cmd, server, len(kit.Tools()))
			}
			l, err := server.Listen(httpAddr)
			if err != nil {
				if errors.Is(err, mcp.ErrExposed) {
					err = fmt.Errorf("%w (%s)", err, mcpKeyVar)
				}
				return usageError{err}
			}
			slog.Info("serving tools", "tools", len(kit.Tools()), "url", "http://"+l.Addr().String()+mcp.Path, "key", !o.Key.IsZero())
			return server.Serve(cmd.Context(), l)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&stdio, "stdio", true, "serve one client on standard input and output")
	f.StringVar(&httpAddr, "http", "", "serve HTTP on this host:port instead")
	f.StringVar(&skill, "skill", "", "serve the tools of one skill only: "+strings.Join(skillNames(), ", "))
	from.add(cmd)
	cmd.MarkFlagsMutuallyExclusive("stdio", "http")
	return cmd
}

// serveStdio serves until the client goes or a signal comes.
func serveStdio(cmd *cobra.Command, server *mcp.Server, n int) error {
	in, ok := cmd.InOrStdin().(io.ReadCloser)
	if !ok {
		in = io.NopCloser(cmd.InOrStdin())
	}
	out := cmd.OutOrStdout()
	// A stray print anywhere below would break the protocol.
	protocol := os.Stdout
	os.Stdout = os.Stderr
	defer func() { os.Stdout = protocol }()
	slog.Info("serving tools", "tools", n, "on", "standard input and output")
	return server.ServeStdio(cmd.Context(), in, keptOpen{out})
}

type keptOpen struct{ io.Writer }

func (keptOpen) Close() error { return nil }

func skillNames() []string {
	var names []string
	for _, s := range skills.Default() {
		names = append(names, s.Name)
	}
	return names
}

// servedKit is the tools that the environment allows, of one skill or ("") all.
func servedKit(env *toolsEnv, skill string) (mcp.Kit, error) {
	var kit mcp.Kit = servedTools{env.kit}
	if skill == "" {
		return kit, nil
	}
	i := slices.IndexFunc(skills.Default(), func(s *skills.Skill) bool { return s.Name == skill })
	if i < 0 {
		return nil, usageError{fmt.Errorf("--skill: no skill %q; there are %s", skill, strings.Join(skillNames(), ", "))}
	}
	s := skills.Default()[i]
	kit, err := mcp.Subset(kit, s.Tools)
	if err != nil {
		return nil, usageError{fmt.Errorf("--skill %s: none of its tools works without files; give --workspace", skill)}
	}
	if n := len(kit.Tools()); n < len(s.Tools) {
		slog.Warn("some tools of the skill need what is not here", "skill", skill, "served", n, "of", len(s.Tools), "workspace", env.files != nil)
	}
	return kit, nil
}

// servedTools is a registry as an MCP kit.
type servedTools struct{ registry *tools.Registry }

func (s servedTools) Tools() []mcp.Tool {
	var list []mcp.Tool
	for _, t := range catalogue.Default().Tools() {
		if s.registry.Computes(t.Name) {
			list = append(list, mcp.Tool{Name: t.Name, Summary: t.Summary, Schema: t.Schema(), Pure: t.Pure})
		}
	}
	return list
}

func (s servedTools) Call(ctx context.Context, name string, args strictjson.Value) (mcp.Result, error) {
	res, err := s.registry.Invoke(ctx, name, args)
	if err != nil {
		return mcp.Result{}, toolFault(err)
	}
	return mcp.Result{Text: res.Text(), Structured: res.JSON()}, nil
}

// toolFault gives a tool's error the name of its kind as reason.
func toolFault(err error) error {
	var e *tools.Error
	switch {
	case errors.As(err, &e) && e.Param != "":
		return &mcp.Fault{Reason: mcp.Reason(e.Kind.Error()), Msg: fmt.Sprintf("%s: /%s: %s", e.Tool, e.Param, e.Msg)}
	case errors.As(err, &e):
		return &mcp.Fault{Reason: mcp.Reason(e.Kind.Error()), Msg: e.Tool + ": " + e.Msg}
	case errors.Is(err, tools.ErrBadArguments):
		return &mcp.Fault{Reason: mcp.ErrArguments, Msg: err.Error()}
	}
	return err
}
