#!/bin/bash
# Format, layers, banned functions, Python style and types: scripts/lint.sh BIN, where BIN holds the tools.
set -euo pipefail
cd "$(dirname "$0")/.."

bin=$1
status=0
python=(deepagents_ro tests bench fuzz image scripts setup.py)
mapfile -t c < <(find csrc tests fuzz -name '*.[ch]' | sort)
"$bin/clang-format" --dry-run -Werror --ferror-limit=1 "${c[@]}" || status=1
"$bin/python" scripts/check_sources.py || status=1
"$bin/ruff" check --quiet --no-cache "${python[@]}" || status=1
"$bin/ruff" format --quiet --no-cache --check "${python[@]}" || status=1
"$bin/mypy" --no-error-summary || status=1
exit "$status"
