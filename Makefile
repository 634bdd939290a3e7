# halfwink: two commands do everything from a fresh clone.
#
#   make demo    build what is missing, run the main job, print the table, name the report
#   make test    the whole test suite, as CI runs it

SHELL := /bin/sh
VENV := .venv
BIN := $(VENV)/bin
HALFWINK := $(BIN)/halfwink
NATIVE := $(VENV)/.native
# Where the package looks for the libraries of `halfwink live delegate` and `preheat`.
PRELOAD := python/halfwink/_native
RUST := $(shell find crates -name '*.rs' -o -name Cargo.toml 2>/dev/null) Cargo.toml Cargo.lock

# What is formatted and linted.
PYTHON := python benches docs/notebooks tools/wheels.py tools/packaging

DEMO := nginx memcached postgresql gcc gzip nginx-10pct nginx+memcached+postgresql+redis
DEMO_TECHNIQUES := idle-menu,idle-gate,mapg-counter,tap,oracle

.PHONY: help setup demo test test-full bench tables scores wheels cross check fmt clean

help:
	@sed -n 's/^#   //p' Makefile
	@echo "make test-full  with the slow extras: fuzzing, full captures, a bare Debian 12"
	@echo "make bench      speed, as ratios to peers measured in the same run"
	@echo "benches/champsim.py  beside ChampSim, on the same records"
	@echo "make wheels     dist/: what pip installs, and the sources of it (ZIG=1: for glibc 2.28)"
	@echo "make cross      compiles for Linux on ARM and for macOS, without live parts"
	@echo "make check      formatting, lints, types, floors, purity"
	@echo "make tables     tables of techniques and scores in README and docs, from the lists"
	@echo "make scores     our value of every published number, computed anew"
	@echo "make fmt        format everything"

setup: $(NATIVE)

# What must be there before anything else, each with the one line that adds it.
$(VENV)/.tools: requirements.lock tools/require.sh
	@tools/require.sh
	@test -x $(BIN)/python || python3 -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@touch $@

# Always in release mode: a run plays hundreds of millions of instructions.
$(NATIVE): $(VENV)/.tools $(RUST) pyproject.toml
	@echo "building the native module (a few minutes the first time)"
	@env -u CONDA_PREFIX VIRTUAL_ENV="$(abspath $(VENV))" $(BIN)/maturin develop --release --locked --quiet >$(VENV)/build.log 2>&1 || \
	  { cat $(VENV)/build.log >&2; exit 1; }
	@cargo build --release --locked --quiet -p halfwink-delegate
	@cargo build --release --locked --quiet -p halfwink-preheat-preload
	@cargo build --release --locked --quiet -p halfwink-daemon
	@cargo build --release --locked --quiet -p halfwink-live-circuits
	@mkdir -p $(PRELOAD)
	@install -m 755 target/release/libhalfwink_delegate.so $(PRELOAD)/
	@install -m 755 target/release/libhalfwink_preheat_preload.so $(PRELOAD)/
	@install -m 755 target/release/halfwink-router target/release/halfwink-steer \
	  target/release/halfwink-circuits target/release/halfwink-block $(BIN)/
	@touch $@

demo: $(NATIVE)
	@$(HALFWINK) compare $(DEMO) --technique $(DEMO_TECHNIQUES) --machine ev6-4 -o halfwink-out/demo

test: $(NATIVE)
	@tools/test.sh

test-full: $(NATIVE)
	@tools/test.sh --full

bench: $(NATIVE)
	@$(BIN)/python benches/run.py

# README.md and docs/techniques/README.md, from the list of techniques.
tables: $(NATIVE)
	@$(BIN)/python tools/technique_tables.py
	@$(BIN)/python tools/target_tables.py

# targets/ours.csv, from the models, and the same tables from it.
scores: $(NATIVE)
	@$(BIN)/python tools/target_tables.py --compute

# Of what `make setup` has built; for older systems all of it is built once more.
wheels: $(NATIVE)
	@[ -z "$(ZIG)" ] || $(BIN)/python -m pip install --quiet ziglang==0.17.1 cargo-zigbuild==0.24.0
	@$(BIN)/python tools/wheels.py $(if $(ZIG),--zig)

# Where nothing of it can run: minutes the first time.
cross: $(VENV)/.tools
	@$(BIN)/python -m pip install --quiet ziglang==0.17.1 cargo-zigbuild==0.24.0
	@PATH="$(abspath $(BIN)):$$PATH" tools/cross.sh

check: $(VENV)/.tools
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked --quiet -- -D warnings
	cargo xtask all
	$(BIN)/ruff format --check --quiet $(PYTHON)
	$(BIN)/ruff check --quiet $(PYTHON)
	$(BIN)/pyright

fmt: $(VENV)/.tools
	cargo fmt --all
	cargo fmt --manifest-path capture/Cargo.toml --all
	$(BIN)/ruff format --quiet $(PYTHON)
	$(BIN)/ruff check --quiet --fix $(PYTHON)

clean:
	rm -rf target capture/target fuzz/target $(VENV) $(PRELOAD) halfwink-out dist
