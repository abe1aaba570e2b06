"""The managed runtime of the stand-in image: `deepagents_code._nemoclaw_managed` in the tests.

It refuses what the runtime of the public managed image refuses, and nothing else:

- the environment: a variable whose name ends like a credential's with a value of 10 or more
  characters, a value of a credential's shape, a placeholder that stands for another variable, the
  supervisor's three TLS variables, tracing endpoints and headers; what the launcher sets passes;
- the state directory: stored credentials, a link in place of the file, a stored ChatGPT login;
- the image's own file with the inference URL: missing, a link, or not of mode 0444;
- the configuration file: no regular file, a link, a second hard link, another owner, another mode
  than 0600, empty, over 262,144 bytes, changed while it is read;
- its document: not JSON, a key twice, NaN, anything beside `mcpServers`, over 64 servers;
- a server: its name, any member beside `type`, `url` and `headers`, any header beside
  `Authorization: Bearer openshell:resolve:env:NAME`, a URL that is not of the canonical form, a
  host that is reserved, numeric in an odd form, or no public IPv4 address;
- a path below `/proc/self/fd/` that is not the very descriptor that it made: number, device, inode,
  size, owner, seals (or mode 0 and no link), content.

The configuration is handed on as a sealed memory file, or as an unlinked file in /tmp where
memory files are refused. No other module of DCode may be needed here: the module is imported by
DCode's reader, and by the tests without DCode.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import ipaddress
import json
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit

HOME = Path(os.environ.get("HOME", "/sandbox"))
CONFIG = HOME / ".deepagents" / ".nemoclaw-mcp.json"
STATE = HOME / ".deepagents" / ".state"
INFERENCE_URL = Path(__file__).with_name("_managed_share") / "inference-base-url"
OWN_PATHS = "/proc/self/fd/"
PLACEHOLDER = "openshell:resolve:env:"
MAX_BYTES = 262_144
MAX_SERVERS = 64
SEALS = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL

CREDENTIAL_NAME = re.compile(
    r"(?:(?:^|[-_])(?:key|token|secret|password|passwd|pass|credential)$)", re.IGNORECASE
)
CREDENTIAL_CAMEL = re.compile(
    r"[A-Za-z0-9](?:Token|Secret|Credential|Password|Passwd|Pass)$"
    r"|(?:[Aa]ccess|[Rr]efresh|[Cc]lient|[Bb]earer|[Aa]uth|[Pp]rivate|[Ss]igning|[Ss]ession"
    r"|[Bb]ot|[Aa]pp|[Rr]esolved|(?i:api))Key$"
)
SHAPES = [
    re.compile(pattern)
    for pattern in (
        r"sk-(?:proj|ant)-[\w-]{10}",
        r"sk-[\w-]{20}",
        r"(?:nvapi-|nvcf-|ghp_|hf_|glpat-|gsk_|pypi-|tvly-)[\w-]{10}",
        r"github_pat_\w{30}",
        r"xox[abps]-[\w-]{10}|xapp-[\w-]{10}",
        r"A[KS]IA[A-Z0-9]{16}",
        r"[0-9]{8,10}:[\w-]{35}",
        r"lsv2_(?:pt|sk)_[A-Za-z0-9]{10}",
        r"(?i:bearer)\s+[\w.+/=-]{10}",
        r"(?i:(?:^|\W)(?:\w+_)?(?:key|token|secret|password))['\"]?"
        r"(?:[ \t]*[=:][ \t]*|[ \t]+)['\"]?[^\s'\"]{10}",
        r"(?s)-----BEGIN [^-\r\n]*PRIVATE KEY-----.*-----END [^-\r\n]*PRIVATE KEY-----",
    )
]
SUPERVISOR = {"OPENSHELL_TLS_CA", "OPENSHELL_TLS_CERT", "OPENSHELL_TLS_KEY"}
NEVER_SET = {
    "LANGSMITH_RUNS_ENDPOINTS",
    "LANGCHAIN_RUNS_ENDPOINTS",
    "OTEL_EXPORTER_OTLP_HEADERS",
    "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
}
COLLECTOR = {"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"}
COLLECTOR_URL = re.compile(r"https?://host\.openshell\.internal(?::[1-9][0-9]{0,4})?(?:/[\w./-]*)?")
LAUNCHERS_KEY = ("DEEPAGENTS_CODE_OPENAI_API_KEY", "nemoclaw-managed-inference")

SERVER_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
NUMERIC = re.compile(r"(?:0x[0-9a-f]+|[0-9]+)(?:\.(?:0x[0-9a-f]+|[0-9]+))*")
RESERVED = ("localhost", "local", "internal", "metadata")
NOT_PUBLIC = [
    ipaddress.ip_network(text)
    for text in (
        "192.0.0.0/24",
        "192.31.196.0/24",
        "192.52.193.0/24",
        "192.88.99.0/24",
        "192.175.48.0/24",
    )
]


def refuse(why: str) -> NoReturn:
    raise RuntimeError(f"stand-in: {why}")


def has_shape(text: str) -> bool:
    return any(shape.search(text) for shape in SHAPES)


def stands_for(value: str, name: str) -> bool:
    """Whether `value` is the placeholder of the variable `name`, with or without a version."""
    if (
        name == "OPENSHELL_TLS_KEY"
        or not VARIABLE.fullmatch(name)
        or not value.startswith(PLACEHOLDER)
    ):
        return False
    rest = value.removeprefix(PLACEHOLDER)
    return rest == name or re.fullmatch(rf"v[0-9]{{1,20}}_{re.escape(name)}", rest) is not None


def check_variable(name: str, value: str) -> None:
    if name in SUPERVISOR:
        refuse(f"environment variable {name} is the supervisor's")
    if PLACEHOLDER in value:
        if not stands_for(value, name):
            refuse(f"environment variable {name} holds a foreign placeholder")
        return
    if (name, value) == LAUNCHERS_KEY:
        return
    named = CREDENTIAL_NAME.search(name) or CREDENTIAL_CAMEL.search(name)
    if has_shape(value) or (named and len(value) >= 10) or (value and name.upper() in NEVER_SET):
        refuse(f"environment variable {name} holds a credential")
    if name.upper() in COLLECTOR and value and not COLLECTOR_URL.fullmatch(value):
        refuse(f"environment variable {name} names another collector")


def check_state() -> None:
    if os.path.lexists(STATE / "chatgpt-auth.json"):
        refuse("chatgpt-auth.json exists")
    path = STATE / "auth.json"
    if not os.path.lexists(path):
        return
    try:
        stored = None if path.is_symlink() else json.loads(path.read_text())
    except (OSError, ValueError):
        stored = None
    if not isinstance(stored, dict) or stored.get("credentials"):
        refuse("auth.json is no empty store")


def assert_safe_runtime() -> None:
    for name, value in os.environ.items():
        check_variable(name, value)
    check_state()
    try:
        mode = INFERENCE_URL.lstat().st_mode
    except OSError:
        refuse("managed inference URL is missing")
    if not stat.S_ISREG(mode) or stat.S_IMODE(mode) != 0o444:
        refuse("managed inference URL is not the image's file")
    os.environ["OPENAI_BASE_URL"] = INFERENCE_URL.read_text().strip()
    os.environ.pop("OPENAI_PROXY", None)
    for name in COLLECTOR | NEVER_SET:
        os.environ.pop(name, None)


def check_host(host: str) -> None:
    if host != host.lower() or host.split(".")[-1] in (*RESERVED, ""):
        refuse("MCP server's host is reserved")
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        labels = host.split(".")
        if NUMERIC.fullmatch(host) or len(host) > 253 or not all(map(LABEL.fullmatch, labels)):
            refuse("MCP server's host is no DNS name")
        return
    if (
        address.version != 4
        or not address.is_global
        or address.is_multicast
        or any(address in network for network in NOT_PUBLIC)
    ):
        refuse("MCP server's address is not public IPv4")


def check_url(url: object) -> str:
    if not isinstance(url, str) or not url.isascii() or not 0 < len(url) <= 2048:
        refuse("MCP server's URL is no short ASCII text")
    if any(c.isspace() or not c.isprintable() or c in "%\\*[]{};" for c in url):
        refuse("MCP server's URL has a character that is not allowed")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        refuse("MCP server's URL has no port")
    if parts.scheme != "https" or not parts.hostname or "@" in parts.netloc or port == 0:
        refuse("MCP server's URL is not https to a host")
    check_host(parts.hostname)
    path = parts.path or "/"
    if "//" in path or {".", ".."} & set(path.split("/")):
        refuse("MCP server's path is not canonical")
    if any(map(has_shape, path.split("/"))):
        refuse("MCP server's path holds a credential")
    shown_port = "" if port in (None, 443) else f":{port}"
    if url != f"https://{parts.hostname}{shown_port}{path}":
        refuse("MCP server's URL is not canonical")
    return url


def check_entry(name: str, entry: object) -> dict[str, Any]:
    if not SERVER_NAME.fullmatch(name):
        refuse("a server name is invalid")
    if not isinstance(entry, dict) or entry.keys() != {"type", "url", "headers"}:
        refuse("MCP server has another shape")
    if entry["type"] != "http":
        refuse("MCP server is not of type http")
    url = check_url(entry["url"])
    headers = entry["headers"]
    if not isinstance(headers, dict) or headers.keys() != {"Authorization"}:
        refuse("MCP server has other headers")
    text = headers["Authorization"]
    if not isinstance(text, str) or not text.startswith(f"Bearer {PLACEHOLDER}"):
        refuse("MCP server has no placeholder")
    value = text.removeprefix("Bearer ")
    named = re.fullmatch(r"(?:v[0-9]{1,20}_)?(.*)", value.removeprefix(PLACEHOLDER))
    if named is None or not stands_for(value, named[1]):
        refuse("MCP server has a broken placeholder")
    return {"type": "http", "url": url, "headers": {"Authorization": text}}


def read_file() -> bytes | None:
    """The configuration file's bytes; `None` when there is no such file."""
    try:
        descriptor = os.open(CONFIG, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError:
        refuse("the configuration is unreadable")
    try:
        found = os.fstat(descriptor)
        if (
            not stat.S_ISREG(found.st_mode)
            or stat.S_IMODE(found.st_mode) != 0o600
            or found.st_uid != os.getuid()
            or found.st_nlink != 1
            or not 0 < found.st_size <= MAX_BYTES
        ):
            refuse("the configuration's ownership or mode, links or size")
        content = os.pread(descriptor, MAX_BYTES + 1, 0)
        after = os.fstat(descriptor)
        changed = (found.st_mtime_ns, found.st_ctime_ns) != (after.st_mtime_ns, after.st_ctime_ns)
        if len(content) != found.st_size or changed:
            refuse("the configuration changed while it was read")
    finally:
        os.close(descriptor)
    return content


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        refuse("a duplicate JSON key")
    return found


def canonical(content: bytes) -> bytes | None:
    """The document that is handed on; `None` for no server."""
    try:
        document = json.loads(
            content.decode("utf-8"),
            object_pairs_hook=unique,
            parse_constant=lambda text: refuse(f"a JSON constant {text}"),
        )
    except ValueError:
        refuse("the document is malformed")
    if not isinstance(document, dict) or document.keys() != {"mcpServers"}:
        refuse("only mcpServers may stand in it")
    servers = document["mcpServers"]
    if not isinstance(servers, dict) or len(servers) > MAX_SERVERS:
        refuse("the server map is none, or too long")
    if not servers:
        return None
    checked = {name: check_entry(name, servers[name]) for name in sorted(servers)}
    return json.dumps({"mcpServers": checked}, sort_keys=True).encode() + b"\n"


@dataclass(frozen=True)
class Held:
    """The file that was handed on."""

    fd: int
    sealed: bool
    device: int
    inode: int
    size: int
    digest: bytes


def hold(content: bytes) -> Held:
    try:
        fd = os.memfd_create("stand-in", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        sealed = True
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EINVAL, errno.ENOSYS, errno.EPERM):
            refuse("memfd fails")
        fd, sealed = unlinked(), False
    os.write(fd, content)
    if sealed:
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, SEALS)
    else:
        writer = fd
        fd = os.open(f"{OWN_PATHS}{writer}", os.O_RDONLY | os.O_CLOEXEC)
        os.fchmod(writer, 0)
        os.close(writer)
    found = os.fstat(fd)
    digest = hashlib.sha256(content).digest()
    return Held(fd, sealed, found.st_dev, found.st_ino, len(content), digest)


