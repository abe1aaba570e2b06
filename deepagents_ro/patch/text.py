"""The text that the patch adds, and how to add and remove it: pure functions over bytes.

Every addition stands between two marker lines. Removing the marked blocks of a patched file gives
the file back as its publisher made it, byte for byte, whichever version of this package added them;
a caller proves that with the SHA-256 of the result.
"""

from __future__ import annotations

from deepagents_ro.early_failure import FAILED, HEAD, INTERRUPTED, MISSING, TAIL

BEGIN = b"# deepagents-ro: begin\n"
END = b"# deepagents-ro: end\n"

_HALF = MISSING.index("another")
# The descriptors are written without Python's streams, and the process ends without its exit code:
# nothing of DCode, of a library or of the interpreter gets a word in. The texts of `early_failure`
# are copied: that module may be what is missing.
_DISPATCH = f"""\
def _deepagents_ro_dispatch() -> None:
    import sys

    words = list(getattr(sys, "argv", ()))[1:]
    commands = ("call-read-only", "audit-read-only")
    pairs = zip(words, words[1:])
    command = next((b for a, b in pairs if a == "tools" and b in commands), None)
    if command is None:
        return
    import os

    status, code, message = {FAILED[0]}, "{FAILED[1]}", "{FAILED[2]}"
    try:
        try:
            from deepagents_ro._dispatch import run

            run(command, words)
        except KeyboardInterrupt:
            status, code = {INTERRUPTED[0]}, "{INTERRUPTED[1]}"
            message = "{INTERRUPTED[2]}"
        except ImportError:
            if command == "audit-read-only":
                message = (
                    "{MISSING[:_HALF]}"
                    "{MISSING[_HALF:]}"
                )
        except BaseException:
            pass
        answer = (
            {HEAD!r}
            {TAIL!r}
        ) % (command, code, message)
        left = answer.encode()
        while left:
            left = left[os.write(1, left) :]
    except OSError:
        status = 1
    finally:
        os._exit(status)


_deepagents_ro_dispatch()
del _deepagents_ro_dispatch
""".encode("ascii")

_HELP = b"""\
    console.print("  call-read-only    Call one exact read-only MCP tool, without a model")
    console.print("  audit-read-only   Say why an MCP tool can or cannot be called so")
"""


def _block(text: bytes, indent: bytes = b"") -> bytes:
    return indent + BEGIN + text + indent + END


# file -> (anchor, addition): the addition goes right behind the one place where the anchor stands.
EDITS: dict[str, tuple[bytes, bytes]] = {
    "__init__.py": (
        b"from __future__ import annotations\n\n",
        _block(_DISPATCH) + b"\n",
    ),
    "ui.py": (
        b'    console.print("  list              List the tools available to the agent")\n',
        _block(_HELP, b"    "),
    ),
}


class AnchorError(ValueError):
    """The place for an addition is not there, or not only once."""


def add(name: str, original: bytes) -> bytes:
    """The patched bytes of the file `name` of `EDITS`. Raises `AnchorError`."""
    anchor, addition = EDITS[name]
    if original.count(anchor) != 1:
        raise AnchorError(name)
    return original.replace(anchor, anchor + addition)


def remove(content: bytes) -> bytes:
    """`content` without the marked blocks; `content` itself when it has none.

    A block takes the one empty line behind it along where it stands at the top level, as `add` put
    it there. A block that does not end is left: the caller's SHA-256 then refuses the file.
    """
    kept: list[bytes] = []
    lines = content.splitlines(keepends=True)
    at = 0
    while at < len(lines):
        if lines[at].lstrip(b" ") == BEGIN:
            indent = lines[at][: -len(BEGIN)]
            try:
                at = lines.index(indent + END, at) + 1
            except ValueError:
                return content
            if not indent and lines[at : at + 1] == [b"\n"]:
                at += 1
            continue
        kept.append(lines[at])
        at += 1
    return b"".join(kept)
