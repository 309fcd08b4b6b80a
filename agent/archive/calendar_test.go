package archive

import (
	"testing"
	"time"
)

func TestParseStep(t *testing.T) {
	for text, want := range map[string]Step{"day": {1, Day}, "8 days": {8, Day}, "16-day": {16, Day}, "Monthly": {1, Month}, "3 months": {3, Month},
		"year": {1, Year}, " annual ": {1, Year}, "1 day": {1, Day}, "5 years": {5, Year}, "week": {7, Day}, "quarter": {3, Month}} {
		if got, err := ParseStep(text); err != nil || got != want {
			t.Errorf("ParseStep(%q) = %v, %v, want %v", text, got, err, want)
		}
		if got, err := ParseStep(want.String()); err != nil || got != want {
			t.Errorf("ParseStep(%q) = %v, %v", want.String(), got, err)
		}
	}
	for _, text := range []string{"", "0 days", "-1 day", "400 days", "13 months", "day 8", "fortnight", "99999999999999999999 days", "8"} {
		if got, err := ParseStep(text); err == nil {
			t.Errorf("ParseStep(%q) = %v", text, got)
		}
	}
}

func TestDates(t *testing.T) {
	tests := []struct {
		product, from, to string
		want              []string
	}{
		{"MOD11A1", "2020-02-28", "2020-03-01", []string{"2020-02-28", "2020-02-29", "2020-03-01"}},
		{"MOD13Q1", "2020-02-20", "2020-03-25", []string{"2020-03-05", "2020-03-21"}}, // leap year
		{"MOD13Q1", "2021-02-20", "2021-03-25", []string{"2021-03-06", "2021-03-22"}},
		{"MOD13Q1", "2020-12-10", "2021-01-17", []string{"2020-12-18", "2021-01-01", "2021-01-17"}},
		{"MYD13Q1", "2020-12-20", "2021-01-30", []string{"2020-12-26", "2021-01-09", "2021-01-25"}},
		{"MYD13Q1", "2002-07-01", "2002-07-25", []string{"2002-07-04", "2002-07-20"}}, // the record's start
		{"MOD11A2", "2019-12-27", "2020-01-09", []string{"2019-12-27", "2020-01-01", "2020-01-09"}},
		{"VCMCFG", "2013-01-15", "2013-04-01", []string{"2013-02-01", "2013-03-01", "2013-04-01"}},
		{"GHS_BUILT_V", "1985-01-01", "2020-12-31", []string{"1985-01-01", "1990-01-01", "1995-01-01", "2000-01-01", "2005-01-01", "2010-01-01", "2015-01-01", "2020-01-01"}},
		{"SRTM", "2020-01-01", "2020-12-31", []string{"2000-02-11"}},
		{"MCD12Q1", "2019-06-01", "2021-06-01", []string{"2020-01-01", "2021-01-01"}},
		{"MOD13Q1", "2021-01-02", "2021-01-16", nil},
	}
	for _, tt := range tests {
		p, ok := FindProduct(Products(), tt.product)
		if !ok {
			t.Fatal(tt.product)
		}
		var got []string
		for _, d := range p.Dates(10, on(tt.from), on(tt.to)) {
			got = append(got, d.Format(time.DateOnly))
		}
		if len(got) != len(tt.want) {
			t.Errorf("%s %s … %s: %v, want %v", tt.product, tt.from, tt.to, got, tt.want)
			continue
		}
		for i := range got {
			if got[i] != tt.want[i] {
				t.Errorf("%s %s … %s: %v, want %v", tt.product, tt.from, tt.to, got, tt.want)
				break
			}
		}
	}
}

// Landsat 8 and 9 pass a place every 16 days, 8 days apart; the neighbouring track
// is passed on another day; ASTER records some passes only.
func TestRevisit(t *testing.T) {
	l8, _ := FindProduct(Products(), "LC08_L2")
	l9, _ := FindProduct(Products(), "LC09_L2")
	from, to := on("2022-01-01"), on("2023-12-31")
	a, b, c := l8.Dates(10, from, to), l9.Dates(10, from, to), l8.Dates(10+trackWidth, from, to)
	if n := len(a); n < 45 || n > 46 {
		t.Errorf("%d passes in two years", n)
	}
	for i := range a[:40] {
		if d := DayNumber(a[i+1]) - DayNumber(a[i]); d != 16 {
			t.Errorf("%d days between passes", d)
		}
	}
	if d := mod(DayNumber(b[0])-DayNumber(a[0]), 16); d != 8 {
		t.Errorf("Landsat 9 passes %d days after Landsat 8", d)
	}
	if d := mod(DayNumber(c[0])-DayNumber(a[0]), 16); d == 0 {
		t.Error("neighbouring tracks are passed on one day")
	}
	later := l8.Dates(10, on("2022-03-01"), to)
	if mod(DayNumber(later[0])-DayNumber(a[0]), 16) != 0 {
		t.Error("the passes depend on the period asked for")
	}
	aster, _ := FindProduct(Products(), "ASTER")
	if n := len(aster.Dates(10, from, to)); n < 15 || n > 40 {
		t.Errorf("ASTER recorded %d of 46 passes", n)
	}
}

