"""What is promised, state by state, as data; and how one promise is put to the proof."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .lab.oracle import MAX_INPUT_BYTES
from .lab.runs import INPUT, Broken, Run
from .lab.sdk_server import FAMILY_FILE, REFLECTED_KEY, task_context
from .runner import Runner, Task
from .scripted import LOSSLESS, PLACEHOLDER, REAL_TOKEN
from .servers import Lab

MODES = ("progressive", "direct")
# The answer comes 15 s after the process's start and never before, whatever the kernel's tick is,
# and by 15.5 s; the process has ended by 18 s, within 0.5 s.
DEADLINE = (15.0, 18.5)
ANSWER = (15.0, 15.5)
# Anything that needs no waiting; generous, since two runs share a machine that may be small.
PROMPT = (0.0, 14.0)
# How long a DELETE may be on its way to the journal; the client does not wait for every answer.
JOURNAL_SECONDS = 2.0
SECRET = "Bearer qualification-configured-secret"
REDACTED = b"<redacted-secret>"
NO_KEY = "no-key"  # too short to be a credential, which a managed runtime refuses to start with
ARGUMENTS = b'{"n":[1.10,1E400,12345678901234567890123],"":null,"self":"\\u00e9","config":{}}'
Servers = Mapping[str, Any]


@dataclass(frozen=True)
class Case:
    """One promise: a run, the outcome that is due, and what the servers must have seen."""

    name: str
    claim: str
    servers: Callable[[Lab], Servers]
    tool: str
    expect: str
    """The envelope's code, or `ok`."""
    calls: int = 0
    """`tools/call` requests that reach a server."""
    stdin: bytes = b"{}"
    words: tuple[str, ...] | None = None
    """Arguments behind `dcode` in place of the usual ones."""
    env: Callable[[Lab], Mapping[str, str]] = lambda _lab: {}
    seconds: tuple[float, float] = PROMPT
    interrupt: int | None = None
    also: tuple[Callable[[Lab, Run], None], ...] = ()
    managed: bool = True
    """Whether a managed runtime allows the servers that it needs."""

    @property
    def waits(self) -> bool:
        """Whether its run spends its time waiting."""
        return self.seconds == DEADLINE

    def task(self, lab: Lab) -> Task:
        usual = ("tools", "call-read-only", self.tool, "--json")
        return Task(
            self.servers(lab), self.words or usual, self.stdin, self.env(lab), self.interrupt
        )

    def prove(self, runner: Runner, mode: str) -> Run:
        """Run it; raises `Broken`."""
        lab = runner.lab
        outcome = runner.run(self.task(lab), mode)
        if self.expect == "ok":
            outcome.expect_ok(self.tool)
        else:
            outcome.expect(self.expect)
        called = [seen.tool for seen in lab.journal.calls(outcome.name)]
        name = self.tool.partition("_")[2]
        if called != [name] * self.calls:
            raise Broken(f"the servers got the calls {called}, not {[name] * self.calls}")
        earliest, latest = self.seconds
        if not earliest <= outcome.seconds <= latest:
            raise Broken(f"took {outcome.seconds:.4f} s, not {earliest:g} to {latest:g} s")
        if self.waits:
            answered = outcome.answered_at - outcome.started_at
            if not ANSWER[0] <= answered <= ANSWER[1]:
                raise Broken(f"the answer came after {answered:.4f} s, not 15.000 to 15.5 s")
        for check in self.also:
            check(lab, outcome)
        return outcome


def http(url: str, **headers: str) -> dict[str, Any]:
    """A configuration entry."""
    return {"type": "http", "url": url, "headers": headers}


def broker(lab: Lab) -> Servers:
    return {"worker-broker": http(lab.sdk.url("json"), Authorization=SECRET)}


def streaming_broker(lab: Lab) -> Servers:
    return {"worker-broker": http(lab.sdk.url("sse"), Authorization=SECRET)}


def stateless_broker(lab: Lab) -> Servers:
    return {"worker-broker": http(lab.sdk.url("stateless-json"), Authorization=SECRET)}


def by_itself(lab: Lab) -> Servers:
    return {"raw": http(lab.by_itself.url)}


def trust_the_leaf(lab: Lab) -> Mapping[str, str]:
    return {"SSL_CERT_FILE": str(lab.leaf.ca_file)}


