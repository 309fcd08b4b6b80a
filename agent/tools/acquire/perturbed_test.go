package acquire

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"terraloom/agent/tools"
	"terraloom/data/strictjson"
)

// try runs a call that may give no estimate.
func (d *desk) try(tool, format string, args ...any) (tools.Result, error) {
	d.Helper()
	text := fmt.Sprintf(format, args...)
	v, err := strictjson.Parse([]byte(text))
	if err != nil {
		d.Fatalf("%s: %v", text, err)
	}
	return d.kit.Invoke(d.Context(), tool, v)
}

// honest holds that a result has no number, says why, and that its evidence agrees.
func (d *desk) honest(label string, r *tools.Result, err error, status tools.Status, says string) {
	d.Helper()
	e := r.Evidence.Value()
	if r.Value.Kind() != strictjson.Null || r.Evidence.Status != status || e.Get("status").Text() != string(status) || !strings.Contains(e.Get("reason").Text(), says) {
		d.Errorf("%s: observation %s, error %v, evidence %s; want no number, %s, saying %q", label, r.Value.JSON(), err, e.JSON(), status, says)
	}
	if len(r.Artefacts) != 0 {
		d.Errorf("%s: %d files", label, len(r.Artefacts))
	}
}

// The mean land surface temperature of a dryness workflow, perturbed in three
// ways: each gives honest evidence instead of a number.
func TestPerturbedWorkflow(t *testing.T) {
	d := newDesk(t)
	days := d.download("MODIS/061/MOD11A1", `["LST_Day_1km"]`, `["2022-06-01","2022-09-15"]`, "5000", "q/lst")

	// A cloud-covered date: the archive delivers the raster and says that it is empty.
	cloudy := ""
	for i := range days.Len() {
		res, err := d.try("calc_batch_image_mean", `{"file_list":[%s]}`, days.Index(i).JSON())
		if err != nil {
			t.Fatal(err)
		}
		if res.Evidence.Status == tools.Insufficient {
			cloudy = days.Index(i).JSON()
			d.honest("a cloud-covered date", &res, err, tools.Insufficient, "no valid pixel")
			break
		}
	}
	if cloudy == "" {
		t.Fatalf("none of %d days of the rainy season is under clouds", days.Len())
	}
	day := strings.TrimSuffix(cloudy[strings.LastIndex(cloudy, "_")+1:], `.tif"`)
	res, err := d.try("download_product", `{"source":"MODIS/061/MOD11A1","bands":["LST_Day_1km"],%s,"time_range":[%q,%q],"scale_m":5000,"base_save_name":"q/again"}`, region, day, day)
	if err != nil || !strings.Contains(strings.Join(res.Evidence.Warnings, " "), "no valid pixel: clouds") || res.Evidence.Used != 0 {
		t.Errorf("the download of a cloud-covered date: %v %s", err, res.Evidence.Value().JSON())
	}
	// In a longer series it is left out, and the evidence names it.
	res, err = d.try("calc_batch_image_mean", `{"file_list":%s}`, days.JSON())
	if err != nil || res.Evidence.Status != tools.OK || !strings.Contains(res.Evidence.Value().JSON(), strings.Trim(cloudy, `"`)) {
		t.Errorf("the series with a cloud-covered date: %v %s", err, res.Evidence.Status)
	}
	for i := range days.Len() {
		if days.Index(i).JSON() == cloudy && res.Value.Index(i).Kind() == strictjson.Number {
			t.Errorf("the cloud-covered date has the mean %s", res.Value.Index(i).JSON())
		}
	}
	// A product of it makes no raster.
	res, err = d.try("apply_scale_offset", `{"file_list":[%s],"scale":0.02,"output_path":["q/kelvin.tif"]}`, cloudy)
	d.honest("a product of a cloud-covered date", &res, err, tools.Insufficient, "no file has a valid pixel")

	// A missing file.
	res, err = d.try("calc_batch_image_mean", `{"file_list":[%s,"q/lst_LST_Day_1km_2022-13-01.tif"]}`, days.Index(0).JSON())
	if !errors.Is(err, tools.ErrBadArguments) || !strings.Contains(err.Error(), "/file_list/1") {
		t.Errorf("a missing file: %v", err)
	}
	d.honest("a missing file", &res, err, tools.Failed, "not found")

	// An empty selection: no scene in the period, and no image above the limit.
	res, err = d.try("download_product", `{"source":"MODIS/061/MOD13A2","bands":["NDVI"],%s,"time_range":["2022-03-07","2022-03-08"],"base_save_name":"q/n"}`, region)
	d.honest("a period without a scene", &res, err, tools.Insufficient, "nothing for this region and period")
	res, err = d.try("average_ratio_exceeding_threshold", `{"image_paths":%s,"value_threshold":60000,"ratio_threshold":20}`, days.JSON())
	d.honest("no image above the limit", &res, err, tools.Insufficient, "in none")
	if _, err := d.kit.Call("average_ratio_exceeding_threshold", res.Evidence.Parameters); !errors.Is(err, tools.ErrInsufficient) {
		t.Errorf("Call gives %v for no estimate", err)
	}
}
