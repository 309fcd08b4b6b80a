package suite

import (
	"context"
	"fmt"
	"hash/fnv"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"terraloom/agent/archive/synthetic"
	"terraloom/agent/llm"
	"terraloom/agent/rsure"
	"terraloom/agent/run"
	"terraloom/agent/tools"
	"terraloom/agent/tools/acquire"
	"terraloom/agent/tools/workspace"
	"terraloom/data"
	"terraloom/data/prompt"
	"terraloom/data/strictjson"
)

// faultyServer is a model server that fails one request in five: by silence, by
// status 500, by a cut stream, by malformed JSON. Which request fails depends on
// its text and on how often that text came.
type faultyServer struct {
	mu     sync.Mutex
	seen   map[uint64]int
	faults [4]atomic.Int64
	total  atomic.Int64
}

func (f *faultyServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := readAll(r)
	if err != nil {
		return
	}
	h := fnv.New64a()
	h.Write(body)
	f.mu.Lock()
	nth := f.seen[h.Sum64()]
	f.seen[h.Sum64()]++
	f.mu.Unlock()
	fmt.Fprint(h, nth)
	f.total.Add(1)
	reply := answerTo(string(body))
	pieces := func(whole bool) {
		w.Header().Set("Content-Type", "text/event-stream")
		half := len(reply) / 2
		fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":%s}}]}\n\n", strictjson.AppendString(nil, reply[:half]))
		if whole {
			fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":%s},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n", strictjson.AppendString(nil, reply[half:]))
		}
	}
	const oneIn = 20 // of 20 cases, four are faults
	kind := mix(h.Sum64()) % oneIn
	if kind < 4 {
		f.faults[kind].Add(1)
	}
	switch kind {
	case 0:
		<-r.Context().Done()
	case 1:
		w.WriteHeader(http.StatusInternalServerError)
	case 2:
		pieces(false)
	case 3:
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "data: {\"choices\":[{\"ind\n\ndata: [DONE]\n\n")
	default:
		pieces(true)
	}
}

// mix spreads the bits of a hash.
func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	return x ^ x>>33
}

func readAll(r *http.Request) ([]byte, error) {
	b := make([]byte, r.ContentLength)
	for n := 0; n < len(b); {
		k, err := r.Body.Read(b[n:])
		if n += k; err != nil && n < len(b) {
			return nil, err
		}
	}
	return b, nil
}

// answerTo plays all roles for the questions of places.
func answerTo(body string) string {
	var i int
	at := strings.Index(body, "Area ")
	if _, err := fmt.Sscanf(body[at:], "Area %d:", &i); err != nil {
		return "?"
	}
	name := fmt.Sprintf("area%d", i)
	switch {
	case strings.Contains(body, "# Next step\\ndownload_product"):
		return fmt.Sprintf(`{"source":"NOAA/VIIRS/DNB/MONTHLY_V1/VCMCFG","bands":["avg_rad"],"bbox":%s,"time_range":["2020-03-01","2020-04-01"],"interval":"month","scale_m":5000,"base_save_name":%q}`, box(i), name)
	case strings.Contains(body, "# Next step\\ncalc_batch_image_mean"):
		return fmt.Sprintf(`{"file_list":["benchmark/out/%s_avg_rad_2020-03-01.tif","benchmark/out/%s_avg_rad_2020-04-01.tif"]}`, name, name)
	case strings.Contains(body, "You plan Earth-observation analyses"):
		return prompt.PlannerCompletion([]string{"download_product", "calc_batch_image_mean"})
	}
	return "see the means"
}

func box(i int) string { return fmt.Sprintf("[%d.0,%d.0,%d.2,%d.2]", i%40, i/40*5, i%40, i/40*5) }

