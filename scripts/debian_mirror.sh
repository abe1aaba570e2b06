#!/bin/bash
# Where this machine's apt gets a Debian suite from: scripts/debian_mirror.sh [SUITE]
#
# One URL; DEBIAN_MIRROR, if set, is the answer. Without SUITE every archive that apt knows, one a
# line. Fails with one clear message where apt knows none.
set -euo pipefail

suite=${1:-}
if [ -n "${DEBIAN_MIRROR:-}" ]; then
    found=$DEBIAN_MIRROR
elif [ -n "$suite" ]; then
    found=$(apt-get indextargets --format '$(RELEASE) $(REPO_URI)' |
        awk -v suite="$suite" '$1 == suite && !seen++ { print $2 }')
else
    found=$(apt-get indextargets --format '$(REPO_URI)' | sort -u)
fi
if [ -z "$found" ]; then
    echo "apt has no archive of Debian $suite: set DEBIAN_MIRROR to the URL of a mirror" >&2
    exit 1
fi
printf '%s\n' "$found"
