#!/bin/sh
# Prints the Python to build with: $PYTHON, else the newest of 3.11 and later that
# can make a virtual environment and compile an extension. Exit 1 when there is none.
set -eu

usable() {
    "$1" -I -c '
import ensurepip, os, sys, sysconfig, venv
header = os.path.join(sysconfig.get_path("include"), "Python.h")
sys.exit(sys.version_info < (3, 11) or not os.path.exists(header))
' >/dev/null 2>&1
}

for name in ${PYTHON:-python3.14 python3.13 python3.12 python3.11 python3}; do
    if command -v "$name" >/dev/null && usable "$name"; then
        command -v "$name"
        exit 0
    fi
done
echo "no Python 3.11 or newer with venv, ensurepip and headers was found${PYTHON:+ ($PYTHON)}" >&2
exit 1
