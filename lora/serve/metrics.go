package serve

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"terraloom/lora/generate"
)

// metrics are what /metrics shows, in a registry of the server's own.
type metrics struct {
	registry   *prometheus.Registry
	requests   *prometheus.CounterVec
	duration   *prometheus.HistogramVec
	firstToken prometheus.Histogram
	used       *prometheus.CounterVec
}

func newMetrics(e Engine) *metrics {
	seconds := []float64{0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300}
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "terraloom_requests_total", Help: "Requests by route and status."}, []string{"route", "status"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "terraloom_request_seconds", Help: "Time from a request to the end of its answer.", Buckets: seconds}, []string{"route"}),
		firstToken: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "terraloom_first_token_seconds",
			Help: "Time from a request to its first token.", Buckets: seconds}),
		used: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "terraloom_tokens_total", Help: "Tokens of answered requests by kind: prompt, completion."}, []string{"kind"}),
	}
	m.registry.MustRegister(m.requests, m.duration, m.firstToken, m.used,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for name, g := range map[string]struct {
		help  string
		value func(generate.Stats) int
	}{
		"terraloom_rows_waiting":    {"Completions that wait for a place in the batch.", func(s generate.Stats) int { return s.Waiting }},
		"terraloom_rows_running":    {"Completions that are being decoded.", func(s generate.Stats) int { return s.Running }},
		"terraloom_compiled_graphs": {"Graphs compiled so far, one for every shape of a batch.", func(s generate.Stats) int { return s.Compiled }},
	} {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: g.help},
			func() float64 { return float64(g.value(e.Stats())) }))
	}
	for name, c := range map[string]struct {
		help  string
		value func(generate.Stats) int
	}{
		"terraloom_prefill_tokens_total": {"Prompt tokens computed; prompts that rows share count once.", func(s generate.Stats) int { return s.PromptTokens }},
		"terraloom_drawn_tokens_total":   {"Tokens drawn, of unfinished requests too.", func(s generate.Stats) int { return s.Tokens }},
	} {
		m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: c.help},
			func() float64 { return float64(c.value(e.Stats())) }))
	}
	return m
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

func (m *metrics) request(route string, status int, took time.Duration) {
	m.requests.WithLabelValues(route, strconv.Itoa(status)).Inc()
	m.duration.WithLabelValues(route).Observe(took.Seconds())
}

func (m *metrics) tokens(u usage) {
	m.used.WithLabelValues("prompt").Add(float64(u.Prompt))
	m.used.WithLabelValues("completion").Add(float64(u.Completion))
}
