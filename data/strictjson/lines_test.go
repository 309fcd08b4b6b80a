package strictjson

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func readLines(r io.Reader) (lines []string, err error) {
	err = Lines(r, "x.jsonl", func(line int, v Value) error {
		lines = append(lines, fmt.Sprintf("%d %s", line, v.JSON()))
		return nil
	})
	return lines, err
}

func TestLines(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", ""},
		{"one", `{"a":1}`, `1 {"a":1}`},
		{"ended", "1\n2\n", "1 1|2 2"},
		{"CRLF", "1\r\n2\r\n", "1 1|2 2"},
		{"BOM", "\xef\xbb\xbf1\n2", "1 1|2 2"},
		{"blank lines", "\n1\n\n  \t\n2\n\n", "2 1|5 2"},
	} {
		for _, r := range []io.Reader{strings.NewReader(c.text), iotest.OneByteReader(strings.NewReader(c.text))} {
			lines, err := readLines(r)
			if got := strings.Join(lines, "|"); err != nil || got != c.want {
				t.Errorf("%s: got %q, %v; want %q", c.name, got, err, c.want)
			}
		}
	}
}

func TestLinesSayWhere(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"1\n{\"a\":1,\"a\":2}\n", `x.jsonl:2:8: key "a" is repeated`},
		{"1\n\n{\"a\":[0,NaN]}", `x.jsonl:3:9 at /a/1: "NaN]}" is not JSON`},
		{"{\"a\":1} {\"b\":2}\n", "x.jsonl:1:9: bytes after the JSON value"},
		{"{\"a\":\n1}\n", "x.jsonl:1:6 at /a: the text ends"},
		{"\"\\ud800\"\n", "x.jsonl:1:2: lone surrogate"},
		{"\"\xff\"\n", "x.jsonl:1:2: invalid UTF-8"},
		{"1\n\u00a0\n", `x.jsonl:2:1: "\u00a0" is not JSON`},
	} {
		_, err := readLines(strings.NewReader(c.text))
		var e *Error
		if !errors.As(err, &e) || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%q: %v, want %s…", c.text, err, c.want)
		}
	}
}

func TestLinesStopAtTheCallersError(t *testing.T) {
	stop := errors.New("stop")
	n := 0
	err := Lines(strings.NewReader("1\n2\n3\n"), "x", func(line int, v Value) error {
		n++
		if line == 2 {
			return stop
		}
		return nil
	})
	if !errors.Is(err, stop) || n != 2 {
		t.Errorf("%d lines, %v", n, err)
	}
}

func TestLinesPassReadErrorsOn(t *testing.T) {
	broken := errors.New("broken")
	_, err := readLines(io.MultiReader(strings.NewReader("1\n2"), iotest.ErrReader(broken)))
	if !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

// Long lines are read in full; one beyond the limit is a named error and never
// a short read with success.
func TestLongLines(t *testing.T) {
	sizes := []int{70 << 10, 1<<20 - 1, 1 << 20, 1<<20 + 1, 5 << 20}
	if !testing.Short() {
		sizes = append(sizes, 50<<20)
	}
	for _, n := range sizes {
		body := strings.Repeat("x", n)
		r := io.MultiReader(strings.NewReader("1\n\""), strings.NewReader(body), strings.NewReader("\"\n3"))
		total, last := 0, 0
		err := Lines(r, "x", func(line int, v Value) error {
			total += len(v.Text())
			last = line
			return nil
		})
		if err != nil || total != n+2 || last != 3 {
			t.Errorf("line of %d bytes: read %d bytes, %d lines, %v", n, total, last, err)
		}
	}
	over := io.MultiReader(strings.NewReader("1\n\""), io.LimitReader(letters{}, MaxLine), strings.NewReader("\"\n"))
	if _, err := readLines(over); err == nil || !strings.Contains(err.Error(), "x.jsonl:2: line longer than") {
		t.Errorf("a line over the limit: %v", err)
	}
}

type letters struct{}

func (letters) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'x'
	}
	return len(b), nil
}
