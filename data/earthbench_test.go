package data

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"terraloom/data/strictjson"
)

// The facts below were counted in the published question.json by other means.
func TestImportEarthBenchReal(t *testing.T) {
	path := sharedFile(t, "earth-bench/question.json")
	res := imported(t, path, "", ImportOptions{})
	r := res.Report
	if r.Trajectories != 248 || r.Steps != 1335 || r.Tools != 78 {
		t.Fatalf("%d trajectories, %d calls, %d tools; want 248, 1335, 78", r.Trajectories, r.Steps, r.Tools)
	}
	domains := map[string]int{}
	shortest, longest := 99, 0
	for i, tr := range res.Trajectories {
		domains[tr.Domain]++
		shortest, longest = min(shortest, len(tr.Steps)), max(longest, len(tr.Steps))
		if want := fmt.Sprintf("earth-bench-%d", i+1); tr.ID != want || tr.SeedID != want {
			t.Fatalf("entry %d has the id %s", i+1, tr.ID)
		}
		if got := tr.Inputs.Get("data_path").Text(); i+1 != 173 && got != fmt.Sprintf("benchmark/data/question%d", i+1) {
			t.Errorf("%s: data path %q", tr.ID, got)
		}
		v := mustParse(t, tr.Value().JSON())
		if back, err := DecodeTrajectory(v); err != nil || !back.Value().Equal(tr.Value()) {
			t.Errorf("%s does not come back: %v", tr.ID, err)
		}
	}
	if domains["spectrum"] != 100 || domains["products"] != 88 || domains["rgb"] != 60 || shortest != 2 || longest != 19 {
		t.Errorf("domains %v, %d to %d steps", domains, shortest, longest)
	}

	counts := map[string]int{}
	for _, c := range r.Counts {
		counts[c.Name] = c.Count
	}
	for kind, want := range map[string]int{
		MissingObservation: 4, OrphanObservation: 1, MisnamedToolTurn: 1, CallType: 1, MissingAnswer: 4, OtherAnswer: 8,
		EvaluationOrder: 60, IntegerChoices: 15, NoChoices: 2, ListedAnswer: 5, NullInList: 1, OtherSubject: 2, UnequalLists: 9,
		FileAsDataPath: 1, DataSentence: 78,
	} {
		if counts[kind] != want {
			t.Errorf("%s: %d, want %d", kind, counts[kind], want)
		}
	}
	for kind, want := range map[string]string{
		MissingObservation: "6[12] 8[3] 10[4] 14[14]", MissingAnswer: "110[-1] 125[-1] 182[-1] 183[-1]", OrphanObservation: "155[0]",
		MisnamedToolTurn: "14[12]", CallType: "80[3]", NullInList: "3[3]", OtherSubject: "14[-1] 63[-1]",
		ListedAnswer: "211[-1] 212[-1] 213[-1] 214[-1] 215[-1]", NoChoices: "163[-1] 173[-1]",
		OtherAnswer:  "211[-1] 213[-1] 227[-1] 232[-1] 234[-1] 240[-1] 241[-1] 246[-1]",
		UnequalLists: "1[1] 6[1] 12[1] 18[1] 34[1] 43[1] 44[1] 57[1] 88[1]", OuterBlanks: "28[-1] 60[1] 72[-1] 84[-1] 209[-1]",
		RepeatedItems: "45[1] 64[1] 64[2] 90[1]", AbsolutePath: "121[0] 121[1] 165[0] 165[1] 165[2]",
	} {
		var places []string
		for _, i := range r.Of(kind) {
			places = append(places, fmt.Sprintf("%s[%d]", strings.TrimPrefix(i.SeedID, "earth-bench-"), i.Step))
		}
		if got := strings.Join(places, " "); got != want {
			t.Errorf("%s at %s, want %s", kind, got, want)
		}
	}
	for _, kind := range []string{NumberInText, BooleanInText, TextLiteral, DeclaredType, OtherEntryPath, ResultCount} {
		if counts[kind] == 0 {
			t.Errorf("%s is not reported", kind)
		}
	}

	at := func(n, step int, pointer string) string {
		v, ok := stepValue(res.Trajectories[n-1].Steps[step]).At(pointer)
		if !ok {
			return "nothing"
		}
		return v.JSON()
	}
	for _, c := range []struct{ got, want string }{
		{at(10, 4, "/arguments/a"), `"290.94"`},
		{at(4, 2, "/observation"), `"14.98%"`},
		{at(10, 4, "/observation"), "nothing"},
		{at(3, 3, "/arguments/values/3"), "null"},
		{at(213, 3, "/arguments/gsd"), "0.13"},
		{at(40, 3, "/arguments/verbose"), `"false"`},
		{res.Trajectories[155-1].Steps[1].Tool, "calc_batch_image_hotspot_percentage"},
		{res.Trajectories[173-1].Answer.Get("number").JSON(), "-15.950"},
		{res.Trajectories[163-1].Answer.JSON(), `{"text":"0.408","number":0.408}`},
		{res.Trajectories[189-1].Answer.JSON(), `{"letter":"A","text":"3"}`},
		{res.Trajectories[72-1].Provenance.Get("choices").Index(3).JSON(), `"55.97% "`},
		{res.Trajectories[213-1].Answer.Get("letter").JSON(), `"D"`},
	} {
		if c.got != c.want {
			t.Errorf("got %s, want %s", c.got, c.want)
		}
	}
}

// stepValue is the step as a one-step trajectory spells it.
func stepValue(s Step) strictjson.Value {
	t := Trajectory{Steps: []Step{s}}
	return t.Value().Get("steps").Index(0)
}

func TestImportEarthBenchRealRegimes(t *testing.T) {
	path := sharedFile(t, "earth-bench/question.json")
	for regime, provenance := range map[string]string{"if": "question_if", "ap": "question_ap"} {
		for _, tr := range imported(t, path, "", ImportOptions{Regime: regime}).Trajectories {
			if want := strings.TrimSpace(tr.Provenance.Get(provenance).Text()); tr.Query != want || tr.Regime != regime {
				t.Errorf("%s %s: another text than that of its type", regime, tr.ID)
			}
		}
	}
	asIF, asAP := 0, 0
	for _, tr := range imported(t, path, "", ImportOptions{Regime: "user"}).Trajectories {
		moved := slices.Contains([]string{"earth-bench-14", "earth-bench-63"}, tr.ID)
		if (tr.Regime == "ap") != moved {
			t.Errorf("%s: regime %q", tr.ID, tr.Regime)
		}
		if strings.Contains(tr.Query, "The relevant data is stored") {
			t.Errorf("%s: the data sentence is still there", tr.ID)
		}
		if moved {
			continue
		}
		if tr.Query == strings.TrimSpace(tr.Provenance.Get("question_if").Text()) {
			asIF++
		}
		if tr.Query == strings.TrimSpace(tr.Provenance.Get("question_ap").Text()) {
			asAP++
		}
	}
	if asIF < 117 || asAP < 43 {
		t.Errorf("%d user turns equal the instruction-following text, %d the planning text; want about 118 and 44", asIF, asAP)
	}
}
