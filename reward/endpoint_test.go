package reward

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"terraloom/data/strictjson"
)

// service scores with the given handler, its only function, and returns the results.
func service(t *testing.T, timeout time.Duration, handler http.HandlerFunc, completions ...string) []Result {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	s, err := New(Config{Rules: DefaultRules(), Functions: []Function{
		{Name: "remote", Kind: KindHTTP, Weight: 2, URL: server.URL, Timeout: timeout}}})
	if err != nil {
		t.Fatal(err)
	}
	items := make([]Item, len(completions))
	for i, c := range completions {
		items[i] = Item{c, reference(t, example)}
	}
	return s.Score(context.Background(), items)
}

func TestEndpoint(t *testing.T) {
	completions := []string{example, "<b>&\n", ""}
	results := service(t, 5*time.Second, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		v, err := strictjson.Parse(body)
		if err != nil || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" || v.Get("reference").JSON() != example {
			http.Error(w, "bad request", http.StatusBadRequest)
			return
		}
		if v.Get("completion").Text() == "" {
			io.WriteString(w, `{"reward": null}`)
			return
		}
		fmt.Fprintf(w, `{"reward": %d, "reason": "its length"}`, len(v.Get("completion").Text()))
	}, completions...)
	for i, c := range completions[:2] {
		if r := results[i]; r.Err() != nil || r.Reward != 2*float64(len(c)) || r.Parts[0].Value != float64(len(c)) {
			t.Errorf("%q: %+v", c, r)
		}
	}
	if r := results[2]; r.Valid() || r.Err() != nil || r.Score.Reward != -2 {
		t.Errorf("null: %+v", r)
	}
}

// R1: a grader that hangs, dribbles, breaks or answers nonsense is an error of
// that item, never 0, and costs its time limit at most.
func TestR1EndpointFailures(t *testing.T) {
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		want    string
	}{
		"hangs": {func(_ http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		}, "time limit of 200ms"},
		"dribbles": {func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			for r.Context().Err() == nil {
				io.WriteString(w, " ")
				w.(http.Flusher).Flush()
				time.Sleep(10 * time.Millisecond)
			}
		}, "time limit of 200ms"},
		"panics":    {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "EOF"},
		"fails":     {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "out of\ncheese", 500) }, "status 500 Internal Server Error: out of cheese"},
		"redirects": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) }, "status 302"},
		"prose":     {func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "about 1") }, "not JSON"},
		"NaN":       {func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"reward":NaN}`) }, "not JSON"},
		"huge":      {func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"reward":1e999}`) }, "beyond 64-bit"},
		"text":      {func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"reward":"1"}`) }, "number or null"},
		"no reward": {func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"score":1}`) }, "number or null"},
		"bare":      {func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `1`) }, "number or null"},
		"repeated":  {func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"reward":1,"reward":2}`) }, "repeated"},
		"too long": {func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, strings.Repeat(" ", maxAnswer)+`{"reward":1}`)
		}, "longer than"},
		"cut": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "99")
			io.WriteString(w, `{"rew`)
		}, "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			limit := 10 * time.Second
			if strings.Contains(c.want, "200ms") {
				limit = 200 * time.Millisecond
			}
			start := time.Now()
			r := service(t, limit, c.handler, example)[0]
			if r.Err() == nil || !strings.Contains(r.Err().Error(), c.want) || !strings.Contains(r.Err().Error(), `reward function "remote"`) {
				t.Fatalf("error %v, want %q", r.Err(), c.want)
			}
			if r.Valid() || !math.IsNaN(r.Parts[0].Value) || r.Score.Reward != 2 {
				t.Errorf("%+v", r)
			}
			if took := time.Since(start); took > 8*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
}

// One hanging item does not hold the others.
func TestOneHangingItem(t *testing.T) {
	completions := make([]string, 40)
	for i := range completions {
		completions[i] = fmt.Sprint(i)
	}
	results := service(t, 3*time.Second, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		v, _ := strictjson.Parse(body)
		if v.Get("completion").Text() == "7" {
			<-r.Context().Done()
			return
		}
		fmt.Fprintf(w, `{"reward":%s}`, v.Get("completion").Text())
	}, completions...)
	for i, r := range results {
		if i == 7 {
			if r.Valid() || r.Err() == nil {
				t.Errorf("the hanging item: %+v", r)
			}
		} else if r.Err() != nil || r.Reward != 2*float64(i) {
			t.Errorf("%d: %+v", i, r)
		}
	}
}
