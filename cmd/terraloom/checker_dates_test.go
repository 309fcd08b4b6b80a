package main

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// dated is a day or a bare year found in a text.
type dated struct {
	day  time.Time
	full bool
}

const monthWords = `January|February|March|April|May|June|July|August|September|October|November|December|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sep|Oct|Nov|Dec`

var (
	monthDay = regexp.MustCompile(`(?i)\b(` + monthWords + `)\.? (\d{1,2}),? ((?:19|20)\d\d)\b`)
	dayMonth = regexp.MustCompile(`(?i)\b(\d{1,2}) (` + monthWords + `) ((?:19|20)\d\d)\b`)
	digitRun = regexp.MustCompile(`\d+`)
)

// datesIn lists the days and bare years of a text: numeric days with one
// separator or none, with or without a clock time behind; months in words; years
// from 1980 to 2039 that are no part of a decimal.
func datesIn(s string) []dated {
	if len(s) < 4 {
		return nil
	}
	var out []dated
	rest := []byte(s)
	add := func(from, to int, y, mo, d string) bool {
		year, _ := strconv.Atoi(y)
		month, _ := strconv.Atoi(mo)
		day, _ := strconv.Atoi(d)
		when := time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC)
		if when.Day() != day || int(when.Month()) != month {
			return false
		}
		out = append(out, dated{when, true})
		for i := from; i < to; i++ {
			rest[i] = ' '
		}
		return true
	}
	month := func(name string) string {
		when, _ := time.Parse("Jan", strings.ToUpper(name[:1])+strings.ToLower(name[1:3]))
		return strconv.Itoa(int(when.Month()))
	}
	if strings.Contains(s, " ") {
		for _, m := range monthDay.FindAllStringSubmatchIndex(s, -1) {
			add(m[0], m[1], s[m[6]:m[7]], month(s[m[2]:m[3]]), s[m[4]:m[5]])
		}
		for _, m := range dayMonth.FindAllStringSubmatchIndex(s, -1) {
			add(m[0], m[1], s[m[6]:m[7]], month(s[m[4]:m[5]]), s[m[2]:m[3]])
		}
	}
	runs := digitRun.FindAllIndex(rest, -1)
	text := func(k int) string { return string(rest[runs[k][0]:runs[k][1]]) }
	clock := func(k int) int { // where the clock time in run k ends, if it is one
		if k < len(runs) && len(text(k)) == 4 && runs[k][0] > 0 && strings.IndexByte("_T", rest[runs[k][0]-1]) >= 0 && text(k) < "2400" {
			return 1
		}
		return 0
	}
	for k := 0; k < len(runs); k++ {
		r := text(k)
		if len(r) == 8 && r[:2] >= "19" && r[:2] <= "20" && add(0, 0, r[:4], r[4:6], r[6:]) {
			k += clock(k + 1)
			continue
		}
		if len(r) != 4 || r < "1980" || r > "2039" {
			continue
		}
		at := runs[k][1]
		if k+2 < len(runs) && len(text(k+1)) == 2 && len(text(k+2)) == 2 && runs[k+1][0] == at+1 && runs[k+2][0] == at+4 &&
			rest[at] == rest[at+3] && strings.IndexByte("-_/", rest[at]) >= 0 && add(0, 0, r, text(k+1), text(k+2)) {
			k += 2
			k += clock(k + 1)
			continue
		}
		decimal := at+1 < len(rest) && rest[at] == '.' && '0' <= rest[at+1] && rest[at+1] <= '9' || runs[k][0] > 1 && rest[runs[k][0]-1] == '.' && '0' <= rest[runs[k][0]-2] && rest[runs[k][0]-2] <= '9'
		if !decimal {
			year, _ := strconv.Atoi(r)
			out = append(out, dated{time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC), false})
		}
	}
	return out
}

// moved is how an instance's dates differ from its seed's: whole years, then days.
type moved struct{ years, days int }

func (m moved) apply(d time.Time) time.Time { return d.AddDate(m.years, 0, m.days) }

// datesOf is datesIn, remembered by the last part of a path: folders have no dates.
func (c *checker) datesOf(s string) []dated {
	if i := strings.LastIndexByte(s, '/'); i >= 0 && len(s) < 200 {
		if _, ok := c.known[s[:i]]; !ok {
			c.known[s[:i]] = datesIn(s[:i])
		}
		if len(c.known[s[:i]]) == 0 {
			s = s[i+1:]
		}
	}
	d, ok := c.known[s]
	if !ok {
		d = datesIn(s)
		c.known[s] = d
	}
	return d
}

