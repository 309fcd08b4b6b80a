# terraloom. On a fresh machine: `make run` builds and regenerates a dataset,
# `make test` checks everything that this machine can check.
GO       ?= go
PYTHON   ?= python3
BIN      := bin/terraloom
VENV     := .venv
SEEDS    ?=
OUT      ?= out/dataset
PER_SEED ?= 10
FUZZTIME ?= 30s

# Outside clients and readers that some tests use; without them those tests are skipped.
PYTHON_PACKAGES := datasets==5.2.0 pyarrow==26.0.1 tokenizers==0.23.3 openai==3.57.0 mcp==2.3.0 tensorboard==2.21.0

# The tests use the environment of `make setup-tests` where it exists.
ifneq ($(wildcard $(VENV)/bin/python),)
export TERRALOOM_PYTHON ?= $(CURDIR)/$(VENV)/bin/python
endif
# XLA on the CPU gains a quarter of its time from huge pages; glibc reads this at process start.
export GLIBC_TUNABLES ?= glibc.malloc.hugetlb=1

.PHONY: all build setup setup-tests run test lint unit race bench fuzz clean

all: build

build:
	$(GO) build -trimpath -o $(BIN) ./cmd/terraloom

# Modules, binary and the XLA plugin for the CPU; without the plugin models run on the slower pure-Go engine.
setup: build
	$(BIN) backend install cpu || echo "notice: no XLA plugin; models run on the pure-Go engine"

# What optional tests need: Python clients and a real small model.
setup-tests: setup
	($(PYTHON) -m venv $(VENV) && $(VENV)/bin/pip install -q $(PYTHON_PACKAGES)) || { rm -rf $(VENV); echo "notice: no Python packages; tests with outside clients are skipped"; }
	$(BIN) model pull smollm2-135m || echo "notice: no SmolLM2; tests with the real model are skipped"

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
	$(GO) test -timeout 30m ./...

# Packages with goroutines of their own.
race:
	$(GO) test -race -short ./data/... ./synth/... ./reward/... ./agent/mcp/... ./lora/serve/... ./lora/tokenizer/...

# Go benchmarks; on the real file where TERRALOOM_SHARED (default ../shared) has it.
bench:
	$(GO) test -run '^$$' -bench . -benchmem ./...

fuzz:
	@for p in $$($(GO) list ./...); do \
	  for f in $$($(GO) test -list '^Fuzz' $$p | grep '^Fuzz' || true); do \
	    echo "$$p $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 2s $$p || exit 1; \
	  done; \
	done

clean:
	rm -rf bin out $(VENV)
