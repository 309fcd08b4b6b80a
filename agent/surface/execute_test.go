package surface

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"terraloom/agent/raster"
	"terraloom/agent/tools"
	"terraloom/data/strictjson"
)

// fill is a raster of 2 × 2 equal pixels.
func fill(v float32) []float32 { return []float32{v, v, v, v} }

// The road of the trend question: catalog, product, reduce, aggregate, test.
func TestAnnualTrend(t *testing.T) {
	l := newLab(t, nil, nil)
	for y := 2015; y <= 2020; y++ {
		for k, month := range []string{"01", "07"} {
			l.put(fmt.Sprintf("in/x_NIR_%d-%s-01.tif", y, month), 2, fill(float32(0.4+0.02*float64(y-2015)+0.1*float64(k))))
			l.put(fmt.Sprintf("in/x_RED_%d-%s-01.tif", y, month), 2, fill(0.1))
		}
	}
	const road = `{"nodes":[
	  {"id":"files","op":"asset.catalog","params":{"dir":"in","roles":{"a":"_NIR_","b":"_RED_"},"start":"2015-01-01","end":"2020-12-31"}},
	  {"id":"ndvi","op":"raster.product","inputs":{"data":"@files"},"params":{"product":"normalized_difference"}},
	  {"id":"means","op":"raster.batch_reduce","inputs":{"data":"@ndvi"},"params":{"statistic":"mean"}},
	  {"id":"years","op":"temporal.aggregate","inputs":{"data":"@means"},"params":{"by":"year"}},
	  {"id":"test","op":"temporal.trend","inputs":{"data":"@years"},"params":{"method":"%s"}}]%s}`
	res, err := l.invoke("execute", fmt.Sprintf(road, "mann_kendall", `,"fields":["trend","p"]`))
	if err != nil || res.Evidence.Status != tools.OK {
		t.Fatalf("%v %s", err, res.Evidence.Value().JSON())
	}
	if res.Value.Get("trend").Text() != "increasing" || res.Value.Get("tau").JSON() != "1.0" || len(res.Artefacts) != 12 {
		t.Errorf("%s, %d files", res.Value.JSON(), len(res.Artefacts))
	}
	e := &res.Evidence
	if e.Operator != "temporal.trend" || len(e.Nodes) != 5 || len(e.Bands) != 24+12 || e.Nodes[2].Valid != 48 || e.Nodes[3].Valid != 12 {
		t.Errorf("evidence: %s, %d nodes, %d bands, %+v", e.Operator, len(e.Nodes), len(e.Bands), e.Nodes)
	}
	// The mean NDVI of 2015 is that of (0.4-0.1)/0.5 and (0.5-0.1)/0.6.
	years := l.call("execute", strings.Replace(fmt.Sprintf(road, "linear", ""), `,
	  {"id":"test","op":"temporal.trend","inputs":{"data":"@years"},"params":{"method":"linear"}}`, "", 1))
	first, _ := years.Get("value").Index(0).Float()
	if want := (0.3/0.5 + 0.4/0.6) / 2; math.Abs(first-want) > 1e-6 || years.Get("valid").Index(0).JSON() != "2" {
		t.Errorf("%s, want %g first", years.JSON(), want)
	}
	slope := l.call("execute", fmt.Sprintf(road, "theil_sen", ""))
	if f, _ := slope.Get("slope").Float(); f <= 0 || f > 0.05 {
		t.Error(slope.JSON())
	}
	// Fields that the test does not have are named, with those it has.
	if _, err := l.invoke("execute", fmt.Sprintf(road, "mann_kendall", `,"fields":["sen_slope","z_score"]`)); err == nil || !strings.Contains(err.Error(), "trend, p, z, tau") {
		t.Errorf("%v", err)
	}
	late := strings.Replace(fmt.Sprintf(road, "mann_kendall", ""), "2015-01-01", "2031-01-01", 1)
	late = strings.Replace(late, "2020-12-31", "2032-01-01", 1)
	res, err = l.invoke("execute", late)
	if err != nil || res.Evidence.Status != tools.Insufficient || len(res.Evidence.Nodes) != 5 || !strings.Contains(res.Evidence.Nodes[4].Reason, "not run") {
		t.Errorf("an empty selection: %v %s", err, res.Evidence.Value().JSON())
	}
}

