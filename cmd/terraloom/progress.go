package main

import (
	"log/slog"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progress shows how far long work is: a bar on a terminal, else a log line
// every few seconds.
type progress struct {
	what  string
	unit  string
	bar   *progressbar.ProgressBar
	next  time.Time
	start time.Time
}

const logEvery = 5 * time.Second

func newProgress(what, unit string) *progress {
	now := time.Now()
	p := &progress{what: what, unit: unit, start: now, next: now.Add(logEvery)}
	if term.IsTerminal(int(os.Stderr.Fd())) && os.Getenv("CI") == "" {
		p.bar = progressbar.NewOptions(1,
			progressbar.OptionSetWriter(os.Stderr), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionShowCount(),
			progressbar.OptionSetDescription(what), progressbar.OptionSetItsString(unit), progressbar.OptionShowIts(),
			progressbar.OptionClearOnFinish(), progressbar.OptionSetPredictTime(true))
	}
	return p
}

// at reports done of total; it may be called as often as convenient.
func (p *progress) at(done, total int) {
	if p.bar != nil {
		if p.bar.GetMax() != total {
			p.bar.ChangeMax(total)
		}
		_ = p.bar.Set(done) // a bar that cannot be drawn is no reason to stop
		return
	}
	if now := time.Now(); now.After(p.next) || done == total && now.After(p.start.Add(logEvery)) {
		p.next = now.Add(logEvery)
		slog.Info(p.what, p.unit, done, "of", total, "seconds", int(now.Sub(p.start).Seconds()))
	}
}

// say puts other words before the bar, such as running scores.
func (p *progress) say(what string) {
	p.what = what
	if p.bar != nil {
		p.bar.Describe(what)
	}
}

func (p *progress) finish() {
	if p.bar != nil {
		_ = p.bar.Finish()
	}
}
