// Package checkpoint opens base models as they are published: a Hugging Face folder (config.json and safetensors, single
// or sharded) or a GGUF file. Both give the same thing, a [Model] with one [Config], text tensors under canonical names,
// the tokenizer's files or vocabulary, and the chat template.
//
//	m, err := checkpoint.Open("SmolLM2-135M-Instruct")
//	if err != nil { … }
//	defer m.Close()
//	embed, err := m.Tensor("embed_tokens.weight") // bytes of the mapped file, no copy
//	norm, err := m.Float32("norm.weight")         // any dtype, decoded
//
// Canonical names are the tensor names of transformers without the wrapper prefix: embed_tokens.weight, layers.N.…,
// norm.weight and, when the head is not tied, lm_head.weight. [Model.Prefix] is what the file itself puts before them.
//
// Everything is checked when a model is opened: each tensor that the architecture needs is there with its shape, and
// nothing else is, so a caller can build graphs without looking again. Files are mapped, not read; a mapped file must
// not be truncated in place while it is open (writers of this package replace files by rename, which is safe).
package checkpoint
