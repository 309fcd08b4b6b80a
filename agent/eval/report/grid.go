package report

import (
	"fmt"
	"strconv"
	"strings"

	"terraloom/agent/eval"
)

// grid is a table as text, for Markdown and HTML alike.
type grid struct {
	Title string
	Note  string
	Head  []string
	Rows  []line
}

// line is one row of a grid; its first cell is a name.
type line struct {
	Cells []string
	Ours  bool
}

// sections are all tables of the report in order.
func (r *Report) sections() []grid {
	out := []grid{r.overall()}
	if len(r.Regimes) > 0 {
		g := grid{Title: "Regimes on matched questions", Head: append([]string{"model", "setting", "regime"}, meansHead...)}
		for _, c := range r.Regimes {
			g.Rows = append(g.Rows, line{Cells: append([]string{c.Model, c.Setting, c.Regime}, meansCells(c.Means)...)})
		}
		out = append(out, g)
	}
	out = append(out, groupGrid("By domain", "domain", r.Domains), groupGrid("By skill", "skill", r.Skills), r.failures())
	if g := r.costs(); len(g.Rows) > 0 {
		out = append(out, g)
	}
	for _, t := range r.Published {
		out = append(out, t.grid())
	}
	return out
}

var meansHead = []string{"questions", "accuracy", "benchmark accuracy", "ROUGE-L", "efficiency", "TAO", "TIO", "TEM", "param"}

// meansCells are a group's means; shares in per cent, the efficiency as a ratio.
func meansCells(m eval.Means) []string {
	return []string{strconv.Itoa(m.Questions), percent(&m.Accuracy), percent(&m.BenchmarkAccuracy), percent(&m.RougeL), fixed(m.Efficiency, 4),
		percent(&m.TAO), percent(&m.TIO), percent(&m.TEM), percent(m.Param)}
}

func (r *Report) overall() grid {
	g := grid{
		Title: "Our runs",
		Note: "Shares in per cent. Every question counts: one without a trace scores 0, one without an answer is wrong. " +
			"Rows marked peer leave them out, as the published Earth-Agent code does. " +
			"Accuracy is against the reference file's answers, benchmark accuracy against the benchmark's own.",
		Head: append([]string{"run", "setting"}, append(meansHead, "judge", "judge failed", "similarity", "missing", "failed")...),
	}
	for _, run := range r.Runs {
		judged, judgeFailed, similarity := "–", "–", "–"
		if j := run.Summary.Judge; j != nil {
			judged, judgeFailed = percent(&j.Accuracy), strconv.Itoa(j.Failed)
		}
		if e := run.Summary.Embedding; e != nil {
			similarity = percent(&e.Mean)
		}
		tail := []string{judged, judgeFailed, similarity, strconv.Itoa(len(run.Summary.Missing)), strconv.Itoa(len(run.Summary.Failed))}
		g.Rows = append(g.Rows, line{Cells: append(append([]string{run.Run, run.Setting}, meansCells(run.Summary.Means)...), tail...)})
		if peer := run.Summary.Peer; peer.Questions != run.Summary.Questions || peer.Answers != run.Summary.Answers {
			g.Rows = append(g.Rows, line{Cells: append(append([]string{run.Run + " (peer)", run.Setting}, meansCells(peer)...), "–", "–", "–", "–", "–")})
		}
	}
	return g
}

func groupGrid(title, name string, groups []Group) grid {
	g := grid{Title: title, Head: append([]string{"run", name}, meansHead...)}
	for _, x := range groups {
		g.Rows = append(g.Rows, line{Cells: append([]string{x.Run, x.Name}, meansCells(x.Means)...)})
	}
	return g
}

func (r *Report) failures() grid {
	g := grid{
		Title: "By cause of failure",
		Note:  "Questions by why they are not right under the benchmark's answers; tool errors count calls.",
		Head:  append(append([]string{"run", "right"}, eval.Failures...), "tool errors"),
	}
	for _, c := range r.Failures {
		cells := []string{c.Run, strconv.Itoa(c.Right)}
		for _, cause := range eval.Failures {
			cells = append(cells, strconv.Itoa(c.Causes[cause]))
		}
		g.Rows = append(g.Rows, line{Cells: append(cells, strconv.Itoa(c.ToolErrors))})
	}
	return g
}

