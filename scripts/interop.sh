#!/bin/bash
# Tests against programs of other makers: scripts/interop.sh PYTHON [pytest's arguments], where
# PYTHON has the patched DCode. Node, Go, fastmcp and the npm packages come into build/interop;
# nothing of them is asked of the system.
set -euo pipefail
cd "$(dirname "$0")/.."

python=$1
shift
root=$PWD/build/interop
bin=$root/venv/bin
mkdir -p "$root"

fail() {
    echo "interop: $1" >&2
    exit 1
}

# Whether the thing named $1 was made from what the other files hold now.
fresh() {
    [ -f "$root/.$1" ] && [ "$(cat "$root/.$1")" = "$(sum "${@:2}")" ]
}
sum() {
    cat "$@" | sha256sum | cut -d ' ' -f 1
}

wanted=requirements/interop.txt
if ! fresh venv "$wanted"; then
    echo "installing Node, Go and fastmcp into build/interop"
    rm -rf "$root/venv"
    "$python" -m venv "$root/venv"
    "$bin/python" -m pip --disable-pip-version-check --quiet install --require-hashes -r "$wanted" ||
        fail "pip could not install $wanted"
    sum "$wanted" >"$root/.venv"
fi
export PATH=$bin:$PATH
node --version | grep -qE '^v(2[2-9]|[3-9][0-9])\.' || fail "Node 22 or newer is needed"

packages=(tests/interop/package.json tests/interop/package-lock.json)
if ! fresh npm "${packages[@]}"; then
    echo "installing the npm packages into build/interop"
    mkdir -p "$root/npm"
    cp "${packages[@]}" "$root/npm/"
    npm --prefix "$root/npm" ci --ignore-scripts --no-audit --no-fund --loglevel=error ||
        fail "npm could not install ${packages[0]}"
    sum "${packages[@]}" >"$root/.npm"
fi

sources=(tests/interop/go/go.mod tests/interop/go/go.sum tests/interop/go/main.go)
if ! fresh go "${sources[@]}"; then
    echo "building the Go server into build/interop"
    GOPATH=$root/gopath GOCACHE=$root/gocache GOTOOLCHAIN=local \
        GOFLAGS="-mod=readonly -modcacherw" CGO_ENABLED=0 \
        go build -C tests/interop/go -buildvcs=false -o "$root/go-server" . ||
        fail "go could not build ${sources[2]}"
    sum "${sources[@]}" >"$root/.go"
fi

export DEEPAGENTS_RO_INTEROP=$root
exec scripts/pytest.sh "$python" tests/interop -n 2 --dist worksteal "$@"
