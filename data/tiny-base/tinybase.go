// Package tinybase holds the tiny base model as a Hugging Face folder: a Qwen3.5 decoder of 1.8 million parameters with
// its own tokenizer, made by `make tiny-base` from the tool catalogue alone (see package synth/compose). It is for tests
// and for trying the whole pipeline in minutes on a CPU; programs name it "tiny".
package tinybase

import "embed"

// Files are the files of the folder.
//
//go:embed config.json model.safetensors tokenizer.json tokenizer_config.json chat_template.jinja
var Files embed.FS
