package synth

import (
	"cmp"
	"maps"
	"slices"
	"sort"
	"strings"

	"terraloom/data"
	"terraloom/slots"
	"terraloom/slots/gazetteer"
)

// Seeds whose questions are at least this similar, places and dates aside, stay
// in one split, as do seeds that work on the same files.
const seedSimilarity = 0.6

// share of the seeds that validation and test get each.
const heldOut = 0.1

// component is a set of seeds that must not be parted: near-duplicates of each
// other. Members are in the order of the input.
type component struct {
	seeds []*data.Trajectory
	split string
}

// components groups the seeds and gives each group its split. The order of the
// result, by the first member's place in the input, is the order of the rows.
func components(seeds []*data.Trajectory, seed uint64) []component {
	parent := make([]int, len(seeds))
	for i := range parent {
		parent[i] = i
	}
	var find func(i int) int
	find = func(i int) int {
		if parent[i] != i {
			parent[i] = find(parent[i])
		}
		return parent[i]
	}
	union := func(i, j int) {
		i, j = find(i), find(j)
		parent[max(i, j)] = min(i, j)
	}
	shingles := make([]map[string]bool, len(seeds))
	files := map[string]int{}
	for i, t := range seeds {
		shingles[i] = shingleSet(template(t.Query))
		for j := range i {
			if jaccard(shingles[i], shingles[j]) >= seedSimilarity {
				union(i, j)
			}
		}
		if key := listing(t); key != "" {
			if j, ok := files[key]; ok {
				union(i, j)
			} else {
				files[key] = i
			}
		}
	}
	at := map[int]int{}
	var comps []component
	for i, t := range seeds {
		root := find(i)
		k, ok := at[root]
		if !ok {
			k = len(comps)
			at[root] = k
			comps = append(comps, component{})
		}
		comps[k].seeds = append(comps[k].seeds, t)
	}
	assign(comps, seed)
	return comps
}

// assign fills test and validation with the components that a hash of their
// first seed puts in front, each domain in proportion; the rest trains.
func assign(comps []component, seed uint64) {
	byDomain := map[string][]int{}
	total := map[string]int{}
	seeds := 0
	for i := range comps {
		d := comps[i].seeds[0].Domain
		byDomain[d] = append(byDomain[d], i)
		total[d] += len(comps[i].seeds)
		seeds += len(comps[i].seeds)
	}
	quota := quotas(total, int(float64(seeds)*heldOut+0.5))
	for d, order := range byDomain {
		slices.SortFunc(order, func(i, j int) int {
			a, _ := stream(seed, "split "+comps[i].seeds[0].ID, 0, 0)
			b, _ := stream(seed, "split "+comps[j].seeds[0].ID, 0, 0)
			return cmp.Or(cmp.Compare(a, b), cmp.Compare(i, j))
		})
		room := map[string]int{"test": quota[d], "validation": quota[d]}
		for _, i := range order {
			comps[i].split = "train"
			n := len(comps[i].seeds)
			for _, s := range [...]string{"test", "validation"} {
				if n <= room[s] {
					comps[i].split = s
					room[s] -= n
					break
				}
			}
		}
	}
}

// quotas shares n seats among the domains by largest remainder.
func quotas(total map[string]int, n int) map[string]int {
	all := 0
	for _, t := range total {
		all += t
	}
	domains := slices.Sorted(maps.Keys(total))
	quota := map[string]int{}
	given := 0
	for _, d := range domains {
		quota[d] = total[d] * n / all
		given += quota[d]
	}
	slices.SortStableFunc(domains, func(a, b string) int {
		return cmp.Compare(total[b]*n%all, total[a]*n%all)
	})
	for _, d := range domains[:n-given] {
		quota[d]++
	}
	return quota
}

// template is a question with its places, dates and numbers left open: questions
// that differ in these alone make the same instances.
func template(query string) string {
	var b strings.Builder
	at := 0
	cut := func(start, end int, word string) {
		if start >= at {
			b.WriteString(query[at:start])
			b.WriteString(word)
			at = end
		}
	}
	places, dates := gazetteer.Find(query), slots.FindDates(query)
	for len(places)+len(dates) > 0 {
		if len(dates) == 0 || len(places) > 0 && places[0].Start < dates[0].Start {
			cut(places[0].Start, places[0].End, "place")
			places = places[1:]
		} else {
			cut(dates[0].Start, dates[0].End, "date")
			dates = dates[1:]
		}
	}
	b.WriteString(query[at:])
	return b.String()
}

// listing identifies the dated files a seed works on; "" where it has none.
func listing(t *data.Trajectory) string {
	var names []string
	for i := range t.Steps {
		o := t.Steps[i].Observation
		if t.Steps[i].Tool != "get_filelist" {
			continue
		}
		for j := range o.Len() {
			names = append(names, strings.TrimSpace(o.Index(j).Text()))
		}
	}
	if len(names) < 2 || t.Domain == "rgb" {
		return ""
	}
	sort.Strings(names)
	return strings.Join(names, "\n")
}

func shingleSet(s string) map[string]bool {
	w := words(s)
	set := map[string]bool{}
	n := min(shingle, len(w))
	for i := 0; i+n <= len(w); i++ {
		set[strings.Join(w[i:i+n], " ")] = true
		if n == 0 {
			break
		}
	}
	return set
}

func jaccard(a, b map[string]bool) float64 {
	both := 0
	for k := range a {
		if b[k] {
			both++
		}
	}
	if len(a)+len(b) == 0 {
		return 1
	}
	return float64(both) / float64(len(a)+len(b)-both)
}

// shardOf returns the components of one shard: contiguous runs of about equal
// numbers of seeds, so that shards in order are the whole run.
func shardOf(comps []component, s Shard) []component {
	total := 0
	for i := range comps {
		total += len(comps[i].seeds)
	}
	lo, hi := total*s.Index/s.Count, total*(s.Index+1)/s.Count
	var out []component
	seen := 0
	for i := range comps {
		if seen >= lo && seen < hi {
			out = append(out, comps[i])
		}
		seen += len(comps[i].seeds)
	}
	return out
}
