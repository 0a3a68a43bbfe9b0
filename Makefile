# Every target sets up what it needs. PYTHON chooses the interpreter that makes the environments.
PYTHON ?= python3
ORACLE_PYTHON ?= $(PYTHON)
BIN := .venv/bin
ORACLE_BIN := .venv-oracle/bin

.DELETE_ON_ERROR:
.PHONY: train test test-all lint types oracle no-numba docs lite fuzz faults clean

train: .venv/installed-test  ## train a convolutional network on MNIST
	@$(BIN)/python -m functad train cnn

# In two processes, because most tests use one core. `.venv/bin/python -m pytest` runs them in one.
test: .venv/installed-test  ## run a fixed part of the tests, and the examples of the docstrings
	@$(BIN)/python -m tests --sample

test-all: .venv/installed-test  ## run all of them
	@$(BIN)/python -m tests

lint: .venv/installed-dev  ## check style and formatting
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .

types: .venv/installed-dev  ## check types
	$(BIN)/python -m mypy
	$(BIN)/python -m pytest -q tests/test_typing.py

# JAX compiles far more than it runs here, so XLA is told to compile quickly, which takes half as long, and each program as
# one module of LLVM: both cores have work as it is, and each of up to 32 modules costs as much as many kernels. Its older
# emitters round NaN to infinity (reduce_precision) and lose digits of tanh: what looks at that takes its usual ones.
ONE_MODULE := --xla_cpu_parallel_codegen_split_count=1
QUICK_XLA := --xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true --xla_cpu_use_fusion_emitters=false
AS_IT_COMES := tests/oracle/test_nn_oracle.py tests/oracle/test_primitives_oracle.py

oracle: .venv-oracle/installed-oracle  ## compare functad with JAX, in an environment of its own
	@status=0; \
	XLA_FLAGS="$(ONE_MODULE) $(QUICK_XLA)" $(ORACLE_BIN)/python -m tests $(filter-out $(AS_IT_COMES),$(wildcard tests/oracle/test_*.py)) || status=1; \
	XLA_FLAGS="$(ONE_MODULE)" $(ORACLE_BIN)/python -m tests $(AS_IT_COMES) || status=1; \
	exit $$status

NUMPY_ALONE := $(addprefix tests/,api calls control debug editing errors extend lax nn numpy optim pytrees random test_array.py \
	test_interpreter.py test_notebooks.py test_pretty.py test_tracing.py test_without_numba.py)

no-numba: .venv-numpy/installed-numpy  ## run a part of the tests where there is NumPy, but no Numba
	@.venv-numpy/bin/python -m tests --sample $(NUMPY_ALONE)

docs: .venv-docs/installed-docs  ## build the documentation, a site in build/docs/site: a minute
	@.venv-docs/bin/python -m docs

lite: .venv-lite/installed-lite  ## build the notebooks as a site that runs them in a browser, in build/lite/site
	@.venv-lite/bin/python -m docs.lite

faults: .venv/installed-test  ## kill processes, damage the cache, call from many threads: a minute
	$(BIN)/python -m tests.faults --quick

fuzz: .venv/installed-test  ## try random programs for two minutes, or PROGRAMS=... of them: those of the day, or of SEED=...
	$(BIN)/python -m tests.fuzz $(if $(PROGRAMS),--programs $(PROGRAMS),--minutes 2) $(if $(SEED),--seed $(SEED))

clean:  ## remove the environments and what the tools left behind
	rm -rf .venv .venv-* build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Bytecode is written for the modules that are imported, when they are: most of what is installed is not.
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check --no-compile

# A stamp says that the extra of its name is installed as pyproject.toml asks.
# The environment is made only where none works: it may be missing, or its Python may have gone.
define install
	@echo "Setting up $(1) with what pyproject.toml asks for ($(3)); what is not there yet is downloaded, in a minute or so."
	@$(1)/bin/python -m pip --version >/dev/null 2>&1 || $(2) -m venv --clear $(1)
	@$(1)/bin/python $(PIP_INSTALL) -e ".[$(3)]"
	@touch $@
endef

.venv/installed-test: pyproject.toml
	$(call install,.venv,$(PYTHON),test)

.venv/installed-dev: .venv/installed-test
	$(call install,.venv,$(PYTHON),dev)

.venv-docs/installed-docs: pyproject.toml
	$(call install,.venv-docs,$(PYTHON),docs)

.venv-lite/installed-lite: pyproject.toml
	$(call install,.venv-lite,$(PYTHON),lite)

.venv-numpy/installed-numpy: pyproject.toml
	@.venv-numpy/bin/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear .venv-numpy
	@.venv-numpy/bin/python $(PIP_INSTALL) numpy "pytest>=8"
	@.venv-numpy/bin/python $(PIP_INSTALL) --no-deps -e .
	@touch $@

.venv-oracle/installed-oracle: pyproject.toml
	$(call install,.venv-oracle,$(ORACLE_PYTHON),oracle)
