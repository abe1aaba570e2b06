#!/bin/bash
# Makes an image that stands for BASE_IMAGE: image/base_image.sh NAME [amd64|arm64]
#
# Debian 12 with Python, from Debian's mirror, by mmdebstrap, put into buildah's storage
# ($IMAGE_STORE, see build.sh); no registry is asked. Needs root, and for arm64 an emulator that
# the kernel starts (qemu-user-static and binfmt_misc). SOURCE_DATE_EPOCH is the time of all files.
set -euo pipefail
cd "$(dirname "$0")/.."
. image/storage.sh

name=$1
arch=${2:-$(dpkg --print-architecture)}
suite=${DEBIAN_SUITE:-bookworm}
packages=python3,python3-venv,ca-certificates

[ "$(id -u)" -eq 0 ] || fail "image/base_image.sh needs root"
needs mmdebstrap mmdebstrap
needs buildah buildah
can_run "$arch" || fail "this kernel starts no $arch programs"

work=$(mktemp -d build/image-base.XXXXXX)
trap 'rm -rf "$work"' EXIT
mmdebstrap --quiet --mode=root --variant=minbase --architectures="$arch" --include="$packages" \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-include=/usr/share/doc/*/copyright' \
    --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
    --customize-hook='rm -f "$1/etc/resolv.conf" "$1/etc/hostname" "$1/etc/apt/sources.list"' \
    --customize-hook='find "$1/var/log" "$1/var/cache" -type f -delete' \
    "$suite" "$work/root.tar" "$(scripts/debian_mirror.sh "$suite")"
container=$(store from --arch "$arch" scratch)
tar -x --numeric-owner --xattrs -C "$(store mount "$container")" -f "$work/root.tar"
store config --arch "$arch" --os linux --cmd /bin/sh \
    --env PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$container"
store commit --quiet --rm --timestamp "$SOURCE_DATE_EPOCH" "$container" "$name" >/dev/null
echo "$name: Debian $suite, $arch"
