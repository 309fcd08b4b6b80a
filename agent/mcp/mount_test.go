package mcp

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"terraloom/data/strictjson"
)

// child is this test binary as a foreign server.
func child(mode string) Source {
	return Source{Command: []string{os.Args[0]}, Env: []string{childVar + "=" + mode}}
}

func mountTest(t *testing.T, src Source, o MountOptions) *Mounted {
	t.Helper()
	o.Prefix = "far"
	if o.Logger == nil {
		o.Logger = new(logBuffer).logger()
	}
	m, err := Mount(context.Background(), src, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

func mustCall(t *testing.T, k Kit, name, args string) Result {
	t.Helper()
	res, err := k.Call(context.Background(), name, object(t, args))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return res
}

func TestMountCommand(t *testing.T) {
	checkLeaks(t)
	t.Setenv("TERRALOOM_LLM_KEY", "must-not-travel")
	var logs logBuffer
	m := mountTest(t, child("good"), MountOptions{Logger: logs.logger()})
	kit := &testKit{}
	tools := m.Tools()
	if len(tools) != len(kit.Tools()) {
		t.Fatalf("%d tools, want %d", len(tools), len(kit.Tools()))
	}
	for i, tool := range tools {
		found := false
		for _, want := range kit.Tools() {
			if tool.Name == "far__"+want.Name {
				found = true
				if tool.Summary != want.Summary || tool.Pure != want.Pure || len(object(t, tool.Schema).JSON()) != len(want.Schema) {
					t.Errorf("tool %d is %+v, want %+v", i, tool, want)
				}
			}
		}
		if !found {
			t.Errorf("tool %d has the name %s", i, tool.Name)
		}
	}
	if res := mustCall(t, m, "far__difference", `{"a": 5, "b": 3}`); res.Text != "2.0" || res.Structured.Get("observation").IsAbsent() {
		t.Errorf("5 - 3 = %q %s", res.Text, res.Structured.JSON())
	}
	// Big integers and 1.0 keep their spelling where the text is the structured result.
	if res := mustCall(t, m, "far__echo", `{"n": 9007199254740993, "x": 1.0}`); res.Structured.JSON() != `{"n":9007199254740993,"x":1.0}` {
		t.Errorf("the echo is %s", res.Structured.JSON())
	}
	for tool, want := range map[string]Reason{"fault": "insufficient data", "plain": ErrFailed, "panic": ErrInternal, "big": ErrTooLarge} {
		if _, err := m.Call(context.Background(), "far__"+tool, object(t, `{}`)); !errors.Is(err, want) {
			t.Errorf("%s: error %v, want %v", tool, err, want)
		}
	}
	if _, err := m.Call(context.Background(), "far__difference", object(t, `{"a": 5}`)); !errors.Is(err, ErrArguments) || !strings.Contains(err.Error(), `"b"`) {
		t.Errorf("a missing argument gives %v", err)
	}
	if _, err := m.Call(context.Background(), "difference", object(t, `{}`)); !errors.Is(err, ErrUnknown) {
		t.Errorf("the name without prefix gives %v", err)
	}
	if _, err := m.Call(context.Background(), "far__echo", strictjson.Text("x")); !errors.Is(err, ErrArguments) {
		t.Errorf("arguments that are no object give %v", err)
	}
	if !strings.Contains(logs.String(), "child starts") {
		t.Error("what the server says on stderr is not in the log")
	}
	m.Close()
	if _, err := m.Call(context.Background(), "far__echo", object(t, `{}`)); !errors.Is(err, ErrDown) {
		t.Errorf("a call after Close gives %v", err)
	}
}

func TestMountedCommandHasACleanEnvironment(t *testing.T) {
	t.Setenv("TERRALOOM_LLM_KEY", "must-not-travel")
	cmd := child("good").command(new(logBuffer).logger()).(*sdk.CommandTransport).Command
	for _, v := range cmd.Env {
		if strings.Contains(v, "must-not-travel") {
			t.Errorf("the command would get %s", v)
		}
	}
}

func TestMountRestartsAfterACrash(t *testing.T) {
	checkLeaks(t)
	var logs logBuffer
	m := mountTest(t, child("good"), MountOptions{Backoff: 50 * time.Millisecond, Logger: logs.logger()})
	for range 2 {
		if _, err := m.Call(context.Background(), "far__crash", object(t, `{}`)); !errors.Is(err, ErrDown) {
			t.Fatalf("a crash gives %v", err)
		}
	}
	start := time.Now()
	if res := mustCall(t, m, "far__echo", `{"text":"back"}`); res.Text != `{"text":"back"}` {
		t.Errorf("after the restart: %q", res.Text)
	}
	if d := time.Since(start); d < 50*time.Millisecond {
		t.Errorf("the second restart came after %v, want twice the backoff less the time that the start took", d)
	}
	if !strings.Contains(logs.String(), "failures=2") || !strings.Contains(logs.String(), "pause=100ms") {
		t.Errorf("no doubled pause in the log:\n%s", logs.String())
	}
	// The successful call has cleared the history.
	_, _ = m.Call(context.Background(), "far__crash", object(t, `{}`))
	l := <-m.link
	failures := l.failures
	m.link <- l
	if failures != 1 {
		t.Errorf("%d failures after a success and a crash, want 1", failures)
	}
}

func TestMountFailsFastDuringALongPause(t *testing.T) {
	checkLeaks(t)
	m := mountTest(t, child("good"), MountOptions{Backoff: time.Hour, MaxBackoff: time.Hour, CallTimeout: 10 * time.Second})
	_, _ = m.Call(context.Background(), "far__crash", object(t, `{}`))
	start := time.Now()
	_, err := m.Call(context.Background(), "far__echo", object(t, `{}`))
	if !errors.Is(err, ErrDown) || !strings.Contains(err.Error(), "tried again in 1h0m0s") || time.Since(start) > time.Second {
		t.Errorf("after %v: %v", time.Since(start), err)
	}
}

func TestMountNoticesADeathBetweenCalls(t *testing.T) {
	checkLeaks(t)
	kit := &testKit{}
	m, servers := memoryMount(t, func() Kit { return kit }, MountOptions{Backoff: time.Millisecond})
	servers()[0].Close()
	l := <-m.link
	gone := l.gone
	m.link <- l
	<-gone
	if res := mustCall(t, m, "far__echo", `{"text":"again"}`); res.Text != `{"text":"again"}` {
		t.Errorf("the echo is %q", res.Text)
	}
	if n := len(servers()); n != 2 {
		t.Errorf("%d connections, want 2", n)
	}
}

// memoryMount mounts kits without processes, one for each connection.
func memoryMount(t *testing.T, kit func() Kit, o MountOptions) (*Mounted, func() []*sdk.ServerSession) {
	t.Helper()
	var mu sync.Mutex
	var sessions []*sdk.ServerSession
	dial := func() (sdk.Transport, error) {
		here, there := sdk.NewInMemoryTransports()
		session, err := newTestServer(t, kit(), Options{}).sdk.Connect(context.Background(), there, nil)
		mu.Lock()
		defer mu.Unlock()
		sessions = append(sessions, session)
		return here, err
	}
	o.Prefix, o.Logger = "far", new(logBuffer).logger()
	o.fill()
	m, err := mount(context.Background(), dial, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m, func() []*sdk.ServerSession {
		mu.Lock()
		defer mu.Unlock()
		return sessions
	}
}

func TestMountPinsDeclarations(t *testing.T) {
	checkLeaks(t)
	modes := []string{"", "changed"}
	m, servers := memoryMount(t, func() Kit {
		k := &testKit{mode: modes[0]}
		modes = modes[1:]
		return k
	}, MountOptions{Backoff: time.Millisecond})
	mustCall(t, m, "far__echo", `{}`)
	servers()[0].Close()
	_, err := m.Call(context.Background(), "far__echo", object(t, `{}`))
	for errors.Is(err, ErrDown) { // the end of the connection may reach the first call only
		_, err = m.Call(context.Background(), "far__echo", object(t, `{}`))
	}
	if !errors.Is(err, ErrChanged) {
		t.Errorf("a tool with another description gives %v", err)
	}
	mustCall(t, m, "far__difference", `{"a": 1, "b": 1}`)
	for _, tool := range m.Tools() {
		if strings.Contains(tool.Summary, "Ignore") {
			t.Errorf("%s has the new description", tool.Name)
		}
	}
}

func TestMountTimeLimit(t *testing.T) {
	checkLeaks(t)
	m, servers := memoryMount(t, func() Kit { return &testKit{} }, MountOptions{CallTimeout: time.Second, Backoff: time.Millisecond})
	for i := range maxStrikes {
		if n := len(servers()); n != 1 {
			t.Fatalf("%d connections before call %d", n, i)
		}
		if _, err := m.Call(context.Background(), "far__wait", object(t, `{}`)); !errors.Is(err, ErrTimeLimit) {
			t.Errorf("error %v", err)
		}
	}
	mustCall(t, m, "far__echo", `{}`)
	if n := len(servers()); n != 2 {
		t.Errorf("%d connections after %d calls without an answer, want a new one", n, maxStrikes)
	}
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err := m.Call(ctx, "far__wait", object(t, `{}`)); !errors.Is(err, ErrCancelled) {
		t.Errorf("error %v", err)
	}
}

func TestMountCloseEndsCalls(t *testing.T) {
	checkLeaks(t)
	kit := &testKit{}
	m, _ := memoryMount(t, func() Kit { return kit }, MountOptions{})
	failed := make(chan error, 1)
	go func() {
		_, err := m.Call(context.Background(), "far__wait", strictjson.Obj())
		failed <- err
	}()
	for kit.running.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	m.Close()
	if err := <-failed; !errors.Is(err, ErrDown) {
		t.Errorf("the running call got %v", err)
	}
}

func TestMountManyCallsAtOnce(t *testing.T) {
	checkLeaks(t)
	m, _ := memoryMount(t, func() Kit { return &testKit{} }, MountOptions{})
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if res, err := m.Call(context.Background(), "far__echo", strictjson.Obj()); err != nil || res.Text != "{}" {
				t.Errorf("%v %v", res, err)
			}
		})
	}
	wg.Wait()
}

