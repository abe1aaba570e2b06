"""The stand-in refuses what the public managed runtime refuses; next to each stands what passes."""

from __future__ import annotations

import errno
import json
import os
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from servers import managed_runtime as runtime
from servers.managed import managed_entry

from deepagents_ro import managed
from deepagents_ro.refusal import REASONS, HostError, check_reason, config_reason, reader_reason

GUIDE = Path(__file__).parent.parent / "docs" / "managed-image.md"

URL = "https://34.117.10.10:8443/mcp"
GOOD = managed_entry(URL)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The runtime's places below a directory of the test, an environment that passes."""
    share = tmp_path / "inference-base-url"
    share.write_text("https://inference.local/v1\n")
    share.chmod(0o444)
    (tmp_path / ".state").mkdir()
    monkeypatch.setattr(runtime, "CONFIG", tmp_path / "config.json")
    monkeypatch.setattr(runtime, "STATE", tmp_path / ".state")
    monkeypatch.setattr(runtime, "INFERENCE_URL", share)
    monkeypatch.setattr(os, "environ", {"HOME": str(tmp_path), "LANG": "C.UTF-8"})
    runtime._held.clear()
    yield tmp_path
    for held in runtime._held:
        if held is not None:
            os.close(held.fd)
    runtime._held.clear()


def configure(servers: Any, *, mode: int = 0o600) -> None:
    runtime.CONFIG.write_text(json.dumps({"mcpServers": servers}))
    runtime.CONFIG.chmod(mode)


def check_word(call: Callable[[], Any], reason_of: Callable[[BaseException], str]) -> str:
    """The audit's word for what `call` raises; '' when it raises nothing."""
    try:
        call()
    except RuntimeError as error:
        return reason_of(error)
    return ""


# Name, a value that is refused, one that passes (None: no value does).
ENVIRONMENT = [
    ("MY_API_KEY", "0123456789", "012345678"),
    ("KEY", "0123456789", ""),
    ("my_token", "0123456789", "short"),
    ("A-SECRET", "0123456789", "short"),
    ("DB_PASSWORD", "0123456789", "short"),
    ("DB_PASS", "0123456789", "short"),
    ("A_CREDENTIAL", "0123456789", "short"),
    ("accessKey", "0123456789", "short"),
    ("TOKENS", "sk-proj-0123456789", "0123456789"),
    ("KEYS", "Bearer 0123456789", "Bearer 1"),
    ("ANY", "ghp_0123456789", "ghp_1"),
    ("ANY", "AKIA0123456789ABCDEF", "AKIA01234"),
    ("ANY", "lsv2_pt_0123456789", "lsv2_pt_1"),
    ("ANY", "api_key=0123456789", "api_key=1"),
    ("ANY", "TOKEN 0123456789", "TOKEN 1"),
    ("APIKey", "0123456789", "short"),
    (
        "ANY",
        "-----BEGIN PRIVATE KEY-----\nx\n-----END PRIVATE KEY-----",
        "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----",
    ),
    ("LANGSMITH_RUNS_ENDPOINTS", "x", ""),
    ("OTEL_EXPORTER_OTLP_HEADERS", "x", ""),
    (
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        "http://collector.example:4318",
        "http://host.openshell.internal:4318",
    ),
    ("DEEPAGENTS_CODE_OPENAI_API_KEY", "another-value", "nemoclaw-managed-inference"),
    ("A_TOKEN", "openshell:resolve:env:B_TOKEN", "openshell:resolve:env:A_TOKEN"),
    ("A_TOKEN", "openshell:resolve:env:v1_B_TOKEN", "openshell:resolve:env:v1_A_TOKEN"),
    ("OPENSHELL_TLS_KEY", "/etc/key", None),
    ("OPENSHELL_TLS_CA", "x", None),
]


# pytest puts a test's id into the environment: the values are not in it.
@pytest.mark.parametrize(
    ("name", "refused", "passes"), ENVIRONMENT, ids=[row[0] for row in ENVIRONMENT]
)
def test_environment(name: str, refused: str, passes: str | None) -> None:
    os.environ[name] = refused
    assert check_word(runtime.assert_safe_runtime, check_reason) == "runtime_environment"
    if passes is None:
        del os.environ[name]
    else:
        os.environ[name] = passes
    assert check_word(runtime.assert_safe_runtime, check_reason) == ""


@pytest.mark.parametrize(
    ("file", "text", "word"),
    [
        ("auth.json", '{"credentials":{"a":"b"}}', "runtime_state"),
        ("auth.json", "{", "runtime_state"),
        ("auth.json", '{"credentials":{}}', ""),
        ("chatgpt-auth.json", "{}", "runtime_state"),
        ("other.json", "{", ""),
    ],
)
def test_stored_logins(home: Path, file: str, text: str, word: str) -> None:
    (home / ".state" / file).write_text(text)
    assert check_word(runtime.assert_safe_runtime, check_reason) == word


