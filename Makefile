# halfwink: two commands do everything from a fresh clone.
#
#   make demo    build what is missing, run the main job, print the table, name the report
#   make test    the test suite, as CI runs it

SHELL := /bin/sh
VENV := .venv
BIN := $(VENV)/bin
HALFWINK := $(BIN)/halfwink
# `release` compiles fast; `dist` adds link-time optimisation, for wheels and benchmarks. What was installed last is
# what runs, so that each takes the mark of the other away.
PROFILE := release
NATIVE := $(VENV)/.native.$(PROFILE)
LIVE := $(VENV)/.live.$(PROFILE)
TARGET := $(or $(CARGO_TARGET_DIR),target)/$(PROFILE)
CARGO := --profile $(PROFILE) --locked --quiet --features halfwink-py/extension-module
# Where the package looks for libraries: those of `halfwink live delegate` and `preheat`, and the interpreter of modules.
PRELOAD := python/halfwink/_native
LIVE_CRATES := $(addprefix -p halfwink-,py-live daemon delegate preheat-preload live-wasm)
RUST := $(shell find crates -name '*.rs' -o -name Cargo.toml 2>/dev/null) Cargo.toml Cargo.lock

# What is formatted and linted.
PYTHON := python benches docs/notebooks tools/site tools/wheels.py tools/packaging tools/test_table.py tools/man_pages.py tools/figure_font.py tools/kernel_code.py tools/bpf.py

.PHONY: help setup live demo test test-full docs bench tables scores wheels cross check fmt clean

help:
	@sed -n 's/^#   //p' Makefile
	@echo "make test-full  and all that takes hours, or one part of it: SHARD=captures"
	@echo "make docs       the site: halfwink-out/site/index.html"
	@echo "make live       the programs of 'halfwink live'"
	@echo "make bench      speed, as ratios to peers measured in the same run"
	@echo "benches/champsim.py  beside ChampSim, on the same records"
	@echo "make wheels     dist/: what pip installs, and the sources of it (ZIG=1: for glibc 2.28; WHAT='--machine aarch64 base')"
	@echo "make cross      compiles for Linux on ARM and for macOS"
	@echo "make check      formatting, lints, types, floors, purity"
	@echo "make tables     tables of techniques and scores in README and docs, from the lists"
	@echo "make scores     our value of every published number, computed anew"
	@echo "make fmt        format everything"

# Everything that is built: `make demo` needs the native module alone.
setup: $(LIVE)

live: $(LIVE)

# What must be there before anything else, each with the one line that adds it.
$(VENV)/.tools: requirements.lock tools/require.sh
	@tools/require.sh
	@test -x $(BIN)/python || python3 -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@touch $@

# One build of the native module; maturin would set variables of its own, and build PyO3 again.
$(NATIVE): $(VENV)/.tools $(RUST) pyproject.toml
	@echo "building the native module (a few minutes the first time)"
	@cargo build $(CARGO) -p halfwink-py
	@install -m 755 $(TARGET)/lib_core.so python/halfwink/_core.abi3.so
	@PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python -m pip install --quiet --disable-pip-version-check \
	  --no-build-isolation --no-deps --config-settings prebuilt=yes --editable .
	@rm -f $(VENV)/.native.* $(VENV)/.live.*
	@touch $@

# Programs and libraries of `halfwink live`. The native module is named again, and asks for the features that these ask
# for (`cargo xtask once`), so that Cargo compiles nothing twice.
$(LIVE): $(NATIVE)
	@echo "building the live programs"
	@cargo build $(CARGO) -p halfwink-py $(LIVE_CRATES)
	@mkdir -p $(PRELOAD)
	@install -m 755 $(TARGET)/lib_live.so python/halfwink/_live.abi3.so
	@install -m 755 $(addprefix $(TARGET)/libhalfwink_,delegate.so preheat_preload.so wasm.so) $(PRELOAD)/
	@install -m 755 $(addprefix $(TARGET)/halfwink-,router steer circuits block preheat delegate) $(BIN)/
	@touch $@

demo: $(NATIVE)
	@$(HALFWINK) compare nginx -o halfwink-out/demo

test: $(LIVE)
	@tools/test.sh

test-full: $(LIVE)
	@tools/test.sh --full $(SHARD)

# What builds the site is added here alone.
$(VENV)/.docs: $(VENV)/.tools requirements-docs.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-docs.lock
	@touch $@

# Pages first, from docs/ and the program; then HTML of them. A link or anchor that leads nowhere fails.
docs: $(NATIVE) $(VENV)/.docs
	@$(BIN)/python tools/site/prepare.py halfwink-out/site-pages
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --config-file halfwink-out/site-pages/mkdocs.yml \
	  --site-dir ../site >halfwink-out/site-pages/log 2>&1 || { grep -v ^INFO halfwink-out/site-pages/log; exit 1; }
	@echo "halfwink-out/site/index.html"

bench:
	@$(MAKE) --no-print-directory PROFILE=dist live
	@$(BIN)/python benches/run.py

# README.md and docs/techniques/README.md, from the list of techniques; docs/man, from the help of programs.
tables: $(NATIVE)
	@$(BIN)/python tools/technique_tables.py
	@$(BIN)/python tools/target_tables.py
	@$(BIN)/python tools/test_table.py
	@$(BIN)/python tools/man_pages.py

# targets/ours.csv, from the models, and the same tables from it.
scores: $(NATIVE)
	@$(BIN)/python tools/target_tables.py --compute

# With link-time optimisation; for older systems all of it is built once more.
wheels: $(VENV)/.tools
	@[ -z "$(ZIG)" ] || $(BIN)/python -m pip install --quiet ziglang==0.17.1 cargo-zigbuild==0.24.0
	@$(BIN)/python tools/wheels.py $(if $(ZIG),--zig) $(WHAT)

# Where nothing of it can run: minutes the first time.
cross: $(VENV)/.tools
	@$(BIN)/python -m pip install --quiet ziglang==0.17.1 cargo-zigbuild==0.24.0
	@PATH="$(abspath $(BIN)):$$PATH" tools/cross.sh

check: $(VENV)/.tools
	@$(BIN)/python tools/test_table.py --check
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked --quiet -- -D warnings
	@cargo metadata --manifest-path fuzz/Cargo.toml --locked --format-version 1 > /dev/null
	cargo xtask all
	$(BIN)/ruff format --check --quiet $(PYTHON)
	$(BIN)/ruff check --quiet $(PYTHON)
	$(BIN)/pyright
	@! command -v typos >/dev/null || typos

fmt: $(VENV)/.tools
	cargo fmt --all
	cargo fmt --manifest-path capture/Cargo.toml --all
	$(BIN)/ruff format --quiet $(PYTHON)
	$(BIN)/ruff check --quiet --fix $(PYTHON)

clean:
	rm -rf target capture/target fuzz/target $(VENV) $(PRELOAD) halfwink-out dist