def scripted(lab: Lab) -> Servers:
    return {"raw": http(lab.raw.url)}


def refused(lab: Lab) -> Servers:
    return {"raw": http(lab.raw.refused_url)}


def behind_proxy(lab: Lab) -> Servers:
    return {"raw": http(lab.proxied_url, Authorization=PLACEHOLDER)}


def colliding(lab: Lab) -> Servers:
    return {"a": http(lab.sdk.url("json")), "a_b": http(lab.sdk.url("json"))}


def child(lab: Lab) -> Servers:
    module = ["-I", "-m", "deepagents_ro.qualify.lab.sdk_server"]
    return {"child": {"command": sys.executable, "args": module}}


def use_proxy(lab: Lab) -> Mapping[str, str]:
    return {"HTTPS_PROXY": lab.proxy.url, "HTTP_PROXY": lab.proxy.url, "NO_PROXY": ""}


def trust_a_stranger(lab: Lab) -> Mapping[str, str]:
    return {"SSL_CERT_FILE": str(lab.stranger.ca_file)}


def model_settings(lab: Lab) -> Mapping[str, str]:
    """Keys and addresses of model providers, all of them at the tripwire."""
    names = ("OPENAI", "ANTHROPIC", "NVIDIA", "OPENROUTER")
    keys = {f"{name}_API_KEY": NO_KEY for name in names}
    hosts = {f"{name}_BASE_URL": lab.tripwire.url for name in names}
    tracing = {"LANGSMITH_TRACING": "true", "LANGSMITH_API_KEY": NO_KEY}
    if not lab.managed:  # the managed runtime refuses to start with an address of a collector
        tracing["LANGSMITH_ENDPOINT"] = lab.tripwire.url
    return {**keys, **hosts, **tracing}


def attested(lab: Lab, outcome: Run) -> None:
    data = outcome.expect_ok()
    wanted = task_context("worker.1")
    if data["structured_content"] != wanted:
        raise Broken(f"structured_content is {json.dumps(data['structured_content'])}")
    blocks = [{**block, "text": json.loads(block["text"])} for block in data["content"]]
    if blocks != [{"type": "text", "text": wanted}]:
        raise Broken(f"content is {json.dumps(data['content'])}")


def sessions_deleted(lab: Lab, outcome: Run) -> None:
    issued = lab.journal.sessions(outcome.name)
    until = time.monotonic() + JOURNAL_SECONDS
    while True:
        seen = lab.journal.of(outcome.name)
        deleted = [request.session for request in seen if request.method == "DELETE"]
        if issued and sorted(issued) == sorted(deleted):
            return
        if time.monotonic() > until:
            raise Broken(f"{len(issued)} sessions were opened, {len(deleted)} deleted")
        time.sleep(0.05)


def family_gone(lab: Lab, outcome: Run) -> None:
    """That none is left has been seen already; here, that there were some."""
    started = lab.root / outcome.name / "home" / FAMILY_FILE
    pids = started.read_text().split() if started.is_file() else []
    if len(pids) != 2:
        raise Broken("the server did not start its grandchild")
    for pid in pids:
        if str(lab.root / outcome.name) in environment_of(pid):
            raise Broken(f"process {pid} is alive")


def environment_of(pid: str) -> str:
    try:
        return Path("/proc", pid, "environ").read_bytes().decode(errors="replace")
    except OSError:
        return ""  # it has ended, or it is another user's


def lossless(lab: Lab, outcome: Run) -> None:
    if outcome.structured() != LOSSLESS.encode():
        raise Broken(f"structured_content is not what was sent: {outcome.structured()!r}")


def exact_arguments(lab: Lab, outcome: Run) -> None:
    (call,) = lab.journal.calls(outcome.name)
    if b'"arguments":' + ARGUMENTS not in call.body:
        raise Broken(f"the arguments are not what was given: {call.body[:300]!r}")


def no_credential(lab: Lab, outcome: Run) -> None:
    for secret in (SECRET, PLACEHOLDER, f"Bearer {REFLECTED_KEY}"):
        if secret.removeprefix("Bearer ").encode() in outcome.stdout:
            raise Broken("the envelope holds a credential")


def no_sessions(lab: Lab, outcome: Run) -> None:
    if lab.journal.sessions(outcome.name):
        raise Broken("the server was meant to have no sessions")