def test_a_stored_login_is_no_link(home: Path) -> None:
    (home / "empty.json").write_text("{}")
    (home / ".state" / "auth.json").symlink_to(home / "empty.json")
    assert check_word(runtime.assert_safe_runtime, check_reason) == "runtime_state"


def test_the_images_own_file(home: Path) -> None:
    share = home / "inference-base-url"
    assert check_word(runtime.assert_safe_runtime, check_reason) == ""
    share.chmod(0o644)
    assert check_word(runtime.assert_safe_runtime, check_reason) == "runtime_image"
    share.unlink()
    assert check_word(runtime.assert_safe_runtime, check_reason) == "runtime_image"


def path_word() -> str:
    return check_word(runtime.managed_mcp_config_path, config_reason)


@pytest.mark.parametrize("mode", [0o400, 0o640, 0o604, 0o660, 0o700, 0o644])
def test_mode(mode: int) -> None:
    configure({"a": GOOD}, mode=mode)
    assert path_word() == "runtime_file"
    runtime.CONFIG.chmod(0o600)
    assert path_word() == ""


def test_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    configure({"a": GOOD})
    uid = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: uid + 1)
    assert path_word() == "runtime_file"
    monkeypatch.setattr(os, "getuid", lambda: uid)
    assert path_word() == ""


def test_links_and_kind(home: Path) -> None:
    other = home / "other.json"
    configure({"a": GOOD})
    os.link(runtime.CONFIG, other)
    assert path_word() == "runtime_file"
    runtime.CONFIG.unlink()
    runtime.CONFIG.symlink_to(other)
    assert path_word() == "runtime_file"
    runtime.CONFIG.unlink()
    runtime.CONFIG.mkdir(mode=0o600)
    assert path_word() == "runtime_file"
    runtime.CONFIG.rmdir()
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(runtime.CONFIG))
        assert path_word() == "runtime_file"
    runtime.CONFIG.unlink()
    other.rename(runtime.CONFIG)
    assert path_word() == ""


def test_no_file_is_no_server() -> None:
    assert runtime.managed_mcp_config_path() is None


def test_size() -> None:
    configure({"a": GOOD})
    content = runtime.CONFIG.read_bytes()
    runtime.CONFIG.write_bytes(content.ljust(262_145))
    assert path_word() == "runtime_file"
    runtime.CONFIG.write_bytes(b"")
    assert path_word() == "runtime_file"
    runtime.CONFIG.write_bytes(content.ljust(262_144))
    assert path_word() == ""


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("{", "runtime_document"),
        ("\xff", "runtime_document"),
        ("[]", "runtime_document"),
        ("{}", "runtime_document"),
        ('{"mcpServers":{},"more":1}', "runtime_document"),
        ('{"mcpServers":{},"mcpServers":{}}', "runtime_document"),
        ('{"mcpServers":NaN}', "runtime_document"),
        ('{"mcpServers":[]}', "runtime_document"),
        ('{"mcpServers":{}}', ""),
    ],
)
def test_document(text: str, word: str) -> None:
    runtime.CONFIG.write_bytes(text.encode("latin-1"))
    runtime.CONFIG.chmod(0o600)
    assert path_word() == word


def test_number_of_servers() -> None:
    configure({f"s{number}": GOOD for number in range(65)})
    assert path_word() == "runtime_document"
    configure({f"s{number}": GOOD for number in range(64)})
    assert path_word() == ""


@pytest.mark.parametrize("name", ["", "1a", "-a", "a.b", "a b", "ä", "a" * 65])
def test_server_names_refused(name: str) -> None:
    configure({name: GOOD})
    assert path_word() == "runtime_entry"


@pytest.mark.parametrize("name", ["a", "A_b-9", "a" * 64])
def test_server_names_that_pass(name: str) -> None:
    configure({name: GOOD})
    assert path_word() == ""


PLACEHOLDER = "Bearer openshell:resolve:env:"


@pytest.mark.parametrize(
    "change",
    [
        {"type": "sse"},
        {"type": "stdio"},
        {"command": "/bin/true"},
        {"disabledTools": ["x"]},
        {"env": {}},
        {"headers": {}},
        {"headers": None},
        {"headers": {"authorization": PLACEHOLDER + "A"}},
        {"headers": {"Authorization": PLACEHOLDER + "A", "X-Run": "1"}},
        {"headers": {"Authorization": "Bearer 0123456789"}},
        {"headers": {"Authorization": PLACEHOLDER}},
        {"headers": {"Authorization": PLACEHOLDER + "1A"}},
        {"headers": {"Authorization": PLACEHOLDER + "A" * 129}},
        {"headers": {"Authorization": PLACEHOLDER + "OPENSHELL_TLS_KEY"}},
        {"headers": {"Authorization": "bearer openshell:resolve:env:A"}},
        {"headers": {"Authorization": 1}},
    ],
)
def test_entries_refused(change: dict[str, Any]) -> None:
    configure({"a": GOOD | change})
    assert path_word() == "runtime_entry"


