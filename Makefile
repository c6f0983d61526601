# Everything runs in a virtual environment of its own, made on first use.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
export RAY_USAGE_STATS_ENABLED := 0

.PHONY: help demo test test-all check format bench docs docs-serve lab lab-packages clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

$(VENV)/.base: pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.base
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev,mpi,onnx,ray,report,rllib,serve,sweep,torch,track,video]'
	@touch $@

$(VENV)/.bench: $(VENV)/.dev
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[bench]'
	@touch $@

demo: $(VENV)/.base  ## install, train CartPole until it is solved, and say what to try next
	$(BIN)/muster train CartPole-v1 --name demo --runs-dir runs --resume
	$(BIN)/muster evaluate demo --runs-dir runs
	@echo
	@echo "The results are in runs/demo. Try next, after 'source $(BIN)/activate':"
	@echo "  muster show demo                       what the run did"
	@echo "  muster init Pendulum-v1                a commented experiment file of your own"
	@echo "  muster train examples/ratio/ratio.toml a simulator that is not Gymnasium's"

# The lab's hosts, Slurm, sshd and MPI need root and Debian's packages; without them its tests are skipped.
lab-packages:
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then tests/lab/install.sh $(LAB_PACKAGES); fi

test: $(VENV)/.dev lab-packages  ## install, then run the tests
	$(BIN)/python -m pytest

test-all: LAB_PACKAGES = gridengine charliecloud
test-all: $(VENV)/.dev lab-packages  ## also the tests that take long
	$(BIN)/python -m pytest -m ''

check: $(VENV)/.dev  ## lint and check types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.dev  ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lab: $(VENV)/.dev lab-packages  ## make a small cluster on this machine and open a shell on its login host
	$(BIN)/python -m tests.lab up 3
	-$(BIN)/python -m tests.lab shell login
	$(BIN)/python -m tests.lab down

bench: $(VENV)/.bench  ## measure; ONLY=name for one benchmark
	$(BIN)/python -m benchmarks $(ONLY)

clean:  ## remove the virtual environment and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache

$(VENV)/.docs: $(VENV)/.dev
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[docs]'
	@touch $@

docs: $(VENV)/.docs  ## write the generated pages, and build the documentation as build/docs/index.html
	$(BIN)/muster schema --markdown > docs/experiment.md
	COLUMNS=80 $(BIN)/python docs/command_reference.py > docs/reference/command-line.md
	$(BIN)/python docs/pictures/iteration.py > docs/pictures/iteration.svg
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going -c docs . build/docs
	@echo "build/docs/index.html"

docs-serve: docs  ## build the documentation and show it at http://127.0.0.1:8000
	$(BIN)/python -m http.server --bind 127.0.0.1 --directory build/docs 8000