def nothing_secret(lab: Lab, outcome: Run) -> None:
    no_credential(lab, outcome)
    structured = outcome.structured().count(REDACTED)
    content = outcome.stdout.count(REDACTED) - structured
    if (content, structured) != (2, 2):  # the SDK sends both as text, too
        raise Broken(f"not redacted in every place: {outcome.stdout!r}")


def not_contacted(lab: Lab, outcome: Run) -> None:
    if lab.journal.of(outcome.name):
        raise Broken("a server was contacted")


def token_replaced(lab: Lab, outcome: Run) -> None:
    # DCode's own preflight is a HEAD without any of the entry's headers.
    seen = [request for request in lab.journal.of(outcome.name) if request.method != "HEAD"]
    if any(request.authorization != REAL_TOKEN for request in seen):
        raise Broken("a request reached the server without the real token")
    if not lab.proxy.tunnels or lab.replaced < len(seen):
        raise Broken("the requests did not pass through the proxy")


def denied(name: str, claim: str, tool: str, servers: Callable[[Lab], Servers]) -> Case:
    return Case(name, claim, servers, tool, "tool_not_read_only")


def hints() -> Iterator[Case]:
    """Hints that a typed model would make coherent, and the server did not send so."""
    claims = {
        "hint_text": '"readOnlyHint":"yes" is not a Boolean',
        "hint_number": '"readOnlyHint":1 is not a Boolean',
        "hint_null": '"destructiveHint":null is not a Boolean',
        "hint_twice": "a hint stands twice",
        "hint_escaped": "a hint stands twice, once with an escape in its name",
        "annotations_twice": "annotations stand twice",
    }
    for tool, claim in claims.items():
        yield denied(
            tool.replace("_", " "), f"{claim}: denied, not called", f"raw_{tool}", scripted
        )
    claim = '"readOnlyHint":"maybe" is refused by DCode\'s model: no such tool, not called'
    yield Case("hint refused", claim, refused, "raw_hint_refused", "tool_not_found")


def results() -> Iterator[Case]:
    claims = {
        "duplicate_key": "a duplicate key",
        "not_a_number": "NaN",
        "wrong_type": "a content that is no list",
    }
    for tool, what in claims.items():
        claim = f"a result with {what} is malformed_result"
        name = tool.replace("_", " ")
        yield Case(name, claim, scripted, f"raw_{tool}", "malformed_result", 1)


def inputs() -> Iterator[Case]:
    """Standard input is judged before any server is contacted."""
    texts = {
        "input_required": ("no input", b""),
        "invalid_input": ("input with a duplicate key", b'{"nonce":"one","nonce":"two"}'),
        "input_too_large": ("oversized input", b"x" * (MAX_INPUT_BYTES + 1)),
    }
    for code, (name, text) in texts.items():
        yield Case(
            name,
            f"{name} is {code}, and no server is contacted",
            broker,
            TASK,
            code,
            stdin=text,
            also=(not_contacted,),
        )


TASK = "worker-broker_worker_task_context"


def cases(*, managed: bool = False) -> list[Case]:
    """Every promise; with `managed` those whose servers a managed runtime allows."""
    return [case for case in _all() if case.managed or not managed]