@pytest.mark.parametrize("name", ["A", "a_b", "v12_A", "A" * 128])
def test_entries_that_pass(name: str) -> None:
    configure({"a": managed_entry(URL, name)})
    assert path_word() == ""


def test_an_entry_without_a_header_is_refused() -> None:
    configure({"a": {"type": "http", "url": URL}})
    assert path_word() == "runtime_entry"


@pytest.mark.parametrize(
    "url",
    [
        "http://mcp.example.com/mcp",
        "HTTPS://mcp.example.com/mcp",
        "https://mcp.example.com",
        "https://mcp.example.com:443/mcp",
        "https://mcp.example.com:0/mcp",
        "https://mcp.example.com:08443/mcp",
        "https://mcp.example.com:65536/mcp",
        "https://user@mcp.example.com/mcp",
        "https://mcp.example.com/mcp?a=b",
        "https://mcp.example.com/mcp#a",
        "https://mcp.example.com/a%20b",
        "https://mcp.example.com//mcp",
        "https://mcp.example.com/./mcp",
        "https://mcp.example.com/../mcp",
        "https://mcp.example.com/a b",
        "https://mcp.example.com/a;b",
        "https://mcp.example.com/sk-proj-0123456789",
        "https://mcp.example.com/ä",
        "https://MCP.example.com/mcp",
        "https://mcp.example.com./mcp",
        "https://mcp_x.example.com/mcp",
        "https://localhost/mcp",
        "https://a.local/mcp",
        "https://host.docker.internal/mcp",
        "https://metadata/mcp",
        "https://127.0.0.1/mcp",
        "https://10.1.2.3/mcp",
        "https://192.168.1.1/mcp",
        "https://169.254.169.254/mcp",
        "https://100.64.0.1/mcp",
        "https://192.0.0.9/mcp",
        "https://192.0.2.1/mcp",
        "https://192.88.99.1/mcp",
        "https://198.18.0.1/mcp",
        "https://224.0.0.1/mcp",
        "https://240.0.0.1/mcp",
        "https://0x7f.1/mcp",
        "https://2130706433/mcp",
        "https://[2606:4700::1111]/mcp",
        "https://mcp.example.com/" + "a" * 2048,
        7,
    ],
)
def test_urls_refused(url: Any) -> None:
    configure({"a": managed_entry(url)})
    assert path_word() == "runtime_entry"


@pytest.mark.parametrize(
    "url",
    [
        "https://mcp.example.com/mcp",
        "https://mcp.example.com/",
        "https://mcp.example.com:8443/a/b.c",
        "https://34.117.10.10:1/mcp",
        "https://internal.example.com/mcp",
        "https://localhost.example.com/mcp",
        "https://a/mcp",
    ],
)
def test_urls_that_pass(url: str) -> None:
    configure({"a": managed_entry(url)})
    assert path_word() == ""


def test_only_its_own_descriptor() -> None:
    configure({"a": GOOD})
    path = runtime.managed_mcp_config_path()
    assert path is not None
    assert path.startswith("/proc/self/fd/")
    content = runtime.managed_mcp_config_bytes(path)
    assert content is not None
    assert json.loads(content) == {"mcpServers": {"a": GOOD}}
    for other in ("/proc/self/fd/0", "/proc/self/fd/x", f"{path}0", "/proc/self/fd/"):
        assert check_word(lambda o=other: runtime.managed_mcp_config_bytes(o), str)
    for ordinary in (f"/dev/fd/{Path(path).name}", "/proc/thread-self/fd/3", "/etc/passwd"):
        assert runtime.managed_mcp_config_bytes(ordinary) is None


def test_another_file_at_its_number(home: Path) -> None:
    configure({"a": GOOD})
    path = runtime.managed_mcp_config_path()
    assert path is not None
    number = int(Path(path).name)
    saved = os.dup(number)
    try:
        with (home / "same").open("wb+") as other:
            other.write(os.pread(saved, 1 << 20, 0))
            other.flush()
            os.dup2(other.fileno(), number)
        assert check_word(lambda: runtime.managed_mcp_config_bytes(path), str)
        os.dup2(saved, number)
        assert runtime.managed_mcp_config_bytes(path)
    finally:
        os.close(saved)


