#!/bin/bash
# `make test` and all that it leaves out: scripts/check.sh
# Wheel and image are made on one processor and wait for mirrors, so they go on beside the rest.
# FUZZ_SECONDS is for each fuzz target, MUTANTS_SECONDS for all mutants together. The last line is
# pytest's own.
set -euo pipefail
cd "$(dirname "$0")/.."

step() { printf '\n== %s (%s s)\n' "$1" "$SECONDS"; }
run() { make --no-print-directory "$@"; }

step "lint"
run lint
step "what make test runs"
run test
# What runs beside the rest, in a process group of its own: it ends with this script.
log=build/check-beside.log
beside() {
    step "wheel"
    run wheel-test
    step "image"
    if [ "$(id -u)" -eq 0 ]; then
        run image-test
    else
        echo "the image is built as root"
    fi
}
mkdir -p build
set -m
(beside) </dev/null >"$log" 2>&1 &
other=$!
set +m
trap 'kill -- -"$other" 2>/dev/null || true' EXIT

step "gcc and clang, warnings are errors"
run werror
step "static analysers"
ANALYSERS="tidy gcc" run analyse # clang-tidy brings the analyser of a newer clang
step "C tests under sanitizers"
run ctest VARIANTS="asan tsan"
step "proofs"
run prove
step "mutants"
run mutants SECONDS="${MUTANTS_SECONDS:-180}"
step "fuzz"
scripts/fuzz.sh "${FUZZ_SECONDS:-30}"
# by one seed here, so that a run can be repeated; make fuzz takes a new one each time
.venv/bin/python fuzz/differential.py --seconds "${FUZZ_SECONDS:-30}" --seed 1
step "programs of other makers"
run interop
step "the other supported DCodes"
run versions
step "what ran beside it"
status=0
wait "$other" || status=$?
cat "$log"
[ "$status" -eq 0 ]
step "end to end, each case as a process; the thorough tests"
RO_TEST_CHECK=1 scripts/pytest.sh .venv/bin/python -n auto --dist worksteal
