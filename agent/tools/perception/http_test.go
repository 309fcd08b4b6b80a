package perception

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func server(t *testing.T, f http.HandlerFunc) *HTTP {
	t.Helper()
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	h, err := NewHTTP(s.URL + "/perceive")
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func maskPNG(t *testing.T, w, h int, set ...int) string {
	t.Helper()
	img := image.NewGray(image.Rect(0, 0, w, h))
	for _, i := range set {
		img.Pix[i] = 255
	}
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(b.Bytes())
}

var request = Request{Model: "SM3Det", Task: Detect, Prompt: "ship", Images: []Image{{Path: "a.png", Data: []byte("pixels"), Width: 10, Height: 8}}}

func TestHTTP(t *testing.T) {
	h := server(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var q map[string]any
		if err := json.Unmarshal(body, &q); err != nil {
			t.Error(err)
		}
		want := `{"images":["cGl4ZWxz"],"model":"SM3Det","prompt":"ship","task":"detect"}`
		if got, _ := json.Marshal(q); string(got) != want {
			t.Errorf("the server got %s, want %s", got, want)
		}
		fmt.Fprint(w, `{"weights":"sm3 1.0","sensor":"aerial","resolution":0.3,"thresholds":{"score":0.5},"boxes":[[1,2,3,4]],"scores":[0.9],"filtered":2,"exact":true}`)
	})
	got, err := h.Perceive(t.Context(), request)
	if err != nil || got.Weights != "sm3 1.0" || got.Boxes[0] != (Box{1, 2, 3, 4}) || got.Filtered != 2 || !got.Exact || request.Check(&got) != nil {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestHTTPMask(t *testing.T) {
	reply := ""
	h := server(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, reply) })
	q := Request{Model: "SAM2", Task: Segment, Boxes: []Box{{0, 0, 1, 1}}, Images: []Image{{Width: 3, Height: 2}}}
	reply = `{"weights":"w","mask":"` + maskPNG(t, 3, 2, 1, 5) + `"}`
	got, err := h.Perceive(t.Context(), q)
	if err != nil || fmt.Sprint(got.Mask) != "[false true false false false true]" {
		t.Errorf("%v, %v", got.Mask, err)
	}
	colour := image.NewNRGBA(image.Rect(0, 0, 3, 2))
	for i := range 6 {
		colour.Set(i%3, i/3, color.Black)
	}
	colour.Set(0, 1, color.NRGBA{0, 0, 9, 255})
	var b bytes.Buffer
	if err := png.Encode(&b, colour); err != nil {
		t.Fatal(err)
	}
	reply = `{"weights":"w","mask":"` + base64.StdEncoding.EncodeToString(b.Bytes()) + `"}`
	if got, err := h.Perceive(t.Context(), q); err != nil || fmt.Sprint(got.Mask) != "[false false false true false false]" {
		t.Errorf("%v, %v", got.Mask, err)
	}
	for _, bad := range []string{`{"weights":"w"}`, `{"weights":"w","mask":"AAAA"}`, `{"weights":"w","mask":"` + maskPNG(t, 2, 3) + `"}`} {
		reply = bad
		if _, err := h.Perceive(t.Context(), q); !errors.Is(err, ErrReply) {
			t.Errorf("%.40s: %v, want ErrReply", bad, err)
		}
	}
}

func TestHTTPFailures(t *testing.T) {
	for _, c := range []struct {
		name string
		f    http.HandlerFunc
		want error
		says string
	}{
		{"failure", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, `{"error":"out of memory"}`, 500) }, ErrServer, "out of memory"},
		{"unknown image", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, `{"error":"no such image"}`, 404) }, ErrUnknownImage, "no such image"},
		{"redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://elsewhere.invalid", http.StatusFound)
		}, ErrServer, "status 302"},
		{"no JSON", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }, ErrReply, "invalid"},
		{"too long", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, strings.Repeat(" ", 2000)) }, ErrReply, "more than 1000 bytes"},
		{"too late", func(_ http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body); <-r.Context().Done() }, ErrServer, "no answer within"},
	} {
		h := server(t, c.f)
		h.MaxBody, h.Timeout = 1000, 200*time.Millisecond
		if _, err := h.Perceive(t.Context(), request); !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %v saying %q", c.name, err, c.want, c.says)
		}
	}
	for _, address := range []string{"", "localhost:80", "ftp://x/y", "http://"} {
		if _, err := NewHTTP(address); err == nil {
			t.Errorf("the address %q is taken", address)
		}
	}
}

func TestCheck(t *testing.T) {
	ok := func(task Task) (Request, Reply) {
		q := request
		q.Task = task
		return q, Reply{Weights: "w", Labels: []Label{{"a", 0.9}, {"b", 0.1}}, Boxes: []Box{{0, 0, 10, 8}}, Scores: []float64{1}, Mask: make([]bool, 80)}
	}
	for _, task := range []Task{Classify, Detect, Ground, Count, Segment, Change} {
		if q, r := ok(task); q.Check(&r) != nil {
			t.Errorf("%s: %v", task, q.Check(&r))
		}
	}
	for name, c := range map[string]struct {
		task  Task
		spoil func(r *Reply)
	}{
		"no weights":         {Detect, func(r *Reply) { r.Weights = "" }},
		"score above 1":      {Detect, func(r *Reply) { r.Scores[0] = 1.1 }},
		"scores for boxes":   {Detect, func(r *Reply) { r.Scores = nil }},
		"box outside":        {Detect, func(r *Reply) { r.Boxes[0][2] = 11 }},
		"box turned round":   {Detect, func(r *Reply) { r.Boxes[0] = Box{5, 0, 4, 8} }},
		"box left of image":  {Detect, func(r *Reply) { r.Boxes[0][0] = -1 }},
		"label without name": {Classify, func(r *Reply) { r.Labels[0].Name = "" }},
		"labels not sorted":  {Classify, func(r *Reply) { r.Labels[0].Score = 0 }},
		"no label":           {Classify, func(r *Reply) { r.Labels = nil }},
		"two boxes":          {Ground, func(r *Reply) { r.Boxes, r.Scores = append(r.Boxes, Box{0, 0, 1, 1}), []float64{1, 1} }},
		"negative count":     {Count, func(r *Reply) { r.Count = -1 }},
		"mask of other size": {Segment, func(r *Reply) { r.Mask = r.Mask[:79] }},
		"negative filtered":  {Detect, func(r *Reply) { r.Filtered = -1 }},
		"negative gsd":       {Detect, func(r *Reply) { r.Resolution = -1 }},
	} {
		q, r := ok(c.task)
		if c.spoil(&r); !errors.Is(q.Check(&r), ErrReply) {
			t.Errorf("%s: %v, want ErrReply", name, q.Check(&r))
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"weights":"w","boxes":[[1,2,3,4]],"scores":[0.9],"mask":"iVBORw0KGgo="}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, task := range []Task{Detect, Segment} {
			q := request
			q.Task = task
			if r, err := decode(&q, data); err == nil {
				_ = q.Check(&r)
			} else if !errors.Is(err, ErrReply) {
				t.Errorf("untyped error %v", err)
			}
		}
	})
}
