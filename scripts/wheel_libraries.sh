#!/bin/bash
# Builds what a wheel carries: scripts/wheel_libraries.sh PREFIX [HOST]
#
# libcurl (HTTP and HTTPS alone) and cJSON as static archives in PREFIX/lib, from Debian's sources:
# the upstream release with Debian's security patches, pinned by SHA-256 in wheel_sources.txt.
# OpenSSL, zlib and brotli are the system's: their static archives where it has them (Debian's -dev
# packages), else its shared ones, which auditwheel puts into the wheel.
# PREFIX/bin/pkg-config is what setup.py is to be given as PKG_CONFIG; PREFIX/licenses holds the
# licences, PREFIX/bundled.tsv the names and versions of what is inside.
# HOST is a cross compiler's prefix (aarch64-linux-gnu) with SYSROOT set to the target's root.
# Files are fetched into $WHEEL_SOURCES (default: build/sources) once.
set -euo pipefail
cd "$(dirname "$0")/.."

prefix=$(realpath -m "$1")
host=${2:-}
root=$PWD
sources=$(realpath -m "${WHEEL_SOURCES:-build/sources}")
mapfile -t mirrors < <(scripts/debian_mirror.sh)
jobs=$(nproc)
cc=${host:+$host-}gcc
sysroot=${SYSROOT:-}
flags="-O2 -g0 -fPIC -fvisibility=hidden -fstack-protector-strong -D_FORTIFY_SOURCE=2"
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-0} LC_ALL=C TZ=UTC

mkdir -p "$prefix"/{lib,bin,licenses} "$sources"
: >"$prefix/bundled.tsv"

