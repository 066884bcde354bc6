# Everything a checkout needs. `make` lists the targets.
# On Linux without a GPU, PIP_EXTRA_INDEX_URL set to PyTorch's index of CPU builds saves a few gigabytes.

PYTHON ?= python3
BIN := .venv/bin
CORE := .venv/core-installed
STAMP := .venv/installed
PIP := $(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt

.DEFAULT_GOAL := help
.PHONY: help install demo test test-slow nightly check format docs wheel test-packages audit sbom

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(STAMP) ## make .venv with Emend and all its tools

$(CORE): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo 'Emend needs Python 3.11 or newer; name one with: make install PYTHON=python3.11' >&2; exit 1; }
	@echo 'Installing Emend into .venv'
	@$(PYTHON) -m venv .venv
	@# Python compiles what is imported when it is first used, which is less than half of all.
	@$(PIP) --no-compile -e .
	@# Else `import emend` beside a checkout of that name would find the folder in place of the package.
	@$(BIN)/python -c 'import pathlib, sysconfig; \
		path = pathlib.Path(sysconfig.get_path("purelib"), "emend_checkout.pth"); \
		path.write_text(str(pathlib.Path("typings").resolve()) + "\n")'
	@touch $@

$(STAMP): $(CORE)
	@echo 'Installing the tools of developers into .venv'
	@$(PIP) -e '.[dev]'
	@touch $@

demo: $(CORE) ## evaluate five editors on the embedded model; installs Emend without the tools of developers
	HF_HUB_OFFLINE=1 ANONYMIZED_TELEMETRY=False TOKENIZERS_PARALLELISM=false OMP_WAIT_POLICY=passive $(BIN)/emend demo

test: $(STAMP) ## run the quick tests but structure's (make check); ARGS='-k store -n 0' goes to pytest
	$(BIN)/pytest -q -n auto --dist loadfile --no-loadscope-reorder -m 'not slow' --ignore tests/test_architecture.py $(ARGS)

test-slow: $(STAMP) ## run the slow tests: benches, documented commands, training, faults, all architectures
	$(BIN)/pytest -q -n auto --dist worksteal -m slow $(ARGS)

nightly: $(STAMP) ## kills, storms and spoiled inputs, for hours; SCALE=0.01 for minutes, ARGS="--only kills" goes to scripts.nightly
	$(BIN)/python -m scripts.nightly $(if $(SCALE),--scale $(SCALE)) $(ARGS)

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

docs: $(STAMP) ## build the documentation's site into build/site; its warnings are errors
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

wheel: $(STAMP) ## build dist/emend_eval-*.whl, and the sdist that it is made from
	rm -rf build
	$(BIN)/python -m build

test-packages: ## install the wheel in fresh environments, with the lowest and the newest versions, and try it
	PYTHON=$(PYTHON) .ci/packages

audit: ## ask for known vulnerabilities of the tested versions
	PYTHON=$(PYTHON) .ci/audit

sbom: $(STAMP) ## list what is installed in .venv in CycloneDX's format, as dist/emend.cdx.json
	$(PYTHON) -m venv .venv-sbom # apart: it brings a check of web addresses that delays each import of Chroma by a second
	.venv-sbom/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt cyclonedx-bom
	mkdir -p dist
	.venv-sbom/bin/cyclonedx-py environment --validate --pyproject pyproject.toml --output-file dist/emend.cdx.json .venv
