# `make train` and `make test` do their own set-up (.ci/setup) and start at once when it is already done.
#   make train ARGS="--seed 1"       arguments for `chess-lab train grpo`
#   make test ARGS="-k moves"        arguments for pytest; -n0 runs in one process, as a debugger needs it
#   make setup PYTHON=python3.12     another Python; PIP_FLAGS="..." goes to pip install
# GNU make 3.81 (macOS) is enough.

.DEFAULT_GOAL := help
SHELL := /bin/bash
ARGS ?=
export PYTHON PIP_FLAGS
# Tests are compiled once and not at every run, in an image that turns Python's cache off too.
export PYTHONDONTWRITEBYTECODE :=

VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
DOCS_INSTALLED := $(VENV)/.installed-docs
RAY_INSTALLED := $(VENV)/.installed-ray
BROWSER_INSTALLED := $(VENV)/.installed-browser

# The stamp holds the folder it was made for; a copied or moved environment is made anew.
MOVED := $(shell [ ! -e $(INSTALLED) ] || [ "$$(cat $(INSTALLED))" = "$$(pwd -P)" ] || echo moved)

.PHONY: help setup engine train test test-slow test-gymnasium test-neighbours test-ray test-browser test-gpu trl-env oracle-trl golden check lint format bench docs clean distclean moved

help:
	@echo "make train      train a policy by GRPO self-play (sets everything up first)"
	@echo "make test       the default tests, with real Stockfish where it is installed"
	@echo "make check      ruff, mypy and the default tests;  make lint without the tests"
	@echo "make test-slow  the long tests;  make test-gpu those that need CUDA"
	@echo "make test-neighbours  those that need TRL, polyglot or Chromium;  .ci/neighbours installs them and Ray first"
	@echo "make test-gymnasium  the environment on the lowest Gymnasium that pyproject.toml declares"
	@echo "make test-ray   those that start a Ray cluster on this machine (installs ray first)"
	@echo "make test-browser  the board in a real Chromium, which must be installed"
	@echo "make oracle-trl rewrites the numbers of TRL that tests/oracles compares with"
	@echo "make golden     rewrites the golden curves (ARGS=\"grpo ppo\" only these)"
	@echo "make format     ruff format and ruff's safe fixes"
	@echo "make bench      speed and memory, measured one after the other"
	@echo "make docs       the documentation site in docs/_build/html, all of its pages executed"
	@echo "make setup      only the set-up;  make engine  tries to install Stockfish again"
	@echo "make clean      removes caches and builds;  make distclean  the virtual environment too"

$(INSTALLED): pyproject.toml constraints.txt $(MOVED)
	@bash .ci/setup python

moved:

setup: $(INSTALLED)
	@bash .ci/setup engine

engine: $(INSTALLED)
	@rm -f $(VENV)/.engine-tried
	@bash .ci/setup engine

train: setup
	@$(BIN)/chess-lab train grpo $(ARGS)