@pytest.mark.parametrize("code", [errno.EACCES, errno.EPERM, errno.ENOSYS])
def test_memory_files_refused(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    def refused(*_: object, **__: object) -> int:
        raise OSError(code, "refused")

    monkeypatch.setattr(os, "memfd_create", refused)
    configure({"a": GOOD})
    path = runtime.managed_mcp_config_path()
    assert path is not None
    found = os.fstat(int(Path(path).name))
    assert (found.st_nlink, found.st_mode & 0o777) == (0, 0)
    assert runtime.managed_mcp_config_bytes(path)


def test_no_file_can_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> int:
        raise OSError(errno.EPERM, "refused")

    monkeypatch.setattr(os, "memfd_create", refused)
    plain = os.open

    def no_unlinked(path: Any, flags: int, *rest: Any, **named: Any) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, "refused")
        return plain(path, flags, *rest, **named)

    monkeypatch.setattr(os, "open", no_unlinked)
    configure({"a": GOOD})
    assert path_word() == "runtime_memory"


def test_every_word_has_a_text() -> None:
    assert all(text for text in REASONS.values())
    assert {word.partition("_")[0] for word in REASONS} == {"dcode", "runtime", "loader"}


def test_the_guide_has_every_word() -> None:
    text = GUIDE.read_text()
    assert all(f"| `{word}` | {meaning} |" in text for word, meaning in REASONS.items())


class Broken:
    """A path whose text cannot be had."""

    def __fspath__(self) -> str:
        raise ValueError("/secret/path")


def raising(error: BaseException) -> Callable[[], Any]:
    def call() -> Any:
        raise error

    return call


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (lambda: 7, "runtime_answer"),
        (lambda: b"/tmp/x", "runtime_answer"),
        (lambda: "", "runtime_answer"),
        (lambda: ["/tmp/x"], "runtime_answer"),
        (Broken, "runtime_answer"),
        (raising(ImportError("no such module")), "runtime_import"),
        (raising(RuntimeError("/secret/path")), "runtime_refused"),
        (raising(SystemExit(3)), "runtime_refused"),
        (raising(KeyboardInterrupt()), "runtime_refused"),
        (lambda: None, ""),
        (lambda: "/tmp/x", ""),
        (lambda: Path("/tmp/x"), ""),
    ],
)
def test_what_a_runtime_answers(
    monkeypatch: pytest.MonkeyPatch, answer: Callable[[], Any], reason: str
) -> None:
    module = ModuleType(managed.MODULE)
    module.managed_mcp_config_path = answer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, managed.MODULE, module)
    if not reason:
        assert managed.config_path() in (None, "/tmp/x")
        return
    with pytest.raises(HostError) as caught:
        managed.config_path()
    assert caught.value.reason == reason
    assert "/secret/path" not in str(caught.value)


@pytest.mark.parametrize("missing", ["assert_safe_runtime", "managed_mcp_config_path"])
def test_a_runtime_without_a_function(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    monkeypatch.setitem(sys.modules, managed.MODULE, ModuleType(managed.MODULE))
    call = managed.check if missing == "assert_safe_runtime" else managed.config_path
    with pytest.raises(HostError):
        call()


@pytest.mark.parametrize(
    ("error", "in_an_image", "elsewhere"),
    [
        (FileNotFoundError(2, "x"), "loader_missing", "loader_missing"),
        (IsADirectoryError(21, "x"), "loader_unreadable", "loader_unreadable"),
        (json.JSONDecodeError("x", "{", 0), "loader_json", "loader_json"),
        (ValueError("x"), "loader_document", "loader_document"),
        (TypeError("x"), "loader_document", "loader_document"),
        (RuntimeError("a descriptor of somebody else"), "runtime_refused", "loader_document"),
        (RuntimeError("sealed memfd"), "runtime_memory", "loader_document"),
    ],
)
def test_what_the_reader_says(error: Exception, in_an_image: str, elsewhere: str) -> None:
    assert reader_reason(error, managed=True) == in_an_image
    assert reader_reason(error, managed=False) == elsewhere


# What public runtimes say beyond the stand-in's rules.
@pytest.mark.parametrize(
    ("reason_of", "text", "word"),
    [
        (check_reason, "managed upstream provider file is missing or unsafe", "runtime_image"),
        (check_reason, "managed proxy host file is unreadable", "runtime_image"),
        (check_reason, "managed sandbox is unsafe", "runtime_unsafe"),
        (config_reason, "managed MCP config requires a private bounded tmpfs", "runtime_memory"),
        (config_reason, "managed MCP config requires something else", "runtime_refused"),
    ],
)
def test_words_of_other_runtimes(
    reason_of: Callable[[BaseException], str], text: str, word: str
) -> None:
    assert reason_of(RuntimeError(text)) == word
