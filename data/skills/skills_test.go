package skills

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"terraloom/data"
	"terraloom/data/catalogue"
)

func TestSixSkills(t *testing.T) {
	all := Default()
	if len(all) != 6 {
		t.Fatalf("%d skills, want 6", len(all))
	}
	for _, s := range all {
		if n := len(s.Tools); n < 20 || n > 30 {
			t.Errorf("%s: %d tools", s.Name, n)
		}
	}
}

func TestSkillWithoutAPartFailsToLoad(t *testing.T) {
	good, err := bundled.ReadFile("earth-rgb-perception/SKILL.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, from, to, want string }{
		{"section", "## Repetition", "## Other", `needs a section "## Repetition"`},
		{"name", "name: earth-rgb-perception", "name: rgb", `name: "rgb"`},
		{"unknown tool", "- MSCN\n", "- MSCNN\n", `"MSCNN" is not in the catalogue`},
		{"twice", "- MSCN\n", "- MSCN\n- MSCN\n", `"MSCN" is listed twice`},
		{"too few", "- MSCN\n- RemoteCLIP\n- SM3Det\n- Strip_R_CNN\n- RemoteSAM\n- InstructSAM\n- SAM2\n- ChangeOS\n", "", "tools: 19; a skill has 20 to 30"},
		{"unknown key", "when:", "whenever:", "whenever"},
		{"front matter", "---\n", "", "front matter"},
	} {
		src := strings.Replace(string(good), c.from, c.to, 1)
		if src == string(good) {
			t.Fatalf("%s: the edit changed nothing", c.name)
		}
		_, err := Load(fstest.MapFS{"earth-rgb-perception/SKILL.md": {Data: []byte(src)}}, catalogue.Default())
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.want)
		}
	}
}

func TestRoute(t *testing.T) {
	for q, want := range map[string]string{
		"Detect every tennis court in the image and give the area, GSD 0.1 m":                             "earth-rgb-perception",
		"Compute NDWI of the lake from cloud masked Landsat reflectance and its change":                   "earth-spectral-index",
		"Use the split-window algorithm on Band 31 and Band 32 brightness temperature":                    "earth-brightness-temperature",
		"Derive TVDI from NDVI and LST to map drought":                                                    "earth-acquire-thermal-retrieval",
		"Compare nighttime light intensity of two cities":                                                 "earth-product-statistics",
		"Test the annual series with Mann-Kendall and estimate the trend by linear regression of a slope": "earth-time-series-trend",
	} {
		if s := Route(Default(), q, nil); s.Name != want {
			t.Errorf("%q goes to %s, want %s", q, s.Name, want)
		}
	}
	if s := Route(Default(), "anything", []string{"MSCN", "compute_tvdi"}); s != nil {
		t.Errorf("no skill has both tools, got %s", s.Name)
	}
}

func TestEveryRealTaskHasASkill(t *testing.T) {
	root := os.Getenv("TERRALOOM_SHARED")
	if root == "" {
		root = filepath.Join("..", "..", "..", "shared")
	}
	path := filepath.Join(root, "earth-bench", "question.json")
	if _, err := os.Stat(path); err != nil {
		t.Skipf("the public question file is not here (%s); set TERRALOOM_SHARED", path)
	}
	res, err := data.Import(path, "", data.ImportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]int{}
	for _, seed := range res.Trajectories {
		var tools []string
		for _, s := range seed.Steps {
			r, err := catalogue.Default().Resolve(s.Tool)
			if err != nil {
				t.Fatalf("%s: %v", seed.ID, err)
			}
			if !slices.Contains(tools, r.Tool.Name) {
				tools = append(tools, r.Tool.Name)
			}
		}
		s := Route(Default(), seed.Query, tools)
		if s == nil {
			t.Errorf("%s: no skill covers %v", seed.ID, tools)
			continue
		}
		used[s.Name]++
	}
	t.Log(used)
}
