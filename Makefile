# make = help. Everything is made below .venv/ and build/; nothing is installed for the system but
# Debian packages that are missing (as root or with sudo; otherwise they are named).

VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check --quiet
DCODE ?= 0.1.55
OTHER_DCODES := 0.1.56 0.1.57
LOCKS := requirements/dcode-$(DCODE).txt requirements/dev.txt
C_SOURCES := $(wildcard csrc/*/*.c csrc/*/*.h)
PY_SOURCES := $(shell find deepagents_ro -name '*.py' -o -name '*.pyi' -o -name '*.toml' -o -name '*.json' -o -path '*/skills/*' -type f)
SECONDS ?= 60
ARCHITECTURES ?= amd64
RUNS ?= 9
PYTEST_ARGS ?= -n auto --dist worksteal

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup demo test check werror interop versions wheels wheel-test image image-test audit ctest bench \
    analyse coverage mutants prove gateway-random fuzz sanitize lint format lock clean

help: ## This list.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Packages, .venv with the pinned DCode, this package, the patch.
	@scripts/system_packages.sh
	@$(MAKE) --no-print-directory --silent $(VENV)/.patched

demo: setup ## One real call on a real TLS server, and one denied.
	@$(PY) scripts/demo.py

test: setup ## C tests, then all Python and end-to-end tests (PYTEST_ARGS=...).
	@scripts/ctest.sh plain
	@scripts/pytest.sh $(PY) $(PYTEST_ARGS)

# `make test` forks its end-to-end runs from a process with the stack imported; the last step here
# starts each of them as a process of its own.
check: setup ## All there is: lint, analysers, sanitizers, proofs, mutants, fuzzers, interop, wheel, image.
	@scripts/check.sh

interop: setup ## Conformance suite and servers of other makers (npm, Go, fastmcp).
	@scripts/interop.sh $(PY)

# What a version can change: how the command is found, what DCode loads, how it wraps.
VERSION_TESTS ?= tests/e2e/test_success.py tests/e2e/test_command.py tests/e2e/test_resolution.py \
    tests/e2e/test_sources.py tests/e2e/test_hints.py tests/e2e/test_audit.py tests/test_managed.py

versions: ## The end-to-end tests on the other supported DCodes (VERSION_TESTS=tests/e2e for all).
	@for version in $(OTHER_DCODES); do \
	    echo "deepagents-code $$version"; \
	    $(MAKE) --no-print-directory VENV=.venv-$$version DCODE=$$version setup || exit 1; \
	    scripts/pytest.sh .venv-$$version/bin/python $(PYTEST_ARGS) $(VERSION_TESTS) || exit 1; \
	done

gateway-random: setup ## Random calls over one pool of gateway tools (SECONDS=60).
	@GATEWAY_RANDOM_SECONDS=$(SECONDS) $(PY) -I -m pytest -q -s -k random_calls tests/gateway/test_isolation.py

wheels: ## Wheels for amd64 and arm64, with their libraries inside, in dist/.
	@scripts/build_wheels.sh amd64 arm64