func places(t testing.TB, n int) []*data.Trajectory {
	var out []*data.Trajectory
	for i := range n {
		out = append(out, &data.Trajectory{ID: fmt.Sprintf("area-%03d", i), SeedID: fmt.Sprintf("area-%03d", i), Source: "own", Domain: "products", Regime: "ow",
			Query: fmt.Sprintf("Area %d: how bright were the nights of March and April 2020?", i), Inputs: parse(t, `{"bbox":`+box(i)+`}`), Provenance: parse(t, "{}"),
			Answer: parse(t, `{"text":"see the means"}`),
			Steps:  []data.Step{{Tool: "download_product", Arguments: parse(t, "{}"), Observation: parse(t, "[]")}, {Tool: "calc_batch_image_mean", Arguments: parse(t, "{}"), Observation: parse(t, "[]")}}})
	}
	return out
}

// A hundred runs at a time against the synthetic archive, with a model server that
// fails a fifth of all calls: no record lost or doubled, no goroutine left, bounded
// memory.
func TestStress(t *testing.T) {
	const n = 100
	faulty := &faultyServer{seen: map[uint64]int{}}
	server := httptest.NewServer(faulty)
	before := runtime.NumGoroutine()
	client := &llm.Server{URL: server.URL, Model: "m", Timeout: 3 * time.Second, Tries: 8, Pause: 10 * time.Millisecond, Stream: true}
	s := newSuite(t, client, nil)
	s.Questions = map[string][]*data.Trajectory{"ow": places(t, n)}
	s.Workers = n
	archive := acquire.From(synthetic.New(1, nil))
	s.Open = func(_ context.Context, _ *data.Trajectory, dir string) (run.Environment, func() error, error) {
		w, err := workspace.Open(dir, workspace.DefaultLimits)
		if err != nil {
			return run.Environment{}, nil, err
		}
		kit, err := tools.New(tools.Correct, tools.WithWorkspace(w), tools.WithArchive(archive))
		return run.Environment{Tools: kit, Exists: func(p string) bool { _, err := w.Find(p); return err == nil }}, w.Close, err
	}
	var peak atomic.Uint64
	done := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			peak.Store(max(peak.Load(), m.HeapAlloc))
			select {
			case <-done:
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	cell := Cell{"ow", run.EndToEnd, None, false, rsure.Off}
	scores, err := s.Run(context.Background(), []Cell{cell})
	close(done)
	<-watched
	if err != nil {
		t.Fatal(err)
	}
	server.Close()
	http.DefaultClient.CloseIdleConnections()

	text, err := os.ReadFile(filepath.Join(s.Out, cell.Name(), RecordsFile))
	if err != nil {
		t.Fatal(err)
	}
	seen, answered := map[string]int{}, 0
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		v := parse(t, line)
		seen[v.Get("question").Text()]++
		if v.Get("status").Text() == string(run.Answered) {
			answered++
			if calls := v.Get("trace").Get("tool_calls"); calls.Len() != 2 {
				t.Errorf("%s has %d calls", v.Get("question").Text(), calls.Len())
			}
		}
	}
	for _, q := range s.Questions["ow"] {
		if seen[q.ID] != 1 {
			t.Errorf("%s has %d records", q.ID, seen[q.ID])
		}
	}
	if len(seen) != n || scores[0].Summary.Questions != n || answered < n*9/10 {
		t.Errorf("%d records, %d in the denominator, %d answered", len(seen), scores[0].Summary.Questions, answered)
	}
	failed := int64(0)
	for i := range faulty.faults {
		if faulty.faults[i].Load() == 0 {
			t.Errorf("fault %d never happened", i)
		}
		failed += faulty.faults[i].Load()
	}
	share := float64(failed) / float64(faulty.total.Load())
	if share < .15 || share > .25 {
		t.Errorf("%.2f of %d calls failed", share, faulty.total.Load())
	}
	if most := uint64(1 << 30); peak.Load() > most {
		t.Errorf("the heap grew to %d MiB", peak.Load()>>20)
	}
	left := 0
	for range 100 {
		if left = runtime.NumGoroutine(); left <= before {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if left > before {
		buf := make([]byte, 1<<16)
		t.Errorf("%d goroutines before, %d after:\n%s", before, left, buf[:runtime.Stack(buf, true)])
	}
	t.Logf("%d of %d answered, %.1f %% of %d calls failed, heap at most %d MiB", answered, n, 100*share, faulty.total.Load(), peak.Load()>>20)
}
