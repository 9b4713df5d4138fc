# Every target sets up what it needs: a virtual environment in .venv with the tested versions.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo serve-demo test test-kernels check bench docs dist clean

# The main job end to end, on a simulated log, or with DATA=path (and ITEMS=path, MAPPING=file) on
# yours: a log that nobody answers to, so with a model of the terms chosen for it in place of the online
# part.
DATA ?=
ITEMS ?= $(DATA)
MAPPING ?=
ifneq ($(filter $(CURDIR)/demo $(CURDIR)/demo/%,$(abspath $(DATA) $(ITEMS))),)
$(error DATA lies in demo/, which every demo begins by deleting: move it elsewhere)
endif

demo: $(READY)
	rm -rf demo
ifeq ($(DATA),)
	$(BIN)/slatewise simulate demo/log --preset demo
	$(BIN)/slatewise prepare demo/log demo/log demo/dataset
else
	$(BIN)/slatewise prepare $(DATA) $(ITEMS) demo/dataset $(if $(MAPPING),--mapping $(MAPPING))
endif
	$(BIN)/slatewise describe demo/dataset
	$(BIN)/slatewise experiment offline demo/studies --dataset demo/dataset --seeds 0 --jobs 2
	$(BIN)/slatewise experiment posterior demo/studies --dataset demo/dataset --seeds 0
ifeq ($(DATA),)
	$(BIN)/slatewise experiment online-strategies demo/studies --config examples/short-online.toml
	$(BIN)/slatewise experiment online-strategies demo/exploring --config examples/exploring.toml --jobs 2
	$(BIN)/slatewise report demo/exploring
else
	$(BIN)/slatewise train demo/dataset demo/run --auto
	$(BIN)/slatewise evaluate demo/run demo/dataset
endif
	$(BIN)/slatewise report demo/studies

# The live service, driven by simulated users: two arms, six days, a retraining every night. With
# STAY=1 the shop stays open at the end, and its page shows it, at PORT.
STAY ?=
PORT ?= 8000
serve-demo: $(READY)
	$(BIN)/python examples/live_marketplace.py $(if $(STAY),--stay --port $(PORT))

# Three workers keep two cores busy while a server starts. With one thread each, none waits for another's.
# Pictures of the page stay in build/screenshots.
test: $(READY)
	mkdir -p build/screenshots
	OMP_NUM_THREADS=1 SLATEWISE_SCREENSHOTS=build/screenshots $(BIN)/pytest -n 3 --dist loadgroup

# All kernels for a GPU on a CPU, by Triton's interpreter; `make test` runs one case of each.
test-kernels: $(READY)
	TRITON_INTERPRET=1 OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 tests/model/kernels/test_gpu.py \
		tests/training/test_dense.py tests/ranking/test_passes.py -k "gpu or kernels or passes"

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
	$(BIN)/python benchmarks/serve.py --check
	$(BIN)/python benchmarks/analyse.py --check
	$(BIN)/python benchmarks/bulk_load.py --check

# The pages of docs/ as a site that works from its folder, with search and executed notebooks.
docs: $(READY)
	$(BIN)/sphinx-build -q -W --keep-going -b html docs build/site
	@echo "Site: build/site/index.html"

# What would be published: built, installed into an empty environment, and used outside the repository
# as docs/start.md does, up to a service whose page and slates are fetched.
dist: $(READY)
	rm -rf dist
	$(BIN)/pip install --quiet --disable-pip-version-check build
	$(BIN)/python -m build --outdir dist
	$(PYTHON) -m venv dist/empty
	dist/empty/bin/pip install --quiet --disable-pip-version-check -c constraints.txt \
		"$$(ls dist/*.whl)[serve]"
	mkdir dist/first-page
	cd dist/first-page && ../empty/bin/python ../../deploy/check_install.py ../../docs/start.md
	@echo "Ready: $$(ls dist/*.whl dist/*.tar.gz)"

clean:
	rm -rf $(VENV) demo dist

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@
