# terraloom. On a fresh machine: `make run` builds and regenerates a dataset,
# `make test` checks everything that this machine can check.
GO       ?= go
PYTHON   ?= python3
BIN      := bin/terraloom
VENV     := .venv
SEEDS    ?=
OUT      ?= out/run
PER_SEED ?= 10
FUZZTIME ?= 30s

# Outside clients and readers that some tests use; without them those tests are skipped.
PYTHON_PACKAGES := datasets==5.2.0 pyarrow==26.0.1 tokenizers==0.23.3 openai==3.57.0 mcp==2.3.0 tensorboard==2.21.0
# The other side of `make bench-peers`: gigabytes.
PEER_PACKAGES := torch==2.15.0 transformers==5.24.0 peft==0.21.2 trl==1.16.0

# The tests use the environment of `make setup-tests` where it exists.
ifneq ($(wildcard $(VENV)/bin/python),)
export TERRALOOM_PYTHON ?= $(CURDIR)/$(VENV)/bin/python
endif

.PHONY: all build setup setup-tests seeds run eval tiny-base smollm2 eval-smollm2 test lint unit race bench bench-peers setup-peers gpu-check fuzz clean

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

# Carries out every seed specification of data/seeds again and writes the bundled seeds and their programs, about four
# minutes on two cores; the same specifications give the same bytes.
seeds: build
	$(BIN) data seeds build

# The whole pipeline on the bundled tiny base, about five minutes on two cores: a dataset from the bundled seeds (or from a
# file: make run SEEDS=question.json), the Planner by SFT, the Executor by GRPO, and both on seeds held out from training.
run: setup
	$(BIN) synth run $(if $(SEEDS),--seeds $(SEEDS)) --mode propagate --style brief --per-seed $(PER_SEED) --out $(OUT)/dataset --force
	rm -rf $(OUT)/planner $(OUT)/executor
	$(BIN) sft --config configs/tiny-planner.yaml --set dataset=$(OUT)/dataset --set out=$(OUT)/planner
	$(BIN) grpo --config configs/tiny-executor.yaml --set dataset=$(OUT)/dataset --set out=$(OUT)/executor
	$(BIN) eval records --model tiny --adapter sft=$(OUT)/planner/adapter --dataset $(OUT)/dataset --role planner --rows 64 --max-prompt 1024 --max-tokens 160
	$(BIN) eval records --model tiny --adapter grpo=$(OUT)/executor/adapter --dataset $(OUT)/dataset --role executor --rows 64 --max-prompt 768 --max-tokens 128

# The agent on the questions held out by `make run`, with and without each adapter: plans alone, reference plans carried out, and
# whole runs. A model this small neither routes, judges nor writes answers: rules do.
eval: build
	$(BIN) eval run --out $(OUT)/eval --base tiny --adapter planner=$(OUT)/planner/adapter --adapter executor=$(OUT)/executor/adapter \
	  --dataset $(OUT)/dataset --style brief --planning one-shot --routing rules --checks rules --answers rules --max-reply 160 --workers 2 \
	  --modes planning-only,oracle-plan,end-to-end --compositions none,planner,executor,both

# The same with the real SmolLM2-135M, about half an hour on two cores; the Executor starts from a short fine-tuning. The seeds
# are those of the Earth-Bench question file where TERRALOOM_SHARED has it, else the bundled ones.
TERRALOOM_SHARED ?= ../shared
smollm2 eval-smollm2: SEEDS := $(or $(SEEDS),$(wildcard $(TERRALOOM_SHARED)/earth-bench/question.json))
smollm2 eval-smollm2: DIR := out/smollm2
smollm2: setup
	$(BIN) model pull smollm2-135m
	rm -rf $(DIR)
	$(BIN) synth run $(if $(SEEDS),--seeds $(SEEDS)) --mode propagate --style brief --per-seed $(PER_SEED) --out $(DIR)/dataset
	$(BIN) sft --config configs/smollm2-planner.yaml
	$(BIN) sft --config configs/smollm2-executor-warm.yaml
	$(BIN) grpo --config configs/smollm2-executor.yaml
	$(BIN) eval records --model smollm2-135m --adapter sft=$(DIR)/planner/adapter --dataset $(DIR)/dataset --role planner --rows 32 --max-prompt 1024 --max-tokens 160
	$(BIN) eval records --model smollm2-135m --adapter warm=$(DIR)/executor-warm/adapter --adapter grpo=$(DIR)/executor/adapter --dataset $(DIR)/dataset --role executor --rows 48 --max-prompt 416 --max-tokens 96

# Then the agent with and without these adapters on the held-out questions: plans as proposed, and arguments along reference plans.
eval-smollm2: build
	$(BIN) eval run --out $(DIR)/eval --base smollm2-135m --adapter planner=$(DIR)/planner/adapter --adapter executor=$(DIR)/executor/adapter \
	  $(if $(SEEDS),--seeds $(SEEDS)) --dataset $(DIR)/dataset --regimes ap --style brief --planning one-shot --routing rules --checks rules --answers rules \
	  --max-reply 160 --workers 2 --modes planning-only,arguments --compositions none,both

# Makes the bundled tiny base anew, in about a quarter of an hour on two cores.
tiny-base: setup
	rm -rf out/tiny-base
	$(BIN) synth compose --count 20000 --seed 1 --out out/tiny-base/practice
	$(BIN) model create --config configs/tiny-base-model.yaml
	$(BIN) sft --config configs/tiny-base.yaml
	cp out/tiny-base/run/model/*.json out/tiny-base/run/model/*.jinja out/tiny-base/run/model/*.safetensors data/tiny-base/

test: lint unit race

lint:
	@files=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$files" ]; then echo "gofmt: $$files"; exit 1; fi
	$(GO) vet ./...
	$(GO) run honnef.co/go/tools/cmd/staticcheck ./...

unit:
	$(GO) test -timeout 30m ./...

# Packages with goroutines of their own.
race:
	$(GO) test -race -short ./data/... ./synth/... ./reward/... ./agent/mcp/... ./agent/llm/... ./agent/memory/... ./agent/run/... ./lora/serve/... ./lora/tokenizer/...

# Go benchmarks, the comparison with PyTorch below last; on the real file where TERRALOOM_SHARED (default ../shared) has it.
bench:
	$(GO) test -run '^$$' -bench . -benchmem -timeout 3h ./...

# Steps and decoding beside PyTorch, PEFT and transformers in one run, medians of three rounds. Needs `make setup-peers`.
bench-peers:
	$(GO) test -run '^$$' -bench Peers -benchtime 3x -timeout 3h ./lora/bench

setup-peers: setup-tests
	$(VENV)/bin/pip install -q $(PEER_PACKAGES)

# At most eight minutes on one NVIDIA GPU, into out/gpu-check.json; says what is missing where there is none. The device's machine
# needs the binary, the reference models and the plugin (`backend install cuda`, or a Python with JAX's), neither Go nor network.
gpu-check: build
	@mkdir -p out
	$(BIN) backend bench --backend cuda --goldens $(TERRALOOM_SHARED)/model-golden --limit 8m --out out/gpu-check.json

fuzz:
	@for p in $$($(GO) list ./...); do \
	  for f in $$($(GO) test -list '^Fuzz' $$p | grep '^Fuzz' || true); do \
	    echo "$$p $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 2s $$p || exit 1; \
	  done; \
	done

clean:
	rm -rf bin out $(VENV)
