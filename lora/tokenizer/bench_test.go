package tokenizer

import (
	"os"
	"testing"
	"unicode/utf8"
)

// benchDocs cuts the public benchmark's questions into documents of 4096 characters (English, JSON, file names): the shape that
// the reference was measured on.
func benchDocs(b *testing.B) []string {
	b.Helper()
	data, err := os.ReadFile(sharedPath(b, "earth-bench", "question.json"))
	if err != nil {
		b.Fatal(err)
	}
	var docs []string
	for text := string(data); text != ""; {
		end := 0
		for n := 0; n < 4096 && end < len(text); n++ {
			_, w := utf8.DecodeRuneInString(text[end:])
			end += w
		}
		docs = append(docs, text[:end])
		text = text[end:]
	}
	return docs
}

// reportTokens turns a count of tokens into millions per second; one goroutine, so per core.
func reportTokens(b *testing.B, tokens, size int) {
	b.ReportMetric(float64(tokens)/b.Elapsed().Seconds()/1e6, "Mtok/s")
	b.SetBytes(int64(size / b.N))
}

// BenchmarkEncodeCold encodes every document with scratch space and cache made for it alone.
func BenchmarkEncodeCold(b *testing.B) {
	docs := benchDocs(b)
	for _, family := range families {
		b.Run(family, func(b *testing.B) {
			tok := goldenTokenizer(b, family)
			tokens, size := 0, 0
			for i := 0; b.Loop(); i++ {
				doc := docs[i%len(docs)]
				e := newEncoder(tok)
				e.text(doc, true)
				tokens += len(e.out)
				size += len(doc)
			}
			reportTokens(b, tokens, size)
		})
	}
}

// BenchmarkEncode encodes a stream of documents as callers do, with scratch space from the pool.
func BenchmarkEncode(b *testing.B) {
	docs := benchDocs(b)
	for _, family := range families {
		b.Run(family, func(b *testing.B) {
			tok := goldenTokenizer(b, family)
			tokens, size := 0, 0
			for i := 0; b.Loop(); i++ {
				doc := docs[i%len(docs)]
				tokens += len(tok.Encode(doc))
				size += len(doc)
			}
			reportTokens(b, tokens, size)
		})
	}
}

// BenchmarkEncodeMixed encodes the golden texts: short, in many scripts, with emoji, code and random characters.
func BenchmarkEncodeMixed(b *testing.B) {
	for _, family := range families {
		b.Run(family, func(b *testing.B) {
			tok := goldenTokenizer(b, family)
			rows := goldenRows(b, family)
			tokens, size := 0, 0
			for i := 0; b.Loop(); i++ {
				text := rows[i%len(rows)].Text
				tokens += len(tok.Encode(text))
				size += len(text)
			}
			reportTokens(b, tokens, size)
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	tok := goldenTokenizer(b, "qwen3")
	var all [][]int32
	for _, doc := range benchDocs(b) {
		all = append(all, tok.Encode(doc))
	}
	tokens := 0
	for i := 0; b.Loop(); i++ {
		ids := all[i%len(all)]
		if _, err := tok.Decode(ids); err != nil {
			b.Fatal(err)
		}
		tokens += len(ids)
	}
	b.ReportMetric(float64(tokens)/b.Elapsed().Seconds()/1e6, "Mtok/s")
}

func BenchmarkLoad(b *testing.B) {
	file := gunzip(b, sharedPath(b, "tokenizer-golden", "qwen3.tokenizer.json.gz"))
	for b.Loop() {
		if _, err := ParseJSON(file); err != nil {
			b.Fatal(err)
		}
	}
}
