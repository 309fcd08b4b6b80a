package gazetteer

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// benchNames are the place spellings at the start of Earth-Bench file names.
var benchNames = map[string]string{
	"Alps": "European Alps", "Aracaju": "Aracaju", "Arctic": "Arctic Ocean", "arctic": "Arctic Ocean", "Arctic_Ocean": "Arctic Ocean",
	"baikal": "Lake Baikal", "Baltic Sea": "Baltic Sea", "Beijing": "Beijing", "Bhutan": "Bhutan", "Boston": "Boston", "Burns": "Burns",
	"cairns": "Cairns", "California": "California", "Canadian Rockies": "Canadian Rockies", "CanadianRockies": "Canadian Rockies",
	"Cape Town": "Cape Town", "Central California": "Central California", "Central-California": "Central California", "Central Valley": "Central Valley",
	"Chengdu": "Chengdu", "Chicago": "Chicago", "Colima": "Colima", "Congo": "Congo Rainforest", "Congo Basin": "Congo Basin",
	"cooktown": "Cooktown", "Coral_Gables": "Coral Gables", "Cyprus": "Cyprus", "Dead Sea": "Dead Sea", "Dead_Sea": "Dead Sea",
	"Death Valley": "Death Valley National Park", "dongting": "Dongting Lake", "Dongting Lake": "Dongting Lake", "Durban": "Durban",
	"European Alps": "European Alps", "Ganges River": "Ganges River Basin", "Gazelle": "Gazelle", "geneva": "Lake Geneva", "Geneva-Lake": "Lake Geneva",
	"Germany": "Germany", "great_lakes": "Great Lakes", "Greenland": "Greenland", "Guangzhou": "Guangzhou", "Hebei": "Hebei", "Hibbing": "Hibbing",
	"Himalayas": "Himalayas", "Indian": "Wind River Indian Reservation", "Juba": "Juba", "Lake Baikal": "Lake Baikal",
	"Lake Balkhash": "Lake Balkhash", "Lake_Balkhash": "Lake Balkhash", "Lake Champlain": "Lake Champlain", "Lake_Champlain": "Lake Champlain",
	"Lake Ontario": "Lake Ontario", "lakeUrmia": "Lake Urmia", "Leon": "Leon", "Lima": "Lima", "London": "London", "Los_Angeles": "Los Angeles",
	"los_angeles": "Los Angeles", "Mediterranean Sea": "Mediterranean Sea", "Mtwara": "Mtwara", "Mumbai": "Mumbai", "New South Wales": "New South Wales",
	"New York": "New York", "North American Great": "Great Plains", "Northeast Plain": "Northeast Plain", "Okavango Delta": "Okavango Delta",
	"Paris": "Paris", "Reykholt": "Reykholt", "Reykjavik": "Reykjavik", "Rome": "Rome", "Rosario": "Rosario", "Sahara": "Sahara Desert",
	"Sahara Desert": "Sahara Desert", "Sahel": "Sahel", "Santiago_de_Chile": "Santiago", "Seoul": "Seoul", "Shanghai": "Shanghai",
	"shanghai": "Shanghai", "Shennongjia": "Shennongjia", "Sichuan": "Sichuan", "Singapore": "Singapore", "somerville": "Somerville Lake",
	"taihu": "Taihu Lake", "Taihu Lake": "Taihu Lake", "Taklamakan": "Taklamakan Desert", "Taklimakan": "Taklamakan Desert",
	"Thailand": "Thailand", "thailand": "Thailand", "the_great_lake": "Great Lakes", "Tianshan": "Tianshan Mountains",
	"Tianshan Mountains": "Tianshan Mountains", "Tibetan Plateau": "Tibetan Plateau", "Tibetan-Plateau": "Tibetan Plateau",
	"TibetanPlateau": "Tibetan Plateau", "Turpan": "Turpan", "Venice": "Venice", "Whitehorse": "Whitehorse", "Wuhan": "Wuhan",
	"XilinGolGrassland": "Xilingol Grassland", "Xinjiang": "Xinjiang", "Yangtze": "Yangtze River Delta", "yangtze": "Yangtze River Delta",
	"Yellow River basin": "Yellow River Basin", "Yellowstone National Park": "Yellowstone National Park",
}

