#!/bin/sh
# Makes sure that a compiler, a Python and the libraries are here. Debian packages
# that are missing are installed as root or with sudo; otherwise they are named.
set -eu
cd "$(dirname "$0")/.."

missing() {
    command -v "${CC:-cc}" >/dev/null || echo gcc
    command -v pkg-config >/dev/null || echo pkg-config
    pkg-config --exists 'libcurl >= 7.88.1' 2>/dev/null || echo libcurl4-openssl-dev
    pkg-config --exists 'libcjson >= 1.7.15' 2>/dev/null || echo libcjson-dev
    if ! scripts/find_python.sh >/dev/null 2>&1; then
        echo python3
        echo python3-venv
        echo python3-dev
    fi
}

needed=$(missing | tr '\n' ' ')
[ -n "$needed" ] || exit 0

as_root=
if [ "$(id -u)" -ne 0 ]; then
    as_root="sudo -n"
    if ! sudo -n true 2>/dev/null; then
        echo "These packages are missing: $needed" >&2
        echo "Install them and run make again: sudo apt-get install $needed" >&2
        exit 1
    fi
fi
if ! command -v apt-get >/dev/null; then
    echo "These Debian packages, or what is like them here, are missing: $needed" >&2
    exit 1
fi
echo "installing $needed"
$as_root apt-get update -qq
# shellcheck disable=SC2086
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    libc6-dev $needed >/dev/null

needed=$(missing | tr '\n' ' ')
if [ -n "$needed" ]; then
    echo "Still missing, or too old in this release: $needed" >&2
    echo "(Python 3.11 or newer, libcurl 7.88.1 or newer, cJSON 1.7.15 or newer)" >&2
    exit 1
fi
