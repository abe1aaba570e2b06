"""Why a server did not load: one member of `reasons.Reason`, found out without DCode's text.

DCode's own messages quote the configuration or name a class of exception; what is said here is a
member of the table and at most a subject that is no secret: the name of a variable, a file and the
position in it, an HTTP status.
"""

from __future__ import annotations

import errno
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deepagents_ro import _mcpro, host
from deepagents_ro.reasons import Reason, of_word

if TYPE_CHECKING:
    from deepagents_ro.exchange import Exchanges
    from deepagents_ro.reasons import ServerReason

# Seconds a phase, as DCode's own preflight has.
PROBE_SECONDS = 2.0
# DCode takes a server that answers HEAD with this or more for one that is down.
DOWN_STATUS = 500


@dataclass(frozen=True, slots=True)
class Cause:
    """A member of `Reason`, and what it is about, or ''."""

    reason: ServerReason
    subject: str = ""


async def of_skipped(name: str, entry: object) -> Cause:
    """Why DCode's preflight left a server out: its entry, its command, or what a HEAD meets."""
    unset = host.unset_variables(entry)
    if unset:
        return Cause(Reason.UNSET_VARIABLE, ", ".join(unset))
    resolved = host.resolved(name, entry)
    if resolved is None or not host.is_valid_entry(name, entry):
        return Cause(Reason.BAD_ENTRY)
    if "url" not in resolved:
        found = shutil.which(str(resolved["command"])) is not None
        return Cause(Reason.INTERNAL if found else Reason.COMMAND_NOT_FOUND)
    return await probe(str(resolved["url"]))


async def probe(url: str) -> Cause:
    """What the request meets that DCode's preflight sends: HEAD, without the configured headers."""
    import httpx

    from deepagents_ro.transport import CurlTransport

    try:
        async with httpx.AsyncClient(transport=CurlTransport(), timeout=PROBE_SECONDS) as client:
            response = await client.head(url)
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        return Cause(of_transport_error(error))
    if response.status_code >= DOWN_STATUS:
        return Cause(Reason.HEAD_5XX, f"HTTP {response.status_code}")
    return Cause(Reason.INTERNAL)


def of_transport_error(error: BaseException) -> ServerReason:
    """The reason that a failed transfer of `CurlTransport` stands for."""
    found: BaseException | None = error
    while found is not None and not isinstance(found, _mcpro.TransportError):
        found = found.__cause__ or found.__context__
    return Reason.BAD_URL if found is None else of_word(_mcpro.TRANSPORT_REASONS[found.code])


def of_asked(
    name: str,
    entry: object,
    worker: _mcpro.Worker,
    exchanges: Exchanges,
) -> Cause:
    """Why a server that was asked did not load; `Reason.NONE` when nothing is known."""
    noted = of_word(worker.noted(name))
    sent = credential_headers(entry)
    if noted is Reason.HTTP_401 and sent:
        return Cause(Reason.CREDENTIALS, ", ".join(sent))
    if name in exchanges.challenged:
        return Cause(noted if noted.state in ("needs_login", "denied") else Reason.LOGIN)
    if name in exchanges.off_origin:
        other = exchanges.off_origin[name]
        return Cause(Reason.REDIRECT_TO_OTHER_ORIGIN if other else Reason.REDIRECTED)
    if name in exchanges.unstarted:
        missing = exchanges.unstarted[name] == errno.ENOENT
        return Cause(Reason.COMMAND_NOT_FOUND if missing else Reason.COMMAND_NOT_STARTED)
    return Cause(noted)


def credential_headers(entry: object) -> list[str]:
    """The names of an entry's headers that carry a credential."""
    from deepagents_ro.secrets import is_secret_name

    headers = entry.get("headers") if isinstance(entry, dict) else None
    return [name for name in headers if is_secret_name(name)] if isinstance(headers, dict) else []


def of_refused(name: str, worker: _mcpro.Worker) -> Cause:
    """Why the SDK refused a server whose answers were all well-formed."""
    version = worker.version(name)
    if version is not None and not host.speaks(version):
        return Cause(Reason.PROTOCOL_VERSION)
    return Cause(Reason.BAD_HANDSHAKE)
