package perception

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"terraloom/agent/mcp"
	"terraloom/data/strictjson"
)

// models is a kit whose tools answer as a model server would.
type models struct{ names []string }

func (m models) Tools() []mcp.Tool {
	var out []mcp.Tool
	for _, n := range m.names {
		out = append(out, mcp.Tool{Name: n, Summary: "a model", Schema: `{"type":"object"}`})
	}
	return out
}

func (m models) Call(ctx context.Context, name string, args strictjson.Value) (mcp.Result, error) {
	answer := func(text string) (mcp.Result, error) {
		v, err := strictjson.Parse([]byte(text))
		return mcp.Result{Text: text, Structured: v}, err
	}
	switch args.Get("prompt").Text() {
	case "strange":
		return mcp.Result{}, &mcp.Fault{Reason: UnknownImage, Msg: "never seen"}
	case "broken":
		return mcp.Result{}, &mcp.Fault{Reason: mcp.ErrFailed, Msg: "out of memory"}
	case "garbage":
		return mcp.Result{Text: "three ships"}, nil
	case "slow":
		<-ctx.Done()
		return mcp.Result{}, ctx.Err()
	}
	if args.Get("images").Index(0).Text() != "aW1hZ2U=" { // "image"
		return mcp.Result{}, &mcp.Fault{Reason: mcp.ErrArguments, Msg: "no image"}
	}
	return answer(`{"weights":"` + name + `","thresholds":{"score":0.5},"boxes":[[1,2,3,4]],"scores":[0.75],"count":2,"exact":true,"filtered":1}`)
}

var picture = Image{Path: "a.png", Data: []byte("image"), Width: 10, Height: 10}

func TestMCPPerceiver(t *testing.T) {
	request := func(task Task, prompt string) Request {
		return Request{Model: "SM3Det", Task: task, Images: []Image{picture}, Prompt: prompt}
	}
	for _, c := range []struct {
		tools []string
		want  string
	}{
		{[]string{"perceive", "detect", "SM3Det"}, "SM3Det"}, // the model before the task before perceive
		{[]string{"perceive", "detect"}, "detect"},
		{[]string{"perceive"}, "perceive"},
		{[]string{"model__detect"}, "model__detect"}, // as mounted
	} {
		r := request(Detect, "ship")
		reply, err := NewMCP(models{c.tools}).Perceive(t.Context(), r)
		if err != nil || r.Check(&reply) != nil {
			t.Fatalf("%v: %v", c.tools, err)
		}
		if reply.Weights != c.want || reply.Boxes[0] != (Box{1, 2, 3, 4}) || reply.Scores[0] != 0.75 || reply.Thresholds["score"] != 0.5 || !reply.Exact || reply.Filtered != 1 {
			t.Errorf("%v: %+v", c.tools, reply)
		}
	}
	for prompt, want := range map[string]error{"strange": ErrUnknownImage, "broken": ErrServer, "garbage": ErrReply} {
		if _, err := NewMCP(models{[]string{"count"}}).Perceive(t.Context(), request(Count, prompt)); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", prompt, err, want)
		}
	}
	if _, err := NewMCP(models{[]string{"mean"}}).Perceive(t.Context(), request(Count, "ship")); !errors.Is(err, ErrServer) || !strings.Contains(err.Error(), "no tool SM3Det, count or perceive") {
		t.Errorf("a server without models: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := NewMCP(models{[]string{"count"}}).Perceive(ctx, request(Count, "slow")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a slow model: %v", err)
	}
}

// Over a real connection: a server, a mount, a mask.
func TestMountedModels(t *testing.T) {
	server, err := mcp.NewServer(models{[]string{"SM3Det"}}, mcp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := server.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, l) }()
	m, err := mcp.Mount(ctx, mcp.Source{URL: "http://" + l.Addr().String() + mcp.Path}, mcp.MountOptions{Prefix: "model"})
	if err != nil {
		t.Fatal(err)
	}
	p := NewMCP(m)
	r := Request{Model: "SM3Det", Task: Detect, Images: []Image{picture}, Prompt: "ship"}
	if reply, err := p.Perceive(ctx, r); err != nil || reply.Weights != "SM3Det" || p.Backend() != "mcp" {
		t.Errorf("%+v, %v", reply, err)
	}
	r.Prompt = "strange"
	if _, err := p.Perceive(ctx, r); !errors.Is(err, ErrUnknownImage) {
		t.Errorf("an unknown image: %v", err)
	}
	m.Close()
	if _, err := p.Perceive(ctx, r); !errors.Is(err, ErrServer) {
		t.Errorf("after the server is gone: %v", err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
