"""Makes the golden files of this folder with Hugging Face tokenizers 0.23.3: python make_golden.py

trained.json   what BpeTrainer learns from corpus.txt
llama3.json    the same vocabulary with Llama-3's pattern, ignore_merges, a template and tokens matched after normalisation
holes.json     SmolLM2's pre-tokenizer over a vocabulary without some bytes, and an unknown token
wordpiece.json, unigram.json    small models of these kinds learned from corpus.txt
*.ids.jsonl    random strings with their ids, and their decoded texts or the byte offsets of their tokens
"""
import copy, json, random
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

QWEN2 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = QWEN2.replace(r"|\p{N}|", r"|\p{N}{1,3}|")
SPECIALS = ["<pad>", "<|im_start|>", "<|im_end|>"]
HOLES = {"q", "Ć", "Ĵ"}  # bytes 0x71, 0x06 and 0x92

corpus = open("corpus.txt", encoding="utf-8").read()
t = Tokenizer(models.BPE())
t.normalizer = normalizers.NFC()
t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(QWEN2), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
t.decoder = decoders.ByteLevel()
t.train_from_iterator(corpus.split("\n\n"), trainers.BpeTrainer(
    vocab_size=700, special_tokens=SPECIALS, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
trained = json.loads(t.to_str())


def added(id, content, **flags):
    return {"id": id, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True, **flags}


llama3 = copy.deepcopy(trained)
vocab = llama3["model"]["vocab"]
vocab["Ġgaugebridge"] = len(vocab)  # no merge makes it
llama3["model"]["ignore_merges"] = True
llama3["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = LLAMA3
n = len(vocab)
llama3["added_tokens"] += [
    added(n, "<|begin_of_text|>"),
    added(n + 1, "<|begin"),  # a shorter token that starts a longer one
    added(n + 2, "e\u0301tat", normalized=True, special=False),
    added(n + 3, "<tool_call>", special=False),
]
llama3["post_processor"] = {"type": "Sequence", "processors": [
    {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True},
    {"type": "TemplateProcessing",
     "single": [{"SpecialToken": {"id": "<|begin_of_text|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
     "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
     "special_tokens": {"<|begin_of_text|>": {"id": "<|begin_of_text|>", "ids": [n], "tokens": ["<|begin_of_text|>"]}}}]}

holes = copy.deepcopy(trained)
model = holes["model"]
keep = [w for w in model["vocab"] if not HOLES & set(w)]
model["vocab"] = {w: i for i, w in enumerate(keep)}
model["merges"] = [m for m in model["merges"] if m[0] in model["vocab"] and m[1] in model["vocab"] and m[0] + m[1] in model["vocab"]]
model["unk_token"] = "<pad>"
holes["normalizer"] = None
holes["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [
    {"type": "Digits", "individual_digits": True},
    {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}]}

r = random.Random(0)
parts = (SPECIALS + ["<|begin_of_text|>", "<|begin", "<|begi", "e\u0301tat", "état", "<tool_call>", "gaugebridge", " gaugebridge", "'s", "'LL", "'\u017f",
         "'S", "'", "\r\n", "\n\n", " ", "  ", "\t", "\u00a0", "\u3000", "\u0085", "123", "4567", "½", "\u0665", "\U0001E5F1", "\U00011DE0",
         "Ⅷ", "e\u0301", "ṩ", "s\u0307\u0323", "\u212b", "q", "\x06", "aaaa", "!!!", "-----", "\u0301" * 40, "\u0c3c\u0334", "\U00011935\U00011930",
         "가", "각", "한", "\u1ace\u0316"] + corpus.split(" ")[:300])
texts = []
while len(texts) < 250:
    text = "".join(r.choice(parts) if r.random() < 0.9 else chr(r.choice([r.randrange(0x20, 0x3000), r.randrange(0xE000, 0x110000)])) for _ in range(r.randint(1, 14)))
    texts.append(text)

for name, data in [("trained", trained), ("llama3", llama3), ("holes", holes)]:
    json.dump(data, open(name + ".json", "w", encoding="utf-8"), ensure_ascii=False, separators=(",", ":"))
    tok = Tokenizer.from_file(name + ".json")
    with open(name + ".ids.jsonl", "w", encoding="utf-8") as f:
        for text in texts:
            ids = tok.encode(text, add_special_tokens=False).ids
            row = {"text": text, "ids": ids, "decoded": tok.decode(ids, skip_special_tokens=False), "skipped": tok.decode(ids)}
            f.write(json.dumps(row, ensure_ascii=False) + "\n")

wordpiece = Tokenizer(models.WordPiece(unk_token="[UNK]"))
wordpiece.normalizer = normalizers.BertNormalizer()
wordpiece.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
wordpiece.decoder = decoders.WordPiece()
wordpiece.train_from_iterator(corpus.split("\n"), trainers.WordPieceTrainer(
    vocab_size=400, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], show_progress=False))
wordpiece.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])

unigram = Tokenizer(models.Unigram())
unigram.pre_tokenizer = pre_tokenizers.Metaspace()
unigram.decoder = decoders.Metaspace()
unigram.train_from_iterator(corpus.split("\n"), trainers.UnigramTrainer(
    vocab_size=400, special_tokens=["<unk>", "</s>"], unk_token="<unk>", show_progress=False))

parts = corpus.split(" ") + ["[MASK]", "[UNK]", "</s>", "é", "e\u0301", "\0", "\x07", "\u00ad", "\u200b", "\t", "  ", "中文", "한", "ß", "İ", "Å", "ﬁ", "😀", "!", ".", "don't"]
for name, tok in [("wordpiece", wordpiece), ("unigram", unigram)]:
    tok.save(name + ".json", pretty=False)
    with open(name + ".ids.jsonl", "w", encoding="utf-8") as f:
        for _ in range(150):
            text = r.choice(["", " "]).join(r.choice(parts) for _ in range(r.randint(1, 8)))
            e = tok.encode(text, add_special_tokens=False)
            offsets = [[len(text[:i].encode()) for i in o] for o in e.offsets]
            f.write(json.dumps({"text": text, "ids": e.ids, "offsets": offsets}, ensure_ascii=False) + "\n")
