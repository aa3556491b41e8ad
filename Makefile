# Everything from a fresh machine with Python >= 3.11, pip and make.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-slow lint install install-dev bench clean

demo: install            ## train, count bits, report: the sparsity plane's first cell
	$(BIN)/python -m fedsim sweep --temporal 10 --gradient 0.01

test: install-dev        ## the quick suite, under 5 minutes on two cores
	$(BIN)/python -m pytest

test-slow: install-dev   ## Ray, kills, the commands of the docs
	$(BIN)/python -m pytest -n 0 -m slow

lint: install-dev        ## style and types
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: install-dev       ## a round of fedsim against a bare loop
	$(BIN)/python benchmarks/round.py

install: .venv/installed
install-dev: .venv/installed-dev

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet -c constraints.txt -e .
	touch $@

.venv/installed-dev: .venv/installed
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	touch $@

clean:                   ## remove the environment and caches, keep results
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache
