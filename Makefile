# terraloom. On a fresh machine: `make run` builds and regenerates a dataset,
# `make test` checks everything that this machine can check.
GO      ?= go
BIN     := bin/terraloom
SEEDS   ?=
OUT     ?= out/dataset
PER_SEED ?= 10
FUZZTIME ?= 30s

.PHONY: all build setup run test lint unit race optional bench fuzz clean

all: build

build:
	$(GO) build -trimpath -o $(BIN) ./cmd/terraloom

# What the tests need beyond Go: nothing is required, what is missing is skipped.
setup:
	$(GO) mod download

# Regenerates a dataset from the bundled seeds, or from a file: make run SEEDS=question.json
run: build
	$(BIN) synth run $(if $(SEEDS),--seeds $(SEEDS)) --per-seed $(PER_SEED) --out $(OUT) --force
	$(BIN) data info $(OUT)

test: lint unit race

lint:
	@files=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$files" ]; then echo "gofmt: $$files"; exit 1; fi
	$(GO) vet ./...
	$(GO) run honnef.co/go/tools/cmd/staticcheck ./...

unit:
	$(GO) test ./...

# Packages with goroutines of their own.
race:
	$(GO) test -race -short ./data/... ./slots/... ./synth/... ./reward/... ./agent/... ./lora/tokenizer/... ./lora/chat/...

# Go benchmarks; on the real file where TERRALOOM_SHARED (default ../shared) has it.
bench:
	$(GO) test -run '^$$' -bench . -benchmem ./data/... ./slots/... ./synth/... ./reward/... ./agent/... ./lora/...

fuzz:
	@for p in $$($(GO) list ./...); do \
	  for f in $$($(GO) test -list '^Fuzz' $$p | grep '^Fuzz' || true); do \
	    echo "$$p $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) $$p || exit 1; \
	  done; \
	done

clean:
	rm -rf bin out