def unlinked() -> int:
    try:
        return os.open("/tmp", os.O_TMPFILE | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError:
        refuse("neither memfd nor O_TMPFILE")


_held: list[Held | None] = []


def managed_mcp_config_path() -> str | None:
    if not _held:
        content = read_file()
        document = None if content is None else canonical(content)
        _held.append(None if document is None else hold(document))
    held = _held[0]
    return None if held is None else f"{OWN_PATHS}{held.fd}"


def is_managed_mcp_config_path(path: object) -> bool:
    if not isinstance(path, str) or not path.startswith(OWN_PATHS):
        return False
    number = path.removeprefix(OWN_PATHS)
    return number.isascii() and number.isdecimal() and str(int(number)) == number


def managed_mcp_config_bytes(path: object) -> bytes | None:
    """The held file's bytes for its own path; `None` for any path elsewhere."""
    if not isinstance(path, str) or not path.startswith(OWN_PATHS):
        return None
    held = _held[0] if _held else None
    if held is None or path != f"{OWN_PATHS}{held.fd}":
        refuse("a descriptor of somebody else")
    found = os.fstat(held.fd)
    same = (found.st_dev, found.st_ino, found.st_size) == (held.device, held.inode, held.size)
    if not same or not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid():
        refuse("the descriptor is another file")
    if held.sealed and fcntl.fcntl(held.fd, fcntl.F_GET_SEALS) != SEALS:
        refuse("the memory file is not sealed")
    if not held.sealed and (found.st_nlink or stat.S_IMODE(found.st_mode)):
        refuse("the unlinked file is linked, or open to others")
    content = os.pread(held.fd, held.size + 1, 0)
    if len(content) != held.size or hashlib.sha256(content).digest() != held.digest:
        refuse("the content is another one")
    return content


def settle(parser: Any, arguments: Any) -> None:
    """What the image does to a parsed command line of DCode's own."""
    command = getattr(arguments, "command", None)
    if command in ("mcp", "auth", "install", "update"):
        parser.error(f"{command} is the image's")
    if command == "tools" and getattr(arguments, "tools_command", None) not in (
        None,
        "list",
        "help",
    ):
        parser.error("tools: only list and help")
    path = managed_mcp_config_path()
    arguments.mcp_config = path
    arguments.no_mcp = path is None
    arguments.trust_project_mcp = False
