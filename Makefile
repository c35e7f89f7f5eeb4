# Two commands: `make app` and `make test`. Both set up everything they need.
PYTHON ?= python3
VENV   ?= .venv
NOTEBOOK ?= .venv-notebook
LAUNCHERS ?= .venv-launchers
DOCS   ?= .venv-docs
SITE   ?= build/site
MODEL  ?= gpt
BIN    := $(VENV)/bin
# Nothing here is silent for ten seconds: `ticking` says what goes on, and for how long.
TICKING = @.ci/ticking

.PHONY: app test test-slow widget check-exports lint format docs coverage size benchmark clean

app: $(VENV)/.app ## the page, with a plan of the demo model that comes with it
	$(BIN)/placement-explorer app $(MODEL)

test: $(VENV)/.test ## everything the tests need, a browser included, then the tests
	tests/browser/install.sh
	@$(MAKE) --no-print-directory widget || echo "The notebook widget could not be built; its tests are skipped."
	@$(MAKE) --no-print-directory $(VENV)/.notebook || echo "JupyterLab could not be installed; its tests are skipped."
	$(BIN)/python -m pytest

test-slow: $(VENV)/.test ## what `make test` leaves out because it takes long; after it, in the same environment
	$(BIN)/python -m pytest -m slow

widget: explorer/notebook/built/widget.js ## the notebook widget's module; needs Node, as a wheel's build does

WIDGET_SOURCES = $(wildcard assets/widget/*) $(wildcard assets/shared/*.js assets/time/*) assets/page.css

explorer/notebook/built/widget.js: node_modules/.package-lock.json $(WIDGET_SOURCES)
	node assets/widget/build.mjs explorer/notebook/built

node_modules/.package-lock.json: package.json package-lock.json
	@command -v npm >/dev/null || { echo "This is built with Node and npm (20 or newer); \`make app\` needs neither"; exit 1; }
	$(TICKING) "Installing what builds the widget" npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m tests.project.words

format: $(VENV)/.test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(DOCS)/.installed ## the documentation as a site in build/site, which fetches nothing when it is read
	$(DOCS)/bin/python -m sphinx --quiet --fail-on-warning --keep-going -b html -d build/doctrees -c docs/guide docs $(SITE)
	@$(DOCS)/bin/python -m tests.project.site $(SITE)

coverage: $(VENV)/.test ## which lines the tests run, by room: shown, not enforced; takes longer than the tests
	.ci/install $(VENV) coverage
	-$(BIN)/python -m coverage run -m pytest
	@$(BIN)/python -m coverage combine --quiet
	@$(BIN)/python -m coverage json --quiet -o build/coverage.json
	@$(BIN)/python -m tests.project.coverage build/coverage.json

size: ## lines by room, source and tests, beside those of the last release
	@$(PYTHON) -m tests.size

benchmark: $(VENV)/.test ## tables of ratios; takes minutes
	$(BIN)/python -m pytest -m benchmark -s

check-exports: $(LAUNCHERS)/.installed ## exports read by the launchers' own code; what cannot be installed is skipped
	$(LAUNCHERS)/bin/python -m pytest -m exports -rs tests/explorer/exports
	$(LAUNCHERS)/bin/python -m pytest -rs tests/explorer/exports/launchers/test_device_map.py

# An environment of their own that sees what is in $(VENV): they are installed without what they depend on, so that
# PyTorch stays the one that is there. A line is a launcher with what its parser imports.
$(LAUNCHERS)/.installed: tests/explorer/exports/launchers/requirements.txt | $(VENV)/.test
	$(PYTHON) -m venv $(LAUNCHERS)
	$(BIN)/python -c 'import site; print(site.getsitepackages()[0])' \
		> "$$($(LAUNCHERS)/bin/python -c 'import site; print(site.getsitepackages()[0])')/beside.pth"
	@grep -v '^#' $< | while read -r launcher; do \
		$(LAUNCHERS)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps $$launcher \
			|| echo "$${launcher%% *} could not be installed; its tests are skipped."; \
	done
	@touch $@

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11 app"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.app: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing PyTorch and some 60 packages: 1.6 GB, one to two minutes where pip does not have them yet."
	$(TICKING) "pip is downloading and unpacking" .ci/install $(VENV) app --editable '.[app,torch,planners]'
	@touch $@

$(VENV)/.test: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing PyTorch and some 170 packages: 2.2 GB, two to three minutes where pip does not have them yet."
	$(TICKING) "pip is downloading and unpacking" .ci/install $(VENV) test --editable '.[all]'
	@echo "Compiling kernels, once: some minutes."
	@$(BIN)/python -m solvers.planners.warm
	@touch $@ $(VENV)/.app

# JupyterLab and marimo for the browser tests of the widget: an environment of their own, without Dash.
$(VENV)/.notebook: tests/notebook/requirements.txt pyproject.toml | $(BIN)/python
	$(PYTHON) -m venv $(NOTEBOOK)
	@echo "Installing JupyterLab and marimo beside them, for the tests of the widget: about a minute."
	$(TICKING) "pip is downloading and unpacking" .ci/install $(NOTEBOOK) notebook --requirement tests/notebook/requirements.txt --editable '.[widget]'
	@touch $@

# Sphinx and its theme: an environment of their own, with what planning needs, so that help texts and docstrings are read.
$(DOCS)/.installed: pyproject.toml constraints.txt | $(BIN)/python
	$(PYTHON) -m venv $(DOCS)
	$(TICKING) "Installing Sphinx" .ci/install $(DOCS) docs --editable '.[docs]'
	@touch $@

clean:
	rm -rf $(VENV) $(NOTEBOOK) $(LAUNCHERS) $(DOCS) node_modules explorer/notebook/built build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