// costs are what the runs took and what verification did, of runs that recorded it.
func (r *Report) costs() grid {
	g := grid{
		Title: "Cost and verification",
		Note: "Means over questions, seconds spent waiting for models; then questions with a failed observation, of those with an evidence request, " +
			"of those with an observation accepted after it, of those answered right by the benchmark, and rejected calls.",
		Head: []string{"run", "model calls", "tokens", "mean seconds", "median seconds", "failed", "requested", "accepted", "right", "rejected"},
	}
	for _, run := range r.Runs {
		c, f := run.Summary.Cost, run.Summary.Funnel
		if c == nil || f == nil {
			continue
		}
		g.Rows = append(g.Rows, line{Cells: []string{run.Run, fixed(&c.ModelCalls, 3), fixed(&c.Tokens, 0), fixed(&c.MeanSeconds, 2), fixed(&c.MedianSeconds, 2),
			stage(f.Failed), stage(f.Requested), stage(f.Accepted), stage(f.Correct), strconv.Itoa(f.Rejected)}})
	}
	return g
}

func stage(s eval.Stage) string {
	p, ok := s.Percent()
	if !ok {
		return fmt.Sprintf("%d/%d", s.Count, s.Of)
	}
	return fmt.Sprintf("%d/%d (%.1f %%)", s.Count, s.Of, p)
}

// grid prints a published table: each row says whether it is published or ours.
func (t Table) grid() grid {
	g := grid{Title: "Published: " + t.ID, Note: t.Title + ". Source: " + t.Source + ".", Head: []string{"row", "origin"}}
	if t.Regime != "" {
		g.Note += " Our rows: regime " + t.Regime + "."
	}
	if t.Setting != "" {
		g.Note += " Our rows: " + t.Setting + "."
	}
	for _, c := range t.Columns {
		g.Head = append(g.Head, c.Name)
	}
	for _, row := range t.Rows {
		l := line{Cells: []string{row.Name, "published"}, Ours: row.Ours}
		for i, v := range row.Values {
			digits := -1 // as published
			if row.Ours {
				if digits = 4; t.Columns[i].Percent {
					digits = 2
				}
			}
			l.Cells = append(l.Cells, fixed(v, digits))
		}
		if row.Ours {
			l.Cells[1] = "ours"
		}
		g.Rows = append(g.Rows, l)
	}
	return g
}

func percent(f *float64) string {
	if f == nil {
		return "–"
	}
	return strconv.FormatFloat(100**f, 'f', 2, 64)
}

func fixed(f *float64, digits int) string {
	if f == nil {
		return "–"
	}
	return strconv.FormatFloat(*f, 'f', digits, 64)
}

// Markdown is the report for people.
func (r *Report) Markdown() string {
	var b strings.Builder
	b.WriteString("# Evaluation report\n")
	for _, g := range r.sections() {
		fmt.Fprintf(&b, "\n## %s\n\n", cell(g.Title))
		if g.Note != "" {
			fmt.Fprintf(&b, "%s\n\n", g.Note)
		}
		writeRow(&b, g.Head)
		b.WriteString(strings.Repeat("|---", len(g.Head)) + "|\n")
		for _, l := range g.Rows {
			writeRow(&b, l.Cells)
		}
	}
	return b.String()
}

func writeRow(b *strings.Builder, cells []string) {
	for _, c := range cells {
		b.WriteString("| " + cell(c) + " ")
	}
	b.WriteString("|\n")
}

var escapes = strings.NewReplacer("|", `\|`, "\n", " ", "\r", " ", "<", "&lt;", ">", "&gt;", "&", "&amp;", "`", "\\`", "[", `\[`, "]", `\]`)

// cell keeps a text inside its cell: names of runs come from elsewhere.
func cell(s string) string { return escapes.Replace(s) }