func TestPassTime(t *testing.T) {
	p, _ := FindProduct(Products(), "MOD11_L2")
	for n := range 32 {
		day := on("2020-02-01").AddDate(0, 0, n)
		for _, lon := range []float64{-179, -75, 0, 80, 179} {
			dayPass, night := p.PassTime(lon, day, false), p.PassTime(lon, day, true)
			if !midnight(dayPass).Equal(day) || dayPass.Minute()%5 != 0 {
				t.Errorf("the pass of %s is at %s", day, dayPass)
			}
			local := func(at time.Time) float64 {
				return float64(mod(int((float64(at.Hour()*60+at.Minute())/60+lon/15)*60), 24*60)) / 60
			}
			if h := local(dayPass); h < 9.4 || h > 11.5 {
				t.Errorf("day pass at %g h local time", h)
			}
			if h := local(night); h < 21.4 || h > 23.5 {
				t.Errorf("night pass at %g h local time", h)
			}
		}
	}
}

func TestWindows(t *testing.T) {
	tests := []struct {
		product, interval, from, to string
		first                       []string
		acquisitions, days          int // of the first window
	}{
		{"MOD11A1", "month", "2020-01-15", "2020-03-31", []string{"2020-02-01", "2020-03-01"}, 29, 29},
		{"MOD11A1", "8 days", "2020-12-20", "2021-01-02", []string{"2020-12-26", "2021-01-01"}, 6, 6},
		{"VCMCFG", "year", "2013-01-01", "2015-01-01", []string{"2013-01-01", "2014-01-01", "2015-01-01"}, 12, 365},
		{"MOD13Q1", "quarter", "2020-01-01", "2020-06-30", []string{"2020-01-01", "2020-04-01"}, 6, 91},
		{"MOD13Q1", "", "2020-12-18", "2021-01-01", []string{"2020-12-18", "2021-01-01"}, 1, 14},
	}
	for _, tt := range tests {
		s := good()
		s.Product, s.Bands, s.Interval, s.Start, s.End = tt.product, nil, tt.interval, on(tt.from), on(tt.to)
		r, err := Resolve(Products(), s)
		if err != nil {
			t.Fatal(err)
		}
		from, to := r.span()
		ws := r.windows(r.Product.Dates(0, from, to))
		if len(ws) != len(tt.first) {
			t.Errorf("%s each %s: %d windows, want %v", tt.product, tt.interval, len(ws), tt.first)
			continue
		}
		for i, w := range ws {
			if w.first.Format(time.DateOnly) != tt.first[i] {
				t.Errorf("%s each %s: window %d begins on %s, want %s", tt.product, tt.interval, i, w.first.Format(time.DateOnly), tt.first[i])
			}
		}
		if len(ws[0].times) != tt.acquisitions || ws[0].span != tt.days {
			t.Errorf("%s each %s: %d acquisitions over %d days, want %d over %d", tt.product, tt.interval, len(ws[0].times), ws[0].span, tt.acquisitions, tt.days)
		}
	}
}

func FuzzParseStep(f *testing.F) {
	for _, s := range []string{"day", "8 days", "16-day", "5 years", "weekly", "00012 months", "9999999999 days", "-1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		st, err := ParseStep(s)
		if err != nil {
			return
		}
		if again, err := ParseStep(st.String()); err != nil || again != st {
			t.Fatalf("%q is %v, which is read as %v, %v", s, st, again, err)
		}
		day := date(2020, time.March, 17)
		first := st.Floor(day)
		if next := st.Next(first); first.After(day) || !next.After(day) {
			t.Fatalf("%v: 2020-03-17 is not in %s … %s", st, first, next)
		}
	})
}