wheel-test: setup ## The amd64 wheel, in clean environments of every Python (some minutes).
	@scripts/build_wheels.sh amd64
	@DEEPAGENTS_RO_WHEEL=$$(ls $(CURDIR)/dist/*_x86_64.whl) $(PY) -I -m pytest -o faulthandler_timeout=1800 tests/test_wheel.py

image: ## The image for amd64 by buildah, in build/image (ARCHITECTURES="amd64 arm64"). Needs root.
	@for arch in $(ARCHITECTURES); do \
	    case $$arch in arm64) tag=aarch64;; *) tag=x86_64;; esac; \
	    [ -n "$$(ls dist/*_$$tag.whl 2>/dev/null)" ] || scripts/build_wheels.sh $$arch || exit 1; \
	done
	@image/build.sh $(ARCHITECTURES)

image-test: setup ## image/Dockerfile by buildah, twice, and the image that it gives. Needs root.
	@scripts/actionlint.sh
	@TWICE=1 $(MAKE) --no-print-directory image
	@DEEPAGENTS_RO_IMAGE_LAYOUT=$(CURDIR)/build/image $(PY) -I -m pytest -o faulthandler_timeout=1800 tests/test_image.py

audit: ## Asks the database of known vulnerabilities about DCode's locks.
	@[ -x build/audit/bin/pip-audit ] || { $(or $(PYTHON),python3) -m venv build/audit && \
	    build/audit/bin/pip --disable-pip-version-check --quiet install pip-audit; }
	@$(or $(PYTHON),python3) scripts/audit_lock.py --pip-audit build/audit/bin/pip-audit \
	    $(wildcard requirements/dcode-*.txt)

ctest: ## C tests: plain, under ASan and UBSan, under TSan (VARIANTS=asan TESTS=test_hints).
	@scripts/system_packages.sh
	@TESTS='$(TESTS)' scripts/ctest.sh $(or $(VARIANTS),plain asan tsan)

analyse: build/tools/.made ## Static analysers over the C code: clang-tidy, clang, gcc (FILES=csrc/mcp/gate.c).
	@scripts/analyse.sh build/tools/bin $(FILES)

coverage: build/tools/.made setup ## Lines and branches of the C code that tests run (FILES=csrc/mcp/ for what none runs).
	@scripts/coverage.sh build/tools/bin $(PY) $(FILES)

mutants: ## Small changes of the C code's heart that the tests must notice (SECONDS=60).
	@$(or $(PYTHON),python3) scripts/mutants.py --seconds $(SECONDS)

prove: ## CBMC on the gate, number lexer, key table and more, where there is cbmc (PROVE_ROOT=...).
	@scripts/prove.sh $(NAMES)

bench: setup ## Against the plain Python reference (RUNS=9).
	@$(PY) bench/run.py --runs $(RUNS) --node

fuzz: setup ## Every fuzz target, then the models above (SECONDS=60 each). Needs clang.
	@scripts/fuzz.sh $(SECONDS)
	@$(PY) fuzz/differential.py --seconds $(SECONDS)

werror: $(VENV)/.requirements ## The extension with gcc and clang, warnings are errors.
	@scripts/werror.sh $(PY)

sanitize: setup ## C tests under ASan, UBSan and TSan; the extension under ASan.
	@scripts/ctest.sh asan tsan
	@scripts/sanitize_extension.sh $(PY)

lint: $(VENV)/.requirements ## Format, layers, banned functions, Python style.
	@scripts/lint.sh $(VENV)/bin

format: $(VENV)/.requirements ## Lays the sources out.
	@find csrc tests fuzz -name '*.[ch]' -exec $(VENV)/bin/clang-format -i {} +
	@$(VENV)/bin/ruff check --quiet --no-cache --select I --fix deepagents_ro tests bench fuzz image scripts setup.py
	@$(VENV)/bin/ruff format --no-cache --quiet deepagents_ro tests bench fuzz image scripts setup.py

lock: ## Resolve the requirements again. Needs uv.
	@for name in dcode-$(DCODE) $(OTHER_DCODES:%=dcode-%) dev interop tools wheel; do \
	    uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
	        --no-annotate requirements/$$name.in -o requirements/$$name.txt || exit 1; \
	done

clean: ## Everything that was made.
	@rm -rf $(VENV) $(OTHER_DCODES:%=.venv-%) build dist fuzz/work *.egg-info
	@find . -name __pycache__ -not -path './.git/*' -type d -prune -exec rm -rf {} +

build/tools/.made: requirements/tools.txt
	@"$$(PYTHON='$(PYTHON)' scripts/find_python.sh)" -m venv --clear build/tools
	@build/tools/bin/pip --disable-pip-version-check --quiet install --require-hashes -r $<
	@touch $@

$(VENV)/.made:
	@rm -rf $(VENV)
	@"$$(PYTHON='$(PYTHON)' scripts/find_python.sh)" -m venv $(VENV)
	@touch $@

$(VENV)/.requirements: $(VENV)/.made $(LOCKS)
	@echo "installing the pinned DCode and the test tools into $(VENV)"
	@$(PIP) install --require-hashes $(addprefix -r ,$(LOCKS))
	@touch $@

$(VENV)/.package: $(VENV)/.requirements $(C_SOURCES) $(PY_SOURCES) setup.py pyproject.toml
	@echo "building deepagents_ro"
	@$(PIP) install --no-build-isolation --no-deps --no-index --force-reinstall .
	@touch $@

$(VENV)/.patched: $(VENV)/.package
	@$(PY) -I -m deepagents_ro.patch apply
	@touch $@
