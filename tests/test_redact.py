"""`Redactor`: what goes, what stays, byte for byte."""

from __future__ import annotations

import base64
import json
import string
import threading
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from deepagents_ro._mcpro import JSONError, Redactor

MARK = "<redacted-secret>"
MARKED = b'"<redacted-secret>"'
CANARY = "Canary/+%~ 7\u00e9"
UNSHAPED = {"shapes": False}

# Text that cannot add to a secret: no character of the canary, of base64 or of an escape.
FOREIGN = "<>[]{}()!?,;:#|\u00fc\u4e2d\U0001f600\n\t"
AROUND = st.text(FOREIGN, max_size=12)
SECRETS = st.text(
    st.characters(codec="utf-8", min_codepoint=32, max_codepoint=0x1F680), min_size=8, max_size=40
)


def redacted(value: Any, *secrets: str, **options: bool) -> Any:
    redactor = Redactor(secret.encode() for secret in secrets)
    return json.loads(redactor.redact(json.dumps(value).encode(), **options))


def escaped(text: str, draw: Any) -> str:
    """A JSON string of the text, each character in one of its spellings."""
    spelled = []
    for char in text:
        units = char.encode("utf-16-be")
        full = "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
        choices = [full, full.upper().replace("\\U", "\\u"), json.dumps(char)[1:-1]]
        if char == "/":
            choices.append("\\/")
        if char not in '"\\' and ord(char) >= 32:
            choices.append(char)
        spelled.append(draw(st.sampled_from(choices)))
    return '"' + "".join(spelled) + '"'


def percent(text: str, draw: Any) -> str:
    """The text with some bytes percent-encoded, in either case; a percent sign always."""
    out = []
    for char in text:
        if char != "%" and draw(st.booleans()):
            out.append(char)
        else:
            style = draw(st.sampled_from(["%%%02x", "%%%02X"]))
            out.extend(style % byte for byte in char.encode())
    return "".join(out)


