"""Which texts of a configuration are secrets.

Pure functions of dicts and strings; what they return is compiled by `_mcpro.Redactor`, which finds
each secret also JSON-escaped, percent- and base64-encoded. So nothing is encoded here, but what is
encoded in the configuration (a percent-encoded URL password, a Basic header) is also decoded.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import unquote, unquote_plus

from deepagents_ro import references

MIN_SECRET_BYTES = 8
"""A shorter text is not searched for: it stands in too many places by chance."""

PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")

_SECRET_HEADERS = frozenset({"authorization", "proxy-authorization", "cookie"})
_SECRET_ENDINGS = ("key", "token", "secret", "password", "credential")
_AUTHORIZATION = frozenset({"authorization", "proxy-authorization"})
_TOKEN_FIELDS = (
    "access_token",
    "refresh_token",
    "id_token",
    "client_secret",
    "registration_access_token",
)

OPEN_VARIABLES = {
    "HOME": "the home directory, as in the user database",
    "HOSTNAME": "the host's name, as uname(2) gives it",
    "LANG": "the locale, as in the system's settings",
    "LANGUAGE": "the locale, as in the system's settings",
    "LC_*": "the locale, as in the system's settings",
    "LOGNAME": "the process's own user, as in the user database",
    "OLDPWD": "a working directory of before, which a listing shows",
    "PATH": "directories of programs, the same for every process of the machine",
    "PWD": "the working directory, as getcwd(2) gives it",
    "SHELL": "the user's shell, as in the user database",
    "TERM": "the terminal's type, a name from a public list",
    "TMPDIR": "the directory for temporary files, which every process writes to",
    "TZ": "the time zone, as in the system's settings",
    "USER": "the process's own user, as in the user database",
    "XDG_CACHE_HOME": "a directory below the home directory",
    "XDG_CONFIG_HOME": "a directory below the home directory",
    "XDG_DATA_HOME": "a directory below the home directory",
    "XDG_RUNTIME_DIR": "a directory that is named after the user's number",
    "XDG_STATE_HOME": "a directory below the home directory",
}
"""Variables whose values are no secrets, each with the reason; `*` stands for any ending.

