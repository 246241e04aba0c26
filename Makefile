# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#
# Each target sets up what it needs first, and repeats no work that is done.

PYTHON := .venv/bin/python
BUILD = cmake --build --parallel "$$(nproc)" --preset

.DEFAULT_GOAL := help
.PHONY: help setup build demo test test-slow wheel docs bench bench-full format lint check sanitize clean

help:  ## show this list
	@sed -n 's/^\([a-z-]*\):.*##/  make \1\t/p' Makefile | expand --tabs=18

setup:  ## install the Debian and Python packages that are missing
	@scripts/setup

build: build/build.ninja  ## build everything into build/
	@$(BUILD) default

demo: build  ## train a language model, evaluate it, generate from it; DATA='a.txt folder' for other text
	@scripts/demo

test: build  ## run every test; ARGS='-R name' picks some
	@$(PYTHON) scripts/run_tests.py default $(ARGS)

test-slow: build  ## run the tests in Python that take a minute: types, AOTInductor
	@PYTHONPATH=python/src GMA_NATIVE_RUNNER="$$PWD/build/tests/python/gma_native_runner" \
	    $(PYTHON) -m pytest -q -p no:cacheprovider tests/python --slow -m slow $(ARGS)

wheel: setup  ## build the Python package into dist/, for the torch in .venv
	@CMAKE_BUILD_PARALLEL_LEVEL="$${CMAKE_BUILD_PARALLEL_LEVEL:-$$(nproc)}" $(PYTHON) -m pip wheel . \
	    --no-deps --no-build-isolation --disable-pip-version-check --wheel-dir dist

docs: setup  ## build the pages and the reference of the Python package into build/docs
	@$(PYTHON) -m mkdocs build --quiet --strict

bench: build  ## measure the kernels against their peers, in minutes; ARGS="--out DIR" keeps the results
	@$(PYTHON) benchmarks/run.py $(ARGS)

bench-full: build  ## the same with more rounds and peers, to a million tokens
	@$(PYTHON) -m pip install --quiet --disable-pip-version-check -r benchmarks/requirements.txt
	@$(PYTHON) benchmarks/run.py --full $(ARGS)

format: setup  ## format every C++ file
	@scripts/format

lint: setup  ## run clang-tidy on libgma; ARGS='gma_torch apps' takes other folders
	@scripts/lint $(ARGS)

check: setup  ## check format, include rules and the rules of the house
	@scripts/format --check
	@$(PYTHON) scripts/check_includes.py
	@$(PYTHON) scripts/check_house.py

sanitize: build-asan/build.ninja  ## run the torch-free tests under ASan and UBSan
	@$(BUILD) asan
	@$(PYTHON) scripts/run_tests.py asan $(ARGS)

clean:  ## remove what was built, but not .venv
	@rm -rf build build-*

build/build.ninja: CMakePresets.json requirements.txt | setup
	@cmake --preset default
	@touch $@

build-%/build.ninja: CMakePresets.json | setup
	@cmake --preset $*
	@touch $@
