# Each goal does its own set-up, in environments under .work/. Nothing else is written in the tree, but for byte code,
# which make test writes for the hundreds of processes that its tests start.
# A fresh machine needs Linux on x86-64 or aarch64, Python 3.10 to 3.14, pip, gcc and make; no GPU and no CUDA toolkit.

PYTHON ?= python3
WORK   := .work
TEST   := $(WORK)/test
CHECK  := $(WORK)/check
# Where torch's CPU build is, where pip does not find it by itself: the address of an index, or a folder of wheels.
TORCH_INDEX ?=
# 1: install torch's CUDA build (gigabytes) on a machine without a GPU too.
TORCH_CUDA ?=
# The tests and doctests of some rooms: make test ROOM=loader/resolve, make test ROOM='cli loader'
ROOM ?=
# Further arguments of pytest: make test ARGS='-k resolve -x'
ARGS ?=
# Processes that run tests beside each other, a file at a time; 0 runs them in one.
JOBS ?= auto

# Those of this project, and the one that precast new --ci writes.
WORKFLOWS = $(wildcard .github/workflows/*.yml) build/scaffold/ci/NAME.yml

C_FILES = $(shell find loader/native native build emulator tests -name '*.[ch]' -o -name '*.cpp')

TESTS = $(foreach room,$(ROOM),$(wildcard tests/$(room) src/precast/$(room)))
MISSING_ROOMS = $(strip $(foreach room,$(ROOM),$(if $(wildcard tests/$(room) src/precast/$(room)),,$(room))))
PYTEST = $(TEST)/bin/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder --max-worker-restart 0

export TORCH_INDEX TORCH_CUDA
export PYTHONDONTWRITEBYTECODE := 1
unexport PYTHONPATH PYTHONHOME VIRTUAL_ENV

ENVIRONMENT = $(PYTHON) .ci/environment.py

# The cache that is measured: make bench CACHE=cache
CACHE ?=

.PHONY: help demo test test-all cov kernels notebook bench aarch64 emulate-all check tidy format dist lock clean room test-environment check-environment

help: ## this list
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

demo: ## build the default manifest, pack it, use it where there is no compiler, and emulate some of it
	@$(ENVIRONMENT) --torch $(WORK)/builder -- -e ./loader -e ./emulator -e ./measure -e '.[torch,emulate]'
	@$(PYTHON) tests/demo/run.py --work $(WORK) --builder $(WORK)/builder

test: room test-environment ## the quick tests, or those of some ROOM
	@$(TEST)/bin/python -m compileall -q loader fetch attach build cli emulator kernels manifests measure native publish tests/helpers
	@$(PYTEST) -m "not slow" $(if $(ROOM),$(TESTS)) $(ARGS)

# The slow tests wait for processes that they start: one process more than there are processors keeps these busy.
test-all: JOBS = $(shell expr $$(nproc) + 1)
test-all: room test-environment ## every test, or every one of some ROOM; those that are slow alone: ARGS='-m slow'
	@$(TEST)/bin/python -m compileall -q loader fetch attach build cli emulator kernels manifests measure native publish tests/helpers
	@$(PYTEST) $(if $(ROOM),$(TESTS)) $(ARGS)

.PHONY: ends newest neighbours

ends: check-environment ## the loader's and the builder's own tests with the oldest and the newest versions that they accept
	@$(PYTHON) .ci/ends.py lowest $(CHECK)/bin/uv $(WORK) -n $(JOBS) --dist loadfile $(ARGS)
	@$(PYTHON) .ci/ends.py highest $(CHECK)/bin/uv $(WORK) -n $(JOBS) --dist loadfile $(ARGS)

newest: check-environment ## the tests of attached libraries with the newest releases of these
	@$(PYTHON) .ci/ends.py newest $(CHECK)/bin/uv $(WORK) -n $(JOBS) --dist loadfile $(ARGS)

neighbours: test-environment ## resolve beside vLLM, SGLang and others, at the supported and at the newest versions
	@$(TEST)/bin/python -m pytest tests/engines/test_neighbours.py $(ARGS)

cov: test-environment ## the whole suite, with its branch coverage, which must reach the floors
	@$(TEST)/bin/python -m coverage run -m pytest $(ARGS)
	@$(TEST)/bin/python -m coverage report
	@$(TEST)/bin/python -m coverage report --include='loader/contract/format/*,loader/machine/*,loader/resolve/*' --fail-under=100

.PHONY: docs reference

docs: ## the site of the documentation, in .work/site/html; warnings are errors
	@$(ENVIRONMENT) $(WORK)/docs -- -e ./loader -e '.[docs]'
	@$(WORK)/docs/bin/python -m sphinx -q -W --keep-going -b html -c docs/site -d $(WORK)/site/pages . $(WORK)/site/html $(ARGS)
	@echo "wrote $(WORK)/site/html/index.html"

reference: test-environment ## write docs/reference and the JSON Schemas from the code
	@$(TEST)/bin/python docs/site/write_reference.py

kernels: test-environment ## plan all manifests, and write docs/kernels.md
	@$(TEST)/bin/python benchmarks/kernel_list.py --plan $(ARGS)

notebook: test-environment ## run examples/tour.ipynb, and keep what it shows now
	@$(TEST)/bin/python -m tests.helpers.notebook.runner examples/tour.ipynb

bench: test-environment ## measure a CACHE on this GPU, and write docs/performance.md
	@$(TEST)/bin/python benchmarks/performance.py $(if $(CACHE),--cache $(CACHE)) $(ARGS)

aarch64: test-environment ## build, merge and load for aarch64 hosts, emulated; needs root, qemu-user-static, debootstrap
	@$(TEST)/bin/python tests/aarch64/run.py $(ARGS)

emulate-all: test-environment ## build all manifests, run all kernels without a GPU, and write docs/kernels.md
	@$(TEST)/bin/python benchmarks/emulate_all.py --work $(WORK)/emulated $(ARGS)

check: check-environment ## lint, format, types, import direction, words, C code, workflows
	@$(CHECK)/bin/ruff check .
	@$(CHECK)/bin/ruff format --check .
	@$(CHECK)/bin/mypy
	@$(CHECK)/bin/mypy --strict .ci/environment.py .ci/ends.py tests/demo/run.py hatch_build.py
	@$(CHECK)/bin/mypy --strict .ci/words.py .ci/release_check.py
	@$(CHECK)/bin/clang-format --dry-run -Werror $(C_FILES)
	@MYPYPATH=src:docs/site $(CHECK)/bin/mypy --strict docs/site/*.py
	@$(CHECK)/bin/lint-imports --no-cache
	@$(CHECK)/bin/python .ci/words.py
	@$(CHECK)/bin/zizmor --offline --quiet $(WORKFLOWS)
	@$(CHECK)/bin/check-jsonschema --builtin-schema vendor.github-workflows $(WORKFLOWS)
	@$(CHECK)/bin/check-jsonschema --builtin-schema vendor.gitlab-ci --data-transform gitlab-ci build/scaffold/ci/gitlab.yml

tidy: check-environment ## look for mistakes in the C code with clang-tidy: half a minute
	@$(CHECK)/bin/python .ci/tidy.py $(CHECK)/bin/clang-tidy

format: check-environment ## let ruff fix and format the code, and clang-format the C code
	@$(CHECK)/bin/ruff check --fix .
	@$(CHECK)/bin/ruff format .
	@$(CHECK)/bin/clang-format -i $(C_FILES)

dist: ## sdist and wheels of the distributions, in dist/: the loader's with native code for this host, and without
	@$(ENVIRONMENT) $(WORK)/dist -- build hatchling apache-tvm-ffi
	@PRECAST_NATIVE=1 $(WORK)/dist/bin/pyproject-build --no-isolation --outdir dist loader
	@PRECAST_NATIVE=0 $(WORK)/dist/bin/pyproject-build --no-isolation --wheel --outdir dist loader
	@$(WORK)/dist/bin/pyproject-build --no-isolation --outdir dist emulator
	@$(WORK)/dist/bin/pyproject-build --no-isolation --outdir dist attach
	@$(WORK)/dist/bin/pyproject-build --no-isolation --outdir dist measure
	@$(WORK)/dist/bin/pyproject-build --no-isolation --outdir dist native
	@$(WORK)/dist/bin/pyproject-build --no-isolation --outdir dist publish
	@$(WORK)/dist/bin/pyproject-build --no-isolation --outdir dist .

.PHONY: release-check

release-check: dist check-environment ## rehearse a release: check dist/, install it from an index on this machine, run the ten lines
	@$(ENVIRONMENT) $(WORK)/twine -- twine
	@$(WORK)/twine/bin/python .ci/release_check.py dist $(WORK)/release $(CHECK)/bin/uv

lock: check-environment ## write constraints.txt anew from constraints.in
	@$(CHECK)/bin/uv pip compile --quiet --upgrade --universal --python-version 3.10 --no-annotate --no-header \
	  $(foreach name,precast precast-loader precast-emulator precast-attach precast-measure precast-native precast-publish,--no-emit-package $(name)) constraints.in -o constraints.txt

room:
	@test -z "$(MISSING_ROOMS)" || \
	  { echo "there is no room $(firstword $(MISSING_ROOMS)): name a folder of tests/ or of the packages, such as loader/resolve" >&2; exit 2; }

test-environment:
	@$(ENVIRONMENT) --torch $(TEST) -- -e ./loader -e ./emulator -e ./attach -e ./measure -e ./native -e ./publish -e '.[test]'
	@$(TEST)/bin/python -c 'from precast.emulator.interpreter_library import find_library; find_library()' # g++ takes minutes, once

check-environment:
	@$(ENVIRONMENT) $(CHECK) -- -e ./loader -e '.[check]'

clean: ## remove the environments and every generated file
	rm -rf $(WORK) dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find $(wildcard loader fetch attach build cli emulator kernels manifests measure native publish tests) -name __pycache__ -prune -exec rm -rf {} +