Any process of the user can find these values without the environment, so a result that holds one
tells no secret, and results are full of them. The name decides, not the value: a password that is
the user's name as well is a secret when `${DB_PASS}` brings it, and a header that is secret by its
name stays so when it holds `${USER}`.
"""

_KNOWN_SCHEME = re.compile(
    r"(?:bearer|basic|api-?key|token|digest|negotiate|ntlm|dpop|hawk|key|secret|oauth)[ \t]+(?=\S)",
    re.IGNORECASE,
)
_ANY_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9!#$%&'*+.^_`|~-]*[ \t]+(?=\S)")
_BASIC = re.compile(r"basic[ \t]+", re.IGNORECASE)
_PARAMETER = re.compile(
    r"(?<![A-Za-z0-9_-])([A-Za-z0-9_-]+)[ \t]*=[ \t]*(?:\"((?:[^\"\\]|\\.)*)\"|([^\s,;\"]+))"
)
_URL_REST = re.compile(r"://[^\s\"'<>]+")
_ASSIGNMENT = re.compile(r"-{0,2}([A-Za-z0-9_.-]+)[ \t]*[=:][ \t]*(?=\S)")


def configured_secrets(
    connections: Mapping[str, object],
    raw_servers: Mapping[str, object],
    environ: Mapping[str, str],
    tokens: Iterable[object] = (),
) -> set[bytes]:
    """Every secret value of these servers, as UTF-8 of at least `MIN_SECRET_BYTES`.

    Args:
        connections: Server name to the resolved connection (transport, url, headers, command,
            args, env) that DCode hands to `MCPSessionManager.configure`.
        raw_servers: Server name to the entry as configured, `${VAR}` not resolved. A server may be
            in either or in both.
        environ: What `${VAR}` is resolved from; the proxy variables are read from it too.
        tokens: Stored OAuth tokens: strings, objects or mappings with `access_token`,
            `refresh_token` and so on, also nested as in DCode's token files.

    Values of unexpected types are read as text where they have one; nothing raises.
    """
    found = _Secrets()
    for entry in _entries(raw_servers):
        for text in _referencing_texts(entry):
            for match in references.DCODE.finditer(text):
                if not _is_open(match, environ):
                    found.add_variable(_text(environ.get(match.group(1))))
        found.add_server(entry, environ)
    for connection in _entries(connections):
        found.add_server(connection, None)
        found.add_child_environment(connection, environ)
    for name in PROXY_VARIABLES:
        for spelling in (name, name.lower()):
            found.add_proxy(_text(environ.get(spelling)))
    for token in tokens:
        found.add_token(token)
    return found.encoded()


def is_secret_name(name: str) -> bool:
    """Whether a header, environment or query name says that its value is a secret."""
    lowered = name.strip().lower()
    return lowered in _SECRET_HEADERS or lowered.endswith(_SECRET_ENDINGS)


def is_open_variable(name: str) -> bool:
    """Whether `OPEN_VARIABLES` holds a variable of that name."""
    return name in OPEN_VARIABLES or name.startswith("LC_")


class _Secrets:
    """Collects texts; each `add_*` knows one place that holds secrets."""

    def __init__(self) -> None:
        self._texts: set[str] = set()

    def encoded(self) -> set[bytes]:
        secrets = (_utf8(text) for text in self._texts)
        return {secret for secret in secrets if len(secret) >= MIN_SECRET_BYTES}

    def add(self, text: str) -> None:
        """A secret as it is. White space around it is no part of it."""
        self._texts.add(text.strip())

    def add_encoded(self, text: str) -> None:
        """A secret that may be percent-encoded where it stands."""
        self.add(text)
        self.add(unquote(text, errors="surrogateescape"))
        self.add(unquote_plus(text, errors="surrogateescape"))

    def add_variable(self, text: str) -> None:
        """What a `${VAR}` put somewhere."""
        self.add_encoded(text)
        self.add_credential(text, _KNOWN_SCHEME)
        self.add_urls(text)

    def add_credential(self, text: str, scheme: re.Pattern[str]) -> None:
        """A value, the same without its scheme, and what is inside a Basic one."""
        text = text.strip()
        self.add(text)
        match = scheme.match(text)
        if match is None:
            return
        rest = text[match.end() :]
        self.add(rest)
        if _BASIC.fullmatch(match.group()):
            self.add_basic(rest)
        for name, quoted, plain in _PARAMETER.findall(rest):
            if is_secret_name(name) or name.lower() in ("signature", "response"):
                self.add(quoted or plain)

    def add_basic(self, encoded: str) -> None:
        """The `user:password` of a Basic credential."""
        digits = encoded.strip().translate(str.maketrans("-_", "+/")).rstrip("=")
        try:
            decoded = base64.b64decode(digits + "=" * (-len(digits) % 4), validate=True)
        except (binascii.Error, ValueError):
            return
        pair = decoded.decode("utf-8", "surrogateescape")
        self.add(pair)
        self.add(pair.partition(":")[2])

    def add_named(self, name: str, text: str) -> None:
        """A header, environment or command line value of that name."""
        self.add_urls(text)
        lowered = name.strip().lower()
        if not is_secret_name(lowered):
            return
        self.add_credential(text, _ANY_SCHEME if lowered in _AUTHORIZATION else _KNOWN_SCHEME)
        if lowered == "cookie":
            for cookie in text.split(";"):
                value = cookie.partition("=")[2].strip()
                self.add_encoded(value)
                self.add_encoded(value.strip('"'))

    def add_user_info(self, authority: str) -> None:
        """`user:password@` of an authority; a user alone is a token as often as a name."""
        info, at, _ = authority.rpartition("@")
        if not at:
            return
        user, _, password = info.partition(":")
        for part in (info, user, password):
            self.add_encoded(part)

    def add_url(self, url: str) -> None:
        """User info and the query values of secret names."""
        rest = url.partition("://")[2] or url
        self.add_user_info(re.split(r"[/?#]", rest, maxsplit=1)[0])
        query = rest.partition("?")[2].partition("#")[0]
        for pair in {*query.split("&"), *re.split("[&;]", query)}:
            name, _, value = pair.partition("=")
            if is_secret_name(unquote_plus(name)):
                self.add_encoded(value)
                self.add_credential(unquote_plus(value), _KNOWN_SCHEME)

    def add_urls(self, text: str) -> None:
        """Every URL inside a text."""
        for url in _URL_REST.findall(text):
            self.add_url(url)

    def add_proxy(self, proxy: str) -> None:
        """A proxy variable, with or without a scheme."""
        if proxy:
            self.add_url(proxy.strip())

    def add_arguments(self, arguments: list[str]) -> None:
        """A command line: `--api-key X`, `--api-key=X`, `API_KEY=X`, `-H "Authorization: X"`."""
        for before, argument in zip(["", *arguments], arguments, strict=False):
            self.add_urls(argument)
            if before.startswith("-") and not argument.startswith("--"):
                self.add_named(before.lstrip("-"), argument)
            rest = argument
            while match := _ASSIGNMENT.match(rest):  # also --header=Authorization: X
                rest = rest[match.end() :]
                self.add_named(match.group(1), rest)

    def add_server(self, entry: Mapping[str, object], environ: Mapping[str, str] | None) -> None:
        """One entry; with `environ` its `${VAR}` are resolved first."""

        def resolved(value: object) -> str:
            text = _text(value)
            if environ is None:
                return text
            return references.DCODE.sub(lambda match: _resolve_match(match, environ), text)

        url = resolved(entry.get("url"))
        if url:
            self.add_url(url)
        for field in ("headers", "env"):
            for name, value in _pairs(entry.get(field)):
                self.add_named(name, resolved(value))
        self.add_arguments([resolved(argument) for argument in _items(entry.get("args"))])

    def add_child_environment(
        self, connection: Mapping[str, object], environ: Mapping[str, str]
    ) -> None:
        """What the adapter makes of a child's `env`: it resolves `${VAR}` once more.

        DCode has resolved its own references, so these stand inside the values of variables.
        """
        for name, value in _pairs(connection.get("env")):
            text = _text(value)
            inner = [each for each in references.ADAPTER.findall(text) if each in environ]
            for variable in inner:
                if not is_open_variable(variable):
                    self.add_variable(environ[variable])
            if inner:
                self.add_named(name, references.adapted(text, environ))

    def add_token(self, token: object) -> None:
        """A stored token: text, or anything that holds texts under the names of OAuth."""
        if isinstance(token, str | bytes | bytearray):
            self.add_credential(_text(token), _KNOWN_SCHEME)
            return
        if isinstance(token, Mapping):
            for name, value in token.items():
                if isinstance(value, Mapping) or _is_object(value):
                    self.add_token(value)
                elif name in _TOKEN_FIELDS and value is not None:
                    self.add_credential(_text(value), _KNOWN_SCHEME)
            return
        for name in _TOKEN_FIELDS:
            value = getattr(token, name, None)
            if value is not None:
                self.add_credential(_text(value), _KNOWN_SCHEME)


def _entries(servers: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    """The entries that are mappings."""
    return (entry for entry in servers.values() if isinstance(entry, Mapping))


def _referencing_texts(entry: Mapping[str, object]) -> Iterator[str]:
    """The texts of an entry in which DCode resolves `${VAR}`, but for the command."""
    yield _text(entry.get("url"))
    for field in ("headers", "env"):
        for _, value in _pairs(entry.get(field)):
            yield _text(value)
    for argument in _items(entry.get("args")):
        yield _text(argument)


def _is_open(match: re.Match[str], environ: Mapping[str, str]) -> bool:
    """Whether the text that one reference puts into the configuration tells nothing.

    A variable of the table tells nothing. A value that is the reference's own default tells
    nothing either: it stands in the configuration, where a default has no right to a secret. But a
    variable that is named like a secret keeps its value secret even then.
    """
    name, default = match.groups()
    if is_open_variable(name):
        return True
    return not is_secret_name(name) and _text(environ.get(name)) == default


def _resolve_match(match: re.Match[str], environ: Mapping[str, str]) -> str:
    """What one reference stands for; empty when it cannot be resolved."""
    return _text(environ.get(match.group(1))) or match.group(2) or ""


def _text(value: object) -> str:
    """The text of a value of a configuration; empty when it has none.

    A secret store's wrapper (`get_secret_value`) is opened.
    """
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode("utf-8", "surrogateescape")
    reveal = getattr(value, "get_secret_value", None)
    return _text(reveal()) if callable(reveal) else str(value)


def _utf8(text: str) -> bytes:
    """The bytes of a text; what the environment had as other bytes comes back as those."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def _pairs(value: object) -> Iterator[tuple[str, object]]:
    """(name, value) of a mapping or a list of pairs; a list as value is several."""
    items = value.items() if isinstance(value, Mapping) else _items(value)
    for item in items:
        if not isinstance(item, tuple | list) or len(item) != 2:
            continue
        name, content = item
        for part in content if isinstance(content, list | tuple) else (content,):
            yield _text(name), part


def _items(value: object) -> Iterator[object]:
    """The items of a list or tuple; a text is one item, anything else none."""
    if isinstance(value, str | bytes | bytearray):
        yield value
    elif isinstance(value, list | tuple):
        yield from value


def _is_object(value: object) -> bool:
    """Whether a value may carry tokens as attributes."""
    return any(hasattr(value, name) for name in _TOKEN_FIELDS)
