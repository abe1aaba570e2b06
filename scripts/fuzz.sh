#!/bin/bash
# Builds every fuzz/*.c with libFuzzer, ASan and UBSan and runs it, two at a time:
# scripts/fuzz.sh SECONDS [NAME...]. Seeds are in fuzz/corpus/NAME, findings in fuzz/work/NAME.
# FORK=2 runs one target after the other instead, each in so many processes that share one corpus
# (libFuzzer's -fork): for a long run of few targets.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-60}
shift || true
fork=${FORK:-0}
cc=${FUZZ_CC:-clang}
if ! command -v "$cc" >/dev/null; then
    echo "fuzzing needs clang (Debian package: clang)" >&2
    exit 1
fi
flags=(-std=c11 -D_GNU_SOURCE -g -O1 -Icsrc -pthread
    -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all)
read -ra cflags <<<"$(pkg-config --cflags libcurl libcjson)"
read -ra libs <<<"$(pkg-config --libs libcurl libcjson)"
out=build/fuzz
mkdir -p "$out"

names=("$@")
if [ ${#names[@]} -eq 0 ]; then
    for source in fuzz/*.c; do
        [ -e "$source" ] && names+=("$(basename "$source" .c)")
    done
fi
if [ ${#names[@]} -eq 0 ]; then
    echo "there are no fuzz targets in fuzz" >&2
    exit 1
fi

objects=()
for source in csrc/core/*.c csrc/guard/*.c csrc/mcp/*.c csrc/net/*.c; do
    object="$out/$(tr / _ <<<"${source%.c}").o"
    "$cc" "${flags[@]}" "${cflags[@]}" -c "$source" -o "$object" &
    objects+=("$object")
    if ((${#objects[@]} % 2 == 0)); then wait; fi
done
wait
for name in "${names[@]}"; do
    "$cc" "${flags[@]}" "${cflags[@]}" -fsanitize=fuzzer "fuzz/$name.c" "${objects[@]}" \
        "${libs[@]}" -o "$out/$name"
done

run() {
    local name=$1 seeds=() work="fuzz/work/$1" dictionary=()
    mkdir -p "$work/corpus"
    if [ -d "fuzz/corpus/$name" ]; then seeds=("fuzz/corpus/$name"); fi
    if [ -e "fuzz/$name.dict" ]; then dictionary=("-dict=fuzz/$name.dict"); fi
    if "$out/$name" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -fork="$fork" \
        -print_final_stats=1 -artifact_prefix="$work/" "${dictionary[@]}" \
        "$work/corpus" "${seeds[@]}" >"$work/log" 2>&1; then
        # the parent of forks counts in its lines of progress
        echo "fuzz $name: $(awk '/stat::number_of_executed_units/ { runs = $2 }
            /^#[0-9]+: cov/ { runs = substr($1, 2) + 0 } END { print runs }' "$work/log") runs"
    else
        echo "fuzz $name: FAILED"
        tail -n 60 "$work/log"
        return 1
    fi
}

status=0
at_once=$((fork == 0 ? 2 : 1))
for ((at = 0; at < ${#names[@]}; at += at_once)); do
    pids=()
    for name in "${names[@]:at:at_once}"; do
        run "$name" &
        pids+=("$!")
    done
    for pid in "${pids[@]}"; do
        wait "$pid" || status=1
    done
done
exit "$status"
