# Each target first sets up .venv, and changes nothing else on the machine.
# ARGS="..." passes arguments to pytest or to the program that the target starts: make test ARGS="-k partition", make bench ARGS="selfie_segmentation"

BIN := .venv/bin
READY := .venv/.ready
# Tests start make themselves: the variables of this make, such as PYTHON=, must not reach that make.
PYTEST := env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL -u PYTHON $(BIN)/python -m pytest
PYTHONS := $(or $(PYTHON),python3.14 python3.13 python3.12 python3.11 python3.10 python3 python)
USABLE := import sys, ensurepip; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 14))

READERS := litert/model vendor_reference/executable vendor_reference/custom_layers
READER_TESTS := tests/model tests/fuzz/test_fuzz.py tests/core/test_input_file.py \
  $(addprefix tests/runtime/test_,$(addsuffix .py,loading stock_checks)) \
  $(addprefix tests/compiler_plugin/test_,$(addsuffix .py,composites control_dependencies)) \
  $(addprefix tests/vendor_reference/test_,$(addsuffix .py,assets_of_the_reference_vendor bin_reader \
  binary_layer build_options cpu_layers_in_ir cpu_task damaged_byte_code data_inputs define_text executable \
  executable_shapes json_reader kernel_check kernel_parameter_types kernel_source layer_defines layer_folders \
  layout lowering mvcl_reader overriding parameter_use selection shape_bounds simplegpu_defines sizes_in_byte_code \
  source_text transfer_kernels work_items xml_reader xml_text))

.PHONY: help setup demo test check docs golden bench fuzz faults soak coverage bazel

help: ## print this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) ## create .venv with the project and the requirements of its tests

demo: $(READY) ## cut a person out of a picture with a real network, whose custom op runs on the emulated NPU
	@$(BIN)/python -m examples.demo

test: $(READY) ## run all tests
	@$(PYTEST) -n auto $(ARGS)

check: $(READY) ## check format, lint, types and the direction of imports
	@$(BIN)/ruff format --check --quiet . && $(BIN)/ruff check --quiet .
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports --no-logo 2>/dev/null

docs: $(READY) ## build the documentation site in build/site; warnings, such as dead links, are errors
	@rm -rf build/site
	@$(BIN)/python -m sphinx -q -E -W --keep-going -c docs/site -d build/site_doctrees . build/site
	@echo build/site/index.html

golden: $(READY) ## rewrite the golden files of the tests; read the diff before you commit
	@$(PYTEST) -n auto --golden $(ARGS)

bench: $(READY) ## measure the figures in docs/performance.md; ARGS="start_up" selects benchmarks
	@$(BIN)/python -m benchmarks $(ARGS)

fuzz: $(READY) ## give damaged inputs to each reader, for SECONDS=60 each; TARGETS="model load" selects fuzz targets
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -e '.[fuzz]'
	@$(BIN)/python -m tests.fuzz --seconds=$(or $(SECONDS),60) $(TARGETS)

faults: $(READY) ## run commands with failing calls (files, memory, OpenCL), 20 calls for each command, or all with ALL=1; ARGS="run" selects commands
	@$(BIN)/python -m tests.faults $(if $(ALL),,--most=20) $(ARGS)

soak: $(READY) ## load, run, compile and close models for MINUTES=5, and check that memory and open files do not grow
	@$(BIN)/python -m tests.soak --minutes=$(or $(MINUTES),5)

coverage: $(READY) ## measure the branch coverage of the readers
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -e '.[coverage]'
	@$(PYTEST) -n auto $(READERS:%=--cov=%) --cov-branch --cov-fail-under=100 \
	  --cov-report=term-missing:skip-covered $(or $(ARGS),$(READER_TESTS))

bazel: $(READY) ## build and run the Bazel targets; needs Bazel
	@.ci/bazel

# An existing .venv keeps its Python, unless PYTHON= is given: venv cannot change the Python of a folder.
$(READY): pyproject.toml $(wildcard tests/null_vendor/pyproject.toml)
	@if [ -z "$(PYTHON)" ] && $(BIN)/python -c 'import pip; $(USABLE)' 2>/dev/null; then \
	  echo "Updating .venv"; exit; \
	fi; \
	for python in $(PYTHONS); do \
	  if "$$python" -c '$(USABLE)' 2>/dev/null; then found=$$python; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
	  echo "No Python 3.10 to 3.14 with venv found (tried: $(strip $(PYTHONS)))."; \
	  echo "Install a Python, or give the path of one: make PYTHON=/path/to/python3.11 setup"; \
	  echo "On Debian and Ubuntu, also install the package python3-venv"; \
	  exit 1; \
	fi; \
	echo "Setting up .venv with $$("$$found" --version) (the first setup takes two minutes; on x86-64 it downloads 550 MB)"; \
	"$$found" -m venv --clear .venv
	@$(BIN)/python -m pip install -qq --disable-pip-version-check \
	  -e '.[dev]' $(patsubst %/pyproject.toml,-e ./%,$(filter tests/%,$^)) || { \
	  echo "The packages cannot be installed for $$($(BIN)/python --version): the error of pip is above."; \
	  echo "If a package does not support this Python, use an older Python: make PYTHON=/path/to/python3.11 setup"; \
	  exit 1; \
	}
	@touch $@
