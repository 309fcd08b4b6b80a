package data

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"strings"
)

//go:embed report.html.tmpl
var reportSource string

var reportTemplate = template.Must(template.New("report").Parse(reportSource))

// reportHTML is a page for people, without scripts and outside resources.
func reportHTML(m *Manifest, tables map[string]map[string]*tableWriter) ([]byte, error) {
	type sample struct{ Config, Split, ID, JSON string }
	var rows []sample
	for _, config := range configs {
		for _, split := range Splits {
			for _, row := range tables[config][split].samples {
				rows = append(rows, sample{config, split, row.trajectoryID(), clipText(row.Value().JSON(), 4000)})
			}
		}
	}
	var b bytes.Buffer
	err := reportTemplate.Execute(&b, map[string]any{
		"M": m, "Options": m.Options.JSON(), "Reasons": m.RefusalsByReason(), "Samples": rows,
	})
	return b.Bytes(), err
}

// clipText cuts s to about n bytes, between characters.
func clipText(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xc0 == 0x80 {
		n--
	}
	return s[:n] + "…"
}

// datasetCard is the README.md of a dataset folder. Its front matter makes
// datasets.load_dataset(DIR, CONFIG) find the files of each config and split.
func datasetCard(m *Manifest) []byte {
	var b bytes.Buffer
	b.WriteString("---\nconfigs:\n")
	for _, config := range configs {
		if m.Rows(config) == 0 {
			continue
		}
		fmt.Fprintf(&b, "- config_name: %s\n", config)
		if config == ConfigPlanner {
			b.WriteString("  default: true\n")
		}
		b.WriteString("  data_files:\n")
		for _, t := range m.Tables {
			if t.Config == config && len(t.Files) > 0 {
				fmt.Fprintf(&b, "  - split: %s\n    path: %s/%s-*.parquet\n", t.Split, config, t.Split)
			}
		}
	}
	b.WriteString(`---

# Earth-observation agent trajectories

Tool-use trajectories for Earth-observation questions, and the two training sets extracted from them.

| config | one row is | columns |
|---|---|---|
| ` + "`trajectories`" + ` | one question with its tool calls, observations and answer | see below |
| ` + "`planner`" + ` | one prompt–completion pair: question and candidate tools → ordered tool names | ` + columnNames(ConfigPlanner) + ` |
| ` + "`executor`" + ` | one prompt–completion pair: question, tool and accepted steps → the arguments of the next call | ` + columnNames(ConfigExecutor) + ` |

In ` + "`trajectories`" + ` the columns ` + "`inputs`, `answer`, `slots`, `provenance`, `steps[].arguments` and `steps[].observation`" + `
are JSON text; an empty string means that there is no value (JSON null is the text ` + "`null`" + `). No column is ever null.

`)
	b.WriteString("| config | " + strings.Join(Splits, " | ") + " |\n|---|" + strings.Repeat("---:|", len(Splits)) + "\n")
	for _, config := range configs {
		fmt.Fprintf(&b, "| %s |", config)
		for _, t := range m.Tables {
			if t.Config == config {
				fmt.Fprintf(&b, " %d |", t.Rows)
			}
		}
		b.WriteString("\n")
	}
	b.WriteString("\nSplits share no seed. `manifest.json` names the inputs, options, counts and file hashes; `report.html` is for reading.\n")
	return b.Bytes()
}

func columnNames(config string) string {
	var names []string
	for _, f := range schemas[config].Fields() {
		names = append(names, "`"+f.Name()+"`")
	}
	return strings.Join(names, ", ")
}
