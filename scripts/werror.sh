#!/bin/bash
# Compiles the extension with gcc and with clang, warnings being errors: scripts/werror.sh PYTHON
set -euo pipefail
cd "$(dirname "$0")/.."

python=$1
for cc in gcc clang; do
    rm -rf build/werror
    CC=$cc LDSHARED="$cc -shared" DEEPAGENTS_RO_WERROR=1 "$python" setup.py --quiet build_ext \
        --build-lib "build/werror/$cc" --build-temp "build/werror/objects"
    echo "$cc: no warning"
done
