package jinja

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"
)

// upper is str.upper: Unicode's full mapping, where "ß" becomes "SS".
func (st *state) upper(t Text) Text {
	return st.mapRuns(t, func(s string) string {
		if isASCII(s) {
			return strings.ToUpper(s)
		}
		return cases.Upper(language.Und).String(s)
	})
}

// lower is str.lower: the full mapping, with the final form of sigma at the end of words.
func (st *state) lower(t Text) Text {
	b := st.builder()
	at := 0
	for s, m := range t.runs {
		b.add(lowerRun(t.s, at, at+len(s)), m)
		at += len(s)
	}
	return b.done().withSafe(t.safe)
}

// lowerRun lowers s[from:to]; the rest of s decides about final sigmas.
func lowerRun(s string, from, to int) string {
	run := s[from:to]
	if isASCII(run) {
		return strings.ToLower(run)
	}
	var b strings.Builder
	lower := cases.Lower(language.Und, cases.HandleFinalSigma(false))
	start := from
	for i, r := range run {
		if r != 'Σ' {
			continue
		}
		b.WriteString(lower.String(s[start : from+i]))
		if finalSigma(s, from+i) {
			b.WriteString("ς")
		} else {
			b.WriteString("σ")
		}
		start = from + i + len("Σ")
	}
	b.WriteString(lower.String(s[start:to]))
	return b.String()
}

// finalSigma is Unicode's Final_Sigma condition: a cased letter before the sigma at this offset and none after it, skipping
// case-ignorable characters.
func finalSigma(s string, at int) bool {
	before := strings.TrimRightFunc(s[:at], caseIgnorable)
	r, _ := utf8.DecodeLastRuneInString(before)
	if before == "" || !isCased(r) {
		return false
	}
	after := strings.TrimLeftFunc(s[at+len("Σ"):], caseIgnorable)
	r, _ = utf8.DecodeRuneInString(after)
	return after == "" || !isCased(r)
}

func isCased(r rune) bool { return isUpper(r) || isLower(r) || unicode.IsTitle(r) }

func caseIgnorable(r rune) bool {
	return unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf, unicode.Lm, unicode.Sk) ||
		strings.ContainsRune("'.:\u00b7\u0387\u055f\u05f4\u2018\u2019\u2024\u2027\ufe13\ufe52\ufe55\uff07\uff0e\uff1a", r)
}

// titleRune is the titlecase mapping of the first character of s, which is size bytes long.
func titleRune(s string) string {
	if s[0] < utf8.RuneSelf {
		return strings.ToUpper(s[:1])
	}
	return cases.Title(language.Und, cases.NoLower).String(s[:firstRune(s)])
}

// capitalize is str.capitalize.
func (st *state) capitalize(t Text) Text {
	if t.s == "" {
		return t
	}
	n := firstRune(t.s)
	b := st.builder()
	at := 0
	for s, m := range t.runs {
		start := at
		if at == 0 {
			b.add(titleRune(s), m)
			start = n
		}
		at += len(s)
		b.add(lowerRun(t.s, start, at), m)
	}
	return b.done().withSafe(t.safe)
}

// title is str.title: a cased letter is in title case after an uncased character and lower after a cased one.
func (st *state) title(t Text) Text {
	b := st.builder()
	at := 0
	cased := false
	for s, m := range t.runs {
		for i, r := range s {
			size := utf8.RuneLen(r)
			switch {
			case cased:
				b.add(lowerRun(t.s, at+i, at+i+size), m)
			default:
				b.add(titleRune(s[i:]), m)
			}
			cased = isCased(r)
		}
		at += len(s)
	}
	return b.done().withSafe(t.safe)
}

// titleFilter is the filter of that name, which has its own idea of where words begin.
func (st *state) titleFilter(t Text) Text {
	begins := func(r rune) bool { return isSpace(r) || strings.ContainsRune("-({[<", r) }
	b := st.builder()
	for rest := t; rest.s != ""; {
		inWord := !begins(firstOf(rest.s))
		end := strings.IndexFunc(rest.s, func(r rune) bool { return begins(r) == inWord })
		if end < 0 {
			end = len(rest.s)
		}
		item := rest.slice(0, end)
		n := firstRune(item.s)
		b.text(st.upper(item.slice(0, n)))
		b.text(st.lower(item.slice(n, end)))
		rest = rest.slice(end, len(rest.s))
	}
	return b.done()
}

func firstOf(s string) rune {
	r, _ := utf8.DecodeRuneInString(s)
	return r
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
