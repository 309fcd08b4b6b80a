package memory

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"terraloom/agent/tools"
	"terraloom/data/catalogue"
	"terraloom/data/strictjson"
)

func parse(t testing.TB, text string) strictjson.Value {
	t.Helper()
	v, err := strictjson.Parse([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

func tool(t testing.TB, name string) *catalogue.Tool {
	t.Helper()
	r, err := catalogue.Default().Resolve(name)
	if err != nil {
		t.Fatal(err)
	}
	return r.Tool
}

// tvdi is a state in which temperature and vegetation index of two dates were
// downloaded and scaled.
func tvdi(t testing.TB) *State {
	s := Init([]string{"download_product", "download_product", "apply_scale_offset", "apply_scale_offset", "compute_tvdi"})
	accept := func(i int, name, args string, files ...tools.Artefact) {
		a := parse(t, args)
		r := Record{Tool: name, Arguments: a, Observation: parse(t, `["x"]`), Provenance: Provenance{Files: s.FilesOf(tool(t, name), a, files)}}
		if err := s.Accept(i, r, "done"); err != nil {
			t.Fatal(err)
		}
	}
	file := func(path, band, time string) tools.Artefact {
		return tools.Artefact{Path: path, SHA256: "00", Time: time, CRS: "EPSG:4326", Region: []float64{103.8, 30.3, 104.5, 30.501}, Bands: []tools.ArtefactBand{{Name: band}}}
	}
	accept(1, "download_product", `{"source":"MODIS/061/MOD11A1","bands":["LST_Day_1km"],"bbox":[103.8,30.3,104.5,30.501]}`, file("benchmark/out/c_LST_2021-07-20.tif", "LST_Day_1km", "2021-07-20"), file("benchmark/out/c_LST_2021-07-12.tif", "LST_Day_1km", "2021-07-12"))
	accept(2, "download_product", `{"source":"MODIS/061/MOD13Q1","bands":["NDVI"]}`, file("benchmark/out/c_NDVI_2021-07-12.tif", "NDVI", "2021-07-12"))
	accept(3, "apply_scale_offset", `{"file_list":["benchmark/out/c_LST_2021-07-20.tif","benchmark/out/c_LST_2021-07-12.tif"],"scale":0.02,"output_path":["t20.tif","t12.tif"]}`, file("benchmark/out/t20.tif", "", "2021-07-20"), file("benchmark/out/t12.tif", "", "2021-07-12"))
	accept(4, "apply_scale_offset", `{"file_list":"benchmark/out/c_NDVI_2021-07-12.tif","scale":0.0001,"output_path":"v12.tif"}`, file("benchmark/out/v12.tif", "", "2021-07-12"))
	return s
}

// AGT-9: provenance of file artefacts records variables, time, region, bands and
// batches.
func TestAGT9Provenance(t *testing.T) {
	f := tvdi(t).Evidence[0].Provenance.Files[1]
	if !slices.Contains(f.Variables, "LST_Day_1km") || !slices.Contains(f.Variables, "MODIS/061/MOD11A1") || f.Time != "2021-07-12" || len(f.Region) != 4 || !slices.Equal(f.Bands, []string{"LST_Day_1km"}) || f.Batch != 2 || f.Of != 2 {
		t.Errorf("%+v", f)
	}
}

// AGT-12: the derived grounding view lists upstream artefacts by role and date with
// argument bindings: compute_tvdi is offered scaled LST and NDVI, never the raw
// downloads.
func TestAGT12GroundingView(t *testing.T) {
	var got []string
	for _, b := range tvdi(t).Grounding(tool(t, "compute_tvdi")) {
		got = append(got, b.Argument+" "+b.File.Path)
	}
	want := []string{"lst_path benchmark/out/t12.tif", "lst_path benchmark/out/t20.tif", "ndvi_path benchmark/out/v12.tif"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if view := View(tvdi(t).Grounding(tool(t, "compute_tvdi"))); !strings.Contains(view, "lst_path <- benchmark/out/t12.tif [") || !strings.Contains(view, "2021-07-12") {
		t.Errorf("%s", view)
	}
}

// References are found in the question, the inputs, the guidance or the evidence,
// or not at all.
func TestResolve(t *testing.T) {
	s := tvdi(t)
	s.Evidence = append(s.Evidence, Record{Seq: 5, Tool: "calc_batch_image_mean", Arguments: parse(t, "{}"), Observation: parse(t, `[300.25,301.987654,"14.98%","Result saved at benchmark/out/m.tif"]`)},
		Record{Seq: 6, Tool: "get_filelist", Arguments: parse(t, `{"dir_path":"benchmark/data/question7"}`), Observation: parse(t, `["P1.png"]`)})
	known := NewKnown("Share above 0.7512 on 12 July?", parse(t, `{"data_path":"benchmark/data/question7/b.tif"}`), "scale 0.00275", s.Evidence, func(p string) bool { return p == "benchmark/data/there.tif" })
	for _, c := range []struct{ tool, args, want, problem, from string }{
		{"compute_tvdi", `{"lst_path":"t12.tif","ndvi_path":"benchmark/out/v12.tif","output_path":"new.tif"}`, `{"lst_path":"benchmark/out/t12.tif","ndvi_path":"benchmark/out/v12.tif","output_path":"new.tif"}`, "", "record 3"},
		{"calc_batch_image_mean", `{"file_list":["P1.png","m.tif"]}`, `{"file_list":["benchmark/data/question7/P1.png","benchmark/out/m.tif"]}`, "", "record 6"},
		{"calc_batch_image_mean", `{"file_list":["benchmark/data/question7/b.tif"]}`, "", "", "inputs"},
		{"calc_batch_image_mean", `{"file_list":["benchmark/data/there.tif"]}`, "", "", "workspace"},
		{"calc_batch_image_mean", `{"file_list":["benchmark/data/question7/c.tif"]}`, "", `/file_list/0: no accepted step made "benchmark/data/question7/c.tif"`, ""},
		{"calc_batch_image_mean", `{"file_list":[" "]}`, "", "the path is empty", ""},
		{"mean", `{"x":[300.25,301.99]}`, `{"x":[300.25,301.987654]}`, "", "record 5"},
		{"mean", `{"x":[0.7512,0.00275,2,5.5]}`, "", "", "question"},
		{"difference", `{"a":300.25,"b":27.1}`, "", "", "record 5"},
		{"difference", `{"a":300.25,"b":27.10}`, "", "", "record 5"},
		{"difference", `{"a":300.25,"b":0.1498}`, "", "", "record 5"},
		{"difference", `{"a":300.25,"b":299.8765}`, "", "/b: the number 299.8765 is in no observation", ""},
		{"calculate_threshold_ratio", `{"image_path":"t12.tif","threshold":123.4567}`, "", "", ""},
	} {
		got, sources, problems := known.Resolve(tool(t, c.tool), parse(t, c.args))
		if c.want == "" {
			c.want = c.args
		}
		if c.problem != "" {
			if len(problems) != 1 || !strings.Contains(problems[0], c.problem) {
				t.Errorf("%s %s: %q", c.tool, c.args, problems)
			}
			continue
		}
		if c.tool == "calculate_threshold_ratio" {
			continue // its path is resolved, its threshold is a setting
		}
		if len(problems) > 0 || got.JSON() != c.want || len(sources) == 0 || sources[0].From != c.from {
			t.Errorf("%s %s: %s %+v %q", c.tool, c.args, got.JSON(), sources, problems)
		}
	}
}

func TestSignificant(t *testing.T) {
	for text, want := range map[string]int{"0": 0, "10": 1, "1200": 2, "0.75": 2, "0.7500": 4, "273.15": 5, "-1.50e3": 3, "1e5": 1, "12.0": 2} {
		if got := significant(text); got != want {
			t.Errorf("%s: %d, want %d", text, got, want)
		}
	}
}

// The state changes by its operations and refuses what they do not allow.
func TestStateRefusals(t *testing.T) {
	s := Init([]string{"mean"})
	r := Record{Tool: "mean", Arguments: parse(t, "{}"), Observation: parse(t, "1")}
	for name, err := range map[string]error{"no such node": s.Accept(2, r, ""), "fail": s.Fail(0, "d"), "empty suffix": s.Repair(1, nil, "d"), "nothing behind": s.Stop(1, "d")} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := s.Accept(1, r, ""); err != nil {
		t.Fatal(err)
	}
	if err := s.Accept(1, r, ""); err == nil {
		t.Error("a node is accepted twice")
	}
	for _, e := range []Event{{Seq: 1, Kind: Committed, Node: 1, Record: &r}, {Seq: 1, Kind: GaveUp, Node: 1}} {
		if _, err := Replay([]Event{e}); !errors.Is(err, ErrJournal) {
			t.Errorf("%s before a plan: %v", e.Kind, err)
		}
	}
}

// A damaged journal names its file and line.
func TestJournalFaults(t *testing.T) {
	for name, text := range map[string]string{
		"not JSON":     "{\n",
		"unknown key":  `{"seq":1,"time":"2026-01-01T00:00:00Z","kind":"begin","colour":1}` + "\n",
		"wrong number": `{"seq":2,"time":"2026-01-01T00:00:00Z","kind":"begin"}` + "\n",
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, JournalFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := Open(dir); !errors.Is(err, ErrJournal) || !strings.Contains(err.Error(), JournalFile+":1") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzJournal: any file is events or an error, and what it gives replays or is
// refused.
func FuzzJournal(f *testing.F) {
	f.Add([]byte(`{"seq":1,"time":"2026-01-01T00:00:00Z","kind":"plan","tools":["mean"]}` + "\n" + `{"seq":2,"time":"2026-01-01T00:00:00Z","kind":"accept","node":1,"record":{"tool":"mean"}}` + "\n"))
	f.Add([]byte(`{"seq":1,"kind":"plan","tools":["a","b"]}` + "\n" + `{"seq":2,"kind":"repair","node":2,"tools":["c"]}` + "\n" + `{"seq":3,"kind":"stop","node":1}` + "\n{"))
	f.Fuzz(func(t *testing.T, text []byte) {
		events, whole, err := read(strings.NewReader(string(text)), "j")
		if err != nil {
			return
		}
		if whole > int64(len(text)) || whole > 0 && text[whole-1] != '\n' {
			t.Fatalf("%d of %d bytes are whole lines", whole, len(text))
		}
		if s, err := Replay(events); err == nil && s != nil {
			_ = s.Hash()
		}
	})
}
