package archive

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Unit is a calendar unit of a Step.
type Unit uint8

// The units.
const (
	Day Unit = iota
	Month
	Year
)

var unitWords = [...]string{"day", "month", "year"}

// Step is a length of calendar time. The zero Step means "not stated".
type Step struct {
	N    int
	Unit Unit
}

// namedSteps are the words for a step besides "N days", "N months", "N years".
var namedSteps = map[string]Step{
	"day": {1, Day}, "daily": {1, Day}, "week": {7, Day}, "weekly": {7, Day},
	"month": {1, Month}, "monthly": {1, Month}, "quarter": {3, Month}, "quarterly": {3, Month},
	"year": {1, Year}, "yearly": {1, Year}, "annual": {1, Year}, "annually": {1, Year},
}

// stepForms describes the grammar of ParseStep in messages.
const stepForms = `use "day", "week", "month", "quarter", "year", or a number of days, months or years such as "8 days"`

// ParseStep reads a step: "day", "8 days", "16-day", "monthly", "1 year", "5 years".
func ParseStep(s string) (Step, error) {
	word := strings.ToLower(strings.TrimSpace(s))
	if st, ok := namedSteps[word]; ok {
		return st, nil
	}
	digits := 0
	for digits < len(word) && word[digits] >= '0' && word[digits] <= '9' {
		digits++
	}
	n, err := strconv.Atoi(word[:digits])
	unit := strings.TrimLeft(word[digits:], " -")
	if err == nil && n > 0 {
		for u, name := range unitWords {
			if unit == name || unit == name+"s" {
				st := Step{n, Unit(u)}
				if limit := [...]int{366, 12, 100}[u]; n > limit {
					return Step{}, fmt.Errorf("%q: at most %d %ss", s, limit, name)
				}
				return st, nil
			}
		}
	}
	return Step{}, fmt.Errorf("%q is no interval: %s", s, stepForms)
}

// IsZero reports whether no step is stated.
func (s Step) IsZero() bool { return s.N == 0 }

func (s Step) String() string {
	switch {
	case s.IsZero():
		return "own"
	case s.N == 1:
		return unitWords[s.Unit]
	}
	return fmt.Sprintf("%d %ss", s.N, unitWords[s.Unit])
}

// days is the usual length of the step, to compare steps by.
func (s Step) days() float64 { return float64(s.N) * [...]float64{1, 30.4, 365}[s.Unit] }

// Floor returns the first day of the composite that holds day t.
func (s Step) Floor(t time.Time) time.Time {
	t = midnight(t)
	y, m, _ := t.Date()
	switch s.Unit {
	case Year:
		return date(y-mod(y, s.N), time.January, 1)
	case Month:
		return date(y, m-time.Month(mod(int(m)-1, s.N)), 1)
	}
	return t.AddDate(0, 0, -(t.YearDay()-1)%s.N)
}

// Next returns the first day of the composite after the one that begins on t.
func (s Step) Next(t time.Time) time.Time {
	switch s.Unit {
	case Year:
		return t.AddDate(s.N, 0, 0)
	case Month:
		next := t.AddDate(0, s.N, 0)
		if next.Year() != t.Year() { // restarts in January
			next = date(next.Year(), time.January, 1)
		}
		return next
	}
	next := t.AddDate(0, 0, s.N)
	if next.Year() != t.Year() {
		next = date(next.Year(), time.January, 1)
	}
	return next
}

// firstFrom returns the first day of the first composite that begins on day t or later.
func (s Step) firstFrom(t time.Time) time.Time {
	if f := s.Floor(t); f.Equal(midnight(t)) {
		return f
	} else {
		return s.Next(f)
	}
}

// mod is the remainder that is never negative.
func mod(a, n int) int { return ((a % n) + n) % n }

func date(y int, m time.Month, d int) time.Time { return time.Date(y, m, d, 0, 0, 0, 0, time.UTC) }

// midnight drops clock and zone of a day, keeping the day as it reads.
func midnight(t time.Time) time.Time { return date(t.Date()) }

// DayNumber counts days from 1970-01-01.
func DayNumber(t time.Time) int { return int(midnight(t).Unix() / 86400) }
