package seeds

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"terraloom/agent/archive"
	"terraloom/data/catalogue"
	"terraloom/data/skills"
	"terraloom/data/strictjson"
)

// DATA-5, DATA-8: one seed for each task core, in the domain of its number.
func TestOneSeedForEachCore(t *testing.T) {
	count := map[string]int{}
	have := bundled(t, "")
	for n := 1; n <= cores; n++ {
		s := have[ID(n)]
		if s == nil {
			t.Errorf("core %d has no seed", n)
			continue
		}
		if s.Domain != domainOf(n) {
			t.Errorf("%s is of the domain %s", s.ID, s.Domain)
		}
		count[s.Domain]++
	}
	if len(have) != cores || count["spectrum"] != 100 || count["products"] != 88 || count["rgb"] != 60 {
		t.Errorf("%d seeds: %v", len(have), count)
	}
}

// Every call binds to its tool's schema, the skill allows it, and the arguments
// that come from earlier steps say so.
func TestBundledCallsAreValid(t *testing.T) {
	cat := catalogue.Default()
	bySkill := map[string]*skills.Skill{}
	for _, k := range skills.Default() {
		bySkill[k.Name] = k
	}
	for id, s := range bundled(t, "") {
		k := bySkill[s.Skill]
		if k == nil {
			t.Errorf("%s: skill %q is not bundled", id, s.Skill)
			continue
		}
		downloads := 0
		for i, st := range s.Steps {
			tool, ok := cat.Tool(st.Tool)
			if !ok {
				t.Errorf("%s step %d: %s is not in the catalogue", id, i, st.Tool)
				continue
			}
			if _, err := tool.Bind(st.Arguments); err != nil {
				t.Errorf("%s step %d: %v", id, i, err)
			}
			if !k.Covers([]string{st.Tool}) {
				t.Errorf("%s step %d: %s does not allow %s", id, i, k.Name, st.Tool)
			}
			if st.Tool == "download_product" {
				downloads++
			}
			if missing(st.Observation) || st.Observation.IsAbsent() {
				t.Errorf("%s step %d: a part of the observation is missing", id, i)
			}
			acquires := st.Tool == "download_product" || st.Tool == "get_filelist"
			counts := st.Tool == "index_to_date_range" // an index is too small a number to trace
			if !acquires && !counts && len(st.Uses) == 0 {
				t.Errorf("%s step %d (%s) uses nothing that was observed before", id, i, st.Tool)
			}
		}
		first := s.Steps[0].Tool
		switch {
		case s.Domain == "rgb" && (first != "get_filelist" || downloads > 0):
			t.Errorf("%s: pictures are listed, not downloaded", id)
		case s.Domain != "rgb" && (first != "download_product" || downloads > 3):
			t.Errorf("%s: it begins with %s and downloads %d times; 1 to 3 are meant", id, first, downloads)
		}
	}
}

// DATA-6: three questions, one answer, one workflow. The instruction names the
// tools in order; the request names no product and no file.
func TestRegimes(t *testing.T) {
	ow, ap, instruction := bundled(t, "ow"), bundled(t, "ap"), bundled(t, "if")
	for id, s := range ow {
		a, f := ap[id], instruction[id]
		if a.Answer.JSON() != s.Answer.JSON() || f.Answer.JSON() != s.Answer.JSON() || len(a.Steps) != len(s.Steps) || len(f.Steps) != len(s.Steps) {
			t.Errorf("%s: the regimes differ in more than the question", id)
		}
		if s.Query == a.Query || a.Query == f.Query || !strings.HasPrefix(f.Query, a.Query) {
			t.Errorf("%s: the questions are not three", id)
		}
		rest := f.Query[len(a.Query):]
		for i, st := range s.Steps {
			at := strings.Index(rest, "with "+st.Tool)
			if at < 0 {
				t.Errorf("%s: the instruction does not name step %d, %s, in its place", id, i, st.Tool)
				break
			}
			rest = rest[at+len(st.Tool):]
		}
		if strings.Contains(s.Query, ".tif") || strings.Contains(s.Query, "question") && s.Domain != "rgb" {
			t.Errorf("%s: the request names prepared files: %s", id, s.Query)
		}
		for _, p := range archive.Products() {
			if strings.Contains(s.Query, p.ID) {
				t.Errorf("%s: the request names the product %s", id, p.ID)
			}
		}
		for _, q := range []string{s.Query, a.Query} {
			if strings.ContainsAny(q, "{}") || len(q) < 40 || len(q) > 700 || !strings.HasSuffix(q, ".") && !strings.HasSuffix(q, "?") {
				t.Errorf("%s: not a whole question: %q", id, q)
			}
		}
	}
}

