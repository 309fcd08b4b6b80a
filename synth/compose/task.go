package compose

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"terraloom/data"
	"terraloom/data/catalogue"
	"terraloom/data/strictjson"
	"terraloom/slots/gazetteer"
)

// task is a trajectory under construction with what its steps have brought so far.
type task struct {
	*rand.Rand
	cat   *catalogue.Catalogue
	id    string // folder of the question: question4711
	place string
	dates []string

	downloads bool // the first step downloads; else files are at hand
	bbox      strictjson.Value

	groups  []group            // files, the newest last
	series  []strictjson.Value // lists of numbers
	numbers []strictjson.Value
	boxes   []strictjson.Value

	steps   []data.Step
	clauses []string // of the question, one a step
}

// group is a set of files of one kind, one for each date.
type group struct {
	tag   string
	paths []string
}

// maxSteps follow the acquisition at most.
const maxSteps = 5

func newTask(cat *catalogue.Catalogue, r *rand.Rand) *task {
	places := gazetteer.All()
	p := places[r.IntN(len(places))]
	t := &task{Rand: r, cat: cat, id: fmt.Sprintf("question%d", 100+r.IntN(9900)), place: p.Name, downloads: r.IntN(2) == 0}
	t.bbox = strictjson.List(degrees(p.West), degrees(p.South), degrees(p.East), degrees(p.North))
	year, month, day := 2000+r.IntN(20), 1+r.IntN(12), 1+r.IntN(28)
	unit := r.IntN(3)
	for i := range 1 + r.IntN(5) {
		y, m, d := year, month, day
		switch unit {
		case 0:
			y += i
		case 1:
			y, m = y+(m-1+i)/12, (m-1+i)%12+1
		default:
			d = (d-1+i)%28 + 1
		}
		t.dates = append(t.dates, fmt.Sprintf("%d-%02d-%02d", y, m, d))
	}
	slices.Sort(t.dates)
	return t
}

func degrees(f float64) strictjson.Value {
	return strictjson.Float(float64(int(f*10)) / 10)
}

// trajectory composes the steps and the question.
func (t *task) trajectory(id string) *data.Trajectory {
	first := t.pickFirst()
	t.acquire(first)
	t.step(first)
	for range t.IntN(maxSteps) {
		tools := t.cat.Tools()
		for range 20 { // tries to find a tool for what is at hand
			if t.step(tools[t.IntN(len(tools))]) {
				break
			}
		}
	}
	when := t.dates[0]
	if n := len(t.dates); n > 1 {
		when += " to " + t.dates[n-1]
	}
	query := [...]string{"For %s, %s: %s.", "%s in the period %s: %s.", "Over %s from %s, %s."}[t.IntN(3)]
	inputs := strictjson.Obj(strictjson.Member{Key: "data_path", Value: strictjson.Text(t.folder())})
	if t.downloads {
		inputs = strictjson.Obj(strictjson.Member{Key: "bbox", Value: t.bbox})
	}
	return &data.Trajectory{
		ID: id, SeedID: id, Source: Source, Domain: first.Domains[0],
		Query:  fmt.Sprintf(query, t.place, when, strings.Join(t.clauses, [...]string{", then ", "; ", ", and then "}[t.IntN(3)])),
		Inputs: inputs, Steps: t.steps,
	}
}

// folder is where the files at hand are: that of the question, or that of results.
func (t *task) folder() string {
	if t.downloads {
		return "benchmark/out"
	}
	return "benchmark/data/" + t.id
}

// pickFirst is a tool that reads files: its parameters say which kinds of files there are.
func (t *task) pickFirst() *catalogue.Tool {
	tools := t.cat.Tools()
	for {
		tool := tools[t.IntN(len(tools))]
		if tool.Family == "acquisition" || !slices.ContainsFunc(tool.Params, func(p catalogue.Param) bool { return p.IO == "in" && p.Required() }) {
			continue
		}
		trial := *t
		trial.files(tool)
		if _, _, ok := trial.draw(tool); ok {
			return tool
		}
	}
}

// files makes the groups that a tool reads, and sometimes another.
func (t *task) files(tool *catalogue.Tool) {
	t.groups = nil
	var tags []string
	for _, p := range tool.Params {
		if p.IO == "in" {
			tags = append(tags, tagOf(p.Name, p.Keys)...)
		}
	}
	if len(tags) == 0 || t.IntN(3) == 0 {
		tags = append(tags, commonTags[t.IntN(len(commonTags))])
	}
	extension := ".tif"
	if tool.Family == "perception" {
		extension = [...]string{".png", ".jpg", ".tif"}[t.IntN(3)]
	}
	place := t.place
	if t.downloads || t.IntN(2) == 0 {
		place = strings.ReplaceAll(place, " ", "_")
	}
	dateFirst := !t.downloads && t.IntN(2) == 0
	seen := map[string]bool{}
	for _, tag := range tags {
		if seen[tag] {
			continue
		}
		seen[tag] = true
		g := group{tag: tag}
		for _, date := range t.dates {
			name := place + "_" + tag + "_" + date
			if dateFirst {
				name = place + "_" + date + "_" + tag
			}
			g.paths = append(g.paths, t.folder()+"/"+name+extension)
		}
		t.groups = append(t.groups, g)
	}
}

