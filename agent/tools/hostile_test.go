package tools

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"terraloom/agent/raster"
	"terraloom/agent/tools/workspace"
	"terraloom/data/catalogue"
	"terraloom/data/strictjson"
)

// Every tool of the catalogue is run by a test with a hand-computed outcome: a row
// of a table whose observation is a value, or a call whose value is looked at. A
// row that only expects a refusal does not count.
func TestEveryToolIsTested(t *testing.T) {
	names, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile(`tool: +"(\w+)"`)
	value := regexp.MustCompile(`want: +(\S+)`)
	direct := regexp.MustCompile(`(?:[cC]all\(|one\(|l\.correct\.Invoke\(t\.Context\(\), )"(\w+)"|\[\]string\{"(MSCN)", "(RemoteCLIP)"\}`)
	called := map[string]bool{}
	add := func(name string) {
		if found, err := catalogue.Default().Resolve(name); err == nil {
			called[found.Tool.Name] = true
		}
	}
	for _, n := range names {
		data, err := os.ReadFile(n)
		if err != nil {
			t.Fatal(err)
		}
		text := string(data)
		rows := row.FindAllStringSubmatchIndex(text, -1)
		for i, at := range rows { // a row ends where the next begins
			end := len(text)
			if i+1 < len(rows) {
				end = rows[i+1][0]
			}
			if m := value.FindStringSubmatch(text[at[1]:end]); m != nil && !strings.HasPrefix(m[1], `"error"`) && !strings.HasPrefix(m[1], `"insufficient"`) {
				add(text[at[2]:at[3]])
			}
		}
		for _, m := range direct.FindAllStringSubmatch(text, -1) {
			for _, name := range m[1:] {
				add(name)
			}
		}
	}
	n := 0
	for _, tool := range catalogue.Default().Tools() {
		n++
		if !called[tool.Name] {
			t.Errorf("no test has a value of %s", tool.Name)
		}
	}
	if n != 112 {
		t.Errorf("%d tools, want 112", n)
	}
}