// dates: all dates of an instance moved by the same years and days, and those of
// the arguments stand in its own listing where the seed's do.
func (c *checker) dates(seed, in *rawSeed, id string) {
	if strings.HasPrefix(seed.id, "earth-bench-") {
		if n, _ := strconv.Atoi(seed.id[len("earth-bench-"):]); n > 188 {
			return // images without dates; numbers in their names are tiles
		}
	}
	var m moved
	known, modis := false, strings.Contains(seed.query, "MODIS")
	listed := map[time.Time]bool{}
	seedListed := map[time.Time]bool{}
	compare := func(where, old, now string) {
		a, b := c.datesOf(old), c.datesOf(now)
		if len(a) != len(b) {
			c.fault("%s %s: %d dates in %.160q, the seed has %d in %.160q", id, where, len(b), now, len(a), old)
			return
		}
		for k := range a {
			if a[k].full != b[k].full {
				c.fault("%s %s: %.100q and %.100q have other kinds of dates", id, where, old, now)
				return
			}
			if !known && a[k].full {
				m.years = b[k].day.Year() - a[k].day.Year()
				m.days = int(math.Round(b[k].day.Sub(a[k].day.AddDate(m.years, 0, 0)).Hours() / 24))
				if m.days > 180 {
					m.years, m.days = m.years+1, int(math.Round(b[k].day.Sub(a[k].day.AddDate(m.years+1, 0, 0)).Hours()/24))
				} else if m.days < -180 {
					m.years, m.days = m.years-1, int(math.Round(b[k].day.Sub(a[k].day.AddDate(m.years-1, 0, 0)).Hours()/24))
				}
				known = true
			}
			want := m.apply(a[k].day)
			if !a[k].full {
				want = a[k].day.AddDate(m.years, 0, 0)
				if !known { // bare years before any full date
					m.years, known = b[k].day.Year()-a[k].day.Year(), true
					want = b[k].day
				}
			}
			if first := time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC); b[k].day.Year() > 2025 && a[k].day.Year() <= 2025 || b[k].day.Before(first) && !a[k].day.Before(first) {
				c.fault("%s %s: %s is outside the years 1980 to 2025", id, where, b[k].day.Format(time.DateOnly))
			}
			if terra := time.Date(2000, 2, 1, 0, 0, 0, 0, time.UTC); modis && b[k].day.Before(terra) && !a[k].day.Before(terra) {
				c.fault("%s %s: %s is before the first MODIS image", id, where, b[k].day.Format(time.DateOnly))
			}
			if !b[k].day.Equal(want) {
				c.fault("%s %s: %s became %s, other dates moved by %d years and %d days: %.120q", id, where, a[k].day.Format(time.DateOnly), b[k].day.Format(time.DateOnly), m.years, m.days, now)
				return
			}
		}
	}
	both := func(where string, x, y any, f func(old, now string)) {
		a, b := leavesOf(x), leavesOf(y)
		for k := range a {
			old, ok := a[k].v.(string)
			if !ok || k >= len(b) {
				continue
			}
			now, _ := b[k].v.(string)
			compare(where, old, now)
			if f != nil {
				f(old, now)
			}
		}
	}
	for i := range seed.steps {
		if seed.steps[i].tool == "get_filelist" {
			both("listing", seed.steps[i].obs, in.steps[i].obs, func(old, now string) {
				for _, d := range c.datesOf(old) {
					seedListed[d.day] = true
				}
				for _, d := range c.datesOf(now) {
					listed[d.day] = true
				}
			})
		}
	}
	compare("question", seed.query, in.query)
	for i := range seed.steps {
		where := fmt.Sprintf("step %d", i)
		both(where, seed.steps[i].args, in.steps[i].args, func(old, now string) {
			a, b := c.datesOf(old), c.datesOf(now)
			for k := range b {
				if b[k].full && k < len(a) && seedListed[a[k].day] && !listed[b[k].day] {
					c.fault("%s %s: %s is not in the instance's listing: %.120q", id, where, b[k].day.Format(time.DateOnly), now)
				}
			}
		})
		if !c.kit.Pure(seed.steps[i].tool) {
			both(where, seed.steps[i].obs, in.steps[i].obs, nil)
		}
	}
}
