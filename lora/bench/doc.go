// Package bench holds the speed comparison of package lora with PyTorch, PEFT and transformers on the same machine in the
// same run: BenchmarkPeers.
package bench
