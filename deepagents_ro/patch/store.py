"""Writes the code that `stored.py` reads: `python -I -m deepagents_ro.patch.store`."""

from __future__ import annotations

import importlib
import importlib.util
import marshal
import os
import types

from deepagents_ro import host, startup, stored

# What a call imports while it discovers, beside what `host.import_stack` does.
LATE = ("anyio._backends._asyncio", "h11", "httpcore", "langchain_core.tracers.context")


class Recorder(stored.Store):
    """A store that keeps whatever it is asked for."""

    def code(self, text: str) -> types.CodeType:
        """Compile and keep."""
        code = stored.compiled(text)
        # In this version equal code is equal bytes, whoever else holds parts of it.
        self.codes[text] = marshal.dumps(code, 2)
        return code

    def content(self) -> bytes:
        """What `read` takes."""
        return importlib.util.MAGIC_NUMBER + marshal.dumps(self.codes, 2)


def write(path: str = stored.FILE) -> int:
    """Import what a call imports, and keep the code of every text; how many there were.

    Zero, and no file, for a stack that was not verified. For a process of its own.

    Raises:
        OSError: the file cannot be written.
    """
    stack = startup.verified()
    finder = startup.put_in_front(stack)
    if finder is None:
        return 0
    recorder = Recorder({})
    finder.take_code_from(recorder)
    host.prepare_package()
    host.load_environment(trust_project=False)
    host.import_readers()
    startup.install(stack)
    host.import_stack(stack)
    host.import_validator()
    for name in LATE:
        importlib.import_module(name)
    new = f"{path}.{os.getpid()}"
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(new, "wb") as file:
        file.write(recorder.content())
    os.replace(new, path)
    return len(recorder.codes)


if __name__ == "__main__":
    write()