def in_base64(text: str, draw: Any) -> tuple[str, int, int]:
    """(base64 text, first, end): the digits that carry bits of the text, with its padding."""
    before = draw(st.binary(max_size=5))
    behind = draw(st.one_of(st.just(b""), st.binary(max_size=5)))
    encode = draw(st.sampled_from([base64.b64encode, base64.urlsafe_b64encode]))
    secret = text.encode()
    whole = encode(before + secret + behind).decode()
    first = len(before) * 8 // 6
    end = -(-(len(before) + len(secret)) * 8 // 6)
    return whole, first, end if behind else len(whole)


@st.composite
def encoded(draw: Any) -> tuple[str, str, str]:
    """(secret, a text that holds a form of it, the text redacted)."""
    secret = draw(st.one_of(st.just(CANARY), SECRETS))
    before, behind = draw(AROUND), draw(AROUND)
    form = draw(st.sampled_from(["plain", "percent", "form", "quote", "base64", "base64-percent"]))
    if form.startswith("base64"):
        whole, first, end = in_base64(secret, draw)
        if form == "base64":
            kept = (whole[:first], whole[first:end], whole[end:])
        else:
            kept = (
                percent(whole[:first], draw),
                percent(whole[first:end], draw),
                percent(whole[end:], draw),
            )
        return secret, before + "".join(kept) + behind, f"{before}{kept[0]}{MARK}{kept[2]}{behind}"
    body = {
        "plain": lambda: secret,
        "percent": lambda: percent(secret, draw),
        "form": lambda: quote(secret, safe="").replace("%20", "+"),
        "quote": lambda: quote(secret, safe=""),
    }[form]()
    return secret, before + body + behind, before + MARK + behind


def is_plain(secret: str) -> bool:
    """Whether a secret cannot stand in a text a second time, whatever is around it."""
    return (
        secret not in MARK
        and len(set(secret)) > 3
        and not {secret[0], secret[-1]} & {*FOREIGN, "%", "+"}
        and "%" not in secret.replace("%~", "")
        and "\\" not in secret
    )


@given(case=encoded(), data=st.data())
def test_every_form_in_every_spelling(case: tuple[str, str, str], data: Any) -> None:
    secret, text, expected = case
    assume(is_plain(secret))
    raw = escaped(text, data.draw)
    assert json.loads(raw) == text
    out = Redactor([secret.encode()]).redact(raw.encode(), **UNSHAPED)
    assert json.loads(out) == expected


@given(case=encoded(), levels=st.integers(1, 3))
def test_json_inside_a_string(case: tuple[str, str, str], levels: int) -> None:
    secret, text, expected = case
    assume(is_plain(secret))
    inner: Any = {"a": [text, 1.5]}
    wanted: Any = {"a": [expected, 1.5]}
    for level in range(levels):
        inner, wanted = (
            json.dumps(inner, ensure_ascii=level % 2 == 0),
            json.dumps(wanted, ensure_ascii=level % 2 == 0),
        )
    assert redacted(inner, secret, **UNSHAPED) == wanted


JSON_VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(st.characters(codec="utf-8"), max_size=8),
        st.just(CANARY),
        st.just(f"<{CANARY}>{CANARY}"),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(
            st.one_of(st.text(max_size=4), st.just(CANARY), st.just(f"k {CANARY}")),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=20,
)


def expected_of(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace(CANARY + CANARY, MARK).replace(CANARY, MARK)
    if isinstance(value, list):
        return [expected_of(item) for item in value]
    if isinstance(value, dict):
        return {expected_of(key): expected_of(item) for key, item in value.items()}
    return value


@given(value=JSON_VALUES, indent=st.sampled_from([None, 1]), ascii_only=st.booleans())
def test_values_and_keys_at_any_depth(value: Any, indent: int | None, ascii_only: bool) -> None:
    document = json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode()
    out = Redactor([CANARY.encode()]).redact(document)
    assert json.loads(out) == expected_of(value)
    marker = json.dumps(CANARY, ensure_ascii=ascii_only)[1:-1].encode()
    assert out == document.replace(marker * 2, MARK.encode()).replace(marker, MARK.encode())


@given(
    value=JSON_VALUES,
    secrets=st.lists(SECRETS.filter(lambda text: len(text) > 8), max_size=4),
    shapes=st.booleans(),
)
@example(value=[], secrets=[], shapes=True)
def test_what_holds_no_secret_is_untouched(value: Any, secrets: list[str], shapes: bool) -> None:
    # Other texts of these values have at most eight characters.
    assume(not any(secret in f"k <{CANARY}>{CANARY}" for secret in secrets))
    redactor = Redactor(secret.encode() for secret in secrets)
    document = json.dumps(value).encode()
    assert redactor.redact(document, shapes=shapes) == document


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 12)), max_size=12))
def test_overlapping_secrets_are_one_marker(runs: list[tuple[str, int]]) -> None:
    text = "".join(char * count for char, count in runs)
    secrets = ["aaaaaaaa", "aaaabbbb", "bbbbbbbbb", "abababab"]
    covered = [False] * len(text)
    for secret in secrets:
        for at in range(len(text) - len(secret) + 1):
            if text.startswith(secret, at):
                covered[at : at + len(secret)] = [True] * len(secret)
    expected = ""
    for at, char in enumerate(text):
        if not covered[at]:
            expected += char
        elif at == 0 or not covered[at - 1]:
            expected += MARK
    assert redacted(text, *secrets) == expected


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (rb'"x\/Canary\/z"', rb'"x\/<redacted-secret>"'),
        (rb'[1.10, 1E400 ,"\u0000Canary\u002fz\u0000"]',
         rb'[1.10, 1E400 ,"\u0000<redacted-secret>\u0000"]'),
        (rb' {"\u0043anary/z" : -0.0}' + b"\n", b' {"<redacted-secret>" : -0.0}\n'),
        (rb'["Canary","/z"]', rb'["Canary","/z"]'),
        (b"12345678", b"12345678"),
        (b'"12345678"', b'"<redacted-secret>"'),
    ],
)  # fmt: skip
def test_exact_bytes(document: bytes, expected: bytes) -> None:
    assert Redactor([b"Canary/z", b"12345678"]).redact(document) == expected


