#!/bin/bash
# Builds the extension with ASan and UBSan beside the installed one and runs it in Python:
# scripts/sanitize_extension.sh PYTHON. Leaks are the C tests' business, CPython has its own.
set -euo pipefail
cd "$(dirname "$0")/.."

python=$1
out=build/sanitize-extension
rm -rf "$out"
mkdir -p "$out/deepagents_ro"
DEEPAGENTS_RO_SANITIZE=address,undefined CC=gcc "$python" setup.py --quiet build_ext \
    --build-lib "$out" --build-temp "$out/objects"
cp deepagents_ro/*.py "$out/deepagents_ro/"
LD_PRELOAD="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libubsan.so)" \
    ASAN_OPTIONS=detect_leaks=0 PYTHONPATH="$out" PYTHONMALLOC=malloc \
    "$python" -P tests/sanitize_smoke.py
