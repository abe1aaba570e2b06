#!/bin/bash
# Static analysers over the C code, silent where they find nothing: scripts/analyse.sh BIN [FILE...]
#
# ANALYSERS="tidy gcc clang" names them: clang-tidy with the checks of .clang-tidy, clang's analyser
# of its own release among them; gcc -fanalyzer; clang --analyze of this machine, which is left out,
# with a line, where there is no clang. BIN holds clang-tidy and the Python whose headers csrc/py is
# for. As many files at once as there are processors.
set -euo pipefail
cd "$(dirname "$0")/.."

bin=$1
shift
files=("$@")
[ $# -gt 0 ] || files=(csrc/*/*.c)
python=$("$bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["include"])')
flags="-std=c11 -D_GNU_SOURCE -DPy_LIMITED_API=0x030B0000 -Icsrc -isystem $python"
flags+=" $(pkg-config --cflags libcurl libcjson)"
# vfork: csrc/mcp/child.c says why, and its NOLINT is for clang-tidy alone.
clang_flags="-Xclang -analyzer-werror"
clang_flags+=" -Xclang -analyzer-disable-checker=security.insecureAPI.vfork,unix.Vfork"
export bin flags clang_flags

# What one analyser says of one file, at once, so that two do not mix.
analyse() { # TOOL FILE
    local said status=0
    case $1 in
    tidy) said=$("$bin/clang-tidy" --quiet "$2" -- $flags 2>/dev/null) || status=$? ;;
    clang) said=$(clang --analyze --analyzer-output text $clang_flags $flags "$2" 2>&1) || status=$? ;;
    gcc) said=$(gcc -O1 -fanalyzer -Werror $flags -c "$2" -o /dev/null 2>&1) || status=$? ;;
    esac
    [ "$status" -eq 0 ] || printf '%s %s\n%s\n' "$1" "$2" "$said"
    return "$status"
}
export -f analyse

read -r -a tools <<<"${ANALYSERS:-tidy gcc clang}"
if [[ " ${tools[*]} " == *" clang "* ]] && ! command -v clang >/dev/null; then
    echo "no clang --analyze: there is no clang on this machine"
    mapfile -t tools < <(printf '%s\n' "${tools[@]}" | grep -vx clang)
fi
for tool in "${tools[@]}"; do printf "$tool %s\n" "${files[@]}"; done |
    xargs -P "$(nproc)" -L 1 bash -c 'analyse "$@"' analyse
