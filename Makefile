# Everything that sets up, shows, checks or measures turnout. The environment is made on first use.
PYTHON ?= python3
BIN := .venv/bin
# One more than there are processors, since some tests wait for other processes.
WORKERS ?= $(shell $(PYTHON) -c "import os; print(os.cpu_count() + 1)")

.PHONY: demo docs docs-serve test test-all nightly everything newest oldest mutants lint bench bench-flower clean
.DEFAULT_GOAL := demo

# pip finds PyTorch for processors alone where a machine keeps it; uv installs the rest in less than a minute.
$(BIN)/turnout: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --no-compile uv "$$(grep '^torch==' constraints.txt)"
	$(BIN)/uv pip install --quiet --python $(BIN)/python --constraint constraints.txt --editable '.[dev]'
	@touch $@

demo: $(BIN)/turnout
	rm -rf demo
	$(BIN)/turnout study examples/demo --out demo

# The site, in the folder site, which keeps each version that is built; every warning is an error. Tutorials run the commands of the environment.
SITE ?= site
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
MKDOCS := NO_MKDOCS_2_WARNING=1 PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/mkdocs

docs: $(BIN)/turnout
	$(MKDOCS) build --quiet --site-dir "$(abspath $(SITE))/$(VERSION)"
	$(BIN)/python mkdocs_hooks/versions.py $(SITE)

docs-serve: $(BIN)/turnout
	$(MKDOCS) serve

# Whatever the caller set, modules are compiled once for all workers and for the commands that tests start.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --dist loadfile --no-loadscope-reorder --numprocesses

test: $(BIN)/turnout
	$(PYTEST) $(WORKERS) -m "not longer and not slow and not everything"

# Types and shapes are checked at run time, in the first calls of each function.
TYPES := --jaxtyping-packages=turnout,tests.helpers.typecheck.check

test-all: test
	$(PYTEST) $(WORKERS) $(TYPES) -m "longer and not slow and not everything"

# Real processes, browsers, long statistics and further cases, for an hour. It is noted when they passed.
nightly: $(BIN)/turnout
	$(PYTEST) $(WORKERS) $(TYPES) -m "slow and not everything" --junit-xml=.pytest_cache/nightly.xml
	$(BIN)/python -m tests.helpers.played nightly .pytest_cache/nightly.xml

# All cases of what the tests above show on some: before a release, for hours.
everything: $(BIN)/turnout
	$(PYTEST) $(WORKERS) -m everything --junit-xml=.pytest_cache/everything.xml
	$(BIN)/python -m tests.helpers.played everything .pytest_cache/everything.xml

# The tests with the newest versions of everything but PyTorch, on the newest Python.
NEWEST ?= python3.13

newest:
	rm -rf .venv-newest && $(NEWEST) -m venv .venv-newest
	grep '^torch==' constraints.txt > .venv-newest/torch.txt
	.venv-newest/bin/pip install --quiet --disable-pip-version-check --constraint .venv-newest/torch.txt --editable '.[dev]'
	PYTHONDONTWRITEBYTECODE= .venv-newest/bin/python -m pytest --dist loadfile --numprocesses $(WORKERS) -m "not longer and not slow and not everything"

# The tests with the least versions that pyproject.toml allows, on the oldest Python.
OLDEST ?= python3.11

oldest:
	rm -rf .venv-oldest && $(OLDEST) -m venv .venv-oldest
	grep '^torch==' constraints.txt > .venv-oldest/torch.txt
	.venv-oldest/bin/pip install --quiet uv
	.venv-oldest/bin/uv pip install --quiet --python .venv-oldest/bin/python --resolution lowest-direct --constraint .venv-oldest/torch.txt --editable '.[dev]'
	PYTHONDONTWRITEBYTECODE= .venv-oldest/bin/python -m pytest --dist loadfile --numprocesses $(WORKERS) -m "not longer and not slow and not everything"

# Mutants of each module of tests/helpers/mutated_modules.py, chosen at random with a fixed seed.
SAMPLE ?= 12

mutants: $(BIN)/turnout
	$(BIN)/python -m tests.helpers.mutants --sample $(SAMPLE) $(MODULES)

lint: $(BIN)/turnout
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/pyright --threads

bench: $(BIN)/turnout
	$(BIN)/python -m benchmarks --out bench/results.json

bench-flower: $(BIN)/turnout
	$(BIN)/python -m benchmarks flower flower-memory --out bench/flower.json

clean:
	rm -rf .venv .pytest_cache demo bench site
