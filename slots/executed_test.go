package slots

import (
	"fmt"
	"strings"
	"testing"

	"terraloom/data"
	"terraloom/data/strictjson"
)

// acquired is a seed that downloads around Lima (-77.04, -12.05).
func acquired(t *testing.T, interval, from, to string) *data.Trajectory {
	t.Helper()
	text := fmt.Sprintf(`{"id":"a","seed_id":"a","source":"own","domain":"products","query":"How green was Lima from %[2]s to %[3]s? Give the mean NDVI.",
	"inputs":{"bbox":[-77.29,-12.3,-76.79,-11.8]},"steps":[
	{"tool":"download_product","arguments":{"source":"MODIS/061/MOD13A2","bands":["NDVI"],"bbox":[-77.29,-12.3,-76.79,-11.8],"time_range":["%[2]s","%[3]s"],"interval":"%[1]s","scale_m":1000,"base_save_name":"Lima"},
	 "observation":["benchmark/out/Lima_NDVI_%[2]s.tif","benchmark/out/Lima_NDVI_%[3]s.tif"]},
	{"tool":"calc_batch_image_mean","arguments":{"file_list":["benchmark/out/Lima_NDVI_%[2]s.tif","benchmark/out/Lima_NDVI_%[3]s.tif"]},"observation":[0.41,0.47]},
	{"tool":"mean","arguments":{"x":[0.41,0.47]},"observation":0.44}],"answer":{"text":"0.44"}}`, interval, from, to)
	v, err := strictjson.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	s, err := data.DecodeTrajectory(v)
	if err != nil {
		t.Fatal(err)
	}
	return &s
}

// The box around a place's own point keeps its size wherever it moves, and one
// slot stands wherever the box does.
func TestCentredBoxMovesWithItsSize(t *testing.T) {
	seed := acquired(t, "16 days", "2021-07-12", "2021-07-28")
	p, err := Discover(seed, Recorded{seed})
	if err != nil {
		t.Fatal(err)
	}
	var boxes []Slot
	for _, s := range p.Slots {
		if s.Type == BBox {
			boxes = append(boxes, s)
		}
	}
	want := "[round(place1.lon + -0.25, 4), round(place1.lat + -0.25, 4), round(place1.lon + 0.25, 4), round(place1.lat + 0.25, 4)]"
	if len(boxes) != 1 || boxes[0].Expr != want {
		t.Fatalf("%+v", boxes)
	}
	at := 0
	for _, o := range p.Occurrences {
		if o.Slot == boxes[0].Name {
			at++
		}
	}
	if at != 2 {
		t.Errorf("the box stands at %d places, want the inputs and the download", at)
	}
}

// A file's name and the name it is asked for by have one spelling of a place.
func TestBaseNameIsSpeltLikeFiles(t *testing.T) {
	seed := acquired(t, "month", "2021-07-01", "2021-08-01")
	p, err := Discover(seed, Recorded{seed})
	if err != nil {
		t.Fatal(err)
	}
	text := map[string]string{}
	for _, o := range p.Occurrences {
		text[o.At] = o.Text
	}
	base := text["/steps/0/arguments/base_save_name"]
	if base == "" || !strings.HasPrefix(text["/steps/0/observation/0"], "benchmark/out/"+base+"_NDVI_") {
		t.Errorf("base %q, file %q", base, text["/steps/0/observation/0"])
	}
}

// Composites keep their calendar: those of days move by whole leap cycles, those
// of months by whole years, single days in season.
func TestIntervalsDecideHowDatesMove(t *testing.T) {
	for _, test := range []struct {
		interval, from, to string
		step               int
		days               bool
	}{
		{"16 days", "2021-07-12", "2021-07-28", 4, false},
		{"16-day", "2021-07-12", "2021-07-28", 4, false},
		{"16 days", "2021-01-01", "2021-01-17", 1, false},
		{"month", "2021-07-01", "2021-08-01", 1, false},
		{"2 years", "2020-01-01", "2022-01-01", 1, false},
		{"day", "2021-07-12", "2021-07-13", 1, true},
	} {
		seed := acquired(t, test.interval, test.from, test.to)
		p, err := Discover(seed, Recorded{seed})
		if err != nil {
			t.Fatal(err)
		}
		years := p.slot("years")
		if years == nil || len(years.Source.Choice) < 3 {
			t.Errorf("%s: the years stay", test.interval)
			continue
		}
		step := 0
		for _, y := range years.Source.Choice {
			for n := y.(int); n != 0; { // greatest common divisor
				step, n = n, step%n
			}
		}
		if step = max(step, -step); step != test.step || (p.slot("days") != nil) != test.days {
			t.Errorf("%s from %s: years move by %d, days %v; want %d, %v", test.interval, test.from, step, p.slot("days") != nil, test.step, test.days)
		}
	}
}

// An answer is derived as another program of the trajectory derives it.
func TestAdoptAnswer(t *testing.T) {
	seed := acquired(t, "month", "2021-07-01", "2021-08-01")
	p, err := Discover(seed, Recorded{seed})
	if err != nil {
		t.Fatal(err)
	}
	other, err := ParseProgram(p.YAML(), "other")
	if err != nil {
		t.Fatal(err)
	}
	for i := range other.Slots {
		if s := &other.Slots[i]; s.Group == "answer" {
			s.Expr = `round(num(observed(1, "/0")), 2)`
		}
	}
	p.SetReview(MachineChecked, "")
	p.AdoptAnswer(other)
	if p.Review != nil {
		t.Error("the review outlives the change")
	}
	c, err := Compile(p, seed, Recorded{seed})
	if err != nil {
		t.Fatal(err)
	}
	v, err := c.SeedValues()
	if err != nil {
		t.Fatal(err)
	}
	z, err := c.Instance(v, Recorded{seed})
	if err != nil || z.Answer.Get("text").Text() != "0.41" {
		t.Errorf("%s, %v", z.Answer.JSON(), err)
	}
}

func TestRecordedKnowsItsSeedOnly(t *testing.T) {
	seed := acquired(t, "month", "2021-07-01", "2021-08-01")
	r := Recorded{seed}
	if v, err := r.Call("mean", seed.Steps[2].Arguments); err != nil || v.Text() != "0.44" || !r.Computes("mean") {
		t.Errorf("%s, %v", v.JSON(), err)
	}
	if _, err := r.Call("mean", strictjson.Obj()); err == nil || !strings.Contains(err.Error(), "a does not record this call of mean") {
		t.Errorf("%v", err)
	}
}
