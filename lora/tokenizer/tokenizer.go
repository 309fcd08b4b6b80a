// Package tokenizer turns text into the token ids of a language model and back.
//
// The engine is byte-level BPE (Sennrich et al. 2016, https://aclanthology.org/P16-1162; over bytes as in GPT-2) and gives
// the ids that Hugging Face tokenizers gives for the same tokenizer.json. It knows five ways of cutting text into words, each
// a hand-written scanner: Qwen2/2.5/3, Qwen3.5, Llama-3, GPT-2 and SmolLM2. A file with any other component is refused with
// [ErrUnsupported]; nothing is skipped and nothing is guessed.
//
//	tok, err := tokenizer.Load("models/qwen3-0.6b")     // folder with tokenizer.json and tokenizer_config.json
//	prompt := tok.Encode("<|im_start|>user\n")           // markers become control tokens
//	prompt = append(prompt, tok.EncodeOrdinary(input)...) // markers inside input stay text
//	text, err := tok.Decode(prompt)
//
// No method adds a beginning-of-sequence token or any other token that is not in the text: chat templates write their own, and
// [Special] lists what the file would put around a bare text.
//
// A loaded [BPE] is immutable and safe for concurrent use. Every call borrows private scratch space, so goroutines share no lock.
package tokenizer

import "errors"

// Tokenizer is what the rest of the model stack needs of a tokenizer. [BPE] implements it.
type Tokenizer interface {
	// Encode returns the ids of text. Added tokens ("<|im_end|>") written in text become their control ids, so text must come
	// from a trusted template.
	Encode(text string) []int32
	// EncodeOrdinary returns the ids of text with every added token taken as plain characters. Use it for anything that a
	// user, a tool or a data set wrote.
	EncodeOrdinary(text string) []int32
	// Decode returns the text of ids, special tokens included, bytes that are not UTF-8 as U+FFFD. An id outside the
	// vocabulary is an error that wraps ErrUnknownID.
	Decode(ids []int32) (string, error)
	// TokenID returns the id of a token in the file's own spelling: "<|im_end|>", or "Ġthe" for " the".
	TokenID(token string) (int32, bool)
	// VocabSize is the largest id plus one: the number of embedding rows that the tokenizer can address. Checkpoints often
	// have more.
	VocabSize() int
}

var (
	// ErrUnsupported marks a well-formed file that asks for something this package does not do exactly.
	ErrUnsupported = errors.New("not supported")
	// ErrInvalid marks a file that contradicts itself or its format.
	ErrInvalid = errors.New("invalid tokenizer")
	// ErrUnknownID marks an id that the vocabulary does not have.
	ErrUnknownID = errors.New("id not in the vocabulary")
)

// NoToken stands for a token that the vocabulary does not declare.
const NoToken int32 = -1

// AddedToken is a token that is matched verbatim in the text before anything else happens.
type AddedToken struct {
	ID      int32
	Content string
	// Special tokens are dropped by DecodeSkipSpecial; others ("<think>", "<tool_call>") are matched all the same but kept.
	Special bool
	// Normalized tokens are looked for after Unicode normalisation instead of before.
	Normalized bool
}

// Roles names the tokens that play a part in every model, in the file's spelling; "" means none.
type Roles struct {
	BOS, EOS, PAD, UNK string
}

// Special holds the ids of the tokens in their roles; NoToken means none. PAD may equal EOS, so never tell padding from the
// end of a text by its id: mask by length.
type Special struct {
	BOS, EOS, PAD, UNK int32
	// Prefix and Suffix are the ids that the file's post-processor puts around a bare text, for example
	// <|begin_of_text|>. Encode never adds them.
	Prefix, Suffix []int32
}
