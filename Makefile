# Everything a checkout needs. `make` lists the targets.
# On Linux without a GPU, PIP_EXTRA_INDEX_URL set to PyTorch's index of CPU builds saves a few gigabytes.

PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/installed

.DEFAULT_GOAL := help
.PHONY: help install demo test test-slow check format wheel test-packages audit sbom

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(STAMP) ## make .venv with Emend and all its tools

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo 'Emend needs Python 3.11 or newer; name one with: make install PYTHON=python3.11' >&2; exit 1; }
	@echo 'Installing Emend and its tools into .venv (the first time about 2 GB)'
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: $(STAMP) ## edit the embedded model and show what came of it
	HF_HUB_OFFLINE=1 ANONYMIZED_TELEMETRY=False TOKENIZERS_PARALLELISM=false OMP_WAIT_POLICY=passive $(BIN)/emend demo

test: $(STAMP) ## run the quick tests but structure's (make check); ARGS='-k store -n 0' goes to pytest
	$(BIN)/pytest -q -n auto --dist loadfile --no-loadscope-reorder -m 'not slow' --ignore tests/test_architecture.py $(ARGS)

test-slow: $(STAMP) ## run the slow tests: benches, documented commands, training, faults, all architectures
	$(BIN)/pytest -q -n auto --dist worksteal -m slow $(ARGS)

check: $(STAMP) ## lint, formatting, types, import directions, structure and names
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/mypy tests scripts
	cd typings && ../$(BIN)/lint-imports --no-logo --no-cache --config ../pyproject.toml
	$(BIN)/pytest -q -p no:cacheprovider tests/test_architecture.py

format: $(STAMP) ## let ruff mend what it can
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

wheel: $(STAMP) ## build dist/emend_eval-*.whl, and the sdist that it is made from
	rm -rf build
	$(BIN)/python -m build

test-packages: ## install the wheel in fresh environments, with the lowest and the newest versions, and try it
	PYTHON=$(PYTHON) .ci/packages

audit: ## ask for known vulnerabilities of the tested versions
	PYTHON=$(PYTHON) .ci/audit

sbom: $(STAMP) ## list what is installed in .venv in CycloneDX's format, as dist/emend.cdx.json
	mkdir -p dist
	$(BIN)/cyclonedx-py environment --validate --pyproject pyproject.toml --output-file dist/emend.cdx.json .venv
