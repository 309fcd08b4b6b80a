package reward

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"time"

	"terraloom/data/strictjson"
)

// maxAnswer is the most bytes that are read of a service's answer.
const maxAnswer = 64 << 10

// endpoint is a reward function in another process. One completion is one POST
// of {"completion": text, "reference": object}; the answer is status 200 and an
// object with the member "reward", a number, or null where the function has
// nothing to say. Other members are ignored, redirects are refused, nothing is
// tried twice. The time limit covers the whole exchange; at its end the
// connection is closed, whatever the service does.
type endpoint struct {
	url     string
	timeout time.Duration
	client  *http.Client
}

func newEndpoint(url string, timeout time.Duration) *endpoint {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = inFlight
	return &endpoint{url, timeout, &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

func (e *endpoint) call(ctx context.Context, s *sample) (float64, error) {
	ctx, cancel := limit(ctx, e.timeout)
	defer cancel()
	reward, err := e.exchange(ctx, s)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return 0, fmt.Errorf("%s: %w", e.url, err)
	}
	return reward, nil
}

func (e *endpoint) exchange(ctx context.Context, s *sample) (float64, error) {
	body := strictjson.Obj(
		strictjson.Member{Key: "completion", Value: strictjson.Text(s.Completion)},
		strictjson.Member{Key: "reference", Value: s.Reference.json})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, bytes.NewReader(body.AppendJSON(nil)))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := e.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return 0, err
	}
	if len(text) > maxAnswer {
		return 0, fmt.Errorf("the answer is longer than %d bytes", maxAnswer)
	}
	if resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("status %s: %s", resp.Status, oneLine(string(text)))
	}
	answer, err := strictjson.Parse(text)
	if err != nil {
		return 0, fmt.Errorf("the answer is not JSON: %w", err)
	}
	switch v := answer.Get("reward"); v.Kind() {
	case strictjson.Null:
		return math.NaN(), nil
	case strictjson.Number:
		f, ok := v.Float()
		if !ok {
			return 0, fmt.Errorf("the reward %s is beyond 64-bit floats", clip(v.Text()))
		}
		return f, nil
	}
	return 0, fmt.Errorf(`expected {"reward": number or null}, got %s`, oneLine(clip(answer.JSON())))
}
