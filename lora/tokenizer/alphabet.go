package tokenizer

// The byte alphabet of GPT-2: tokenizer files spell each byte as one printable character. The 188 bytes that are printable in
// Latin-1 stand for themselves; the other 68 are U+0100, U+0101, … in byte order.
var (
	byteToRune [256]rune
	runeToByte = map[rune]byte{}
)

func init() {
	next := rune(0x100)
	for b := range 256 {
		r := rune(b)
		if printable := b >= '!' && b <= '~' || b >= 0xA1 && b <= 0xAC || b >= 0xAE; !printable {
			r, next = next, next+1
		}
		byteToRune[b] = r
		runeToByte[r] = byte(b)
	}
}

// spell writes raw bytes in the byte alphabet.
func spell(raw string) string {
	out := make([]rune, len(raw))
	for i := range len(raw) {
		out[i] = byteToRune[raw[i]]
	}
	return string(out)
}

// appendUnspelled appends the bytes that token stands for. A token with any character outside the alphabet stands for its own
// UTF-8 bytes; that is the rule of the reference's ByteLevel decoder and is what makes added tokens readable.
func appendUnspelled(dst []byte, token string) []byte {
	start := len(dst)
	for _, r := range token {
		b, ok := runeToByte[r]
		if !ok {
			return append(dst[:start], token...)
		}
		dst = append(dst, b)
	}
	return dst
}
