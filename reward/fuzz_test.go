package reward

import (
	"math/rand/v2"
	"testing"
	"unicode/utf8"

	"terraloom/data/strictjson"
)

// permuted returns v with the members of every object in another order.
func permuted(v strictjson.Value, rng *rand.Rand) strictjson.Value {
	switch v.Kind() {
	case strictjson.Array:
		items := make([]strictjson.Value, v.Len())
		for i := range items {
			items[i] = permuted(v.Index(i), rng)
		}
		return strictjson.List(items...)
	case strictjson.Object:
		members := make([]strictjson.Member, v.Len())
		for to, from := range rng.Perm(v.Len()) {
			members[to] = strictjson.Member{Key: v.Key(from), Value: permuted(v.Index(from), rng)}
		}
		return strictjson.Obj(members...)
	}
	return v
}

// spaced is v as JSON with white space wherever it may stand.
func spaced(v strictjson.Value, rng *rand.Rand) string {
	space := func() string { return []string{"", " ", "\n", "\t\r\n  "}[rng.IntN(4)] }
	out := space()
	switch v.Kind() {
	case strictjson.Array, strictjson.Object:
		open, end := "[", "]"
		if v.Kind() == strictjson.Object {
			open, end = "{", "}"
		}
		out += open + space()
		for i := range v.Len() {
			if i > 0 {
				out += ","
			}
			if v.Kind() == strictjson.Object {
				out += space() + strictjson.Text(v.Key(i)).JSON() + space() + ":"
			}
			out += spaced(v.Index(i), rng)
		}
		out += end
	default:
		out += v.JSON()
	}
	return out + space()
}

func FuzzScore(f *testing.F) {
	for _, completion := range []string{
		example, `{"threshold":0.75}`, `{"a":1,"a":2}`, `[]`, ``, "```json\n{}\n```", `{"a":1e-999999999}`, `{"x":[1,2.0,true,null,{"y":"z"}]}`,
		`{"a":9007199254740993}`, `{"a":NaN}`, "{\"a\":\"\xff\"}", `{"a":"\ud83d\ude00"}`, "\ufeff{\"a\":1}", `{"a":1}{"a":1}`, `text {"a":1} text`,
	} {
		f.Add(`{"a":1,"x":[1,2.5,{"y":"z"}],"threshold":0.75}`, completion, uint64(1))
	}
	f.Add(`{"x":[0.0,0.0000009]}`, `{"x":[0.0000009,-0.0000005]}`, uint64(2))
	f.Fuzz(func(t *testing.T, reference, completion string, seed uint64) {
		ref, err := NewReference(reference, nil)
		if err != nil {
			return
		}
		rng := rand.New(rand.NewPCG(seed, 0))
		for _, r := range []Rules{DefaultRules(), {Tolerance: 0.5, Lists: Set, Extract: true}, {Lists: Subset}} {
			s := r.Score(ref, completion)
			if !(s.Reward >= -2 && s.Reward <= 2) || s.Reason == "" || s.Keys != ref.JSON().Len() {
				t.Fatalf("%+v", s)
			}
			if utf8.ValidString(completion) && !utf8.ValidString(s.Reason) {
				t.Fatalf("reason %q", s.Reason)
			}
			if s.Status == Object && (s.Matched+s.Missing != s.Keys || s.Values > s.Matched || s.Exact() != (s.Reward == 2)) {
				t.Fatalf("%+v", s)
			}
			if s != r.Score(ref, completion) {
				t.Fatal("not deterministic")
			}
			// The reference in any order and spacing scores 2.
			gold := spaced(permuted(ref.JSON(), rng), rng)
			if g := r.Score(ref, gold); g.Reward != 2 || !g.Exact() {
				t.Fatalf("%s\nagainst itself: %+v", gold, g)
			}
			v, err := strictjson.Parse([]byte(completion))
			if err != nil {
				continue
			}
			if other := r.Score(ref, spaced(permuted(v, rng), rng)); other != s {
				t.Fatalf("%s\n%+v\npermuted: %+v", completion, s, other)
			}
			// The relation is symmetric for equal lengths.
			if r.Lists != Subset && v.Kind() == strictjson.Object && v.Len() > 0 {
				back, err := NewReference(completion, nil)
				if err != nil {
					t.Fatal(err)
				}
				if b := r.Score(back, reference); b.Exact() != s.Exact() {
					t.Fatalf("%s and %s: %v one way, %v the other", reference, completion, s.Exact(), b.Exact())
				}
			}
		}
	})
}

func FuzzNumber(f *testing.F) {
	for _, s := range []string{"3", "3.0", "3,000", "3e3", "−3", "3 m", "0x3", "1_0", "inf", "nan", ",", "-", "1e999", "3,00"} {
		f.Add(s, "")
		f.Add(s, "m")
	}
	f.Fuzz(func(t *testing.T, text, unit string) {
		v, ok := Number(text, unit)
		if v-v != 0 || !ok && v != 0 {
			t.Fatalf("%q in %q: %v, %v", text, unit, v, ok)
		}
	})
}
