"""Runs a command whose anonymous files the kernel refuses: `refuse.py ERRNO WHAT... -- COMMAND`.

WHAT: `memfd` (memfd_create) and `tmpfile` (open with O_TMPFILE); both fail with the errno of the
given name. A real filter of system calls, which the command's children inherit.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys

PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, MODE_FILTER = 22, 38, 2
ALLOW, FAIL = 0x7FFF0000, 0x00050000
LOAD, EQUAL, AND, RETURN = 0x20, 0x15, 0x54, 0x06  # BPF: word, jump if equal, and, return
NUMBERS = {"x86_64": (319, 257), "aarch64": (279, 56)}  # memfd_create, openat
FLAGS_OFFSET = 32  # of openat's third argument, low word
# What O_TMPFILE means beside O_DIRECTORY, whose bit differs between machines.
UNLINKED = os.O_TMPFILE & ~os.O_DIRECTORY


def install(error: int, what: list[str]) -> None:
    """Refuse `what` with `error` in this process from now on."""
    memfd, openat = NUMBERS[platform.machine()]
    lines = []
    if "memfd" in what:
        lines += [(LOAD, 0, 0, 0), (EQUAL, 0, 1, memfd), (RETURN, 0, 0, FAIL | error)]
    if "tmpfile" in what:
        lines += [
            (LOAD, 0, 0, 0),
            (EQUAL, 0, 4, openat),
            (LOAD, 0, 0, FLAGS_OFFSET),
            (AND, 0, 0, UNLINKED),
            (EQUAL, 0, 1, UNLINKED),
            (RETURN, 0, 0, FAIL | error),
        ]
    lines.append((RETURN, 0, 0, ALLOW))
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in lines))
    program = ctypes.create_string_buffer(
        struct.pack("HxxxxxxP", len(lines), ctypes.addressof(code))
    )
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(
        PR_SET_SECCOMP, MODE_FILTER, program, 0, 0
    ):
        raise OSError(ctypes.get_errno(), "the filter of system calls")


if __name__ == "__main__":
    split = sys.argv.index("--")
    install(getattr(errno, sys.argv[1]), sys.argv[2:split])
    os.execv(sys.argv[split + 1], sys.argv[split + 1 :])