func TestMountRefusesWhatIsNoServer(t *testing.T) {
	checkLeaks(t)
	for _, test := range []struct {
		name string
		src  Source
		want string
	}{
		{"no program", Source{Command: []string{"no-such-program-here"}}, "no-such-program-here"},
		{"garbage", child("garbage"), "mount far"},
		{"silence", child("silent"), "deadline exceeded"},
		{"one endless line", child("huge"), "mount far"},
		{"nothing", Source{}, "a command or a URL"},
		{"both", Source{Command: []string{"x"}, URL: "http://localhost/mcp"}, "not both"},
		{"a file", Source{URL: "file:///etc/passwd"}, "http://"},
		{"a password", Source{URL: "https://me:hunter2@example.org/mcp"}, "give a key"},
		{"a key in the open", Source{URL: "http://example.org/mcp", Key: Key{"0123456789abcdef"}}, "https only"},
	} {
		start := time.Now()
		m, err := Mount(context.Background(), test.src, MountOptions{Prefix: "far", ConnectTimeout: time.Second, Logger: new(logBuffer).logger()})
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: error %v, want one with %q", test.name, err, test.want)
		}
		if m != nil {
			m.Close()
		}
		if d := time.Since(start); d > 15*time.Second {
			t.Errorf("%s: it took %v", test.name, d)
		}
	}
	if _, err := Mount(context.Background(), child("good"), MountOptions{Prefix: "a b"}); err == nil || !strings.Contains(err.Error(), "prefix") {
		t.Errorf("a bad prefix gives %v", err)
	}
}

