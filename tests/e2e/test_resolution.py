"""Which server owns a name, which tools count, and who is contacted for it."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from servers.dcode import Dcode

from deepagents_ro.qualify.lab.raw_server import RawServer, Request, Wire, http, result_message

DEAD = "https://127.0.0.1:1/mcp"
Make = Callable[..., RawServer]
pytestmark = pytest.mark.inside


def tool(name: str, annotations: str = '{"readOnlyHint":true}', **more: str) -> str:
    """One `tools/list` entry as raw JSON text."""
    rest = "".join(f',"{key}":{value}' for key, value in more.items())
    return (
        f'{{"name":{json.dumps(name)},"inputSchema":{{"type":"object"}},'
        f'"annotations":{annotations}{rest}}}'
    )


def pages(*groups: list[str]) -> Callable[[Request, Wire], bytes]:
    """A `tools/list` handler with one page for each group."""

    def handler(request: Request, wire: Wire) -> bytes:
        cursor = (request.message.get("params") or {}).get("cursor")
        index = int(cursor) if cursor else 0
        more = f',"nextCursor":"{index + 1}"' if index + 1 < len(groups) else ""
        listed = ",".join(groups[index])
        return http(200, result_message(request, f'{{"tools":[{listed}]{more}}}'))

    return handler


@pytest.mark.parametrize(
    "name",
    ["ls", "read_file", "task", "execute", "fetch_url", "ask_user", "update_goal"],
)
def test_built_in_tools(dcode: Dcode, raw: Make, name: str) -> None:
    server = raw()
    dcode.serve(raw=server)
    dcode.run(name).expect("not_mcp_tool")
    assert not server.connections


@pytest.mark.thorough
def test_every_built_in_tool_that_dcode_lists(dcode: Dcode) -> None:
    listed = json.loads(dcode.run(argv=["tools", "list", "--json"]).stdout)["data"]["tools"]
    names = [item["name"] for item in listed if item["source"] == "built-in"]
    assert len(names) > 10
    for run in dcode.run_all([{"tool": name} for name in names]):
        run.expect("not_mcp_tool")


def test_a_server_may_offer_a_built_in_name(dcode: Dcode, raw: Make) -> None:
    server = raw(tools=[tool("file")])
    dcode.serve(read=server)
    dcode.run("read_file").expect_ok("read_file")
    assert server.count("tools/call") == 1


def test_a_built_in_name_whose_owner_is_down(dcode: Dcode) -> None:
    dcode.serve(read=DEAD)
    dcode.run("read_file").expect("not_mcp_tool")


def test_no_configuration_at_all(dcode: Dcode) -> None:
    dcode.run("raw_look").expect("tool_not_found")


@pytest.mark.parametrize("name", ["raw_loo", "raw_lookk", "raw_Look", "raw-look", "look", "raw"])
def test_only_the_exact_name(dcode: Dcode, raw: Make, name: str) -> None:
    server = raw()
    dcode.serve(raw=server)
    dcode.run(name).expect("tool_not_found")
    assert server.count("tools/call") == 0


def test_names_are_compared_after_unescaping(dcode: Dcode, raw: Make) -> None:
    server = raw(tools=[tool("look").replace("look", "l\\u006fok")])
    dcode.serve(raw=server)
    dcode.run("raw_look").expect_ok("raw_look")
    assert server.of("tools/call")[0].message["params"]["name"] == "look"


def test_servers_that_cannot_own_the_name_are_left_alone(dcode: Dcode, raw: Make) -> None:
    owner, other, near = raw(), raw(), raw()
    silent = raw()
    silent.on_accept = lambda index, wire: wire.stall()
    mark = dcode.project / "started"
    dcode.serve(
        raw=owner,
        other=other,
        raw_l=near.url,
        rawl=silent,
        child={"command": "/bin/sh", "args": ["-c", f"echo started > {mark}"]},
    )
    near.tools = []
    run = dcode.run("raw_look")
    run.expect_ok("raw_look")
    assert not other.connections
    assert not silent.connections
    assert not near.connections
    assert not mark.exists()


def test_many_silent_strangers_cost_nothing(dcode: Dcode, raw: Make) -> None:
    owner, silent = raw(), raw()
    silent.on_accept = lambda index, wire: wire.stall()
    dcode.serve(raw=owner, **{f"silent{index}": silent for index in range(49)})
    run = dcode.run("raw_look")
    run.expect_ok("raw_look")
    assert run.seconds < 3.5
    assert not silent.connections


def test_two_owners_of_one_name(dcode: Dcode, raw: Make) -> None:
    first, second = raw(tools=[tool("b_c")]), raw(tools=[tool("c")])
    dcode.serve(a=first, a_b=second)
    dcode.run("a_b_c").expect("ambiguous_tool")
    assert first.count("tools/call") + second.count("tools/call") == 0


def test_the_second_possible_owner_lacks_the_tool(dcode: Dcode, raw: Make) -> None:
    first, second = raw(tools=[tool("b_c")]), raw(tools=[tool("d")])
    dcode.serve(a=first, a_b=second)
    dcode.run("a_b_c").expect_ok("a_b_c")
    assert (first.count("tools/call"), second.count("tools/call")) == (1, 0)


@pytest.mark.parametrize("down", ["dead", "500", "list error", "malformed list", "no variable"])
def test_the_second_possible_owner_does_not_load(dcode: Dcode, raw: Make, down: str) -> None:
    first = raw(tools=[tool("b_c")])
    second = raw(tools=[tool("c")])
    other: object = second
    if down == "dead":
        other = DEAD
    elif down == "500":
        second.handlers["HEAD"] = http(500)
    elif down == "list error":
        second.handlers["tools/list"] = http(500)
    elif down == "malformed list":
        second.handlers["tools/list"] = lambda request, wire: http(
            200, result_message(request, '{"tools":5}')
        )
    else:
        other = {"url": second.url, "headers": {"x": "${RO_TEST_UNSET_VARIABLE}"}}
    dcode.serve(a=first, a_b=other)
    dcode.run("a_b_c").expect("ambiguous_tool")
    assert first.count("tools/call") + second.count("tools/call") == 0


def test_no_owner_loads(dcode: Dcode) -> None:
    dcode.serve(a=DEAD, a_b=DEAD)
    dcode.run("a_b_c").expect("tool_not_found")


def test_a_disabled_second_owner_does_not_count(dcode: Dcode, raw: Make) -> None:
    first, second = raw(tools=[tool("b_c")]), raw(tools=[tool("c")])
    dcode.serve(a=first, a_b=second).user_toml('[mcp]\ndisabled_servers = ["a_b"]\n')
    dcode.run("a_b_c").expect_ok("a_b_c")
    assert not second.connections


def test_an_untrusted_second_owner_does_not_count(dcode: Dcode, raw: Make) -> None:
    first, second = raw(tools=[tool("b_c")]), raw(tools=[tool("c")])
    dcode.serve(a=first).serve_project(a_b=second)
    dcode.run("a_b_c").expect_ok("a_b_c")
    assert not second.connections


def test_a_filtered_second_owner_does_not_count(dcode: Dcode, raw: Make) -> None:
    first, second = raw(tools=[tool("b_c")]), raw(tools=[tool("c"), tool("d")])
    dcode.serve(a=first, a_b={"url": second.url, "disabledTools": ["c"]})
    dcode.run("a_b_c").expect_ok("a_b_c")


@pytest.mark.parametrize(
    "groups",
    [
        [[tool("look"), tool("look")]],
        [[tool("look"), tool("look", '{"readOnlyHint":false}')]],
        [[tool("look", '{"readOnlyHint":false}'), tool("look")]],
        [[tool("look")], [tool("look")]],
        [[tool("look")], [tool("other")], [tool("look", '{"readOnlyHint":false}')]],
        [[tool("look"), tool("look").replace("look", "l\\u006fok")]],
    ],
    ids=["alike", "second writes", "first writes", "two pages", "three pages", "escaped"],
)
def test_one_server_lists_it_twice(dcode: Dcode, raw: Make, groups: list[list[str]]) -> None:
    server = raw(handlers={"tools/list": pages(*groups)})
    dcode.serve(raw=server)
    dcode.run("raw_look").expect("ambiguous_tool")
    assert server.count("tools/call") == 0
    assert server.count("tools/list") == len(groups)


def test_the_tool_is_on_the_last_page(dcode: Dcode, raw: Make) -> None:
    groups = [[tool(f"other{index}")] for index in range(4)] + [[], [tool("look")]]
    server = raw(handlers={"tools/list": pages(*groups)})
    dcode.serve(raw=server)
    dcode.run("raw_look").expect_ok("raw_look")
    assert server.count("tools/list") == 6


@pytest.mark.parametrize(
    "sibling",
    [
        '{"name":"bad","title":5,"inputSchema":{"type":"object"}}',
        '{"name":"bad"}',
        '{"name":5,"inputSchema":{}}',
        '{"inputSchema":{}}',
        '{"name":"bad","inputSchema":[],"annotations":{"readOnlyHint":"maybe"}}',
        '{"name":"raw_look","inputSchema":{"type":"object"}}',
        '{"name":"LOOK","inputSchema":{"type":"object"}}',
    ],
)
def test_a_poisoned_sibling_hides_nothing(dcode: Dcode, raw: Make, sibling: str) -> None:
    server = raw(tools=[sibling, tool("look"), sibling])
    dcode.serve(raw=server)
    dcode.run("raw_look").expect_ok("raw_look")


@pytest.mark.parametrize(
    "result",
    [
        '{"tools":{}}',
        '{"tools":null}',
        "{}",
        "[]",
        "null",
        '{"tools":[%s],"nextCursor":5}' % tool("look"),
        '{"tools":[%s' % tool("look"),
        '{"tools":[%s]} x' % tool("look"),
        '{"tools":[%s,NaN]}' % tool("look"),
        '{"tools":[%s,{"name":"\\ud800"}]}' % tool("look"),
    ],
)
def test_a_malformed_list_is_no_list(dcode: Dcode, raw: Make, result: str) -> None:
    server = raw(
        handlers={"tools/list": lambda request, wire: http(200, result_message(request, result))}
    )
    dcode.serve(raw=server)
    dcode.run("raw_look").expect("tool_not_found").before_the_deadline()
    assert server.count("tools/call") == 0


def test_a_disabled_server(dcode: Dcode, raw: Make) -> None:
    server = raw()
    dcode.serve(raw=server).user_toml('[mcp]\ndisabled_servers = ["raw"]\n')
    dcode.run("raw_look").expect("tool_not_found")
    assert not server.connections


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        ({"disabledTools": ["look"]}, "tool_not_found"),
        ({"disabledTools": ["raw_look"]}, "tool_not_found"),
        ({"disabledTools": ["lo*"]}, "tool_not_found"),
        ({"allowedTools": ["other"]}, "tool_not_found"),
        ({"allowedTools": ["look"]}, None),
        ({"allowedTools": ["raw_*"]}, None),
        ({"disabledTools": ["other"]}, None),
    ],
    ids=str,
)
def test_filters(dcode: Dcode, raw: Make, rule: dict[str, list[str]], code: str | None) -> None:
    server = raw(tools=[tool("other"), tool("look")])
    dcode.serve(raw={"url": server.url, **rule})
    run = dcode.run("raw_look")
    if code is None:
        run.expect_ok("raw_look")
    else:
        run.expect(code)
        assert server.count("tools/call") == 0


def test_the_higher_source_wins(dcode: Dcode, raw: Make) -> None:
    user, explicit = raw(), raw()
    dcode.serve(raw=user)
    path = dcode.explicit(raw=explicit)
    dcode.run("raw_look", options=["--mcp-config", path]).expect_ok("raw_look")
    assert not user.connections
    assert explicit.count("tools/call") == 1


def test_an_owner_in_another_source_is_not_shadowed(dcode: Dcode, raw: Make) -> None:
    user, stranger = raw(), raw()
    dcode.serve(raw=user)
    path = dcode.explicit(other=stranger)
    dcode.run("raw_look", options=["--mcp-config", path]).expect_ok("raw_look")
    assert user.count("tools/call") == 1
    assert not stranger.connections


@pytest.mark.parametrize(
    "answer",
    ["refused", "500", "503", "initialize 500", "initialize error", "initialize 404", "html"],
)
def test_a_server_that_does_not_load(dcode: Dcode, raw: Make, answer: str) -> None:
    server = raw()
    url = server.url
    if answer == "refused":
        url = DEAD
    elif answer in ("500", "503"):
        server.handlers["HEAD"] = http(int(answer), content_type=None)
    elif answer == "initialize error":
        server.handlers["initialize"] = lambda request, wire: http(
            200, b'{"jsonrpc":"2.0","id":%s,"error":{"code":-1,"message":"no"}}'
            % request.id_text.encode()
        )  # fmt: skip
    elif answer == "html":
        server.handlers["initialize"] = http(200, b"<html>", content_type="text/html")
    else:
        server.handlers["initialize"] = http(int(answer.split()[1]), b"{}")
    dcode.serve(raw=url)
    dcode.run("raw_look").expect("tool_not_found").before_the_deadline()
    assert server.count("tools/call") == 0
