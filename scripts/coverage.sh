#!/bin/bash
# Lines and branches of the C code that tests run: scripts/coverage.sh BIN PYTHON [FILE-PREFIX]
#
# A table by file and directory, and exit 1 when one of these runs too few of its branches (TARGETS in
# coverage_table.py); with a prefix, the lines of those files that no test runs. core, guard,
# net and mcp count what the C tests run. csrc/py counts what those Python tests run that call the
# extension in their own process: the end-to-end runs are processes of their own, on the installed
# package. Needs gcc's gcov; BIN holds gcovr, PYTHON has the test tools.
set -euo pipefail
cd "$(dirname "$0")/.."

bin=$1
python=$2
shift 2
out=build/cov-extension
python_tests=(tests/test_{ahead,conversion,guard,hints,json,odd_heads,redact,session,transport,verdicts}.py)

# Left out are branches on lines that hold no code, such as a brace, and no others.
measure() { # DIRECTORY FILTER
    "$bin/gcovr" --root . --filter "$2" --exclude-unreachable-branches \
        --gcov-ignore-parse-errors=negative_hits.warn_once_per_file --json "$1/coverage.json" "$1" >/dev/null
}

rm -rf build/ctest/cov # counts of sources that are no longer there
scripts/ctest.sh cov
measure build/ctest/cov 'csrc/(core|guard|mcp|net)/'

rm -rf "$out"
mkdir -p "$out"
cp -r deepagents_ro "$out/"
CC=gcc CFLAGS="--coverage -fprofile-update=atomic" LDFLAGS=--coverage "$python" setup.py --quiet \
    build_ext --build-lib "$out" --build-temp "$out/objects"
rm -f ./-.gcno # of the empty program by which setup.py asks the compiler
PYTHONPATH=$out "$python" -P -m pytest -q -p no:cacheprovider "${python_tests[@]}"
measure "$out" csrc/py/

exec "$bin/python" scripts/coverage_table.py build/ctest/cov/coverage.json "$out/coverage.json" "$@"
