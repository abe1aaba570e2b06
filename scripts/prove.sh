#!/bin/bash
# CBMC over the harnesses of tests/prove, each with its twin that must fail: scripts/prove.sh [NAME ...]
#
# Two at a time. CBMC is the program `cbmc`, or the one of a Debian root that $PROVE_ROOT names (Debian has it from
# 13 on; `scripts/prove.sh root DIRECTORY` makes such a root, as root, by mmdebstrap). Where there is
# neither, nothing is proved and the output says so.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "${1:-}" = root ]; then
    exec mmdebstrap --quiet --variant=minbase --include=cbmc,gcc,libc6-dev trixie "$2" \
        "${DEBIAN_MIRROR:-http://deb.debian.org/debian}"
fi

checks=(--bounds-check --pointer-check --pointer-overflow-check --signed-overflow-check)
checks+=(--div-by-zero-check --undefined-shift-check --unwinding-assertions --no-malloc-may-fail)
checks+=(--verbosity 4)

# words of one of a harness's first lines
said() { sed -n "s/^[/ ]\* $2: //p" "tests/prove/$1.c" | head -n 1; }

run() { # NAME [-DRO_TWIN]
    local name=$1 sources=() options=()
    shift
    read -r -a sources <<<"$(said "$name" sources)"
    read -r -a options <<<"$(said "$name" options)"
    "${cbmc[@]}" "tests/prove/$name.c" "${sources[@]/#/csrc/}" -Icsrc -Itests/prove -D_GNU_SOURCE \
        --function prove "${checks[@]}" "${options[@]}" "$@"
}

prove() { # NAME
    local began=$SECONDS
    if ! run "$1" >"$work/$1" 2>&1; then
        printf 'prove  %-14s FAILED\n' "$1"
        grep -E 'FAILURE|rror' "$work/$1" || tail -n 20 "$work/$1"
        return 1
    fi
    run "$1" -DRO_TWIN >"$work/$1.twin" 2>&1 && {
        printf 'prove  %-14s its twin was not refuted: it proves nothing\n' "$1"
        return 1
    }
    if ! grep -q 'assertion.*FAILURE' "$work/$1.twin"; then
        printf 'prove  %-14s its twin failed otherwise than by a claim\n' "$1"
        tail -n 20 "$work/$1.twin"
        return 1
    fi
    printf 'prove  %-14s proved, twin refuted (%s s)\n' "$1" $((SECONDS - began))
}

if command -v cbmc >/dev/null; then
    cbmc=(cbmc)
elif [ -n "${PROVE_ROOT:-}" ]; then
    cbmc=(unshare --mount sh -c 'mkdir -p "$1/project"; mount --bind . "$1/project"; root=$1; shift
        exec chroot "$root" sh -c "cd /project; exec cbmc \"\$@\"" cbmc "$@"' sh "$PROVE_ROOT")
else
    echo "not proved on this machine: there is no cbmc (Debian 13 has it)"
    exit 0
fi
work=$(mktemp -d)
ulimit -v 8000000 # a harness that needs more is written wrongly
trap 'rm -rf "$work"' EXIT
names=("$@")
[ $# -gt 0 ] || mapfile -t names < <(cd tests/prove && ls ./*.c | sed 's|^\./||; s|\.c$||')
status=0
for ((at = 0; at < ${#names[@]}; at += 2)); do
    pids=()
    for name in "${names[@]:at:2}"; do
        prove "$name" &
        pids+=("$!")
    done
    for pid in "${pids[@]}"; do
        wait "$pid" || status=1
    done
done
exit "$status"
