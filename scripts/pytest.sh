#!/bin/bash
# pytest; what fails beside others is run once more, alone: scripts/pytest.sh PYTHON [pytest's arguments]
# A few tests watch a clock, and a busy machine may starve one: the verdict is the quiet run's, both
# are shown, and more than three failures stand as they are. The last line is pytest's own.
set -euo pipefail
cd "$(dirname "$0")/.."

python=$1
shift
most=3
mkdir -p build
cache=$(mktemp -d build/pytest-cache.XXXXXX)
trap 'rm -rf "$cache"' EXIT
status=0
"$python" -I -m pytest -o cache_dir="$cache" "$@" || status=$?
[ "$status" -eq 1 ] || exit "$status"
failed=$("$python" -I -c 'import json, sys; print(len(json.load(open(sys.argv[1]))))' \
    "$cache/v/cache/lastfailed")
[ "$failed" -le "$most" ] || exit 1
printf '\n== once more, alone: %s\n' "$failed"
"$python" -I -m pytest -o cache_dir="$cache" "$@" --last-failed -n 0