var commonTags = []string{"NDVI", "LST", "avg_rad", "precipitation", "b4", "b5", "BT10", "NIR", "Red", "albedo", "snow", "NO2", "SM"}

// tagOf is the kind of files that a parameter names: "input_nir_paths" reads nir. It is empty for parameters that read
// any file.
func tagOf(param string, keys []string) []string {
	if len(keys) > 0 {
		return keys
	}
	tag := strings.TrimPrefix(param, "input_")
	for _, suffix := range []string{"_path_list", "_file_list", "_paths", "_path"} {
		tag = strings.TrimSuffix(tag, suffix)
	}
	switch tag {
	case "file_list", "file", "image", "image_path1", "image_path2", "path1", "path2", "paths", "path", "bt":
		return nil
	}
	return []string{tag}
}

// acquire is the first step: the listing of the prepared folder, or a download.
func (t *task) acquire(first *catalogue.Tool) {
	t.files(first)
	var names []string
	for _, g := range t.groups {
		names = append(names, g.paths...)
	}
	slices.Sort(names)
	if list, _ := t.cat.Tool("get_filelist"); !t.downloads {
		for i, name := range names {
			names[i] = name[strings.LastIndexByte(name, '/')+1:]
		}
		t.add(list, strictjson.Obj(strictjson.Member{Key: "dir_path", Value: strictjson.Text(t.folder())}), texts(names), nil)
		return
	}
	download, _ := t.cat.Tool("download_product")
	source := fmt.Sprintf("%s/%03d/%s%d", [...]string{"MODIS", "LANDSAT", "COPERNICUS", "VIIRS"}[t.IntN(4)], t.IntN(100), [...]string{"MOD", "LC", "S", "VNP"}[t.IntN(4)], 1+t.IntN(40))
	var bands []string
	for _, g := range t.groups {
		bands = append(bands, g.tag)
	}
	base := strings.ReplaceAll(t.place, " ", "_")
	args := strictjson.Obj(
		strictjson.Member{Key: "source", Value: strictjson.Text(source)},
		strictjson.Member{Key: "bands", Value: texts(bands)},
		strictjson.Member{Key: "bbox", Value: t.bbox},
		strictjson.Member{Key: "time_range", Value: texts([]string{t.dates[0], t.dates[len(t.dates)-1]})},
		strictjson.Member{Key: "base_save_name", Value: strictjson.Text(base)})
	t.add(download, args, texts(names), []string{"bands " + strings.Join(bands, " and ") + " of " + source, "saved as " + base})
}

func texts(list []string) strictjson.Value {
	values := make([]strictjson.Value, len(list))
	for i, s := range list {
		values[i] = strictjson.Text(s)
	}
	return strictjson.List(values...)
}

// step calls a tool if what is at hand suffices for its arguments.
func (t *task) step(tool *catalogue.Tool) bool {
	if tool.Family == "acquisition" {
		return false
	}
	args, details, ok := t.draw(tool)
	if !ok {
		return false
	}
	observation, ok := t.observe(tool, args)
	if !ok {
		return false
	}
	t.add(tool, args, observation, details)
	return true
}

// add appends a step and its clause of the question: the tool's summary, of which a word is left out now and then, and
// the values that stand nowhere else.
func (t *task) add(tool *catalogue.Tool, args, observation strictjson.Value, details []string) {
	t.steps = append(t.steps, data.Step{Tool: tool.Name, Arguments: args, Observation: observation})
	if tool.Name == "get_filelist" && t.IntN(2) == 0 {
		return // questions seldom ask for it
	}
	words := strings.Fields(strings.TrimSuffix(tool.Summary, "."))
	kept := words[:1:1]
	for _, w := range words[1:] {
		if t.IntN(6) > 0 {
			kept = append(kept, w)
		}
	}
	clause := strings.ToLower(kept[0][:1]) + kept[0][1:]
	if len(kept) > 1 {
		clause += " " + strings.Join(kept[1:], " ")
	}
	if len(details) > 0 {
		clause += " (" + strings.Join(details, ", ") + ")"
	}
	t.clauses = append(t.clauses, clause)
}