// Every standard product has its inputs and its tool; without one input it gives
// no raster.
func TestStandardProducts(t *testing.T) {
	l := newLab(t, nil, nil)
	levels := map[string]float32{"bt": 300, "red": 0.1, "nir": 0.4, "band31": 300, "band32": 299, "emissivity31": 0.97, "emissivity32": 0.98, "a": 0.4, "b": 0.1,
		"b02": 0.3, "b05": 0.28, "b17": 0.2, "b18": 0.1, "b19": 0.15, "day": 310, "night": 290, "albedo": 0.2, "bt_day": 305, "bt_night": 288, "emissivity_day": 0.97, "emissivity_night": 0.97,
		"b1": 300, "b2": 301, "b3": 302}
	for role, v := range levels {
		l.put("in/"+role+".tif", 2, fill(v))
	}
	// TVDI needs a spread.
	var ndvi, lst []float32
	for i := range 400 {
		ndvi, lst = append(ndvi, float32(i)/400), append(lst, float32(300+10*math.Sin(float64(i))))
	}
	l.put("in/ndvi.tif", 20, ndvi)
	l.put("in/lst.tif", 20, lst)
	for _, product := range Products {
		roles := sorted(standards[product].roles)
		if standards[product].bands != "" {
			roles = []string{"b1", "b2", "b3"}
		}
		dag := func(roles []string) string {
			parts := make([]string, len(roles))
			for i, r := range roles {
				parts[i] = fmt.Sprintf(`%q:["in/%s.tif"]`, r, r)
			}
			return fmt.Sprintf(`{"nodes":[{"id":"files","op":"asset.catalog","params":{"roles":{%s}}},{"id":"p","op":"raster.product","inputs":{"data":"@files"},"params":{"product":%q}},`+
				`{"id":"m","op":"raster.batch_reduce","inputs":{"data":"@p"}}]}`, strings.Join(parts, ","), product)
		}
		got := l.call("execute", dag(roles))
		if f, ok := got.Get("value").Index(0).Float(); !ok || math.IsNaN(f) {
			t.Errorf("%s: %s", product, got.JSON())
		}
		if product == "normalized_difference" && got.Get("value").Index(0).JSON() != "0.6000000238418579" {
			t.Errorf("(0.4-0.1)/(0.4+0.1) is %s", got.Get("value").JSON())
		}
		if product == "apparent_thermal_inertia" {
			if f, _ := got.Get("value").Index(0).Float(); math.Abs(f-0.8/20) > 1e-6 {
				t.Errorf("(1-0.2)/(310-290) is %g", f)
			}
		}
		if len(standards[product].roles) == 0 {
			continue
		}
		res, err := l.invoke("execute", dag(roles[1:]))
		if err != nil || res.Evidence.Status != tools.Insufficient || !strings.Contains(res.Evidence.Reason, roles[0]) {
			t.Errorf("%s without %s: %v %s", product, roles[0], err, res.Evidence.Reason)
		}
	}
}

