# Two commands: `make app` and `make test`. Both set up everything they need.
PYTHON ?= python3
VENV   ?= .venv
MODEL  ?= gpt
BIN    := $(VENV)/bin
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
WARM    = @echo "Compiling kernels, once ..."; $(BIN)/python -m solvers.planners.warm

.PHONY: app test lint format benchmark clean

app: $(VENV)/.app ## the page, with the demo model solved
	$(BIN)/placement-explorer app $(MODEL)

test: $(VENV)/.test ## everything the tests need, a browser included, then the tests
	tests/browser/install.sh
	$(BIN)/python -m pytest

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

benchmark: $(VENV)/.test ## tables of ratios; takes minutes
	$(BIN)/python -m pytest -m benchmark -s

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11 app"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.app: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing (a few minutes the first time; PyTorch is large) ..."
	$(INSTALL) --editable '.[app,torch,planners]'
	$(WARM) page # others when a planner first needs them
	@touch $@

$(VENV)/.test: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing (a few minutes the first time; PyTorch is large) ..."
	$(INSTALL) --editable '.[all]'
	$(WARM)
	@touch $@ $(VENV)/.app

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