def _all() -> list[Case]:
    return [
        Case(
            "hanging",
            "a tool that never answers is timeout, 15.000 to 15.5 s after the start; one call",
            broker,
            "worker-broker_hanging",
            "timeout",
            1,
            seconds=DEADLINE,
            also=(sessions_deleted,),
        ),
        Case(
            "command",
            "a wrong command line is invalid_command, exit 2",
            broker,
            TASK,
            "invalid_command",
            words=("tools", "call-read-only", TASK),
            also=(not_contacted,),
        ),
        Case(
            "tool name",
            "a wrong tool name is invalid_tool_name, exit 2",
            broker,
            "worker-broker_worker task",
            "invalid_tool_name",
            also=(not_contacted,),
        ),
        Case(
            "allowed",
            "one call, its qualification.output_attestation intact; every session deleted",
            broker,
            TASK,
            "ok",
            1,
            INPUT,
            also=(attested, sessions_deleted),
        ),
        Case(
            "allowed, event stream",
            "the same over event streams",
            streaming_broker,
            TASK,
            "ok",
            1,
            INPUT,
            also=(attested, sessions_deleted),
        ),
        Case(
            "allowed, no sessions",
            "the same from a server without sessions",
            stateless_broker,
            TASK,
            "ok",
            1,
            INPUT,
            also=(attested, no_sessions),
        ),
        Case(
            "self-signed",
            "a server whose own certificate is the trusted root",
            by_itself,
            "raw_lossless",
            "ok",
            1,
            env=trust_the_leaf,
            also=(lossless,),
        ),
        Case(
            "lossless",
            "structured_content is the server's, token for token",
            scripted,
            "raw_lossless",
            "ok",
            1,
            also=(lossless,),
        ),
        Case(
            "arguments",
            "the server gets standard input's object, token for token",
            scripted,
            "raw_echo",
            "ok",
            1,
            ARGUMENTS,
            also=(exact_arguments,),
        ),
        Case(
            "absent", "a name that nobody offers", broker, "worker-broker_absent", "tool_not_found"
        ),
        Case("built in", "a tool of DCode's own", broker, "read_file", "not_mcp_tool"),
        Case("ambiguous", "two servers' tools of one name", colliding, "a_b_c", "ambiguous_tool"),
        denied("unannotated", "no hints: not called", "worker-broker_unannotated", broker),
        denied("mutating", "it says that it writes: not called", "worker-broker_mutating", broker),
        denied("contradictory", "both hints: not called", "worker-broker_contradictory", broker),
        *hints(),
        Case(
            "failing",
            "a tool's own failure is tool_failed, without its words",
            broker,
            "worker-broker_failing",
            "tool_failed",
            1,
        ),
        Case(
            "audio",
            "a valid result that DCode cannot convert is runtime_failure",
            broker,
            "worker-broker_audio",
            "runtime_failure",
            1,
        ),
        *results(),
        *inputs(),
        Case(
            "oversized output",
            "a result of 1 MB is result_too_large, without waiting",
            broker,
            "worker-broker_oversized",
            "result_too_large",
            1,
        ),
        Case(
            "oversized credential",
            "a result over its bound that begins with a credential: nothing of it is shown",
            broker,
            "worker-broker_oversized_secret",
            "result_too_large",
            1,
            also=(no_credential,),
        ),
        Case(
            "credential reflection",
            "the configured credential, and one of a known shape, are redacted",
            broker,
            "worker-broker_reflecting",
            "ok",
            1,
            also=(nothing_secret,),
        ),
        Case(
            "interrupted",
            "SIGTERM during the call is interrupted, exit 130; sessions deleted",
            broker,
            "worker-broker_hanging",
            "interrupted",
            1,
            interrupt=signal.SIGTERM,
            also=(sessions_deleted,),
        ),
        Case(
            "cleanup",
            "a server's process and its runaway grandchild are gone",
            child,
            "child_worker_task_context",
            "ok",
            0,
            INPUT,
            also=(attested, family_gone),
            managed=False,
        ),
        Case(
            "untrusted",
            "a server whose certificate is not trusted is never called",
            broker,
            TASK,
            "tool_not_found",
            env=trust_a_stranger,
            also=(not_contacted,),
        ),
        Case(
            "placeholder",
            "through a TLS-terminating proxy that puts the token in a placeholder's place",
            behind_proxy,
            "raw_echo",
            "ok",
            1,
            env=use_proxy,
            also=(token_replaced,),
        ),
        Case(
            "no model",
            "with model keys and tracing set: the same, and nobody else is contacted",
            broker,
            TASK,
            "ok",
            1,
            INPUT,
            env=model_settings,
            also=(attested,),
        ),
    ]


def same_bytes(outcomes: Mapping[tuple[str, str], bytes], names: list[str]) -> None:
    """Raises `Broken` unless both modes gave the same bytes, and so did `allowed` and `no model`.

    `outcomes` maps (case, mode) to standard output.
    """
    for name in names:
        first, second = (outcomes[name, mode] for mode in MODES)
        if first != second:
            raise Broken(f"{name}: the two modes differ")
    for mode in MODES:
        if outcomes["allowed", mode] != outcomes["no model", mode]:
            raise Broken(f"{mode}: the outcome depends on model settings")


def tripwire_untouched(lab: Lab) -> None:
    """Raises `Broken` if any run contacted anybody but its own servers."""
    if lab.tripwire.targets:
        raise Broken(f"others were contacted: {', '.join(sorted(set(lab.tripwire.targets)))}")
