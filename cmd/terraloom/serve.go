package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"terraloom/lora/generate"
	"terraloom/lora/serve"
)

func newServeCmd() *cobra.Command {
	var engine backendFlags
	var base, listen string
	var adapters []string
	opts := serve.Options{}
	batch := generate.Options{}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve a model and its adapters over OpenAI's API",
		Long: `Serves /v1/models, /v1/chat/completions and /v1/completions, with /healthz and /metrics. The model without an
adapter is called base, the others by the name before the equals sign. Requests of all clients are decoded
together. If TERRALOOM_SERVE_KEY is set, requests below /v1 must carry it: Authorization: Bearer KEY.
An interrupt lets running requests finish.`,
		Example: "  terraloom serve --base models/base --adapter planner=runs/planner --adapter executor=runs/executor",
		Args:    exactArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var named []generate.Named
			for _, a := range adapters {
				name, dir, ok := strings.Cut(a, "=")
				if !ok || name == "" || dir == "" {
					return usageError{fmt.Errorf("--adapter %s: expected name=DIR", a)}
				}
				named = append(named, generate.Named{Name: name, Dir: dir})
			}
			opts.Key = os.Getenv("TERRALOOM_SERVE_KEY")
			b, err := engine.open()
			if err != nil {
				return err
			}
			l, err := generate.Open(b, base, named, engine.precision(), batch)
			if err != nil {
				return err
			}
			defer l.Close()
			s, err := serve.New(serve.ModelOf(l), opts)
			if err != nil {
				return usageError{err}
			}
			socket, err := net.Listen("tcp", listen)
			if err != nil {
				return err
			}
			address := socket.Addr().(*net.TCPAddr)
			if !address.IP.IsLoopback() && opts.Key == "" {
				return errors.Join(usageError{fmt.Errorf("%s can be reached from other machines: set TERRALOOM_SERVE_KEY to a key that clients must send", address)}, socket.Close())
			}
			slog.Info("serving", "url", fmt.Sprintf("http://%s/v1", address), "models", append([]string{serve.BaseName}, l.Adapters...), "backend", b.String())
			return s.Run(cmd.Context(), socket)
		},
	}
	engine.add(cmd.Flags())
	f := cmd.Flags()
	f.StringVar(&base, "base", "", "model folder, GGUF file or name of a pulled model")
	f.StringArrayVar(&adapters, "adapter", nil, "adapter as name=DIR; may be repeated")
	f.StringVar(&listen, "listen", "127.0.0.1:8000", "address and port")
	f.IntVar(&batch.MaxRows, "rows", 16, "completions of one model decoded together")
	f.IntVar(&opts.Queue, "queue", 64, "completions that may wait and run; more are refused with status 429")
	f.DurationVar(&opts.Timeout, "timeout", 0, "longest time for a request (default 10m)")
	must(cmd.MarkFlagRequired("base"))
	return cmd
}
