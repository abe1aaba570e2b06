#!/bin/bash
# Builds and runs the C tests: scripts/ctest.sh [plain] [asan] [tsan]
# TESTS="test_hints test_json" names the programs that are wanted; default: all of them.
# Two programs at a time, one line a program; what a failing one printed follows its line.
set -euo pipefail
cd "$(dirname "$0")/.."

export ASAN_OPTIONS=detect_leaks=1:abort_on_error=0
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1

# One program of a variant; its lines are written at once, so that two do not mix.
run_one() {
    local variant=$1 name=$2 limit_s=120 log=build/ctest/$1/$2.log said status=0
    timeout "$limit_s" "build/ctest/$variant/$name" </dev/null >"$log" 2>&1 || status=$?
    if [ "$status" -eq 0 ]; then
        said=$(tail -n 1 "$log")
    else
        said="FAILED (exit $status)"$'\n'$(tail -n 60 "$log")
        echo "$name" >>"build/ctest/$variant/failed"
    fi
    printf '%-6s %-28s %s\n' "$variant" "$name" "$said"
    return "$status"
}
export -f run_one

# Those that wait longest begin first.
longest="test_guard_fault test_guard test_stdio test_shapes"
names=$(basename -s .c -a tests/c/test_*.c)
for name in ${TESTS:-}; do
    grep -qxF -- "$name" <<<"$names" || { echo "there is no tests/c/$name.c" >&2; exit 2; }
done
wanted=${TESTS:-$longest $(grep -vxF "$(printf '%s\n' $longest)" <<<"$names")}
status=0
for variant in "${@:-plain}"; do
    programs=${TESTS:+$(printf "build/ctest/$variant/%s " $TESTS)}
    make --no-print-directory -j2 -f scripts/ctest.mk VARIANT="$variant" ${programs:-all}
    failed=build/ctest/$variant/failed
    rm -f "$failed"
    printf '%s\n' $wanted | xargs -P 2 -I{} bash -c 'run_one "$1" "$2"' - "$variant" {} ||
        [ -e "$failed" ] || status=1
    # As in pytest.sh: the verdict on a few that failed beside others is that of a run alone.
    if [ -e "$failed" ]; then
        again=$(<"$failed")
        [ "$(wc -w <<<"$again")" -le 3 ] || { status=1; continue; }
        echo "once more, alone: ${again//$'\n'/ }"
        for name in $again; do
            run_one "$variant" "$name" || status=1
        done
    fi
done
exit "$status"
