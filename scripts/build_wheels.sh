#!/bin/bash
# Builds the wheel that carries its libraries: scripts/build_wheels.sh [amd64] [arm64]
#
# For each architecture: the libraries (wheel_libraries.sh), two builds of the wheel in two places,
# `auditwheel repair` (which names the oldest glibc that it runs on), `abi3audit`, licences and SBOM
# (finish_wheel.py), and a comparison: both builds must be the same bytes. Wheels, SBOMs and
# SHA256SUMS go to $DIST (default: dist).
#
# arm64 is cross-compiled with gcc-aarch64-linux-gnu against Debian's arm64 packages, which
# mmdebstrap extracts into build/wheel/sysroot-arm64; if qemu-aarch64-static is here, the C unit
# tests and an import run under it.
#
# PYTHON is a Python 3.11: one wheel is for it and for every newer one. SOURCE_DATE_EPOCH defaults
# to the last commit's time.
set -euo pipefail
cd "$(dirname "$0")/.."

root=$PWD
dist=$(realpath -m "${DIST:-dist}")
python=${PYTHON:-python3.11}
tools=build/wheel/tools
suite=${DEBIAN_SUITE:-bookworm}
if [ -z "${SOURCE_DATE_EPOCH:-}" ]; then
    SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || echo 315532800)
fi
export SOURCE_DATE_EPOCH LC_ALL=C TZ=UTC

# Everything that is missing, at once; the architectures are the arguments.
lacking() {
    local needed="gcc:gcc patch:patch pkg-config:pkg-config curl:curl xz:xz-utils" each arch
    for arch in "$@"; do
        crossed "$arch" || continue
        needed+=" aarch64-linux-gnu-gcc:gcc-aarch64-linux-gnu mmdebstrap:mmdebstrap"
    done
    for each in $needed; do
        command -v "${each%:*}" >/dev/null ||
            echo "${each%:*} is missing (Debian package: ${each#*:})"
    done
    "$python" -c 'import sys, venv; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null ||
        echo "$python is not a Python 3.11 with venv: set PYTHON to one"
    scripts/debian_mirror.sh >/dev/null 2>&1 ||
        echo "apt has no archive of Debian: set DEBIAN_MIRROR to the URL of a mirror"
}

crossed() { # architecture
    [ "$1" = arm64 ] && [ "$(dpkg --print-architecture 2>/dev/null)" != arm64 ]
}

make_tools() {
    [ -e "$tools/.made" ] && [ ! requirements/wheel.txt -nt "$tools/.made" ] && return
    "$python" -m venv "$tools"
    "$tools/bin/pip" --disable-pip-version-check --quiet install --require-hashes \
        -r requirements/wheel.txt
    touch "$tools/.made"
}

sysroot_arm64() {
    local sysroot=$root/build/wheel/sysroot-arm64
    if [ ! -e "$sysroot/.made" ]; then
        rm -rf "$sysroot"
        mmdebstrap --quiet --mode=root --variant=extract --architectures=arm64 \
            --include=libc6-dev,libgcc-12-dev,libssl-dev,zlib1g-dev,libbrotli-dev \
            --include=libpython3.11-dev,python3.11 \
            "$suite" "$sysroot" "$(scripts/debian_mirror.sh "$suite")"
        touch "$sysroot/.made"
    fi
    echo "$sysroot"
}

# Two builds must not differ although they happen in two places.
build_once() { # tree, output directory; the environment says for which architecture
    rm -rf "$1" "$2"
    mkdir -p "$1" "$2"
    tar -c --exclude='*.so' --exclude=__pycache__ csrc deepagents_ro setup.py pyproject.toml \
        README.md CHANGELOG.md LICENSE MANIFEST.in | tar -x -C "$1"
    (cd "$1" && CFLAGS="$CFLAGS -g0 -ffile-prefix-map=$PWD/=" \
        "$root/$tools/bin/pip" --disable-pip-version-check --quiet wheel --no-build-isolation \
        --no-deps --no-index --wheel-dir "$2" .)
}

finish() { # architecture, wheel, output directory
    local repaired=$3/repaired wheel
    mkdir -p "$repaired"
    PATH="$root/$tools/bin:$PATH" "$tools/bin/auditwheel" repair --wheel-dir "$repaired" "$2" >"$3/repair.log" 2>&1 ||
        { cat "$3/repair.log" >&2; exit 1; }
    wheel=$(echo "$repaired"/*.whl)
    "$tools/bin/python" scripts/finish_wheel.py "$wheel" "build/wheel/libraries-$1" "$3" \
        >"$3/name"
}

build() { # architecture
    local arch=$1 host= sysroot= libraries=$root/build/wheel/libraries-$1 wheels=() copy
    local out=$root/build/wheel/out-$arch
    if crossed "$arch"; then
        host=aarch64-linux-gnu
        sysroot=$(sysroot_arm64)
    fi
    if [ ! -e "$libraries/.made" ] || [ scripts/wheel_libraries.sh -nt "$libraries/.made" ] ||
        [ scripts/wheel_sources.txt -nt "$libraries/.made" ]; then
        rm -rf "$libraries"
        SYSROOT=$sysroot scripts/wheel_libraries.sh "$libraries" $host
        touch "$libraries/.made"
    fi
    export PKG_CONFIG=$libraries/bin/pkg-config CFLAGS= LDFLAGS=
    # Not what the building Python was linked with: that may name directories of this machine.
    export CC=gcc LDSHARED="gcc -shared -s"
    unset _PYTHON_HOST_PLATFORM
    if [ -n "$host" ]; then
        CC="$host-gcc --sysroot=$sysroot" LDSHARED="$host-gcc --sysroot=$sysroot -shared -s"
        export _PYTHON_HOST_PLATFORM=linux-aarch64
        CFLAGS="-I$sysroot/usr/include/python3.11"
    fi
    rm -rf "$out"
    for copy in one another-place; do
        build_once "$out/$copy/tree" "$out/$copy/built"
        finish "$arch" "$(echo "$out/$copy/built"/*.whl)" "$out/$copy"
        wheels+=("$(cat "$out/$copy/name")")
    done
    cmp "${wheels[@]}"
    echo "$arch: two builds, the same bytes"
    "$tools/bin/abi3audit" --strict --summary "${wheels[0]}"
    cp "${wheels[0]}" "${wheels[0]%.whl}.cdx.json" "$dist/"
    if [ -n "$host" ] && command -v qemu-aarch64-static >/dev/null; then
        scripts/emulate_arm64.sh "$sysroot" "$libraries" "${wheels[0]}"
    fi
}

missing=$(lacking "${@:-amd64}")
[ -z "$missing" ] || { echo "$missing" >&2; exit 1; }
mkdir -p "$dist" build/wheel
make_tools
for arch in "${@:-amd64}"; do
    build "$arch"
done
(cd "$dist" && sha256sum ./*.whl ./*.cdx.json >SHA256SUMS && cat SHA256SUMS)
