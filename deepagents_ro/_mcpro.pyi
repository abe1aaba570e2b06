"""The C extension. Each docstring is in the code; shapes and errors are here too."""

from collections.abc import Iterable, Sequence
from typing import Final, Never, NoReturn, Self, final

# csrc/core/limits.h: redirects, bytes
MAX_REDIRECTS: Final[int]
MAX_STDIN: Final[int]
MAX_STDOUT: Final[int]
ENVELOPE_CODES: Final[tuple[str, ...]]
# (word, text); (word, state, text); (word, envelope code, text, what to do);
# of a tool's hints (word, what the server sent, what to do)
STATES: Final[tuple[tuple[str, str], ...]]
REASONS: Final[tuple[tuple[str, str, str], ...]]
# TransportError.code to a word of REASONS
TRANSPORT_REASONS: Final[dict[str, str]]
TOOL_REASONS: Final[tuple[tuple[str, str, str, str], ...]]
HINTS: Final[tuple[tuple[str, str, str], ...]]

class JSONError(ValueError):
    code: str
    position: int

class TransportError(OSError):
    code: str

# strict JSON

def json_check(
    data: bytes, /, *, max_bytes: int = 131072, max_depth: int = 64, duplicates: bool = False
) -> None: ...
def json_raw(
    data: bytes, key: str, /, *, max_bytes: int = 131072, max_depth: int = 64
) -> bytes | None: ...

# verdicts and envelopes

def hint_verdict(entry: bytes, /, *, max_depth: int = 64) -> tuple[bool, str]: ...
def reduce_tool_list(message: bytes, prefix: str, tool: str, /) -> tuple[bytes, list[bytes]]: ...
def hand_up(
    message: bytes, id: int | str, /, *, call: bool = False, structured: bool = False
) -> bytes: ...
def rpc_failure(request: bytes, /) -> bytes | None: ...
def sse_events(
    data: bytes, /, *, max_bytes: int = 1048576, chunk: int = 0
) -> list[tuple[str, bytes, str | None, int | None]]: ...
def can_own(server: str, tool: str, /) -> bool: ...
def envelope_error(code: str, /) -> bytes: ...
def envelope_exit(code: str, /) -> int: ...
def envelope_ok(tool: str, content: bytes, structured: bytes | None, /) -> bytes: ...

@final
class Redactor:
    def __new__(cls, secrets: Iterable[bytes], /) -> Redactor: ...
    def redact(self, value: bytes, /, *, shapes: bool = True, attested: bool = False) -> bytes: ...

# the process

@final
class Guard:
    def __new__(cls, made_by_the_extension_alone: Never, /) -> Self: ...
    @classmethod
    def start(
        cls,
        timeout: bytes,
        interrupted: bytes,
        failed: bytes,
        deadline_ms: int = 15000,
        grace_ms: int = 3000,
    ) -> Guard: ...
    @property
    def cancel_fd(self) -> int: ...
    @property
    def stopping(self) -> bool: ...
    @property
    def degraded(self) -> int: ...
    def lower_deadline(self, text: str, /) -> bool: ...
    def ms_left(self) -> int: ...
    def read_stdin(self, max_bytes: int, /) -> tuple[str, bytes]: ...
    def set_exit_hook(self, capsule: object, /) -> None: ...
    def finish(self, exit_code: int, data: bytes, /) -> NoReturn: ...

# one run of the command: its worker thread, its MCP sessions

@final
class Session:
    def __new__(cls, made_by_the_extension_alone: Never, /) -> Self: ...
    def submit(
        self,
        ticket: int,
        method: str,
        url: str,
        headers: Sequence[tuple[bytes, bytes]],
        body: bytes | None,
        /,
    ) -> None: ...
    def end(self) -> None: ...

@final
class Worker:
    def __new__(cls, tool: str) -> Worker: ...
    @property
    def gate(self) -> str: ...
    def fileno(self) -> int: ...
    def poll(self) -> list[tuple[int, int, list[tuple[bytes, bytes]], bytes]]: ...
    def session(
        self,
        server: str,
        url: str,
        proxy: str = "",
        cafile: str = "",
        capath: str = "",
        auth: bool = False,
        legacy: bool = False,
        /,
    ) -> Session: ...
    def stdio(self, server: str, argv: list[bytes], env: list[bytes], /) -> Session: ...
    def run_ahead(
        self,
        server: str,
        url: str,
        proxy: str,
        cafile: str,
        capath: str,
        versions: str,
        headers: list[tuple[bytes, bytes]],
        initialize: bytes,
        initialized: bytes,
        tools_list: bytes,
        /,
    ) -> bool: ...
    def await_preflight(self) -> None: ...
    def entries(self, server: str, /) -> list[bytes]: ...
    def verdict(self, server: str, /) -> tuple[bool, str]: ...
    def open(self, server: str, arguments: bytes, /) -> bool: ...
    def outcome(self) -> str | None: ...
    def structured(self) -> bytes | None: ...
    def noted(self, server: str, /) -> str | None: ...
    def version(self, server: str, /) -> bytes | None: ...
    def exit_hook(self) -> object: ...

# transfers for the library

def net_library() -> str: ...

@final
class Transfer:
    def __new__(cls, made_by_the_extension_alone: Never, /) -> Self: ...
    @property
    def id(self) -> int: ...
    def head(self) -> tuple[int, int, bytes, list[tuple[bytes, bytes]]] | None: ...
    def read(self) -> bytes | None: ...
    def cancel(self) -> None: ...

@final
class Engine:
    def __new__(cls, base: Engine | None = None) -> Engine: ...
    def submit(
        self,
        method: str,
        url: str,
        headers: Sequence[tuple[bytes, bytes]],
        body: bytes | None,
        *,
        proxy: str = "",
        cafile: str = "",
        capath: str = "",
        connect_ms: int = 0,
        read_ms: int = 0,
        write_ms: int = 0,
        max_headers: int = 262144,
        http2: bool = False,
        fresh: bool = False,
        raw: bool = False,
        again: bool = False,
    ) -> Transfer: ...
    def fileno(self) -> int: ...
    def poll(self) -> list[int]: ...
    def stats(self) -> dict[str, int]: ...
    def close(self, wait_ms: int = 1000, /) -> bool: ...
