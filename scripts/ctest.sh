#!/bin/bash
# Builds and runs the C tests: scripts/ctest.sh [plain] [asan] [tsan]
# One line a program; what a failing one printed follows its line.
set -euo pipefail
cd "$(dirname "$0")/.."

limit_s=120
export ASAN_OPTIONS=detect_leaks=1:abort_on_error=0
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1
status=0
for variant in "${@:-plain}"; do
    make --no-print-directory -j2 -f scripts/ctest.mk VARIANT="$variant"
    found=0
    for source in tests/c/test_*.c; do
        [ -e "$source" ] || continue
        found=1
        name=$(basename "$source" .c)
        log="build/ctest/$variant/$name.log"
        if timeout "$limit_s" "build/ctest/$variant/$name" </dev/null >"$log" 2>&1; then
            printf '%-6s %-28s %s\n' "$variant" "$name" "$(tail -n 1 "$log")"
        else
            printf '%-6s %-28s FAILED (exit %s)\n' "$variant" "$name" "$?"
            tail -n 60 "$log"
            status=1
        fi
    done
    if [ "$found" -eq 0 ]; then
        echo "there are no C tests in tests/c"
        exit 1
    fi
done
exit "$status"
