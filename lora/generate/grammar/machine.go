package grammar

import (
	"encoding/binary"
	"strings"
)

// The machine reads a document byte by byte. A configuration is a stack of frames, the innermost first; each frame is
// immutable and already in the state that it will have when the ones above it are done. Where a schema leaves a choice
// open there are several configurations at once; a document is a prefix of a valid one as long as one remains.

type frameKind uint8

const (
	frameDone    frameKind = iota // the whole document is read
	frameValue                    // a value of node begins; state 1: without a space before it
	frameLiteral                  // the rest of text
	frameString                   // inside a string; state is a stringState
	frameKey                      // inside a key of a map; text is what it holds so far
	frameColon                    // ':' and a value of node
	frameNumber                   // state is a numberState, count the digits in its part
	frameObject                   // used are the properties written; state is a listState
	frameMap                      // text holds the keys written, each after a NUL
	frameArray                    // count items are written
)

// listState is where a reader is between the parts of an object or array.
type listState = uint8

const (
	listOpen  listState = iota // after the bracket
	listItem                   // after an item
	listComma                  // after a comma
	listSpace                  // after a comma and a space
)

type frame struct {
	kind  frameKind
	node  *node
	state uint8
	count int
	used  uint64
	text  string
	up    *frame
}

var done = &frame{kind: frameDone}

func (n *node) start() *frame { return &frame{kind: frameValue, node: n, state: 1, up: done} }

// step appends to out the configurations that follow f on byte b.
func (f *frame) step(b byte, out []*frame) []*frame {
	switch f.kind {
	case frameValue:
		if b == ' ' && f.state == 0 {
			return append(out, &frame{kind: frameValue, node: f.node, state: 1, up: f.up})
		}
		return f.node.begin(b, f.up, out)
	case frameLiteral:
		if b != f.text[0] {
			return out
		}
		if len(f.text) == 1 {
			return append(out, f.up)
		}
		return append(out, &frame{kind: frameLiteral, text: f.text[1:], up: f.up})
	case frameString:
		next, ok := stringStep(f.state, b)
		switch {
		case !ok:
			return out
		case next == stringEnd:
			return append(out, f.up)
		case next == f.state:
			return append(out, f)
		}
		return append(out, &frame{kind: frameString, state: next, up: f.up})
	case frameKey:
		return f.keyStep(b, out)
	case frameColon:
		if b != ':' {
			return out
		}
		return append(out, &frame{kind: frameValue, node: f.node, up: f.up})
	case frameNumber:
		next, ok := numberStep(f.state, b, f.node.kind == kindInteger)
		if ok {
			count := f.count + 1
			if next != f.state {
				count = 1
			}
			if count > numberDigits(next) {
				return out
			}
			return append(out, &frame{kind: frameNumber, node: f.node, state: next, count: count, up: f.up})
		}
		if numberEnds(f.state) {
			return f.up.step(b, out) // what ends a number belongs to what is around it
		}
	case frameObject, frameMap, frameArray:
		return f.listStep(b, out)
	}
	return out
}

// begin is a value's first byte.
func (n *node) begin(b byte, up *frame, out []*frame) []*frame {
	switch n.kind {
	case kindUnion:
		for _, o := range n.options {
			out = o.begin(b, up, out)
		}
	case kindLiteral:
		for _, t := range n.texts {
			out = (&frame{kind: frameLiteral, text: t, up: up}).step(b, out)
		}
	case kindString:
		if b == '"' {
			out = append(out, &frame{kind: frameString, up: up})
		}
	case kindNumber, kindInteger:
		if next, ok := numberStep(numberStart, b, n.kind == kindInteger); ok {
			out = append(out, &frame{kind: frameNumber, node: n, state: next, count: 1, up: up})
		}
	case kindObject:
		if b == '{' {
			out = append(out, &frame{kind: frameObject, node: n, up: up})
		}
	case kindMap:
		if b == '{' {
			out = append(out, &frame{kind: frameMap, node: n, up: up})
		}
	case kindArray:
		if b == '[' {
			out = append(out, &frame{kind: frameArray, node: n, up: up})
		}
	}
	return out
}