def test_keys_that_become_equal() -> None:
    redactor = Redactor([b"first-secret", b"second-secret"])
    document = b'{"a":{"first-secret":1,"second-secret":2}}'
    with pytest.raises(ValueError, match=r"^keys collide$"):
        redactor.redact(document)
    with pytest.raises(ValueError, match=r"^keys collide$"):
        redactor.redact(b'{"first-secret":1,"<redacted-secret>":2}')
    apart = b'[{"first-secret":1},{"second-secret":{"first-secret":2}}]'
    assert redactor.redact(apart) == (
        b'[{"<redacted-secret>":1},{"<redacted-secret>":{"<redacted-secret>":2}}]'
    )


def test_attestation_is_not_touched_by_shapes() -> None:
    signature = "sk-0123456789abcdef0123"
    inside = {"sig": [signature, {"Bearer 0123456789abcdef": CANARY}]}
    value = {
        "qualification": {"output_attestation": inside, "note": signature},
        "output_attestation": signature,
    }
    kept = {"sig": [signature, {"Bearer 0123456789abcdef": MARK}]}
    assert redacted(value, CANARY, attested=True) == {
        "qualification": {"output_attestation": kept, "note": MARK},
        "output_attestation": MARK,
    }
    gone = {"sig": [MARK, {f"Bearer {MARK}": MARK}]}
    assert redacted(value, CANARY) == {
        "qualification": {"output_attestation": gone, "note": MARK},
        "output_attestation": MARK,
    }
    assert redacted([value], CANARY, attested=True) == redacted([value], CANARY)


@given(st.text(string.ascii_letters + string.digits + "-_.", min_size=16, max_size=40))
def test_bearer_tokens(token: str) -> None:
    assume(not token.endswith("."))
    assert redacted(f"Authorization: Bearer {token}, x") == f"Authorization: Bearer {MARK}, x"
    assert redacted(f"Authorization: Bearer {token}", shapes=False).endswith(token)


@given(st.uuids(), st.binary(min_size=16, max_size=64))
def test_ordinary_identifiers_stay(identifier: Any, digest: bytes) -> None:
    for text in (f"task-{identifier}", str(identifier), digest.hex(), f"disk-sk-{digest.hex()}"):
        assert redacted(text) == text


def test_bounds_of_the_secrets() -> None:
    assert Redactor(b"%08d" % i for i in range(4096)).redact(b'"00004095"') == MARKED
    with pytest.raises(ValueError, match="too many"):
        Redactor(b"%08d" % i for i in range(4097))
    assert Redactor([b"x" * (1 << 20)]).redact(b'"%s"' % (b"x" * (1 << 20))) == MARKED
    with pytest.raises(ValueError, match="too long"):
        Redactor([b"x" * ((1 << 20) + 1)])


@pytest.mark.parametrize("secrets", [["text"], [1], b"bytes", "text", [None], 5, None])
def test_secrets_must_be_bytes(secrets: Any) -> None:
    with pytest.raises(TypeError):
        Redactor(secrets)


def test_errors_of_the_iterable_come_through() -> None:
    def broken() -> Any:
        yield b"12345678"
        raise LookupError

    with pytest.raises(LookupError):
        Redactor(broken())


@pytest.mark.parametrize(
    ("document", "code"),
    [(b"", "empty"), (b"{", "truncated"), (b'{"a":1,"a":2}', "duplicate_key"), (b"NaN", None)],
)
def test_only_strict_json(document: bytes, code: str | None) -> None:
    with pytest.raises(JSONError) as raised:
        Redactor([]).redact(document)
    assert code is None or raised.value.code == code


def test_arguments() -> None:
    redactor = Redactor([])
    for wrong in ("text", bytearray(b"1"), None):
        with pytest.raises(TypeError):
            redactor.redact(wrong)
    with pytest.raises(TypeError):
        redactor.redact(b"1", False)
    with pytest.raises(TypeError):
        Redactor(secrets=[])
    with pytest.raises(AttributeError):
        redactor.secret = 1  # type: ignore[attr-defined]
    with pytest.raises(TypeError):
        type("Sub", (Redactor,), {})


def test_threads_share_a_redactor() -> None:
    redactor = Redactor([CANARY.encode()])
    document = json.dumps([CANARY, "x" * 100_000]).encode()
    expected = redactor.redact(document)
    results: list[bytes] = []
    threads = [
        threading.Thread(target=lambda: results.extend(redactor.redact(document) for _ in range(5)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [expected] * 20
