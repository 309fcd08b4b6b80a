package strictjson

import (
	"math"
	"slices"
	"testing"
)

func parse(t *testing.T, text string) Value {
	t.Helper()
	v, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestKindsAndAccessors(t *testing.T) {
	v := parse(t, `{"n":null,"b":true,"i":10,"f":10.0,"s":"10","a":[1,2],"o":{"k":0}}`)
	kinds := []Kind{Null, Bool, Number, Number, String, Array, Object}
	for i, k := range kinds {
		if v.Index(i).Kind() != k {
			t.Errorf("member %s is %s, want %s", v.Key(i), v.Index(i).Kind(), k)
		}
	}
	if v.Len() != 7 || v.Get("a").Len() != 2 || v.Get("s").Len() != 0 || !v.Get("x").IsAbsent() {
		t.Error("wrong lengths or members")
	}
	if !v.Get("b").True() || v.Get("i").True() {
		t.Error("True is wrong")
	}
	if !v.Get("i").IsInteger() || v.Get("f").IsInteger() || v.Get("s").IsInteger() {
		t.Error("IsInteger is wrong")
	}
	if f, ok := v.Get("f").Float(); f != 10 || !ok {
		t.Error("Float of 10.0")
	}
	if _, ok := v.Get("s").Float(); ok {
		t.Error("a string is a Float")
	}
	if _, ok := parse(t, "1e999").Float(); ok {
		t.Error("1e999 is a Float")
	}
}

// A boolean never equals a number, and spelling counts.
func TestEqual(t *testing.T) {
	distinct := []string{
		`1`, `1.0`, `"1"`, `true`, `1e0`, `null`, `[]`, `{}`, `[1]`, `{"a":1}`, `{"a":1,"b":2}`, `{"b":2,"a":1}`, `[null]`, `""`,
	}
	for i, a := range distinct {
		for j, b := range distinct {
			if got := parse(t, a).Equal(parse(t, b)); got != (i == j) {
				t.Errorf("%s equals %s: %t", a, b, got)
			}
		}
	}
	if (Value{}).Equal(NullValue()) || !(Value{}).Equal(Value{}) {
		t.Error("Absent and null are mixed up")
	}
}

func TestConstructors(t *testing.T) {
	v := Obj(Member{"a", Int(-3)}, Member{"gone", Value{}}, Member{"l", List(Text("x\"y"), Boolean(false), NullValue(), Float(0.1))})
	if got, want := v.JSON(), `{"a":-3,"l":["x\"y",false,null,0.1]}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := v.Rebuilt([]Value{Int(1), Int(2)}).JSON(); got != `{"a":1,"l":2}` {
		t.Errorf("Rebuilt gives %s", got)
	}
	if List().JSON() != "[]" || Obj().JSON() != "{}" {
		t.Error("empty containers")
	}
	for _, s := range []string{"", "1x", "x", "01", "1 ", "NaN", "--1"} {
		if _, ok := Literal(s); ok {
			t.Errorf("Literal accepts %q", s)
		}
	}
	if v, ok := Literal("-15.950"); !ok || v.JSON() != "-15.950" {
		t.Error("Literal loses the spelling")
	}
}

// The expected spellings are those of Python's repr.
func TestFloatSpelling(t *testing.T) {
	for f, want := range map[float64]string{
		0: "0.0", 1: "1.0", -2.5: "-2.5", 0.1: "0.1", 0.0001: "0.0001", 0.00001: "1e-05", 1e15: "1000000000000000.0",
		1e16: "1e+16", 123456789012345680: "1.2345678901234568e+17", 5e-324: "5e-324", 0.30000000000000004: "0.30000000000000004",
	} {
		if got := Float(f).JSON(); got != want {
			t.Errorf("%g is spelt %s, want %s", f, got, want)
		}
	}
	if got := Float(math.Copysign(0, -1)).JSON(); got != "-0.0" {
		t.Errorf("negative zero is spelt %s", got)
	}
	for _, f := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		if Float(f).Kind() != Null {
			t.Errorf("%g must become null", f)
		}
	}
}

func TestPointers(t *testing.T) {
	v := parse(t, `{"a/b":[{"~":1},[]],"":{"":2},"e":{}}`)
	for pointer, want := range map[string]string{"": v.JSON(), "/a~1b/0/~0": "1", "/a~1b/1": "[]", "//": "2", "/": `{"":2}`} {
		got, ok := v.At(pointer)
		if !ok || got.JSON() != want {
			t.Errorf("%q leads to %s, %t; want %s", pointer, got.JSON(), ok, want)
		}
	}
	for _, pointer := range []string{"a", "/x", "/a~1b/2", "/a~1b/-1", "/a~1b/01", "/a~1b/+1", "/a~1b/x", "/a~1b/0/~0/y"} {
		if got, ok := v.At(pointer); ok {
			t.Errorf("%q leads to %s", pointer, got.JSON())
		}
	}
	if _, ok := (Value{}).At(""); ok {
		t.Error("a pointer leads into an absent value")
	}
	var leaves []string
	v.Leaves("", func(pointer string, leaf Value) {
		if got, ok := v.At(pointer); !ok || !got.Equal(leaf) {
			t.Errorf("leaf %q is not found again", pointer)
		}
		leaves = append(leaves, pointer+"="+leaf.JSON())
	})
	if want := []string{"/a~1b/0/~0=1", "/a~1b/1=[]", "//=2", "/e={}"}; !slices.Equal(leaves, want) {
		t.Errorf("leaves %q, want %q", leaves, want)
	}
}

func TestAppendStringReplacesBadUTF8(t *testing.T) {
	if got := string(AppendString(nil, "a\xffb")); got != "\"a\ufffdb\"" {
		t.Errorf("got %q", got)
	}
}
