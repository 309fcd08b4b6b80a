package slots

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Date mentions stand for years of satellite records; other four-digit numbers
// (image sizes, clock times) fall outside.
const (
	firstYear = 1975
	lastYear  = 2035
)

// Mention is one date or year in a text.
type Mention struct {
	Start, End int       // byte span
	Date       time.Time // UTC midnight; 1 January for a bare year
	Layout     string    // strftime layout that writes the span again; "%Y" for a bare year
}

// Full reports whether the mention names a day, not only a year.
func (m Mention) Full() bool { return m.Layout != "%Y" }

var monthNames = func() map[string]time.Month {
	names := map[string]time.Month{"sept": time.September}
	for m := time.January; m <= time.December; m++ {
		names[strings.ToLower(m.String())] = m
		names[strings.ToLower(m.String()[:3])] = m
	}
	return names
}()

// FindDates returns the dates and years in s, in order and without overlap:
// 2022-07-12, 2022_07_12, 20220712, "July 12, 2022", "12 July 2022", and bare
// years. A clock time after a numeric date (…_1035) belongs to no mention, nor
// do digits inside longer numbers, decimals or the marks of releases (P2023A).
func FindDates(s string) []Mention {
	var found []Mention
	for i := 0; i < len(s); {
		if !digit(s[i]) {
			i++
			continue
		}
		j := i
		for j < len(s) && digit(s[j]) {
			j++
		}
		if m, ok := dateAt(s, i, j); ok {
			// A text date begins before its digits; it never reaches into the mention before.
			if n := len(found); n == 0 || found[n-1].End <= m.Start {
				found = append(found, m)
			}
			i = max(m.End, j)
			if m.Full() {
				i = skipClock(s, i)
			}
			continue
		}
		i = j
	}
	return found
}

// dateAt reads the mention whose first digit run is s[i:j].
func dateAt(s string, i, j int) (Mention, bool) {
	if i > 0 && (s[i-1] == '.' && i > 1 && digit(s[i-2])) {
		return Mention{}, false // a decimal
	}
	switch j - i {
	case 8:
		y, mo, d := num(s[i:i+4]), num(s[i+4:i+6]), num(s[i+6:j])
		if t, ok := day(y, mo, d); ok {
			return Mention{i, j, t, "%Y%m%d"}, true
		}
	case 4:
		y := num(s[i:j])
		if y < firstYear || y > lastYear {
			return Mention{}, false
		}
		if j+6 <= len(s) && strings.IndexByte("-_/", s[j]) >= 0 && s[j+3] == s[j] && digits(s[j+1:j+3]) && digits(s[j+4:j+6]) && (j+6 == len(s) || !digit(s[j+6])) {
			if t, ok := day(y, num(s[j+1:j+3]), num(s[j+4:j+6])); ok {
				sep := string(s[j])
				return Mention{i, j + 6, t, "%Y" + sep + "%m" + sep + "%d"}, true
			}
		}
		if j+1 < len(s) && s[j] == '.' && digit(s[j+1]) {
			return Mention{}, false // the whole part of a decimal
		}
		if i > 0 && capital(s[i-1]) && (i == 1 || !letter(s[i-2])) && j < len(s) && capital(s[j]) {
			return Mention{}, false // a release, as P2023A
		}
		return Mention{i, j, time.Date(y, 1, 1, 0, 0, 0, 0, time.UTC), "%Y"}, true
	case 1, 2:
		return textDate(s, i, j)
	}
	return Mention{}, false
}

// textDate reads "July 12, 2022" or "12 July 2022" around the day s[i:j]. Of a
// date in another spelling ("sept. 5 2022") only the year is a mention: no
// layout writes it again.
func textDate(s string, i, j int) (Mention, bool) {
	m, ok := wordDate(s, i, j)
	if !ok {
		return m, false
	}
	again, err := FormatDate(m.Date, m.Layout)
	return m, err == nil && again == s[m.Start:m.End]
}

