#!/bin/bash
# Builds the image with buildah: image/build.sh [amd64] [arm64]
#
# Carries out image/Dockerfile, qualification included, for each architecture on $BASE_IMAGE, or
# where that is not set on a base made from Debian's mirror (base_image.sh). The images stay in
# $IMAGE_STORE as localhost/dcode:VERSION-ARCHITECTURE and localhost/dcode:VERSION (both), and under
# the same tags, each with its SBOM attached, in an OCI layout, $LAYOUT (default: build/image). Needs root, buildah, and the wheels in
# $DIST (default: dist; scripts/build_wheels.sh). No registry is asked but for BASE_IMAGE.
#
# TWICE=1 builds each image a second time, from nothing, and compares the digests.
# TARGET names another stage of the Dockerfile than its last.
set -euo pipefail
cd "$(dirname "$0")/.."
. image/storage.sh

layout=$(realpath -m "${LAYOUT:-build/image}")
dist=$(realpath -m "${DIST:-dist}")
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' pyproject.toml)
revision=$(git rev-parse HEAD 2>/dev/null || echo unknown)
name=localhost/dcode
index=$name:$version

[ "$(id -u)" -eq 0 ] || fail "image/build.sh needs root"
needs buildah buildah

# The context is what the Dockerfile copies, and nothing else of this directory.
context=$(mktemp -d "$PWD/build/image-context.XXXXXX")
log=$PWD/build/image.log
trap 'rm -rf "$context"' EXIT
mkdir "$context/requirements"
cp requirements/dcode-0.1.55.txt "$context/requirements/"
cp -r "$dist" "$context/dist"

secrets=()
[ ! -e "${PIP_CONFIG_FILE:-/etc/pip.conf}" ] ||
    secrets+=(--secret "id=pip,src=${PIP_CONFIG_FILE:-/etc/pip.conf}")
roots=${PIP_CERT:-/etc/ssl/certs/ca-certificates.crt}
[ ! -e "$roots" ] || secrets+=(--secret "id=roots,src=$roots")

build() { # architecture, tag
    local base=${BASE_IMAGE:-localhost/deepagents-ro-base:$1}
    [ -n "${BASE_IMAGE:-}" ] || store inspect --type image "$base" >/dev/null 2>&1 ||
        image/base_image.sh "$base" "$1"
    store bud --no-cache --pull=false --platform "linux/$1" --file image/Dockerfile \
        ${TARGET:+--target "$TARGET"} --build-arg BASE_IMAGE="$base" "${secrets[@]}" \
        --timestamp "$SOURCE_DATE_EPOCH" --identity-label=false \
        --label org.opencontainers.image.title=dcode \
        --label org.opencontainers.image.description="Deep Agents Code with one exact read-only MCP tool call" \
        --label org.opencontainers.image.source="${IMAGE_SOURCE:-pkg:generic/deepagents-ro@$version}" \
        --label org.opencontainers.image.revision="$revision" \
        --label org.opencontainers.image.version="$version" \
        --label org.opencontainers.image.licenses=MIT \
        --tag "$2" "$context" >"$log" 2>&1 || { tail -n 60 "$log" >&2; exit 1; }
}

digest() { store inspect --type image --format '{{.FromImageDigest}}' "$1"; }

for arch in "${@:-$(dpkg --print-architecture)}"; do
    can_run "$arch" || fail "this kernel starts no $arch programs"
    started=$SECONDS
    build "$arch" "$index-$arch"
    echo "$index-$arch: $(digest "$index-$arch"), built in $((SECONDS - started)) s"
    if [ -n "${TWICE:-}" ]; then
        build "$arch" "$index-$arch-again"
        [ "$(digest "$index-$arch")" = "$(digest "$index-$arch-again")" ] ||
            fail "$arch: two builds, two digests: $(digest "$index-$arch-again")"
        echo "$arch: two builds, the same digest"
    fi
done

store manifest rm "$index" >/dev/null 2>&1 || true
store manifest create "$index" >/dev/null
for arch in "${@:-$(dpkg --print-architecture)}"; do
    store manifest add --os linux --arch "$arch" "$index" "$index-$arch" >/dev/null
done
rm -rf "$layout"
store manifest push --quiet --all "$index" "oci:$layout:$version"
for arch in "${@:-$(dpkg --print-architecture)}"; do
    store push --quiet "$index-$arch" "oci:$layout:$version-$arch"
done
python3 image/attach_sbom.py "$layout"
echo "$layout: OCI layout of $*"