// All tools of the catalogue are callable where everything is there.
func TestRegistryHoldsEveryTool(t *testing.T) {
	full := newLab(t, WithPerceiver(broken{}), WithArchive(shelf{}))
	imagery := newLab(t)
	pure := mustNew(t, Correct)
	for _, tool := range catalogue.Default().Tools() {
		_, model := modelFuncs[tool.Name]
		_, remote := archiveFuncs[tool.Name]
		if !full.correct.Computes(tool.Name) {
			t.Errorf("%s has no function", tool.Name)
		}
		if got := imagery.correct.Computes(tool.Name); got != (!model && !remote) {
			t.Errorf("%s: with imagery alone Computes is %v", tool.Name, got)
		}
		if got := pure.Computes(tool.Name); got != tool.Pure {
			t.Errorf("%s: without imagery Computes is %v", tool.Name, got)
		}
	}
	for name, says := range map[string]string{"MSCN": "it needs a perception model", "download_product": "it needs an archive"} {
		if _, err := imagery.correct.Call(name, strictjson.Obj()); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// arguments are ones that a tool's schema accepts, all inputs the same raster.
func arguments(tool *catalogue.Tool, input, output string) map[string]strictjson.Value {
	args := map[string]strictjson.Value{}
	for _, p := range tool.Params {
		v := p.Default
		t := p.Type.String()
		path := strictjson.Text(input)
		if p.IO == "out" {
			path = strictjson.Text(output)
		}
		switch {
		case p.IO != "" && len(p.Keys) > 0:
			var members []strictjson.Member
			for _, k := range p.Keys {
				members = append(members, member(k, path))
			}
			v = object(members...)
		case p.IO != "" && strings.HasPrefix(t, "list"):
			v = strictjson.List(path)
			if strings.HasPrefix(p.Name, "tir_band") || p.Name == "bt_paths" {
				v = strictjson.List(path, path, path)
			}
		case p.IO != "":
			v = path
		case !v.IsAbsent():
		case len(p.Enum) > 0:
			v = strictjson.Text(p.Enum[0])
		case p.Name == "diff_pairs":
			pair := strictjson.List(strictjson.Int(0), strictjson.Int(1))
			if v = strictjson.List(pair, pair); tool.Name == "chang_single_param_inversion" {
				v = strictjson.List(pair, pair, pair)
			}
		case p.Name == "weight_matrix":
			v = strictjson.List(strictjson.List(strictjson.Int(1)))
		case p.Name == "band_conditions":
			v = strictjson.List(strictjson.List(strictjson.Int(0), strictjson.Int(0), strictjson.Text("above")))
		case strings.HasPrefix(t, "int"):
			v = strictjson.Int(0)
		default:
			v = strictjson.Int(1)
		}
		args[p.Name] = v
	}
	return args
}

func toArgs(tool *catalogue.Tool, m map[string]strictjson.Value) strictjson.Value {
	var members []strictjson.Member
	for _, p := range tool.Params {
		members = append(members, member(p.Name, m[p.Name]))
	}
	return object(members...)
}

// swap replaces the last path in an argument.
func swap(v strictjson.Value, path string) strictjson.Value {
	switch v.Kind() {
	case strictjson.Array:
		items := make([]strictjson.Value, v.Len())
		for i := range items {
			items[i] = v.Index(i)
		}
		items[len(items)-1] = swap(items[len(items)-1], path)
		return strictjson.List(items...)
	case strictjson.Object:
		var members []strictjson.Member
		for i := range v.Len() {
			members = append(members, member(v.Key(i), v.Index(i)))
		}
		members[len(members)-1].Value = strictjson.Text(path)
		return object(members...)
	}
	return strictjson.Text(path)
}

// Whatever a path names, a raster tool refuses it with a type and the place, and
// touches nothing outside.
func TestHostilePaths(t *testing.T) {
	l := newLab(t)
	small, err := workspace.Open(l.w.Dir(), workspace.Limits{FileBytes: 1 << 20, Pixels: 64, Memory: 1 << 20, Entries: 100})
	if err != nil {
		t.Fatal(err)
	}
	defer small.Close()
	r, err := New(Correct, WithWorkspace(small))
	if err != nil {
		t.Fatal(err)
	}
	public, err := New(EarthAgent, WithWorkspace(small))
	if err != nil {
		t.Fatal(err)
	}
	l.put("d/a.tif", file{width: 3}, []float64{1, 0, 1, 0, 1, 1})
	l.put("d/wide.tif", file{width: 4}, []float64{1, 0, 1, 0, 1, 1, 0, 0})
	l.put("d/zone.tif", file{width: 3, crs: 32634}, []float64{1, 0, 1, 0, 1, 1})
	l.put("d/bomb.tif", file{width: 10}, make([]float64, 100))
	outside := t.TempDir()
	secret := filepath.Join(outside, "secret.tif")
	inside, err := os.ReadFile(filepath.Join(l.w.Dir(), "d/a.tif"))
	if err != nil {
		t.Fatal(err)
	}
	write := func(path string, data []byte) {
		t.Helper()
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(secret, inside)
	if err := os.Symlink(secret, filepath.Join(l.w.Dir(), "d/link.tif")); err != nil {
		t.Skip("no symbolic links here: ", err)
	}
	if err := os.Symlink(outside, filepath.Join(l.w.Dir(), "benchmark/out/away")); err != nil {
		t.Fatal(err)
	}
	write(filepath.Join(l.w.Dir(), "d/text.tif"), []byte("no raster"))
	write(filepath.Join(l.w.Dir(), "d/cut.tif"), inside[:len(inside)/2])
	huge := slices.Clone(inside) // a header that promises 2³¹ columns
	if at := strings.Index(string(huge), "\x00\x01\x04\x00\x01\x00\x00\x00\x03\x00\x00\x00"); at >= 0 {
		binary.LittleEndian.PutUint32(huge[at+8:], 1<<31-1)
	}
	write(filepath.Join(l.w.Dir(), "d/huge.tif"), huge)
	type hazard struct {
		path  string
		cause error
	}
	hazards := []hazard{
		{"d/missing.tif", workspace.ErrNotFound}, {"../secret.tif", workspace.ErrOutside}, {secret, workspace.ErrOutside},
		{"d/link.tif", workspace.ErrOutside}, {"d", workspace.ErrKind}, {"d/text.tif", raster.ErrFormat}, {"d/cut.tif", raster.ErrFormat},
		{"d/bomb.tif", workspace.ErrTooLarge}, {"d/huge.tif", nil}, {"", workspace.ErrNotFound},
	}
	for name := range rasterFuncs {
		tool, _ := catalogue.Default().Tool(name)
		base := arguments(tool, "d/a.tif", "q/x.tif")
		inputs := 0
		for _, p := range tool.Params {
			for _, h := range hazards {
				if p.IO == "" || p.IO == "in" && name == "get_filelist" && (h.path == "d" || !errors.Is(h.cause, workspace.ErrOutside)) {
					continue
				}
				m := arguments(tool, "d/a.tif", "q/x.tif")
				m[p.Name] = swap(base[p.Name], h.path)
				if p.IO == "out" && !errors.Is(h.cause, workspace.ErrOutside) || p.IO == "out" && h.path == "d/link.tif" {
					continue
				}
				label := fmt.Sprintf("%s, %s = %q", name, p.Name, h.path)
				res, err := r.Invoke(t.Context(), name, toArgs(tool, m))
				var e *Error
				if !errors.As(err, &e) || !errors.Is(err, ErrBadArguments) || h.cause != nil && !errors.Is(err, h.cause) {
					t.Errorf("%s: %s, %v; want ErrBadArguments for %v", label, res.Value.JSON(), err, h.cause)
				} else if !strings.HasPrefix(e.Param, p.Name) || e.Tool != name {
					t.Errorf("%s: the error names %q of %q: %v", label, e.Param, e.Tool, err)
				}
				if _, err := public.Invoke(t.Context(), name, toArgs(tool, m)); err != nil && !errors.Is(err, ErrBadArguments) && !errors.Is(err, ErrUndefined) {
					t.Errorf("%s in the public kit's way: untyped error %v", label, err)
				}
			}
			if p.IO == "in" {
				inputs += max(1, base[p.Name].Len())
			}
		}
		// Several inputs must lie on one grid.
		last := tool.Params[slices.IndexFunc(tool.Params, func(p catalogue.Param) bool { return p.IO == "in" })]
		for _, p := range tool.Params {
			if p.IO == "in" {
				last = p
			}
		}
		if inputs < 2 || name == "get_percentile_value_from_image" || base[last.Name].Kind() == strictjson.Null {
			continue
		}
		for _, h := range []hazard{{"d/wide.tif", raster.ErrMismatch}, {"d/zone.tif", raster.ErrMismatch}} {
			if h.path == "d/wide.tif" && (name == "ATI" || name == "modis_day_night_lst" || name == "calculate_batch_ndsi") {
				continue // these resample
			}
			m := arguments(tool, "d/a.tif", "q/x.tif")
			m[last.Name] = swap(base[last.Name], h.path)
			if _, err := r.Invoke(t.Context(), name, toArgs(tool, m)); !errors.Is(err, ErrBadArguments) || !errors.Is(err, h.cause) {
				t.Errorf("%s with %s: %v; want ErrMismatch", name, h.path, err)
			}
		}
	}
	l.check([]rasterCase{{tool: "threshold_segmentation", args: `{"input_image_path":"d/a.tif","threshold":1,"output_path":"away/x.tif"}`, want: "error", says: "leads outside"}})
	if left, _ := os.ReadDir(outside); len(left) != 1 {
		t.Errorf("written outside: %v", left)
	}
	if got, _ := os.ReadFile(secret); string(got) != string(inside) {
		t.Error("the file outside was changed")
	}
	if left, _ := filepath.Glob(filepath.Join(l.w.Dir(), ".stage-*")); len(left) != 0 {
		t.Errorf("private folders are left: %v", left)
	}
}

// A list longer than any task needs is refused before a file is opened.
func TestLongLists(t *testing.T) {
	l := newLab(t)
	items := make([]strictjson.Value, maxBatch+1)
	for i := range items {
		items[i] = strictjson.Text("d/a.tif")
	}
	_, err := l.correct.Call("calc_batch_image_mean", object(member("file_list", strictjson.List(items...))))
	if !errors.Is(err, ErrBadArguments) || !strings.Contains(err.Error(), "10001 paths; give at most 10000") {
		t.Error(err)
	}
}

// A call whose context has ended gives that, not half a result.
func TestCancelled(t *testing.T) {
	l := newLab(t)
	l.put("d/a.tif", file{width: 3}, []float64{1, 0, 1, 0, 1, 1})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, name := range []string{"calc_batch_image_mean", "calculate_batch_ndvi", "calculate_threshold_ratio", "apply_scale_offset"} {
		tool, _ := catalogue.Default().Tool(name)
		if _, err := l.correct.Invoke(ctx, name, toArgs(tool, arguments(tool, "d/a.tif", "q/x.tif"))); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, want context.Canceled", name, err)
		}
	}
}

// A batch gives the same bytes whatever the order in which its files are ready.
func TestBatchOrder(t *testing.T) {
	l := newLab(t)
	var list []strictjson.Value
	want := "["
	for i := range 40 {
		name := fmt.Sprintf("d/%02d.tif", i)
		l.put(name, file{width: 50}, slices.Repeat([]float64{float64(i), float64(i + 1)}, 50*(1+i%7)))
		list = append(list, strictjson.Text(name))
		want += fmt.Sprintf("%d.5,", i)
	}
	got, err := l.correct.Call("calc_batch_image_mean", object(member("file_list", strictjson.List(list...))))
	if err != nil || got.JSON() != strings.TrimSuffix(want, ",")+"]" {
		t.Errorf("%s, %v", got.JSON(), err)
	}
	list[17], list[31] = strictjson.Text("d/none17.tif"), strictjson.Text("d/none31.tif")
	for range 5 { // of two missing files the first is named
		if _, err := l.correct.Call("calc_batch_image_mean", object(member("file_list", strictjson.List(list...)))); err == nil || !strings.Contains(err.Error(), "/file_list/17") {
			t.Errorf("%v", err)
		}
	}
}

// No arguments make a raster tool panic or fail without a type.
func FuzzRasterCall(f *testing.F) {
	w, err := workspace.Open(f.TempDir(), workspace.Limits{FileBytes: 1 << 20, Pixels: 1 << 12, Memory: 1 << 22, Entries: 100})
	if err != nil {
		f.Fatal(err)
	}
	defer w.Close()
	g, err := raster.NewGrid(3, 2, raster.CRS{}, raster.GeoTransform{})
	if err != nil {
		f.Fatal(err)
	}
	copy(g.Data, []float32{1, 0, 300, 0.5, raster.NaN(), 255})
	if err := raster.Save(filepath.Join(w.Dir(), "a.tif"), raster.Spec{}, g, g); err != nil {
		f.Fatal(err)
	}
	correct, err := New(Correct, WithWorkspace(w))
	if err != nil {
		f.Fatal(err)
	}
	public, err := New(EarthAgent, WithWorkspace(w))
	if err != nil {
		f.Fatal(err)
	}
	for name := range rasterFuncs {
		tool, _ := catalogue.Default().Tool(name)
		f.Add(name, toArgs(tool, arguments(tool, "a.tif", "x.tif")).JSON())
	}
	f.Fuzz(func(t *testing.T, name, text string) {
		args, err := strictjson.Parse([]byte(text))
		if err != nil || len(text) > 4096 {
			return
		}
		for _, r := range []*Registry{correct, public} {
			_, err := r.Call(name, args)
			if errors.Is(err, ErrInternal) || errors.Is(err, ErrEnvironment) {
				t.Fatalf("%s %s: %v", name, text, err)
			}
			if err != nil && !errors.Is(err, ErrUnknownTool) && !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrBadArguments) && !errors.Is(err, ErrUndefined) && !errors.Is(err, ErrInsufficient) {
				t.Fatalf("%s %s: untyped error %v", name, text, err)
			}
		}
	})
}
