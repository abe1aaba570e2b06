"""A process that has imported DCode's stack and forks one child a run.

Started by `warm.py` as `python -I zygote.py SOCKET`. Each connection to SOCKET (SOCK_SEQPACKET)
asks for one run: a JSON object {"argv", "env", "cwd"} with the descriptors for standard input,
output and error. It is answered with the child's process id, and with its wait status once the
child has ended; both are decimal text. The process ends when its standard input does.

What is imported here is what a call imports from other packages. DCode's own modules and this
package's read the environment when they are imported, so each child imports them itself, the way
the console script does: `deepagents_code/__init__.py` with its patch, from `sys.argv` on.
"""

from __future__ import annotations

import array
import contextlib
import gc
import importlib
import json
import os
import selectors
import signal
import socket
import sys
from typing import Any, NoReturn

OWN = ("deepagents_code", "deepagents_ro")
# What a call imports of other packages after its discovery has begun.
LATE = (
    "anyio._backends._asyncio",
    "certifi",
    "h11",
    "httpcore",
    "langchain_core.tracers.context",
    "langchain_core.tracers.langchain",
    "langchain_core.tracers.run_collector",
    "langchain_core.tracers.stdout",
)
MAX_REQUEST = 1 << 20


def modules_of_a_call() -> list[str]:
    """The names of the modules of other packages that a call imports, in their order."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            from deepagents_ro import host, startup

            host.prepare_package()
            host.load_environment(trust_project=False)
            host.import_stack(startup.prepare())
            for name in LATE:
                importlib.import_module(name)
            with os.fdopen(writer, "w") as stream:
                json.dump(list(sys.modules), stream)
            status = 0
        finally:
            os._exit(status)
    os.close(writer)
    with os.fdopen(reader) as stream:
        names: list[str] = json.loads(stream.read())
    os.waitpid(pid, 0)
    return [name for name in names if name.partition(".")[0] not in OWN]


def prepare() -> None:
    """Import what a call imports of other packages, as the call does it, `startup` included."""
    names = modules_of_a_call()
    from deepagents_ro import startup

    startup.defer_models(startup.prepare())
    for name in names:
        # what another module has put into sys.modules by hand has no file of its own
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    gc.collect()
    gc.freeze()


def run(request: dict[str, Any], descriptors: list[int]) -> NoReturn:
    """Become the run that was asked for; never returns."""
    status = 255
    try:
        signal.set_wakeup_fd(-1)
        os.setsid()
        os.chdir(request["cwd"])
        os.environ.clear()
        os.environ.update(request["env"])
        for number in range(3):
            os.dup2(descriptors[number], number)
        os.closerange(3, 1024)
        sys.argv = [os.fsdecode(part.encode("latin-1")) for part in request["argv"]]
        sys.path_importer_cache.clear()
        from deepagents_code import cli_main

        status = cli_main() or 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else 1
    except BaseException:  # noqa: BLE001 - a run that fails to start says so
        sys.excepthook(*sys.exc_info())
        status = 1
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


class Zygote:
    """The listening socket, and the children that have not ended."""

    def __init__(self, path: str) -> None:
        self.selector = selectors.DefaultSelector()
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(path)
        self.listener.listen(64)
        self.selector.register(self.listener, selectors.EVENT_READ, self.accept)
        self.selector.register(0, selectors.EVENT_READ, self.leave)

    def serve(self) -> None:
        """Until standard input ends."""
        os.write(1, b"ready\n")
        while True:
            for key, _ in self.selector.select():
                key.data()

    def leave(self) -> None:
        """The test runner is gone."""
        os._exit(0)

    def accept(self) -> None:
        """One run: fork, say the child's id, wait for its end beside the others."""
        client, _ = self.listener.accept()
        data, ancillary, _, _ = client.recvmsg(MAX_REQUEST, socket.CMSG_SPACE(3 * 4))
        descriptors = array.array("i")
        for _level, _type, payload in ancillary:
            descriptors.frombytes(payload)
        pid = os.fork()
        if pid == 0:
            run(json.loads(data), list(descriptors))
        for descriptor in descriptors:
            os.close(descriptor)
        watch = os.pidfd_open(pid)
        client.send(str(pid).encode())
        self.selector.register(watch, selectors.EVENT_READ, lambda: self.ended(pid, watch, client))

    def ended(self, pid: int, watch: int, client: socket.socket) -> None:
        """Reap the child and pass its wait status on."""
        self.selector.unregister(watch)
        os.close(watch)
        _, status = os.waitpid(pid, 0)
        with contextlib.suppress(OSError):
            client.send(str(status).encode())
        client.close()


if __name__ == "__main__":
    listening = Zygote(sys.argv[1])
    prepare()
    listening.serve()