// What a solver is given and what the answer must rest on are stated.
func TestInputsAndCoverage(t *testing.T) {
	for id, s := range bundled(t, "") {
		if s.Inputs.Get("required").Text() == "" || s.Provenance.Get("prepared").Get("required").Text() == "" {
			t.Errorf("%s: the required output is not stated", id)
		}
		numbers := strings.ContainsAny(s.Answer.Get("text").Text(), "0123456789")
		if x, ok := s.Provenance.Get("tolerance").Float(); numbers != (ok && x > 0 && s.Provenance.Get("unit").Kind() == strictjson.String) {
			t.Errorf("%s: numbers need a unit and a tolerance, words have none: %s", id, s.Answer.JSON())
		}
		coverage := s.Provenance.Get("coverage")
		files := 0.0
		for i := range coverage.Len() {
			n, _ := coverage.Index(i).Get("files").Float()
			files += n
		}
		if files < 1 {
			t.Errorf("%s: the required coverage is empty", id)
		}
		if s.Domain == "rgb" {
			continue
		}
		if coverage.Len() != s.Provenance.Get("prepared").Get("acquisitions").Len() {
			t.Errorf("%s: coverage and acquisitions differ", id)
		}
		for i := range coverage.Len() {
			c := coverage.Index(i)
			var b [4]float64
			for k := range b {
				b[k], _ = c.Get("bbox").Index(k).Float()
			}
			if !(b[0] < b[2] && b[1] < b[3]) {
				t.Errorf("%s: bbox %v", id, b)
			}
		}
	}
}

// prepares are the steps that stand for the listing of prepared files.
var prepares = map[string]bool{"get_filelist": true, "download_product": true, "apply_scale_offset": true, "extract_brightness_temperature": true}

// operations are the analysis operations of a tool sequence.
func operations(names []string) []string {
	var out []string
	for _, n := range names {
		if r, err := catalogue.Default().Resolve(n); err == nil {
			n = r.Tool.Name
		}
		if !prepares[n] {
			out = append(out, n)
		}
	}
	return out
}

// DATA-8: the operations of a seed are those of its task core, in the same order.
func TestOrderOfOperations(t *testing.T) {
	public := publicCores(t)
	have := bundled(t, "")
	for n := 1; n <= cores; n++ {
		s := have[ID(n)]
		if s == nil {
			continue // TestOneSeedForEachCore tells
		}
		var own, want []string
		for _, st := range s.Steps {
			own = append(own, st.Tool)
		}
		for _, d := range public[fmt.Sprint(n)].Dialogs {
			for _, c := range d.Calls {
				want = append(want, c.Function.Name)
			}
		}
		if a, b := fmt.Sprint(operations(own)), fmt.Sprint(operations(want)); a != b {
			t.Errorf("%s: operations %s, the core has %s", s.ID, a, b)
		}
	}
}

var wordOf = regexp.MustCompile(`[a-z0-9]+`)

// shingles are the runs of n words of a text.
func shingles(text string, n int) []string {
	w := wordOf.FindAllString(strings.ToLower(text), -1)
	var out []string
	for i := 0; i+n <= len(w); i++ {
		out = append(out, strings.Join(w[i:i+n], " "))
	}
	return out
}

// No wording of the public data set is reused: no run of eight words is shared.
func TestNoWordingIsCopied(t *testing.T) {
	const run = 8
	public := map[string]string{}
	for n, c := range publicCores(t) {
		var texts []string
		for _, e := range c.Evaluation {
			texts = append(texts, e.Question)
		}
		for _, d := range c.Dialogs {
			texts = append(texts, string(d.Content))
		}
		for _, text := range texts {
			for _, s := range shingles(text, run) {
				public[s] = n
			}
		}
	}
	for id, s := range bundled(t, "") {
		for _, text := range []string{s.Query, s.Provenance.Get("question_if").Text(), s.Provenance.Get("question_ap").Text(), s.Provenance.Get("objective").Text()} {
			for _, sh := range shingles(text, run) {
				if n, ok := public[sh]; ok {
					t.Errorf("%s shares %q with core %s", id, sh, n)
				}
			}
		}
	}
}