// listStep reads what stands between the parts of an object, map or array.
func (f *frame) listStep(b byte, out []*frame) []*frame {
	with := func(state listState) *frame {
		g := *f
		g.state = state
		return &g
	}
	closer := byte('}')
	if f.kind == frameArray {
		closer = ']'
	}
	switch {
	case b == closer && (f.state == listOpen || f.state == listItem) && f.mayClose():
		return append(out, f.up)
	case b == ',' && f.state == listItem && f.mayContinue():
		return append(out, with(listComma))
	case b == ' ' && f.state == listComma:
		return append(out, with(listSpace))
	case f.state == listItem || f.state == listOpen && !f.mayContinue():
		return out
	}
	after := with(listItem)
	switch f.kind {
	case frameArray:
		after.count++
		return f.node.items.begin(b, after, out)
	case frameMap:
		if b == '"' {
			out = append(out, &frame{kind: frameKey, up: f})
		}
		return out
	}
	for i, p := range f.node.props {
		if f.used&(1<<i) == 0 && b == p.key[0] {
			g := *after
			g.used |= 1 << i
			colon := &frame{kind: frameColon, node: p.value, up: &g}
			out = (&frame{kind: frameLiteral, text: p.key, up: colon}).step(b, out)
		}
	}
	return out
}

func (f *frame) mayClose() bool {
	switch f.kind {
	case frameArray:
		return f.count >= f.node.minItems
	case frameObject:
		return f.node.required&^f.used == 0
	}
	return true
}

func (f *frame) mayContinue() bool {
	switch f.kind {
	case frameArray:
		return f.node.maxItems < 0 || f.count < f.node.maxItems
	case frameObject:
		return f.used != 1<<len(f.node.props)-1
	}
	return true
}

// keyStep reads a key of a map. Escapes are left out so that equal keys are spelt the same, and none comes twice.
func (f *frame) keyStep(b byte, out []*frame) []*frame {
	if b == '"' && f.state == stringIn {
		if f.up.hasKey(f.text) {
			return out
		}
		after := *f.up
		after.state, after.text = listItem, f.up.text+"\x00"+f.text
		return append(out, &frame{kind: frameColon, node: after.node.items, up: &after})
	}
	next, ok := stringStep(f.state, b)
	if !ok || b == '\\' {
		return out
	}
	return append(out, &frame{kind: frameKey, state: next, text: f.text + string([]byte{b}), up: f.up})
}

// hasKey reports whether a map has the key already.
func (f *frame) hasKey(key string) bool { return strings.Contains(f.text+"\x00", "\x00"+key+"\x00") }

// closing is how many bytes a configuration needs at least to the end of the document.
func (f *frame) closing() int {
	total := 0
	for ; f.kind != frameDone; f = f.up {
		switch f.kind {
		case frameValue:
			total += f.node.shortest
		case frameLiteral:
			total += len(f.text)
		case frameString:
			total += stringRest(f.state)
		case frameKey:
			total += stringRest(f.state) + 1 + f.up.node.items.shortest + 1
			if f.up.hasKey(f.text) {
				total++ // a longer one
			}
			f = f.up // whose closing bracket is counted
		case frameColon:
			total += 1 + f.node.shortest
		case frameNumber:
			if !numberEnds(f.state) {
				total++
			}
		case frameObject:
			total += f.node.closing(f.used, f.state == listItem)
			if (f.state == listComma || f.state == listSpace) && f.node.required&^f.used == 0 {
				total += f.nextMember()
			}
		case frameMap:
			total++
			if f.state == listComma || f.state == listSpace {
				total += f.freshKey() + 3 + f.node.items.shortest
			}
		case frameArray:
			missing := max(f.node.minItems-f.count, 0)
			if f.state == listComma || f.state == listSpace {
				missing = max(missing, 1)
			}
			total += 1 + missing*f.node.items.shortest + max(missing-1, 0)
			if f.state == listItem && missing > 0 {
				total++
			}
		}
	}
	return total
}

// nextMember is the shortest member that can follow a comma when all required ones are written.
func (f *frame) nextMember() int {
	best := 0
	for i, p := range f.node.props {
		if f.used&(1<<i) == 0 && (best == 0 || p.member() < best) {
			best = p.member()
		}
	}
	return best
}

// freshKey is the length of the shortest unused key of a map, or one more when there are more than 90 keys.
func (f *frame) freshKey() int {
	n := 0
	for used := strings.Count(f.text, "\x00"); used > 0 && (n > 0 || f.hasKey("")); used /= 90 {
		n++
	}
	return n
}

