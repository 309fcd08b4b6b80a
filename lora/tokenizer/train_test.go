package tokenizer

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func trainSmall(t testing.TB) *BPE {
	t.Helper()
	texts := strings.Split(string(testdata(t, "corpus.txt")), "\n\n")
	b, err := Train(slices.Values(texts), 700, []string{"<pad>", "<|im_start|>", "<|im_end|>"})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestTrainEqualsReference compares with what Hugging Face's BpeTrainer learned from the same texts.
func TestTrainEqualsReference(t *testing.T) {
	got, want := trainSmall(t), smallTokenizer(t, "trained")
	if got.VocabSize() != 700 || !slices.Equal(got.tokens, want.tokens) {
		t.Errorf("vocabularies differ: got %d tokens %q", got.VocabSize(), got.tokens)
	}
	for rank := range want.spec.merges {
		if g, w := got.spec.merges[rank], want.spec.merges[rank]; g != w {
			t.Fatalf("merge %d: got %q %q, want %q %q", rank, got.tokens[g[0]], got.tokens[g[1]], want.tokens[w[0]], want.tokens[w[1]])
		}
	}
	checkGolden(t, got, parseRows(t, testdata(t, "trained.ids.jsonl"), 250))
}

func TestTrainIsDeterministic(t *testing.T) {
	var first bytes.Buffer
	if err := trainSmall(t).WriteJSON(&first); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		var again bytes.Buffer
		if err := trainSmall(t).WriteJSON(&again); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(first.Bytes(), again.Bytes()) {
			t.Fatal("training twice on the same texts gave two files")
		}
	}
}

func TestTrainErrors(t *testing.T) {
	texts := []string{strings.Repeat("pad pad pad ", 20)}
	for _, c := range []struct {
		size     int
		specials []string
		want     string
	}{
		{200, nil, "expected 256"},
		{257, []string{"<a>", "<b>"}, "256 bytes and 2 specials"},
		{1 << 30, nil, "to 4194304"},
		{300, []string{"<a>", "<a>"}, "listed twice"},
		{300, []string{""}, "is empty"},
		{300, []string{"x"}, "how the file spells a byte"},
		{300, []string{"Ġ"}, "how the file spells a byte"},
		{300, []string{"pad"}, "also a word of the texts"},
		{5000, nil, "use more text or a smaller vocabulary"},
	} {
		_, err := Train(slices.Values(texts), c.size, c.specials)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Train(%d, %q): got %v, want an error with %q", c.size, c.specials, err, c.want)
		}
	}
}

func ExampleTrain() {
	texts := []string{"low lower lowest", "new newer newest", "wide wider widest"}
	tok, err := Train(slices.Values(texts), 266, []string{"<|end|>"})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, id := range tok.Encode("lowest newer<|end|>") {
		token, _ := tok.Token(id)
		fmt.Print(token, " ")
	}
	// Output: lo we st Ġne we r <|end|>
}
