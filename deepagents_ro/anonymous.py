"""A file without a name, for the one thing that DCode's loader takes by path alone."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from deepagents_ro.refusal import HostError

# Where an unlinked file is looked for; memory first: the document holds header values.
DIRECTORIES = ("/dev/shm", "/tmp", "/var/tmp")
# An ordinary path of an open descriptor. `/proc/self/fd/` is a managed runtime's own name space:
# its loader refuses every such path that the runtime did not make.
PATH = "/proc/thread-self/fd/{}"


@contextmanager
def config_file(servers: Mapping[str, object]) -> Iterator[str | None]:
    """The path of a file with `servers` as an MCP configuration; `None` when there are none.

    The file has no name in any directory, from its first byte on: there is nothing to clean up,
    whatever ends the process.

    Raises:
        HostError: no such file can be made here.
    """
    if not servers:
        yield None
        return
    try:
        descriptor = anonymous_file(json.dumps({"mcpServers": servers}).encode())
    except OSError as error:
        raise HostError("loader_no_file") from error
    try:
        yield PATH.format(descriptor)
    finally:
        os.close(descriptor)


def anonymous_file(content: bytes) -> int:
    """A descriptor of a nameless file that holds `content`; the caller closes it.

    In memory where the kernel allows it: a filter of system calls may refuse `memfd_create`
    (EACCES, EPERM, ENOSYS), `vm.memfd_noexec=2` does (EACCES). Else an unlinked file on disk.

    Raises:
        OSError: neither can be made.
    """
    descriptor = _open_anonymous()
    try:
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _open_anonymous() -> int:
    try:
        return os.memfd_create("mcp", os.MFD_CLOEXEC)
    except (AttributeError, OSError):
        pass  # refused, or a libc without it
    for directory in DIRECTORIES:
        try:
            return os.open(
                directory, os.O_TMPFILE | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, mode=0o600
            )
        except OSError:
            continue  # no such directory, or its file system has no unlinked files
    import tempfile

    descriptor, name = tempfile.mkstemp(prefix="deepagents-ro-")
    try:
        os.unlink(name)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
