// Package bench measures what a device does: one prepared run of checks and timings of at most some minutes ([Run] with
// [Parts]), and, in BenchmarkPeers, the speed beside PyTorch, PEFT and transformers on the same machine.
package bench
