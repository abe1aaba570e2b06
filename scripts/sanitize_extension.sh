#!/bin/bash
# Builds the extension with ASan and UBSan beside the installed one and runs the command on it:
# scripts/sanitize_extension.sh PYTHON. Leaks are the C tests' business, CPython has its own.
set -euo pipefail
cd "$(dirname "$0")/.."

python=$1
out=build/sanitize-extension
rm -rf "$out"
mkdir -p "$out"
cp -r deepagents_ro "$out/"
CC=gcc DEEPAGENTS_RO_SANITIZE=address,undefined "$python" setup.py --quiet build_ext \
    --build-lib "$out" --build-temp "$out/objects"
RO_PRELOAD="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libubsan.so)" \
    "$python" scripts/sanitize_smoke.py "$out"
