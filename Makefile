# Two commands do all set-up on a fresh Debian 12 or Ubuntu 24.04: `make demo` and `make test`.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= $(firstword $(foreach p,python3 python3.12 python3.11,$(shell $(p) -c 'import sys; sys.exit(not (3,11) <= sys.version_info[:2] < (3,13))' 2>/dev/null && command -v $(p))))
VENV := .venv
BIN := $(VENV)/bin
STAMPS := build/stamps
CPP := $(shell find postproc_cpp -name '*.cpp' -o -name '*.hpp' -o -name '*.h' -o -name CMakeLists.txt 2>/dev/null)
NICE := nice -n 5

help: ## what there is
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

$(STAMPS)/apt: .ci/apt.txt
	@mkdir -p $(STAMPS)
	@.ci/apt-install .ci/apt.txt
	@touch $@

$(STAMPS)/apt-test: $(STAMPS)/apt .ci/apt-test.txt
	@.ci/apt-install .ci/apt-test.txt
	@touch $@

$(STAMPS)/venv: $(STAMPS)/apt pyproject.toml .ci/build.txt
	@test -n "$(PYTHON)" || { echo "Python 3.11 or 3.12 is needed (set PYTHON=...)"; exit 1; }
	@echo "setting up $(VENV) with $(PYTHON) (a few minutes, once)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -q --disable-pip-version-check -r .ci/build.txt
	@touch $@

$(STAMPS)/wardarm: $(STAMPS)/venv $(CPP)
	@echo "building and installing wardarm into $(VENV)"
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-build-isolation -e .
	@touch $@

$(STAMPS)/triton: $(STAMPS)/wardarm
	@$(BIN)/python -m wardarm.ops.triton_server --prepare
	@touch $@

$(STAMPS)/dev: $(STAMPS)/wardarm $(STAMPS)/apt-test
	@echo "installing what the tests and checks need"
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-build-isolation -e '.[dev]'
	@touch $@

setup: $(STAMPS)/wardarm $(STAMPS)/triton ## install everything that the product needs here

demo: setup ## one sentence moves the arm: films it into out/demo/
	@$(BIN)/wardarm demo

test: setup $(STAMPS)/dev ## every test, on real parts
	@$(MAKE) --no-print-directory build/cpp/done
	@cd build/cpp && ctest --output-on-failure -j2
	@.ci/pytest-halves $(BIN)/python

build/cpp/done: $(STAMPS)/dev $(CPP)
	@cmake -S postproc_cpp -B build/cpp -DCMAKE_BUILD_TYPE=Release -DPython_EXECUTABLE=$(abspath $(BIN))/python -DWARDARM_TESTS=ON >build/cpp.log 2>&1 || { cat build/cpp.log; exit 1; }
	@$(NICE) cmake --build build/cpp -j2 >>build/cpp.log 2>&1 || { tail -50 build/cpp.log; exit 1; }
	@touch $@

check: $(STAMPS)/dev check-aarch64 ## style, types and analysis; the C++ tests on aarch64
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check -q .
	@$(BIN)/mypy
	@clang-format --dry-run --Werror $(filter %.cpp %.hpp %.h,$(CPP))
	@$(MAKE) --no-print-directory build/cpp/done
	@$(NICE) clang-tidy --quiet -p build/cpp $(wildcard postproc_cpp/src/*.cpp) 2>/dev/null
	@$(BIN)/buf lint service
	@echo "check: all green"

check-aarch64: $(STAMPS)/apt-test ## the C++ unit tests cross-built for aarch64 (Jetson), under qemu
	@$(NICE) .ci/aarch64/check

bench: setup ## figures of the postprocessor
	@$(BIN)/wardarm bench postproc

prove: setup $(STAMPS)/dev ## long claims, in resumable parts
	@$(BIN)/python -m pytest -o addopts='-q -ra' tests/prove

clean: ## remove what was built (not the environments)
	@rm -rf build/cpp build/aarch64 build/wheel out

.PHONY: help setup demo test check check-aarch64 bench prove clean
