package synth

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"terraloom/data"
)

// question is a seed that asks q about its own two files.
func question(t testing.TB, id, domain, q string) *data.Trajectory {
	return seedOf(t, fmt.Sprintf(`{"id":%[1]q,"seed_id":%[1]q,"source":"own","domain":%[2]q,"query":%[3]q,"steps":[
		{"tool":"get_filelist","arguments":{"dir_path":"d"},"observation":["%[1]s_2020-01-01.tif","%[1]s_2020-01-02.tif"]}]}`, id, domain, q))
}

// D14: seeds whose questions differ in place, date or a word stay in one split.
func TestD14NearDuplicateSeedsStayTogether(t *testing.T) {
	seeds := []*data.Trajectory{
		question(t, "a", "products", "What was the mean night light radiance of Nairobi in the year 2015, taken over all the monthly composites?"),
		question(t, "b", "products", "Count the ships in this harbour picture and give the longest distance between any two of them."),
		question(t, "c", "products", "What was the mean night light radiance of Lima in the year 2019, taken over all the monthly composites?"),
		question(t, "d", "products", "How much snow was lost on the glacier between the two dates, as a share of its first extent?"),
		question(t, "e", "products", "What was the mean night light radiance of Cairo in the year 2019, taken over all monthly composites?"),
	}
	comps := components(seeds, 7)
	var groups []string
	for _, c := range comps {
		ids := ""
		for _, s := range c.seeds {
			ids += s.ID
		}
		groups = append(groups, ids)
	}
	if !slices.Equal(groups, []string{"ace", "b", "d"}) {
		t.Errorf("groups %v", groups)
	}
	// Seeds that work on the same files stay together, whatever they ask.
	x, y := question(t, "x", "products", "Which of the two days was warmer?"), question(t, "y", "products", "Map the hot spots of both days.")
	y.Steps = x.Steps
	if comps := components([]*data.Trajectory{x, y}, 7); len(comps) != 1 {
		t.Errorf("two seeds on the same files are in %d groups", len(comps))
	}
	x.Domain, y.Domain = "rgb", "rgb" // pictures are often called A.jpg
	if comps := components([]*data.Trajectory{x, y}, 7); len(comps) != 2 {
		t.Errorf("two rgb seeds with the same file names are in %d groups", len(comps))
	}
}

func TestTemplateLeavesPlacesAndDatesOpen(t *testing.T) {
	for _, test := range []struct{ query, want string }{
		{"How warm was Nairobi on July 12, 2022?", "How warm was place on date?"},
		{"How warm was Nairobi?", "How warm was place?"},
		{"2020-01-05 or 2021?", "date or date?"},
		{"How warm is it?", "How warm is it?"},
	} {
		if got := template(test.query); got != test.want {
			t.Errorf("%q gives %q, want %q", test.query, got, test.want)
		}
	}
}

func TestQuotasAreProportionalAndExact(t *testing.T) {
	for _, test := range []struct {
		total map[string]int
		n     int
		want  map[string]int
	}{
		{map[string]int{"a": 100, "b": 88, "c": 60}, 25, map[string]int{"a": 10, "b": 9, "c": 6}},
		{map[string]int{"a": 4, "b": 4}, 1, map[string]int{"a": 1, "b": 0}},
		{map[string]int{"a": 3}, 0, map[string]int{"a": 0}},
		{map[string]int{}, 0, map[string]int{}},
	} {
		if got := quotas(test.total, test.n); !maps.Equal(got, test.want) {
			t.Errorf("%d seats for %v: %v, want %v", test.n, test.total, got, test.want)
		}
	}
}

// DATA-19: 80/10/10 by seed, each domain in proportion, no group parted, the
// same for every run of the same seed and other for another.
func TestRealSplits(t *testing.T) {
	seeds := realSeeds(t)
	comps := components(seeds, 7)
	count := map[string]map[string]int{}
	splitOf := map[string]string{}
	for _, c := range comps {
		for _, s := range c.seeds {
			if count[s.Domain] == nil {
				count[s.Domain] = map[string]int{}
			}
			count[s.Domain][c.split]++
			if _, twice := splitOf[s.ID]; twice {
				t.Errorf("%s is in two groups", s.ID)
			}
			splitOf[s.ID] = c.split
		}
	}
	total := map[string]int{}
	for domain, want := range map[string]int{"spectrum": 100, "products": 88, "rgb": 60} {
		n := 0
		for split, k := range count[domain] {
			n, total[split] = n+k, total[split]+k
			if split != "train" && (k*100 < want*8 || k*100 > want*12) {
				t.Errorf("%s has %d of %d %s seeds", split, k, want, domain)
			}
		}
		if n != want {
			t.Errorf("%d %s seeds", n, domain)
		}
	}
	if total["train"] != 198 || total["validation"] != 25 || total["test"] != 25 {
		t.Errorf("splits %v", total)
	}
	// Every pair of near-duplicate questions, found again, is in one split.
	for i, a := range seeds {
		for _, b := range seeds[:i] {
			if jaccard(shingleSet(template(a.Query)), shingleSet(template(b.Query))) >= seedSimilarity && splitOf[a.ID] != splitOf[b.ID] {
				t.Errorf("%s and %s ask nearly the same and are in %s and %s", a.ID, b.ID, splitOf[a.ID], splitOf[b.ID])
			}
		}
		if i == 60 {
			break // the rest says no more and takes seconds
		}
	}
	same, moved := true, false
	for _, c := range components(seeds, 7) {
		same = same && splitOf[c.seeds[0].ID] == c.split
	}
	for _, c := range components(seeds, 8) {
		moved = moved || splitOf[c.seeds[0].ID] != c.split
	}
	if !same || !moved {
		t.Errorf("the same seed splits the same: %v, another seed differently: %v", same, moved)
	}
}

func TestShardsPartition(t *testing.T) {
	comps := []component{{seeds: make([]*data.Trajectory, 3)}, {seeds: make([]*data.Trajectory, 1)}, {seeds: make([]*data.Trajectory, 5)}, {seeds: make([]*data.Trajectory, 2)}}
	for n := 1; n <= 14; n++ {
		var sizes []int
		for i := range n {
			for _, c := range shardOf(comps, Shard{i, n}) {
				sizes = append(sizes, len(c.seeds))
			}
		}
		if !slices.Equal(sizes, []int{3, 1, 5, 2}) {
			t.Errorf("%d shards hold groups of %v", n, sizes)
		}
	}
}
