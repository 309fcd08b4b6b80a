package report

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"terraloom/agent/eval"
)

//go:embed published.json
var publishedSource []byte

// Table is a table of a paper. A column that we measure too names its metric;
// rows of ours stand in it only where regime and setting are the table's.
type Table struct {
	ID      string   `json:"id"`
	Source  string   `json:"source"`
	Title   string   `json:"title"`
	Regime  string   `json:"regime,omitempty"`  // "" for any
	Setting string   `json:"setting,omitempty"` // "" for end-to-end
	Columns []Column `json:"columns"`
	Rows    []Row    `json:"rows"` // the published rows, then ours
}

// Column is a column of a table.
type Column struct {
	Name    string `json:"name"`
	Metric  string `json:"metric,omitempty"`  // one of eval.Metrics, "" where we measure nothing alike
	Domain  string `json:"domain,omitempty"`  // only questions of this domain
	Percent bool   `json:"percent,omitempty"` // the paper prints it in per cent
}

// Row is a row of a table; a null value is one that is not there.
type Row struct {
	Name   string     `json:"name"`
	Values []*float64 `json:"values"`
	Ours   bool       `json:"ours,omitempty"`
}

// Published returns the tables of the papers.
var Published = sync.OnceValue(func() []Table {
	tables, err := parsePublished(publishedSource)
	if err != nil {
		panic("report: published.json: " + err.Error()) // a broken build; the tests load it
	}
	return tables
})

func parsePublished(text []byte) ([]Table, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	var tables []Table
	if err := d.Decode(&tables); err != nil {
		return nil, err
	}
	for _, t := range tables {
		for _, c := range t.Columns {
			if _, ok := metric(c.Metric); !ok && c.Metric != "" {
				return nil, fmt.Errorf("%s: unknown metric %q", t.ID, c.Metric)
			}
		}
		for _, r := range t.Rows {
			if len(r.Values) != len(t.Columns) {
				return nil, fmt.Errorf("%s: %s has %d values for %d columns", t.ID, r.Name, len(r.Values), len(t.Columns))
			}
		}
	}
	return tables, nil
}

func metric(name string) (eval.Metric, bool) {
	i := slices.IndexFunc(eval.Metrics, func(m eval.Metric) bool { return m.Name == name })
	if i < 0 {
		return eval.Metric{}, false
	}
	return eval.Metrics[i], true
}

// with returns the table with our rows under the published ones.
func (t Table) with(runs []*eval.Scored) Table {
	t.Rows = slices.Clone(t.Rows)
	for _, run := range runs {
		setting := t.Setting
		if setting == "" {
			setting = eval.EndToEnd
		}
		if run.Setting != setting || t.Regime != "" && run.Regime != t.Regime {
			continue
		}
		row, measured := Row{Name: label(run), Ours: true, Values: make([]*float64, len(t.Columns))}, false
		for i, c := range t.Columns {
			row.Values[i] = c.of(run)
			measured = measured || row.Values[i] != nil
		}
		if measured {
			t.Rows = append(t.Rows, row)
		}
	}
	return t
}

// of is a run's figure for the column, nil where it has none.
func (c Column) of(run *eval.Scored) *float64 {
	m, ok := metric(c.Metric)
	if !ok {
		return nil
	}
	records := run.Records
	if c.Domain != "" {
		records = slices.DeleteFunc(slices.Clone(records), func(r eval.Record) bool { return r.Domain != c.Domain })
	}
	v, ok := m.MeanOf(records)
	if !ok {
		return nil
	}
	if c.Percent {
		v *= 100
	}
	return &v
}

// label is a run's name with its regime where the name does not show it.
func label(run *eval.Scored) string {
	if run.Regime != "" && run.Model() == run.Run {
		return run.Run + " (" + run.Regime + ")"
	}
	return run.Run
}