// key identifies a configuration.
func (f *frame) key(buf []byte) []byte {
	for ; f.kind != frameDone; f = f.up {
		buf = append(buf, byte(f.kind), f.state)
		if f.node != nil {
			buf = binary.AppendUvarint(buf, uint64(f.node.id))
		}
		buf = binary.AppendUvarint(buf, uint64(f.count))
		buf = binary.AppendUvarint(buf, f.used)
		buf = binary.AppendUvarint(buf, uint64(len(f.text)))
		buf = append(buf, f.text...)
	}
	return append(buf, byte(frameDone))
}

// States of a string. The numbered ones are inside a character: bytes of UTF-8 that must follow (RFC 3629), or digits of
// an escape.
const (
	stringIn uint8 = iota
	stringTail1
	stringTail2
	stringTail3
	stringE0
	stringED
	stringF0
	stringF4
	stringEscape
	stringHex1
	stringHex2
	stringHex3
	stringHex4
	stringHexD // after \ud or \uD: 0 … 7, what follows up to F are surrogates
	stringEnd
)

func stringStep(state, b byte) (next uint8, ok bool) {
	tail := func(low, high byte, next uint8) (uint8, bool) { return next, b >= low && b <= high }
	switch state {
	case stringTail1:
		return tail(0x80, 0xbf, stringIn)
	case stringTail2:
		return tail(0x80, 0xbf, stringTail1)
	case stringTail3:
		return tail(0x80, 0xbf, stringTail2)
	case stringE0:
		return tail(0xa0, 0xbf, stringTail1)
	case stringED:
		return tail(0x80, 0x9f, stringTail1)
	case stringF0:
		return tail(0x90, 0xbf, stringTail2)
	case stringF4:
		return tail(0x80, 0x8f, stringTail2)
	case stringEscape:
		if b == 'u' {
			return stringHex1, true
		}
		return stringIn, strings.IndexByte(`"\/bfnrt`, b) >= 0
	case stringHex1:
		if b == 'd' || b == 'D' {
			return stringHexD, true
		}
		return stringHex2, isHex(b)
	case stringHexD:
		return stringHex3, b >= '0' && b <= '7'
	case stringHex2, stringHex3:
		return state + 1, isHex(b)
	case stringHex4:
		return stringIn, isHex(b)
	}
	switch {
	case b == '"':
		return stringEnd, true
	case b == '\\':
		return stringEscape, true
	case b < 0x20:
		return 0, false
	case b < 0x80:
		return stringIn, true
	case b < 0xc2:
		return 0, false
	case b < 0xe0:
		return stringTail1, true
	case b == 0xe0:
		return stringE0, true
	case b == 0xed:
		return stringED, true
	case b < 0xf0:
		return stringTail2, true
	case b == 0xf0:
		return stringF0, true
	case b < 0xf4:
		return stringTail3, true
	case b == 0xf4:
		return stringF4, true
	}
	return 0, false
}

func isHex(b byte) bool {
	return b >= '0' && b <= '9' || b >= 'a' && b <= 'f' || b >= 'A' && b <= 'F'
}

// stringRest is how many bytes a string needs at least, its closing quote included.
func stringRest(state uint8) int {
	switch state {
	case stringTail1, stringEscape, stringHex4:
		return 2
	case stringTail2, stringE0, stringED, stringHex3:
		return 3
	case stringTail3, stringF0, stringF4, stringHex2, stringHexD:
		return 4
	case stringHex1:
		return 5
	}
	return 1
}

// States of a number.
const (
	numberStart uint8 = iota
	numberMinus
	numberZero
	numberInt
	numberPoint
	numberFraction
	numberE
	numberSign
	numberExponent
)

func numberStep(state, b byte, integer bool) (next uint8, ok bool) {
	digit := b >= '0' && b <= '9'
	whole := state == numberZero || state == numberInt
	switch {
	case state == numberStart && b == '-':
		return numberMinus, true
	case state <= numberMinus && b == '0':
		return numberZero, true
	case (state <= numberMinus || state == numberInt) && digit:
		return numberInt, true
	case integer:
		return 0, false
	case whole && b == '.':
		return numberPoint, true
	case (state == numberPoint || state == numberFraction) && digit:
		return numberFraction, true
	case (whole || state == numberFraction) && (b == 'e' || b == 'E'):
		return numberE, true
	case state == numberE && (b == '-' || b == '+'):
		return numberSign, true
	case state >= numberE && digit:
		return numberExponent, true
	}
	return 0, false
}

func numberEnds(state uint8) bool {
	return state == numberZero || state == numberInt || state == numberFraction || state == numberExponent
}

// numberDigits is how many digits in a row a number may have.
func numberDigits(state uint8) int {
	if state == numberExponent {
		return 2
	}
	return 15
}
