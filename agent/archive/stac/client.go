package stac

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"
)

// What callers branch on.
var (
	ErrServer   = errors.New("STAC server")              // it refused, or failed for longer than the retries last
	ErrFormat   = errors.New("not a STAC document")      // it sent something else
	ErrTooLarge = errors.New("more than is accepted")    // a page, an asset or a result is too large
	ErrChecksum = errors.New("asset fails its checksum") // twice
	ErrAsset    = errors.New("no asset for the band")
	ErrMissing  = errors.New("no such collection")
)

// Client speaks to one STAC API. It is safe for concurrent use.
//
// Requests that fail for a passing reason (no connection, status 408, 429, 500,
// 502, 503, 504) are repeated after a wait that doubles, with jitter, or after what
// the server's Retry-After asks for. Errors name addresses without their query,
// which may hold a signature.
type Client struct {
	cfg  Config
	base *url.URL
	http *http.Client
}

// NewClient returns a client. The config's Collections matter to an Archive only.
func NewClient(cfg Config) (*Client, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	base, err := url.Parse(cfg.URL)
	if err != nil {
		return nil, fmt.Errorf("%w: url", ErrConfig)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.ResponseHeaderTimeout = cfg.Timeout
	transport.DisableCompression = true // ranges of a compressed body would not fit together
	return &Client{cfg: cfg, base: base, http: &http.Client{Transport: transport, CheckRedirect: stay}}, nil
}

// stay keeps the token from another server that an answer points to.
func stay(req *http.Request, via []*http.Request) error {
	if len(via) > 10 {
		return errors.New("too many redirects")
	}
	if first := via[0].URL; req.URL.Host != first.Host || req.URL.Scheme != first.Scheme {
		req.Header.Del("Authorization")
	}
	return nil
}

// request describes one HTTP request, which may be sent several times.
type request struct {
	method string
	url    *url.URL
	header http.Header
	body   func() io.Reader
}

// show is an address as it may be printed.
func show(u *url.URL) string {
	v := *u
	v.RawQuery, v.Fragment, v.User = "", "", nil
	return v.String()
}

// authorize adds the token if the request goes to the API's own host.
func (c *Client) authorize(req *http.Request) {
	if c.cfg.TokenEnv != "" && req.URL.Host == c.base.Host && req.URL.Scheme == c.base.Scheme {
		req.Header.Set("Authorization", "Bearer "+os.Getenv(c.cfg.TokenEnv))
	}
}

// exchange prepares each try of a request, with a nil response, and takes its
// answer. It reads the body, which is closed afterwards; if it returns a
// temporary error the request is repeated.
type exchange func(*http.Request, *http.Response) error

// send sends a request until its answer is taken or a failure will not pass.
func (c *Client) send(ctx context.Context, r request, use exchange) error {
	wait := c.cfg.FirstWait
	for try := 0; ; try++ {
		after, err := c.once(ctx, r, use)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		var t *temporary
		if !errors.As(err, &t) || try == c.cfg.Retries {
			return err
		}
		pause := max(after, wait/2+rand.N(wait/2+1))
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
		wait = min(2*wait, 30*time.Second)
	}
}

// temporary marks an error that may pass.
type temporary struct{ error }

func (t *temporary) Unwrap() error { return t.error }

func (c *Client) once(ctx context.Context, r request, use exchange) (retryAfter time.Duration, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var body io.Reader
	if r.body != nil {
		body = r.body()
	}
	req, err := http.NewRequestWithContext(ctx, r.method, r.url.String(), body)
	if err != nil {
		return 0, fmt.Errorf("%w: %s: bad address", ErrServer, show(r.url))
	}
	for k, v := range r.header {
		req.Header[k] = v
	}
	req.Header.Set("User-Agent", "terraloom")
	c.authorize(req)
	if err := use(req, nil); err != nil {
		return 0, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		var ue *url.Error
		if errors.As(err, &ue) { // its text holds the whole address
			err = ue.Err
		}
		return 0, &temporary{fmt.Errorf("%w: %s %s: %w", ErrServer, r.method, show(r.url), err)}
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return retryDelay(resp.Header.Get("Retry-After"), time.Now()), &temporary{c.refused(r, resp)}
	}
	// A body that stalls is as dead as a server that does not answer.
	stall := time.AfterFunc(c.cfg.Timeout, cancel)
	defer stall.Stop()
	resp.Body = &liveBody{ReadCloser: resp.Body, alive: func() { stall.Reset(c.cfg.Timeout) }}
	return 0, use(req, resp)
}

// liveBody reports every read.
type liveBody struct {
	io.ReadCloser
	alive func()
}

func (b *liveBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.alive()
	return n, err
}

// refused describes an answer that is no success, with the start of its text.
func (c *Client) refused(r request, resp *http.Response) error {
	text, err := io.ReadAll(io.LimitReader(resp.Body, 300))
	if err != nil {
		text = nil
	}
	return fmt.Errorf("%w: %s %s: %s: %.300q", ErrServer, r.method, show(r.url), resp.Status, text)
}

// retryDelay reads a Retry-After header, seconds or a date, within reason.
func retryDelay(v string, now time.Time) time.Duration {
	var d time.Duration
	if s, err := strconv.Atoi(v); err == nil {
		d = time.Duration(min(max(s, 0), int(maxWait/time.Second))) * time.Second
	} else if t, err := http.ParseTime(v); err == nil {
		d = t.Sub(now)
	}
	return min(max(d, 0), maxWait)
}
