package strictjson

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// MaxLine is the longest JSONL line, in bytes, that Lines accepts.
const MaxLine = 64 << 20

// Lines reads a JSONL stream: one value a line, LF or CRLF, an optional byte
// order mark, blank lines skipped. name stands in errors as "name:line". f
// gets the 1-based line number; its error ends the reading and is returned.
func Lines(r io.Reader, name string, f func(line int, v Value) error) error {
	br := bufio.NewReaderSize(r, 1<<20)
	var long []byte
	for line := 1; ; line++ {
		text, err := br.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			long = append(long[:0], text...)
			for errors.Is(err, bufio.ErrBufferFull) && len(long) <= MaxLine {
				text, err = br.ReadSlice('\n')
				long = append(long, text...)
			}
			if len(long) > MaxLine {
				return fmt.Errorf("%s:%d: line longer than %d bytes", name, line, MaxLine)
			}
			text = long
		}
		if err != nil && err != io.EOF {
			return fmt.Errorf("%s:%d: %w", name, line, err)
		}
		last := err == io.EOF
		if line == 1 {
			text = bytes.TrimPrefix(text, bom)
		}
		if text = bytes.TrimRight(text, "\r\n"); len(bytes.Trim(text, " \t\r")) > 0 {
			v, err := Parse(text)
			if err != nil {
				var e *Error
				errors.As(err, &e)
				e.Line = line
				return fmt.Errorf("%s:%w", name, e)
			}
			if err := f(line, v); err != nil {
				return err
			}
		}
		if last {
			return nil
		}
	}
}
