package mcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Source says where a foreign server is: a command or a URL.
type Source struct {
	Command []string // the program and its arguments; it speaks MCP over stdin and stdout
	Env     []string // of the command, "NAME=value", beside the few that every program needs
	Dir     string   // of the command; the current one if empty

	URL string // of a streamable HTTP endpoint
	Key Key    // sent to the URL as bearer key; only over https or to this machine
}

// terminateWait is how long a command may take to end after its input closes,
// and again after SIGTERM.
const terminateWait = 2 * time.Second

// maxMessage bounds one message of a foreign server, in bytes, before it is read.
const maxMessage = sdk.DefaultMaxLineLength

// inherited are the environment variables that a command gets: enough to run, and
// none of the keys that the environment of this process may hold.
var inherited = []string{"HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"}

// dialer opens a new connection to one server.
type dialer func() (sdk.Transport, error)

func (s Source) dialer(log *slog.Logger) (dialer, error) {
	switch {
	case len(s.Command) > 0 && s.URL != "":
		return nil, errors.New("a source is a command or a URL, not both")
	case len(s.Command) > 0:
		if s.Command[0] == "" {
			return nil, errors.New("the command's program is empty")
		}
		return func() (sdk.Transport, error) { return s.command(log), nil }, nil
	case s.URL == "":
		return nil, errors.New("a source needs a command or a URL")
	}
	u, err := url.Parse(s.URL)
	switch {
	case err != nil:
		return nil, errors.New("the URL cannot be read") // its text may hold a password
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, fmt.Errorf("URL %q: give http://host/path or https://host/path", u.Redacted())
	case u.User != nil:
		return nil, fmt.Errorf("URL %q: give a key instead of a user name and password", u.Redacted())
	case !s.Key.IsZero() && u.Scheme == "http" && !loopback(u.Hostname()):
		return nil, fmt.Errorf("URL %q: a key goes over https only, but to this machine", u.Redacted())
	}
	return func() (sdk.Transport, error) {
		return &sdk.StreamableClientTransport{
			Endpoint: s.URL, MaxRetries: -1, DisableStandaloneSSE: true, MaxEventSize: maxMessage,
			HTTPClient: &http.Client{
				Transport: &bounded{next: http.DefaultTransport, key: s.Key},
				// A redirect could take arguments and key to another host.
				CheckRedirect: func(*http.Request, []*http.Request) error { return errors.New("redirects are refused") },
			},
		}, nil
	}, nil
}

func (s Source) command(log *slog.Logger) sdk.Transport {
	cmd := exec.Command(s.Command[0], s.Command[1:]...)
	cmd.Dir = s.Dir
	for _, name := range inherited {
		if v, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+v)
		}
	}
	cmd.Env = append(cmd.Env, s.Env...)
	cmd.Stderr = &lineLog{log: log}
	cmd.WaitDelay = terminateWait // a grandchild may hold stderr open
	return &sdk.CommandTransport{Command: cmd, TerminateDuration: terminateWait}
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// bounded adds the key to requests and bounds answers to maxMessage.
type bounded struct {
	next http.RoundTripper
	key  Key
}

func (b *bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	if !b.key.IsZero() {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+b.key.secret)
	}
	resp, err := b.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	resp.Body = &boundedBody{ReadCloser: resp.Body, left: maxMessage}
	return resp, nil
}

type boundedBody struct {
	io.ReadCloser
	left int
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("the answer has more than %d bytes", maxMessage)
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// lineLog writes what a command says on stderr to the debug log, one record a line.
type lineLog struct {
	log  *slog.Logger
	rest []byte
}

func (l *lineLog) Write(p []byte) (int, error) {
	l.rest = append(l.rest, p...)
	for {
		line, rest, ok := bytes.Cut(l.rest, []byte("\n"))
		if !ok {
			break
		}
		l.write(line)
		l.rest = rest
	}
	if len(l.rest) > maxSummary {
		l.write(l.rest)
		l.rest = nil
	}
	return len(p), nil
}

func (l *lineLog) write(line []byte) {
	if text := oneLine(string(line)); text != "" {
		l.log.Log(context.Background(), slog.LevelDebug, "mounted server", "stderr", text)
	}
}
