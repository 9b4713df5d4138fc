# Every target sets up what it needs: a virtual environment in .venv with the tested versions.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test check bench clean

demo: $(READY)
	rm -rf demo
	$(BIN)/slatewise simulate demo/log --preset demo
	$(BIN)/slatewise prepare demo/log/log.parquet demo/log/items.parquet demo/dataset
	$(BIN)/slatewise describe demo/dataset
	$(BIN)/slatewise train demo/dataset demo/run
	$(BIN)/slatewise evaluate demo/run demo/dataset

test: $(READY)
	$(BIN)/pytest -n 2

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(READY)
	$(BIN)/python benchmarks/simulate.py --check
	$(BIN)/python benchmarks/ingest.py --check
	$(BIN)/python benchmarks/train_cpu.py --check
	$(BIN)/python benchmarks/slates.py --check

clean:
	rm -rf $(VENV) demo

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@