test: setup
	@if bash .ci/setup find-engine >/dev/null; then marks="not slow and not gpu and not ray and not browser"; \
	else marks="not slow and not gpu and not ray and not browser and not stockfish"; echo "test: leaving out the tests that need Stockfish"; fi; \
	$(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile -m "$$marks" $(ARGS)

test-slow: setup
	@marks="slow and not gpu and not ray and not browser and not trl and not polyglot"; \
	bash .ci/setup find-chromium >/dev/null || { marks="$$marks and not chromium"; \
	  echo "test-slow: leaving out the tests that need Chromium"; }; \
	$(BIN)/python -m pytest -n auto --maxprocesses 2 --dist loadfile -m "$$marks" --timeout 1800 $(ARGS)

# What talks to programs and packages of others; .ci/neighbours installs them first.
test-neighbours: setup trl-env
	@marks="trl"; for name in polyglot chromium; do if bash .ci/setup find-$$name >/dev/null; then marks="$$marks or $$name"; \
	  else echo "test-neighbours: leaving out the tests that need $$name"; fi; done; \
	$(BIN)/python -m pytest -n 0 -m "($$marks) and not browser" --timeout 1800 $(ARGS)

$(RAY_INSTALLED): $(INSTALLED)
	@bash .ci/setup ray

# One process: each test starts nodes of its own, and a busy machine fails them.
test-ray: setup $(RAY_INSTALLED)
	@marks="ray"; bash .ci/setup find-engine >/dev/null || { marks="$$marks and not stockfish"; \
	  echo "test-ray: leaving out the tests that need Stockfish"; }; \
	$(BIN)/python -m pytest -n 0 -m "$$marks" --timeout 900 $(ARGS)

# Playwright drives the Chromium that is installed; it downloads none of its own.
test-browser: setup $(BROWSER_INSTALLED)
	@chromium=$$(bash .ci/setup find-chromium) || { \
	  echo "test-browser: no Chromium found: sudo apt-get install chromium" >&2; exit 1; }; \
	CHROMIUM="$$chromium" $(BIN)/python -m pytest -n 0 -m browser --timeout 600 $(ARGS)

test-gpu: setup
	@$(BIN)/python -m pytest tests/device tests/golden -m "not slow" --device cuda --timeout 600 $(ARGS)

# The environment on the lowest Gymnasium that pyproject.toml declares: that version before everything else of $(VENV).
test-gymnasium: setup
	@rm -rf $(VENV)-gymnasium && $(BIN)/python -m venv --without-pip $(VENV)-gymnasium; \
	site=$$($(VENV)-gymnasium/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))'); \
	$(BIN)/python -c 'import sysconfig; p = sysconfig.get_path("purelib"); print(f"import site; site.addsitedir({p!r})")' > $$site/rest.pth; \
	lowest=$$(sed -n 's/.*"gymnasium>=\([0-9.]*\)".*/\1/p' pyproject.toml); \
	$(BIN)/python -m pip install --quiet $(PIP_FLAGS) --no-deps --target $$site "gymnasium==$$lowest"; \
	$(VENV)-gymnasium/bin/python -c 'import gymnasium; print("test-gymnasium: gymnasium", gymnasium.__version__)'; \
	$(VENV)-gymnasium/bin/python -m pytest -n auto --maxprocesses 4 --dist loadfile -p no:cacheprovider \
	  -m "not slow and not gpu and not ray and not browser and not stockfish" tests/env tests/integrations tests/matches tests/rollouts $(ARGS)

# Where TRL itself runs; it is not the project's environment.
trl-env: $(INSTALLED)
	@bash .ci/trl-env

oracle-trl: trl-env
	@$(VENV)-trl/bin/python -W ignore tests/oracles/trl_vectors.py

golden: $(INSTALLED)
	@$(BIN)/python -m tests.golden.regenerate $(ARGS)

check: lint test

lint: $(INSTALLED)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

format: $(INSTALLED)
	@$(BIN)/ruff check --fix-only --quiet .
	@$(BIN)/ruff format .

# Benchmarks of learning take hours and name the folder of their runs: docs/benchmarks/learning.md has their commands.
bench: setup
	@for name in vector_env evaluators match_speed builtin_evaluator stockfish_pool memory diagnostics; do \
	  echo "== benchmarks.speed.$$name"; $(BIN)/python -m "benchmarks.speed.$$name" || exit 1; \
	done

$(BROWSER_INSTALLED): $(INSTALLED)
	@bash .ci/setup browser

$(DOCS_INSTALLED): $(INSTALLED)
	@bash .ci/setup docs

# Every page is read and executed anew: what a page shows depends on code that it does not name.
docs: $(DOCS_INSTALLED)
	@$(BIN)/python -m sphinx -b html -W --keep-going -E -j auto $(ARGS) docs docs/_build/html
	@echo "docs: open docs/_build/html/index.html"

clean:
	rm -rf docs/_build docs/api
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find chess_env algorithms tests examples benchmarks docs -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

distclean: clean
	rm -rf $(VENV) $(VENV)-trl $(VENV)-trainers $(VENV)-gymnasium
