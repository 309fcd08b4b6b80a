package tokenizer

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"terraloom/lora/wheel"
)

// checkWritten writes b, reads it back and compares all that defines it.
func checkWritten(t *testing.T, b *BPE) {
	t.Helper()
	var file bytes.Buffer
	if err := b.WriteJSON(&file); err != nil {
		t.Fatal(err)
	}
	again, err := ParseJSON(file.Bytes())
	if err != nil {
		t.Fatalf("a written file does not load: %v\n%s", err, file.Bytes())
	}
	want := b.spec
	want.roles = Roles{} // these are in tokenizer_config.json
	for _, s := range []*spec{&want, &again.spec} {
		if len(s.merges) == 0 {
			s.merges = nil
		}
	}
	if !reflect.DeepEqual(again.spec, want) {
		t.Errorf("a written file reads back as another tokenizer")
	}
	first, err1 := b.Hash()
	second, err2 := again.Hash()
	if first != second || err1 != nil || err2 != nil {
		t.Errorf("hashes %s (%v) and %s (%v) of the same tokenizer", first, err1, second, err2)
	}
}

func TestWriteJSON(t *testing.T) {
	hashes := map[string]string{}
	for _, name := range small {
		b := smallTokenizer(t, name)
		checkWritten(t, b)
		hash, err := b.Hash()
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := hashes[hash]; ok {
			t.Errorf("%s and %s have the same hash", name, other)
		}
		hashes[hash] = name
	}
	for _, family := range families {
		checkWritten(t, goldenTokenizer(t, family))
	}
}

func TestSave(t *testing.T) {
	b := trainSmall(t)
	if _, err := b.WithRoles(Roles{EOS: "<eos>"}); err == nil {
		t.Error("a role for a token that does not exist was accepted")
	}
	named, err := b.WithRoles(Roles{BOS: "<|im_start|>", EOS: "<|im_end|>", PAD: "<pad>"})
	if err != nil {
		t.Fatal(err)
	}
	if b.Special().EOS != NoToken {
		t.Error("WithRoles changed its receiver")
	}
	dir := t.TempDir()
	if err := named.Save(dir); err != nil {
		t.Fatal(err)
	}
	again, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := again.Special(), named.Special(); !reflect.DeepEqual(got, want) {
		t.Errorf("roles after Save and Load: got %+v, want %+v", got, want)
	}
	if err := named.Save(filepath.Join(dir, "missing")); err == nil {
		t.Error("Save into a folder that does not exist succeeded")
	}
}

// TestReferenceLoadsWrittenFiles has Hugging Face tokenizers load what Save and WriteJSON write.
func TestReferenceLoadsWrittenFiles(t *testing.T) {
	python, err := wheel.Python()
	if err != nil {
		t.Skip(err)
	}
	if err := exec.Command(python, "-c", "import tokenizers").Run(); err != nil {
		t.Skipf("%s cannot import tokenizers (set TERRALOOM_PYTHON to an interpreter that can): %v", python, err)
	}
	const script = `
import json, sys
from tokenizers import Tokenizer
tok = Tokenizer.from_file(sys.argv[1])
for line in open(sys.argv[2], encoding="utf-8"):
    row = json.loads(line)
    ids = tok.encode(row["text"], add_special_tokens=False).ids
    assert ids == row["ids"], (row["text"], ids, row["ids"])
    assert tok.decode(ids, skip_special_tokens=False) == row["decoded"], row["text"]
print(tok.get_vocab_size(), tok.encode("a").ids)
`
	toks := map[string]*BPE{"trained": trainSmall(t), "llama3": smallTokenizer(t, "llama3"), "holes": smallTokenizer(t, "holes")}
	for name, b := range toks {
		dir := t.TempDir()
		if err := b.Save(dir); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(python, "-c", script, filepath.Join(dir, tokenizerFile), filepath.Join("testdata", name+".ids.jsonl")).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
		// With special tokens the reference puts the template around the text.
		ids, _ := json.Marshal(append(b.Special().Prefix, b.Encode("a")...))
		want := strings.ReplaceAll(string(ids), ",", ", ")
		if got := strings.TrimSpace(string(out)); !strings.HasSuffix(got, " "+want) {
			t.Errorf("%s: the reference says %s, want ids %s", name, got, want)
		}
	}
}
