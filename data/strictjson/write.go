package strictjson

import "unicode/utf8"

// AppendJSON appends v as compact JSON. Only what RFC 8259 demands is escaped.
// Absent appends nothing.
func (v Value) AppendJSON(dst []byte) []byte {
	switch v.kind {
	case Null:
		return append(dst, "null"...)
	case Bool, Number:
		return append(dst, v.text...)
	case String:
		return AppendString(dst, v.text)
	case Array:
		dst = append(dst, '[')
		for i, kid := range v.inside().kids {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = kid.AppendJSON(dst)
		}
		return append(dst, ']')
	case Object:
		dst = append(dst, '{')
		in := v.inside()
		for i, kid := range in.kids {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(AppendString(dst, in.keys[i]), ':')
			dst = kid.AppendJSON(dst)
		}
		return append(dst, '}')
	}
	return dst
}

// JSON is AppendJSON as a string.
func (v Value) JSON() string { return string(v.AppendJSON(nil)) }

// AppendString appends s as a JSON string. s must be valid UTF-8; a byte that is
// not appears as U+FFFD.
func AppendString(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && n == 1 {
				dst = append(append(dst, s[start:i]...), "\ufffd"...)
				start = i + 1
			}
			i += n
			continue
		}
		if c >= 0x20 && c != '"' && c != '\\' {
			i++
			continue
		}
		dst = append(dst, s[start:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		i++
		start = i
	}
	return append(append(dst, s[start:]...), '"')
}

// MarshalJSON makes a Value a member of structs that encoding/json writes;
// Absent gives null. Turn SetEscapeHTML off in the encoder to keep the text.
func (v Value) MarshalJSON() ([]byte, error) {
	if v.kind == Absent {
		return []byte("null"), nil
	}
	return v.AppendJSON(nil), nil
}

// UnmarshalJSON parses strictly.
func (v *Value) UnmarshalJSON(text []byte) error {
	w, err := Parse(text)
	if err != nil {
		return err
	}
	*v = w
	return nil
}
