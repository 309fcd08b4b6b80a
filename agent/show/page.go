package show

import (
	"bytes"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"

	"terraloom/agent/memory"
	"terraloom/agent/plot"
	"terraloom/agent/run"
	"terraloom/agent/tools"
	"terraloom/agent/tools/workspace"
)

//go:embed page.html.tmpl
var pageSource string

var page = template.Must(template.New("page").Parse(pageSource))

// pageStep is one piece of evidence on the page.
type pageStep struct {
	memory.Record
	Arguments, Observation, Support string
	Picture                         template.URL // a PNG, "" where there is nothing to draw
	Note                            string       // why there is no picture, where there should be one
}

// Page writes the run as one HTML page without outside parts. files is the
// workspace of the run, for maps; nil leaves them out.
func (r *Run) Page(w io.Writer, files *workspace.Workspace) error {
	data := struct {
		*Run
		Result *run.Result
		Steps  []pageStep
		Tried  []memory.Event
	}{Run: r, Result: r.Result}
	for _, e := range r.Events {
		if e.Kind == memory.Tried || e.Kind == memory.Refused {
			data.Tried = append(data.Tried, e)
		}
	}
	if r.State != nil {
		for i := range r.State.Evidence {
			data.Steps = append(data.Steps, stepOf(&r.State.Evidence[i], files))
		}
	}
	return page.Execute(w, data)
}

func stepOf(e *memory.Record, files *workspace.Workspace) pageStep {
	s := pageStep{Record: *e, Arguments: pretty(e.Arguments), Observation: pretty(e.Observation), Support: pretty(e.Support)}
	result := tools.Result{Value: e.Observation, Evidence: tools.Evidence{Status: tools.OK}}
	for _, f := range e.Provenance.Files {
		result.Artefacts = append(result.Artefacts, tools.Artefact{Path: f.Path, SHA256: f.SHA256, Time: f.Time, CRS: f.CRS, Region: f.Region})
	}
	var png bytes.Buffer
	switch err := plot.Result(&png, files, e.Tool, e.Arguments, &result); {
	case err == nil:
		s.Picture = template.URL("data:image/png;base64," + base64.StdEncoding.EncodeToString(png.Bytes()))
	case !errors.Is(err, plot.ErrNothing):
		s.Note = fmt.Sprintf("no picture: %v", err)
	}
	return s
}

// pretty is JSON on several lines.
func pretty(v json.Marshaler) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	if err := enc.Encode(v); err != nil {
		return err.Error()
	}
	const most = 20_000
	if b.Len() > most {
		return string(bytes.ToValidUTF8(b.Bytes()[:most], nil)) + "…"
	}
	return b.String()
}
