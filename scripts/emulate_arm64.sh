#!/bin/bash
# What of an arm64 wheel can be seen without an arm64 machine: scripts/emulate_arm64.sh SYSROOT LIBRARIES WHEEL
#
# Under qemu-user: an import of the extension by Debian's Python 3.11, a look at what it parses, and
# the C unit tests. Left out are the tests of what the emulator does not give: see `skipped`.
set -euo pipefail
cd "$(dirname "$0")/.."

sysroot=$1
libraries=$2
wheel=$3
host=aarch64-linux-gnu
out=build/wheel/emulated
qemu=(qemu-aarch64-static -L "$sysroot")
limit_s=120
# They use threads over fork, core limits and child sub-reaping in ways that qemu-user aborts on.
skipped=" test_guard test_guard_ending test_guard_fault test_guard_input test_stdio "

rm -rf "$out"
mkdir -p "$out/site"
python3 -m zipfile -e "$wheel" "$out/site"
"${qemu[@]}" "$sysroot/usr/bin/python3.11" -I -S -c "
import platform, sys
sys.path.insert(0, '$out/site')
from deepagents_ro import _mcpro
_mcpro.json_check(b'{\"a\":[1.10,\"\\\\u00e9\"]}')
try:
    _mcpro.json_check(b'{\"a\":1,\"a\":2}')
except _mcpro.JSONError as error:
    print(platform.machine(), 'import and parse:', error.code)
else:
    sys.exit('a duplicate key was not noticed')
"

make --no-print-directory -j2 -f scripts/ctest.mk OUT="$out/c" PKG_CONFIG="$libraries/bin/pkg-config" \
    CC="$host-gcc --sysroot=$sysroot"
status=0
for source in tests/c/test_*.c; do
    name=$(basename "$source" .c)
    if [[ $skipped == *" $name "* ]]; then
        printf 'arm64  %-28s not under emulation\n' "$name"
        continue
    fi
    if timeout "$limit_s" "${qemu[@]}" "$out/c/$name" </dev/null >"$out/$name.log" 2>&1; then
        printf 'arm64  %-28s %s\n' "$name" "$(tail -n 1 "$out/$name.log")"
    else
        printf 'arm64  %-28s FAILED\n' "$name"
        tail -n 30 "$out/$name.log"
        status=1
    fi
done
exit "$status"