fetch() { # sum path
    local file=$sources/${2##*/} mirror
    for mirror in "${mirrors[@]}"; do
        [ -e "$file" ] && break
        curl --fail --silent --show-error --location --max-time 120 -o "$file.part" \
            "${mirror%/}/$2" 2>/dev/null && mv "$file.part" "$file"
    done
    [ -e "$file" ] || { echo "no Debian archive of this machine has $2" >&2; exit 1; }
    echo "$1  $file" | sha256sum --check --quiet
}

while read -r sum path; do
    fetch "$sum" "$path"
done < <(grep -v '^#' scripts/wheel_sources.txt)

unpack() { # name: the upstream release, patched as Debian has it, in build/wheel/NAME
    local tree=build/wheel/${host:-native}/$1 patch
    rm -rf "$tree"
    mkdir -p "$tree"
    tar -xf "$sources/$1"_*.orig.tar.gz -C "$tree" --strip-components=1
    tar -xf "$sources/$1"_*.debian.tar.xz -C "$tree"
    while read -r patch; do
        patch -d "$tree" -p1 --quiet --force <"$tree/debian/patches/$patch"
    done < <(sed 's/#.*//; s/[[:space:]]*$//; /^$/d' "$tree/debian/patches/series")
    cp "$tree/debian/copyright" "$prefix/licenses/$1.txt"
    local packaging=("$sources/$1"_*.debian.tar.xz)
    local version=${packaging[0]##*_}
    printf '%s\t%s\n' "$1" "${version%.debian.tar.xz}" >>"$prefix/bundled.tsv"
    cd "$tree"
}

echo "libcurl"
(
    unpack curl

    CC=$cc CFLAGS="$flags -ffile-prefix-map=$PWD=curl" CPPFLAGS=${sysroot:+--sysroot=$sysroot} \
        LDFLAGS=${sysroot:+--sysroot=$sysroot} ./configure --quiet --prefix="$prefix" \
        ${host:+--host="$host"} --disable-shared --enable-static --enable-http --enable-proxy \
        --enable-ipv6 --enable-threaded-resolver --with-openssl --with-zlib --with-brotli \
        --without-zstd --without-libidn2 --without-libpsl --without-nghttp2 --without-librtmp \
        --without-libssh2 --without-libssh --without-gssapi --without-libgsasl --without-ca-bundle --without-ca-path \
        --disable-ldap --disable-ldaps --disable-ftp --disable-file --disable-dict \
        --disable-telnet --disable-tftp --disable-rtsp --disable-pop3 --disable-imap \
        --disable-smtp --disable-smb --disable-gopher --disable-mqtt --disable-ntlm \
        --disable-manual --disable-alt-svc --disable-hsts --disable-doh \
        --disable-cookies --disable-tls-srp --disable-unix-sockets --disable-libcurl-option \
        --disable-dependency-tracking
    make -C lib -j"$jobs" --silent >/dev/null
    make -C lib install --silent >/dev/null
    make -C include install --silent >/dev/null
    make install-pkgconfigDATA --silent >/dev/null
    rm "$prefix/lib/libcurl.la" # libtool's; nobody here asks it
    # The archive of brotli's decoder needs its other one, which libcurl's own file does not name.
    sed -i '/^Libs:/s/-lbrotlidec\b/-lbrotlidec -lbrotlicommon/g' "$prefix/lib/pkgconfig/libcurl.pc"
)

echo "cJSON"
(
    unpack cjson
    "$cc" ${sysroot:+--sysroot=$sysroot} $flags -ffile-prefix-map="$PWD=cjson" -c cJSON.c -o cJSON.o
    ${host:+$host-}ar rcsD "$prefix/lib/libcjson.a" cJSON.o
    install -D -m 644 cJSON.h "$prefix/include/cjson/cJSON.h"
    version=$(sed -n 's/^#define CJSON_VERSION_\(MAJOR\|MINOR\|PATCH\) //p' cJSON.h | paste -sd.)
    printf '%s\n' "Name: libcjson" "Description: cJSON" "Version: $version" \
        "Libs: -L$prefix/lib -lcjson" "Cflags: -I$prefix/include -I$prefix/include/cjson" \
        >"$prefix/lib/pkgconfig/libcjson.pc"
)

# Static archives of the system in a place of their own: the linker takes the first directory that
# has either kind.
triplet=${host:-$("$cc" -dumpmachine)}
for name in ssl crypto z brotlidec brotlicommon; do
    for directory in "$sysroot/usr/lib/$triplet" "$sysroot/usr/lib64" "$sysroot/usr/lib"; do
        for archive in "$directory/lib$name.a" "$directory/lib$name-static.a"; do
            [ -e "$archive" ] && ln -sf "$archive" "$prefix/lib/lib$name.a"
        done
    done
done
system_package() { # Debian package, licence file
    local status="$sysroot/var/lib/dpkg/status" version=
    local changes="$sysroot/usr/share/doc/$1/changelog.Debian.gz"
    [ -e "$status" ] && version=$(awk -v want="$1" '
        /^Package: / { package = $2 } /^Version: / && package == want { print $2; exit }' "$status")
    if [ -z "$version" ] && [ -e "$changes" ]; then
        version=$(zcat "$changes" | sed -n '1s/.*(\(.*\)).*/\1/p')
    fi
    [ -n "$version" ] || return 0
    printf '%s\t%s\n' "$2" "$version" >>"$prefix/bundled.tsv"
    cp "$sysroot/usr/share/doc/$1/copyright" "$prefix/licenses/$2.txt"
    if grep -q common-licenses/Apache-2.0 "$prefix/licenses/$2.txt"; then # named there, not quoted
        cat /usr/share/common-licenses/Apache-2.0 >>"$prefix/licenses/$2.txt"
    fi
}
system_package libssl-dev openssl
system_package zlib1g-dev zlib
system_package libbrotli-dev brotli

cat >"$prefix/bin/pkg-config" <<PKG
#!/bin/sh
PKG_CONFIG_LIBDIR="$prefix/lib/pkgconfig:$sysroot/usr/lib/$triplet/pkgconfig:$sysroot/usr/lib64/pkgconfig:$sysroot/usr/share/pkgconfig"
PKG_CONFIG_SYSROOT_DIR=
export PKG_CONFIG_LIBDIR PKG_CONFIG_SYSROOT_DIR
exec pkg-config --static "\$@"
PKG
chmod +x "$prefix/bin/pkg-config"
echo "made in ${prefix#"$root"/}"