func TestOperators(t *testing.T) {
	l := newLab(t, nil, nil)
	no := raster.NaN()
	l.put("a_2022-01-01.tif", 2, []float32{1, 2, 3, no})
	l.put("a_2022-02-01.tif", 2, []float32{no, no, no, no}) // clouds
	l.put("a_2022-03-01.tif", 2, []float32{4, 4, 4, 4})
	const files = `{"id":"f","op":"asset.catalog","params":{"paths":["a_2022-03-01.tif","a_2022-01-01.tif","a_2022-02-01.tif"]}}`
	reduce := func(params string) strictjson.Value {
		return l.call("execute", `{"nodes":[`+files+`,{"id":"r","op":"raster.batch_reduce","inputs":{"data":"@f"},"params":`+params+`}]}`)
	}
	for _, c := range []struct{ params, want string }{
		{`{}`, `[2.0,null,4.0]`},
		{`{"statistic":"sum"}`, `[6.0,null,16.0]`},
		{`{"statistic":"maximum"}`, `[3.0,null,4.0]`},
		{`{"statistic":"threshold_fraction","threshold":3,"comparison":"at_least"}`, `[0.3333333333333333,null,1.0]`},
		{`{"statistic":"threshold_fraction","threshold":3}`, `[0.0,null,1.0]`},
	} {
		if got := reduce(c.params); got.Get("value").JSON() != c.want || got.Get("valid").JSON() != "[3,0,4]" || got.Get("total").JSON() != "[4,4,4]" {
			t.Errorf("%s: %s", c.params, got.JSON())
		}
	}
	for _, c := range []struct{ nodes, want string }{
		// A kit tool takes the values of a series, without the cloudy month.
		{files + `,{"id":"r","op":"raster.batch_reduce","inputs":{"data":"@f"}},{"id":"m","op":"mean","inputs":{"data":"@r"}}`, "3.0"},
		{`{"id":"s","op":"raster.summarize","inputs":{"data":"a_2022-01-01.tif"}},{"id":"d","op":"difference","params":{"a":"@s.maximum","b":"@s.mean"}}`, "1.0"},
		{`{"id":"m","op":"mean","params":{"x":[27,29]}},{"id":"c","op":"decision.select","inputs":{"data":"@m"},"params":{"candidates":["A. 25.1 %","B. 28.07 %"]}}`,
			`{"index":1,"candidate":"B. 28.07 %","difference":0.07000000000000028}`},
	} {
		if got := l.call("execute", `{"nodes":[`+c.nodes+`]}`); got.JSON() != c.want {
			t.Errorf("%s: %s, want %s", c.nodes, got.JSON(), c.want)
		}
	}
	res, err := l.invoke("execute", `{"nodes":[{"id":"f","op":"asset.catalog","params":{"paths":["a_2022-02-01.tif"]}},{"id":"r","op":"raster.batch_reduce","inputs":{"data":"@f"}},{"id":"m","op":"mean","inputs":{"data":"@r"}}]}`)
	if err != nil || res.Evidence.Status != tools.Insufficient || !strings.Contains(res.Evidence.Reason, "no raster of the collection has a valid pixel") {
		t.Errorf("only clouds: %v %s", err, res.Evidence.Reason)
	}
	if _, err := l.invoke("execute", `{"nodes":[{"id":"s","op":"raster.summarize","inputs":{"data":"a_2022-01-01.tif"}},{"id":"d","op":"difference","params":{"a":"@s.median","b":1}}]}`); err == nil || !strings.Contains(err.Error(), "its fields are mean, std, minimum, maximum") {
		t.Errorf("an unknown field: %v", err)
	}
}

func TestRetrieve(t *testing.T) {
	l := newLab(t, nil, nil)
	for query, want := range map[string]string{
		"trend of annual mean temperature, Mann-Kendall": "recipe.temporal_trend",
		"split window emissivity inputs":                 "recipe.thermal_raster_products",
		"Landsat QA_PIXEL cloud bits":                    "knowledge.landsat_qa_pixel",
		"count ships near a pier":                        "recipe.relation_count",
		"scale of MOD11A1 LST":                           "knowledge.modis_lst",
	} {
		got := l.call("retrieve", fmt.Sprintf(`{"query":%q}`, query))
		if got.Index(0).Get("id").Text() != want || got.Len() != 3 {
			t.Errorf("%s: %s", query, got.JSON())
		}
	}
	if got := l.call("retrieve", `{"query":"trend","kind":"knowledge","top_k":1}`); got.Len() != 1 || got.Index(0).Get("kind").Text() != "knowledge" {
		t.Error(got.JSON())
	}
	if res, err := l.invoke("retrieve", `{"query":"zzz"}`); err != nil || res.Evidence.Status != tools.Insufficient {
		t.Errorf("%v %s", err, res.Value.JSON())
	}
}
