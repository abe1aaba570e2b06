"""Read-only as the wire says it: what C refuses is never called."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from servers.dcode import Dcode

from deepagents_ro.qualify.lab.raw_server import RawServer

Make = Callable[..., RawServer]
pytestmark = pytest.mark.inside
REFUSED = "tool_not_read_only"
ABSENT = "tool_not_found"


def _entry(annotations: str | None, extra: str = "") -> str:
    hints = "" if annotations is None else f',"annotations":{annotations}'
    return f'{{"name":"look","inputSchema":{{"type":"object"}}{hints}{extra}}}'


ALLOWED_ROWS = [
    '{"readOnlyHint":true}',
    '{"readOnlyHint":true,"destructiveHint":false}',
    '{"idempotentHint":false,"openWorldHint":true,"destructiveHint":false,"readOnlyHint":true}',
    '{"title":"T","readOnlyHint":true}',
    '{"title":null,"readOnlyHint":true}',
    '{"x-other":[1,{"readOnlyHint":false}],"readOnlyHint":true,"\\u0000":null}',
    '{"read\\u004fnlyHint":true}',
    '{ "readOnlyHint" : true }',
]

REFUSED_ROWS = [
    (None, REFUSED),
    ("null", REFUSED),
    ("{}", REFUSED),
    ('{"readOnlyHint":false}', REFUSED),
    ('{"readOnlyHint":null}', REFUSED),
    ('{"destructiveHint":false}', REFUSED),
    ('{"readOnlyHint":true,"destructiveHint":true}', REFUSED),
    ('{"readOnlyHint":"yes"}', REFUSED),
    ('{"readOnlyHint":"true"}', REFUSED),
    ('{"readOnlyHint":"on"}', REFUSED),
    ('{"readOnlyHint":"false"}', REFUSED),
    ('{"readOnlyHint":1}', REFUSED),
    ('{"readOnlyHint":1.0}', REFUSED),
    ('{"readOnlyHint":0}', REFUSED),
    ('{"readOnlyHint":true,"destructiveHint":null}', REFUSED),
    ('{"readOnlyHint":true,"destructiveHint":0}', REFUSED),
    ('{"readOnlyHint":true,"destructiveHint":"no"}', REFUSED),
    ('{"readOnlyHint":true,"openWorldHint":1}', REFUSED),
    ('{"readOnlyHint":true,"openWorldHint":null}', REFUSED),
    ('{"readOnlyHint":true,"idempotentHint":"no"}', REFUSED),
    ('{"readOnlyHint":true,"idempotentHint":null}', REFUSED),
    ('{"readOnlyHint":false,"readOnlyHint":true}', REFUSED),
    ('{"readOnlyHint":true,"readOnlyHint":true}', REFUSED),
    ('{"readOnlyHint":false,"read\\u004fnlyHint":true}', REFUSED),
    ('{"readOnlyHint":true,"destructiveHint":true,"destructiveHint":false}', REFUSED),
    ('{"readOnlyHint":true,"title":"a","title":"b"}', REFUSED),
    ('{"readOnlyHint":true,"x":1,"\\u0078":1}', REFUSED),
    ('{"ReadOnlyHint":true}', REFUSED),
    ('{"readOnlyHint\\u0000x":true}', REFUSED),
    ('{"readOnlyHint ":true}', REFUSED),
    ('{"readOnlyHint":"maybe"}', ABSENT),
    ('{"readOnlyHint":2}', ABSENT),
    ('{"readOnlyHint":[]}', ABSENT),
    ('{"readOnlyHint":{}}', ABSENT),
    ('{"readOnlyHint":true,"openWorldHint":"maybe"}', ABSENT),
    ('{"readOnlyHint":true,"title":5}', ABSENT),
    ("[]", ABSENT),
    ('"x"', ABSENT),
    ("true", ABSENT),
]

ENTRY_ROWS = [
    _entry('{"readOnlyHint":false}', ',"annotations":{"readOnlyHint":true}'),
    _entry('{"readOnlyHint":true}', ',"annotations":{"readOnlyHint":true}'),
    _entry('{"readOnlyHint":false}', ',"annot\\u0061tions":{"readOnlyHint":true}'),
    _entry('{"readOnlyHint":true}', ',"name":"look"'),
    _entry('{"readOnlyHint":true}', ',"description":"a","description":"a"'),
    _entry('{"readOnlyHint":true}', ',"x":1,"x":2'),
    _entry(None, ',"Annotations":{"readOnlyHint":true}'),
    _entry(None, ',"_meta":{"annotations":{"readOnlyHint":true}}'),
]


@pytest.mark.parametrize("annotations", ALLOWED_ROWS)
def test_allowed(dcode: Dcode, raw: Make, annotations: str) -> None:
    server = raw(tools=[_entry(annotations)])
    dcode.serve(raw=server)
    dcode.run("raw_look").expect_ok("raw_look")
    assert server.count("tools/call") == 1


@pytest.mark.parametrize(("annotations", "code"), REFUSED_ROWS)
def test_refused(dcode: Dcode, raw: Make, annotations: str | None, code: str) -> None:
    server = raw(tools=[_entry(annotations)])
    dcode.serve(raw=server)
    dcode.run("raw_look").expect(code)
    assert server.count("tools/call") == 0


@pytest.mark.parametrize("listed", ENTRY_ROWS)
def test_refused_entries(dcode: Dcode, raw: Make, listed: str) -> None:
    server = raw(tools=[listed])
    dcode.serve(raw=server)
    dcode.run("raw_look").expect(REFUSED)
    assert server.count("tools/call") == 0


def test_a_list_that_changes_opens_nothing_else(dcode: Dcode, raw: Make) -> None:
    """Hints that turn good only after discovery are too late."""
    server = raw(tools=[_entry('{"readOnlyHint":false}')], sessions=True)

    def relist(request: object, wire: object) -> bytes:
        reply = server.default(request, wire)  # type: ignore[arg-type]
        server.tools = [_entry('{"readOnlyHint":true}')]
        return reply

    server.handlers["tools/list"] = relist
    dcode.serve(raw=server)
    dcode.run("raw_look").expect(REFUSED)
    assert server.count("tools/call") == 0
