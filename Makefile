# Everything from a fresh machine with Python >= 3.11, pip and make.
PYTHON ?= python3
BIN := .venv/bin
# TORCH_INDEX=URL takes torch from that index: its CPU build is without CUDA's libraries. Its version
# is then the index's own, and modules are compiled as they are first imported, not all at once.
PIP := $(BIN)/python -m pip install --quiet --no-compile
# pip compiles modules one by one; a few that are templates do not compile, tests nobody imports.
COMPILE := $(if $(TORCH_INDEX),true,$(BIN)/python -m compileall -q -q -j 0 -x '/tests?/' .venv/lib || true)
PINS := $(if $(TORCH_INDEX),.venv/constraints.txt,constraints.txt)
define environment
	$(PYTHON) -m venv .venv
	$(if $(TORCH_INDEX),grep -vE '^(torch|torchvision|triton)==' constraints.txt > $(PINS))
	$(if $(TORCH_INDEX),$(PIP) --no-deps --index-url $(TORCH_INDEX) torch)
endef
SHARING := --dist loadfile --no-loadscope-reorder  # tests/conftest.py: what files share

.PHONY: demo install-node test test-slow test-all fuzz mutants lint claims docs install install-dev bench peers gpu clean

demo: install            ## train, count bits, report: the sparsity plane's first cell
	$(BIN)/fedsim sweep --temporal 10 --gradient 0.01
	@echo "next: . $(BIN)/activate, then fedsim --help"

test: install-dev        ## the quick suite, about three minutes on two cores
	$(BIN)/python -m pytest

test-slow: install-dev   ## Ray, a deployment, kills, hostile bytes, the commands of the docs: a quarter of an hour
	$(BIN)/python -m pytest -n 2 $(SHARING) -m 'slow and not proof'

test-all: install-dev    ## all of it with the longest proofs, which a release needs: an hour and a half
	FEDSIM_TWIN=10000 FEDSIM_KILLS=20 $(BIN)/python -m pytest -n 2 $(SHARING) -m ''

fuzz: install-dev        ## 100,000 hostile inputs into every decoder: about an hour
	FEDSIM_FUZZ=100000 $(BIN)/python -m pytest -m slow -o faulthandler_timeout=1800 tests/compressors/test_fuzz.py

mutants: install-dev     ## breaks one thing at a time, 778 in all, and tells what no quick test sees: two hours
	$(PIP) 'pip>=25.1'
	$(PIP) -c $(PINS) --group mutants
	OMP_NUM_THREADS=1 nice $(BIN)/python -m tests.mutants.run $(MUTANTS)

lint: install-dev        ## style and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

claims: install          ## runs the claims of CLAIMS.md that take at most two minutes each
	$(BIN)/python docs/run_claims.py

docs: install-dev        ## the site, into site/
	$(BIN)/python -m mkdocs build --strict
	@echo "site/index.html; with search: $(BIN)/python -m http.server --directory site"

bench: install-dev       ## speed and memory beside their targets and the peers: eleven minutes
	$(BIN)/python benchmarks/bench.py

peers: install-dev       ## installs pfl and BlazeFL, which make bench then times: minutes, 6 GB
	$(BIN)/python benchmarks/peers/environments.py

gpu: install-dev         ## on a GPU: doctor, its tests, its tables, training; else says that there is none
	@$(BIN)/python benchmarks/gpu.py --all --out gpu.md

install-node:            ## what a machine with a SuperNode needs, and no more: docs/deploy.md
	$(environment)
	$(PIP) 'pip>=25.1'
	$(PIP) -c $(PINS) --group node
	$(COMPILE)

install: .venv/installed
install-dev: .venv/installed-dev

.venv/installed: EXTRA := all
.venv/installed-dev: EXTRA := dev
.venv/installed .venv/installed-dev: pyproject.toml constraints.txt
	$(environment)
	@echo "installing: some minutes, about $(if $(TORCH_INDEX),2 GB,7 GB (torch with CUDA's libraries))"
	$(PIP) -c $(PINS) $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX)) -e '.[$(EXTRA)]'
	$(COMPILE)
	touch .venv/installed $@

clean:                   ## remove the environment and caches, keep results
	rm -rf .venv .peers .pytest_cache .mypy_cache .ruff_cache