// benchTexts are the questions (1–188) whose texts are about a place. Those
// missing here name none.
var benchTexts = map[string][]int{
	"Aracaju": {101}, "Arctic Ocean": {182, 183, 184, 185}, "Australian Outback": {29, 74}, "Baltic Sea": {143}, "Barcelona": {30, 75},
	"Beijing": {44, 89}, "Bhutan": {146}, "Black Forest": {10, 55}, "Boston": {111}, "Burns": {115}, "Cairns": {144},
	"California": {45, 90, 160, 161, 162}, "Canadian Rockies": {130}, "Cape Town": {127}, "Central California": {40, 83, 85},
	"Central Valley": {5, 43, 50, 88, 92}, "Chengdu": {4, 49}, "Chengdu Plain": {2, 47}, "Chicago": {9, 54, 140}, "Colima": {111},
	"Congo Basin": {128}, "Congo Rainforest": {145}, "Cooktown": {144}, "Coral Gables": {107}, "Cyprus": {41, 86}, "Dead Sea": {136, 141},
	"Death Valley National Park": {7, 52}, "Dongting Lake": {124}, "Durban": {106}, "European Alps": {133}, "Ganges Delta": {14, 59},
	"Ganges River Basin": {37, 82}, "Gazelle": {176}, "Great Lakes": {158, 159}, "Great Plains": {36, 81},
	"Greenland": {163, 164, 165, 166, 167, 168}, "Guangdong": {19, 64}, "Guangzhou": {34, 79}, "Hangzhou": {17, 62}, "Hebei": {33, 78},
	"Hibbing": {116}, "Himalayas": {131}, "Juba": {115}, "Lake Baikal": {123}, "Lake Balkhash": {135}, "Lake Champlain": {134},
	"Lake Geneva": {125}, "Lake Ontario": {137}, "Lake Urmia": {155, 156, 157}, "Lake Van": {154, 155}, "Leon": {112}, "Lima": {101},
	"Loess Plateau": {18, 63, 96}, "London": {105, 138}, "Los Angeles": {21, 22, 25, 66, 67, 148, 149}, "Mediterranean Sea": {142},
	"Mtwara": {114}, "Mumbai": {102}, "Murray-Darling Basin": {12, 57}, "New South Wales": {126}, "New York": {6, 51, 93, 94, 99, 100},
	"North China Plain": {20, 65, 97}, "Northeast Plain": {109}, "Okavango Delta": {8, 53}, "Paris": {28, 66, 73, 103},
	"Reykholt": {173, 174, 175, 176}, "Reykjavik": {139}, "Rome": {140}, "Rosario": {108},
	"Sahara Desert": {13, 14, 23, 38, 39, 58, 60, 68, 84, 118}, "Sahel": {42, 87}, "Santiago": {114}, "Seoul": {104}, "Shanghai": {186, 187, 188},
	"Shennongjia": {119}, "Singapore": {121}, "Somerville Lake": {169, 170, 171, 172}, "Taihu Lake": {122},
	"Taklamakan Desert": {31, 76, 150, 151}, "Thailand": {177, 178, 179, 180, 181}, "Tianshan Mountains": {132}, "Tibetan Plateau": {15, 110, 129},
	"Tokyo": {11, 56}, "Turpan": {16, 32, 61, 77, 95}, "Urumqi": {1, 46, 69, 70, 157}, "Venice": {103}, "Whitehorse": {117},
	"Wind River Indian Reservation": {152, 153}, "Wuhan": {35, 80}, "Xilingol Grassland": {120}, "Yangtze River Delta": {147},
	"Yellow River Basin": {3, 48, 91, 98}, "Yellowstone National Park": {113},
}

// Fields of the place of a text that the text mentions too.
var benchFields = map[string][]int{
	"Xinjiang/admin": {1, 16, 32, 46, 61, 69, 70, 77, 95}, "Sichuan Province/admin": {2}, "California/admin": {5, 43, 50, 88, 92},
	"China/country": {2, 44, 89, 109, 147}, "U.S./country": {5, 50, 92}, "USA/country": {160, 161, 162}, "Germany/country": {10, 55},
	"Australia/country": {12, 57, 126}, "Algeria/country": {23, 68, 118}, "France/country": {66}, "Iceland/country": {139},
	"Tamanrasset/near": {23, 68}, "Hotan/near": {31, 76}, "Mediterranean/sea": {30, 41, 75, 86}, "Africa/continent": {128},
}

// noPlace is how the file names without a place start: with a date or a variable.
var noPlace = regexp.MustCompile(`^(\d|ATI|BT|LST|NBR|NDWI|QA_PIXEL|SR_B|change_map|combined|fire_|hotspot_|lst|nbr|ndsi|ndti|ntu|ndvi|pwv|sur_refl|tvdi|cloud|Difference map)`)

type benchItem struct {
	Dialogs []struct {
		Role    string
		Content any
		Calls   []struct {
			Function struct{ Arguments any }
		} `json:"tool_calls"`
	}
	Evaluation []struct{ Question string }
	Choices    any
}

// earthBench reads question.json from the shared folder.
func earthBench(t *testing.T) map[string]benchItem {
	t.Helper()
	shared := os.Getenv("TERRALOOM_SHARED")
	if shared == "" {
		root, err := os.Getwd()
		if err != nil {
			t.Fatal(err)
		}
		for {
			if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
				break
			}
			if root == filepath.Dir(root) {
				t.Fatal("no go.mod above the package")
			}
			root = filepath.Dir(root)
		}
		shared = filepath.Join(root, "..", "shared")
	}
	file := filepath.Join(shared, "earth-bench", "question.json")
	raw, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		t.Skipf("%s is missing; set TERRALOOM_SHARED to the folder that has earth-bench/question.json", file)
	}
	if err != nil {
		t.Fatal(err)
	}
	var items map[string]benchItem
	if err := json.Unmarshal(raw, &items); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return items
}

// eachString calls f with every string of a JSON value.
func eachString(v any, f func(string)) {
	switch v := v.(type) {
	case string:
		f(v)
	case []any:
		for _, x := range v {
			eachString(x, f)
		}
	case map[string]any:
		for _, x := range v {
			eachString(x, f)
		}
	}
}

// Every file name of a Spectrum or Products trajectory either starts with a
// known spelling of a place, which Find reads as just that, or with no place.
func TestEarthBenchFileNames(t *testing.T) {
	items := earthBench(t)
	used := map[string]bool{}
	with := 0
	for n := 1; n <= 188; n++ {
		checked := map[string]bool{}
		placed := false
		check := func(s string) {
			s = strings.TrimSpace(s)
			name := path.Base(strings.ReplaceAll(s, `\`, "/"))
			if checked[s] || len(s) > 150 || !strings.Contains(name, ".tif") || noPlace.MatchString(name) {
				return
			}
			checked[s] = true
			token := ""
			for k := range benchNames {
				if strings.HasPrefix(name, k) && len(k) > len(token) {
					token = k
				}
			}
			if token == "" {
				t.Errorf("question %d: %q starts with an unlisted name", n, name)
				return
			}
			used[token], placed = true, true
			for _, text := range []string{name, s} { // alone and in its path
				at := len(text) - len(name)
				ms := Find(text)
				if len(ms) == 0 || ms[0].Start != at || ms[0].End != at+len(token) || ms[0].Place.Name != benchNames[token] || ms[0].Form > FormAlias {
					t.Errorf("question %d: Find(%q) = %s, want %s at its start", n, text, show(text, ms), benchNames[token])
				}
			}
		}
		for _, d := range items[fmt.Sprint(n)].Dialogs {
			for _, c := range d.Calls {
				eachString(c.Function.Arguments, check)
			}
			if d.Role == "tool" {
				eachString(d.Content, check)
			}
		}
		if placed {
			with++
		}
	}
	if with != 144 {
		t.Errorf("%d trajectories have a place in their file names, want 144", with)
	}
	for k := range benchNames {
		if !used[k] {
			t.Errorf("no file name starts with %q", k)
		}
	}
}

// The texts of each question mention the listed places, with the listed fields
// of theirs, and nothing else.
func TestEarthBenchTexts(t *testing.T) {
	items := earthBench(t)
	for n := 1; n <= 248; n++ {
		var places, fields, wantPlaces, wantFields []string
		item := items[fmt.Sprint(n)]
		texts := []string{item.Dialogs[0].Content.(string)}
		for _, e := range item.Evaluation {
			texts = append(texts, e.Question)
		}
		for _, text := range texts {
			for _, m := range Find(text) {
				if body := text[m.Start:m.End]; m.Form > FormAlias {
					fields = append(fields, body+"/"+m.Form.String())
				} else {
					places = append(places, m.Place.Name)
				}
			}
		}
		collect := func(from map[string][]int) (names []string) {
			for name, questions := range from {
				if slices.Contains(questions, n) {
					names = append(names, name)
				}
			}
			return names
		}
		wantPlaces, wantFields = collect(benchTexts), collect(benchFields)
		for _, l := range []*[]string{&places, &fields, &wantPlaces, &wantFields} {
			slices.Sort(*l)
			*l = slices.Compact(*l)
		}
		if !slices.Equal(places, wantPlaces) {
			t.Errorf("question %d is about %q, want %q", n, places, wantPlaces)
		}
		if !slices.Equal(fields, wantFields) {
			t.Errorf("question %d has the fields %q, want %q", n, fields, wantFields)
		}
	}
}

// The perception questions name no place: nothing in them may be taken for one.
func TestEarthBenchPerceptionHasNoPlace(t *testing.T) {
	items := earthBench(t)
	for n := 189; n <= 248; n++ {
		item := items[fmt.Sprint(n)]
		check := func(s string) {
			if ms := Find(s); len(ms) != 0 {
				t.Errorf("question %d: Find(%.80q) = %s", n, s, show(s, ms))
			}
		}
		eachString(item.Choices, check)
		for _, d := range item.Dialogs {
			eachString(d.Content, check)
			for _, c := range d.Calls {
				eachString(c.Function.Arguments, check)
			}
		}
	}
}
