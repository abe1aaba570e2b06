#!/bin/bash
# Makes a root directory that stands for the image's base: image/base_root.sh DIRECTORY
# Debian 12 with Python, from Debian's mirror, by mmdebstrap or debootstrap. Needs root.
set -euo pipefail

directory=$1
suite=${DEBIAN_SUITE:-bookworm}
mirror=$("$(dirname "$0")/../scripts/debian_mirror.sh" "$suite")
packages=python3,python3-venv,ca-certificates

if [ "$(id -u)" -ne 0 ]; then
    echo "image/base_root.sh needs root" >&2
    exit 1
fi
if command -v mmdebstrap >/dev/null; then
    mmdebstrap --quiet --mode=root --variant=minbase --include="$packages" \
        "$suite" "$directory" "$mirror"
elif command -v debootstrap >/dev/null; then
    debootstrap --variant=minbase --include="$packages" "$suite" "$directory" "$mirror" >/dev/null
else
    echo "mmdebstrap or debootstrap is missing (Debian packages of the same names)" >&2
    exit 1
fi