func wordDate(s string, i, j int) (Mention, bool) {
	if word, start := wordBefore(s, i); start >= 0 {
		if mo, ok := monthNames[strings.ToLower(word)]; ok {
			k := j
			for k < len(s) && (s[k] == ',' || s[k] == ' ') {
				k++
			}
			if k > j && yearAt(s, k) {
				if t, ok := day(num(s[k:k+4]), int(mo), num(s[i:j])); ok {
					return Mention{start, k + 4, t, monthLayout(word) + s[start+len(word):i] + dayLayout(s[i:j]) + s[j:k] + "%Y"}, true
				}
			}
		}
	}
	if j < len(s) && s[j] == ' ' {
		k := j + 1
		for k < len(s) && letter(s[k]) {
			k++
		}
		word := s[j+1 : k]
		if mo, ok := monthNames[strings.ToLower(word)]; ok && k < len(s) && s[k] == ' ' && yearAt(s, k+1) {
			if t, ok := day(num(s[k+1:k+5]), int(mo), num(s[i:j])); ok {
				return Mention{i, k + 5, t, dayLayout(s[i:j]) + " " + monthLayout(word) + " %Y"}, true
			}
		}
	}
	return Mention{}, false
}

func wordBefore(s string, i int) (word string, start int) {
	k := i
	for k > 0 && s[k-1] == ' ' {
		k--
	}
	if k == i {
		return "", -1
	}
	start = k
	for start > 0 && letter(s[start-1]) {
		start--
	}
	return s[start:k], start
}

func yearAt(s string, k int) bool {
	if k+4 > len(s) || !digits(s[k:k+4]) || k+4 < len(s) && digit(s[k+4]) {
		return false
	}
	y := num(s[k : k+4])
	return y >= firstYear && y <= lastYear
}

// skipClock steps over a clock time glued to a numeric date: 2022-07-12_1035.
func skipClock(s string, i int) int {
	if i+5 <= len(s) && (s[i] == '_' || s[i] == 'T') && digits(s[i+1:i+5]) && (i+5 == len(s) || !digit(s[i+5])) && num(s[i+1:i+3]) < 24 && num(s[i+3:i+5]) < 60 {
		return i + 5
	}
	return i
}

func monthLayout(word string) string {
	if len(word) == 3 && !strings.EqualFold(word, "may") {
		return "%b"
	}
	return "%B"
}

func dayLayout(d string) string {
	if len(d) == 1 {
		return "%-d"
	}
	if d[0] == '0' {
		return "%d"
	}
	return "%-d"
}

// FormatDate writes t by a strftime layout of %Y %m %d %-d %B %b; other bytes stay.
func FormatDate(t time.Time, layout string) (string, error) {
	b := make([]byte, 0, len(layout)+8)
	for i := 0; i < len(layout); i++ {
		if layout[i] != '%' {
			b = append(b, layout[i])
			continue
		}
		rest := layout[i+1:]
		switch {
		case strings.HasPrefix(rest, "Y"):
			b = t.AppendFormat(b, "2006")
		case strings.HasPrefix(rest, "m"):
			b = t.AppendFormat(b, "01")
		case strings.HasPrefix(rest, "-d"):
			b = t.AppendFormat(b, "2")
			i++
		case strings.HasPrefix(rest, "d"):
			b = t.AppendFormat(b, "02")
		case strings.HasPrefix(rest, "B"):
			b = t.AppendFormat(b, "January")
		case strings.HasPrefix(rest, "b"):
			b = t.AppendFormat(b, "Jan")
		default:
			return "", fmt.Errorf("date layout %q: %q is not one of %%Y %%m %%d %%-d %%B %%b", layout, clip(rest, 2))
		}
		i++
	}
	return string(b), nil
}

func day(y, m, d int) (time.Time, bool) {
	if y < firstYear || y > lastYear || m < 1 || m > 12 || d < 1 || d > 31 {
		return time.Time{}, false
	}
	t := time.Date(y, time.Month(m), d, 0, 0, 0, 0, time.UTC)
	return t, t.Day() == d
}

func digit(c byte) bool   { return '0' <= c && c <= '9' }
func letter(c byte) bool  { return 'a' <= c|0x20 && c|0x20 <= 'z' }
func capital(c byte) bool { return 'A' <= c && c <= 'Z' }

func digits(s string) bool {
	for i := 0; i < len(s); i++ {
		if !digit(s[i]) {
			return false
		}
	}
	return s != ""
}

// num reads a short run of digits.
func num(s string) int {
	n := 0
	for i := 0; i < len(s); i++ {
		n = 10*n + int(s[i]-'0')
	}
	return n
}

// clip cuts s to at most n bytes, between runes.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
