# What the scripts of this directory share; to be read with `.` from the top of the project.
#
# IMAGE_STORE is where buildah and podman keep images (default: build/image-store): a place of this
# project's own, so that nothing of the machine's storage is touched. The vfs driver and the chroot
# isolation need no kernel feature beyond root.

IMAGE_STORE=$(realpath -m "${IMAGE_STORE:-build/image-store}")
BUILDAH_ISOLATION=chroot
if [ -z "${SOURCE_DATE_EPOCH:-}" ]; then
    SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || echo 315532800)
fi
export IMAGE_STORE BUILDAH_ISOLATION SOURCE_DATE_EPOCH LC_ALL=C TZ=UTC

fail() {
    echo "$1" >&2
    exit 1
}

needs() { # command, Debian package
    command -v "$1" >/dev/null || fail "$1 is missing (Debian package: $2)"
}

store() { # buildah on this project's storage
    buildah --storage-driver vfs --root "$IMAGE_STORE/root" --runroot "$IMAGE_STORE/run" "$@"
}

# Whether the kernel starts programs of an architecture, by itself or through an emulator.
can_run() { # amd64 or arm64
    [ "$1" = "$(dpkg --print-architecture)" ] && return
    [ "$1" = arm64 ] || return 1
    local directory=/proc/sys/fs/binfmt_misc
    [ -e "$directory/register" ] || mount -t binfmt_misc binfmt_misc "$directory" 2>/dev/null || return 1
    if [ ! -e "$directory/qemu-aarch64" ]; then
        command -v qemu-aarch64-static >/dev/null || return 1
        # Debian's line has the flag F: the kernel opens the emulator now, so that it is there inside
        # other root directories
        cat /usr/lib/binfmt.d/qemu-aarch64.conf >"$directory/register" 2>/dev/null || return 1
    fi
    [ -e "$directory/qemu-aarch64" ]
}
