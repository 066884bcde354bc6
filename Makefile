# Everything a checkout needs. `make` lists the targets.
# On Linux without a GPU, PIP_EXTRA_INDEX_URL set to PyTorch's index of CPU builds saves a few gigabytes.

PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/installed

.DEFAULT_GOAL := help
.PHONY: help install demo test check format wheel

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(STAMP) ## make .venv with Emend and all its tools

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo 'Emend needs Python 3.11 or newer; name one with: make install PYTHON=python3.11' >&2; exit 1; }
	@echo 'Installing Emend and its tools into .venv (the first time about 2 GB)'
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

# No network, no telemetry, and no threads that burn a core while they wait.
demo test: export HF_HUB_OFFLINE := 1
demo test: export ANONYMIZED_TELEMETRY := False
demo test: export TOKENIZERS_PARALLELISM := false
demo test: export OMP_WAIT_POLICY := passive

demo: $(STAMP) ## edit the embedded model and show what came of it
	$(BIN)/emend demo

test: $(STAMP) ## run the tests; ARGS='-k store -n 0' goes to pytest
	$(BIN)/pytest -q -n auto --dist loadfile $(ARGS)

check: $(STAMP) ## lint, formatting, types, import directions
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/mypy tests
	$(BIN)/lint-imports --no-logo

format: $(STAMP) ## let ruff mend what it can
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

wheel: $(STAMP) ## build dist/emend-*.whl
	rm -rf build
	$(BIN)/python -m build --wheel