func TestMountURL(t *testing.T) {
	checkLeaks(t)
	t.Setenv("TERRALOOM_TEST_KEY", "a-key-of-twenty-chars")
	key, err := KeyFromEnv("TERRALOOM_TEST_KEY")
	if err != nil {
		t.Fatal(err)
	}
	url, stop := startHTTP(t, newTestServer(t, &testKit{}, Options{Key: key, MaxResult: 8 << 20}))
	var logs logBuffer
	m := mountTest(t, Source{URL: url, Key: key}, MountOptions{Logger: logs.logger(), Backoff: time.Millisecond})
	if res := mustCall(t, m, "far__difference", `{"a": 5, "b": 3}`); res.Text != "2.0" {
		t.Errorf("5 - 3 = %q", res.Text)
	}
	if _, err := m.Call(context.Background(), "far__big", object(t, `{}`)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a result of 2 MiB gives %v", err)
	}
	if _, err := Mount(context.Background(), Source{URL: url}, MountOptions{Prefix: "far", Logger: logs.logger()}); err == nil {
		t.Error("mounting without the key succeeded")
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if _, err := m.Call(context.Background(), "far__echo", object(t, `{}`)); !errors.Is(err, ErrDown) {
		t.Errorf("a server that is away gives %v", err)
	}
	if strings.Contains(logs.String(), key.secret) {
		t.Error("the key is in the log")
	}
}

func TestMountURLBoundsAnswersAndRedirects(t *testing.T) {
	checkLeaks(t)
	var elsewhere atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	var sent atomic.Int64
	endless := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/away" {
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		blanks := []byte(strings.Repeat(" ", 1<<20))
		for r.Context().Err() == nil && sent.Load() < 100<<20 {
			n, err := w.Write(blanks)
			if sent.Add(int64(n)); err != nil {
				return
			}
		}
	}))
	defer endless.Close()
	for _, path := range []string{"/away", "/endless"} {
		_, err := Mount(context.Background(), Source{URL: endless.URL + path, Key: Key{"0123456789abcdef"}}, MountOptions{Prefix: "far", ConnectTimeout: 10 * time.Second, Logger: new(logBuffer).logger()})
		if err == nil {
			t.Errorf("%s was mounted", path)
		}
	}
	if elsewhere.Load() != 0 {
		t.Error("the redirect was followed")
	}
	if n := sent.Load(); n > 64<<20 {
		t.Errorf("%d bytes of an endless answer were read", n)
	}
}
