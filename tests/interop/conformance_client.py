"""The client under test of the MCP conformance suite: the `mcp` SDK over one of two transports.

    conformance_client.py stock|curl URL

The suite names the scenario in the environment. Everything is the SDK's own; only the transport
below httpx differs.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
from mcp import ClientSession, types
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

CALLBACK = "http://localhost:3030/callback"
DOCUMENT = "https://conformance-test.local/client-metadata.json"
TIMEOUT = httpx.Timeout(10.0, read=20.0)
STREAM_SECONDS = 5.0


def transport(kind: str) -> httpx.AsyncBaseTransport:
    """What the requests go through."""
    if kind == "stock":
        return httpx.AsyncHTTPTransport()
    from deepagents_ro import CurlTransport

    return CurlTransport()


class Storage:
    """Tokens of one run, in memory."""

    def __init__(self, client: OAuthClientInformationFull | None = None) -> None:
        self._tokens: OAuthToken | None = None
        self._client = client

    async def get_tokens(self) -> OAuthToken | None:
        return self._tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self._tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self._client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._client = client_info


class Login:
    """A browser without a user: follows the authorization URL to its redirect."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._answer: tuple[str, str | None] = ("", None)

    async def redirect(self, url: str) -> None:
        async with httpx.AsyncClient(transport=transport(self._kind)) as client:
            response = await client.get(url)
        query = parse_qs(urlsplit(response.headers["location"]).query)
        self._answer = (query["code"][0], query.get("state", [None])[0])

    async def callback(self) -> tuple[str, str | None]:
        return self._answer


def auth_for(kind: str, scenario: str, url: str, context: dict[str, Any]) -> httpx.Auth | None:
    """The SDK's provider that the scenario is about."""
    if not scenario.startswith("auth/"):
        return None
    if scenario == "auth/client-credentials-basic":
        return ClientCredentialsOAuthProvider(
            url, Storage(), context["client_id"], context["client_secret"]
        )
    if scenario == "auth/client-credentials-jwt":
        signed = SignedJWTParameters(
            issuer=context["client_id"],
            subject=context["client_id"],
            signing_key=context["private_key_pem"],
            signing_algorithm=context["signing_algorithm"],
        )
        return PrivateKeyJWTOAuthProvider(
            url, Storage(), context["client_id"], signed.create_assertion_provider()
        )
    known = None
    if "client_secret" in context:
        known = OAuthClientInformationFull(
            client_id=context["client_id"],
            client_secret=context["client_secret"],
            token_endpoint_auth_method="client_secret_basic",
            redirect_uris=[AnyUrl(CALLBACK)],
        )
    login = Login(kind)
    metadata = OAuthClientMetadata(
        client_name="conformance client",
        redirect_uris=[AnyUrl(CALLBACK)],
        grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
    )
    return OAuthClientProvider(
        url, metadata, Storage(known), login.redirect, login.callback, client_metadata_url=DOCUMENT
    )


async def fill_in(_context: Any, params: Any) -> types.ElicitResult:
    """Accept with the defaults of the schema."""
    properties = params.requestedSchema.get("properties", {})
    content = {name: field["default"] for name, field in properties.items() if "default" in field}
    return types.ElicitResult(action="accept", content=content)


def arguments_for(tool: types.Tool) -> dict[str, Any]:
    """Some arguments that fit the tool's schema."""
    samples = {"number": 5, "integer": 5, "string": "text", "boolean": True}
    properties = tool.inputSchema.get("properties", {})
    return {name: samples.get(field.get("type"), 1) for name, field in properties.items()}


async def answered(stream: asyncio.Event) -> None:
    """Wait until the server has answered the GET for its stream.

    A server of the suite sends its own requests on that stream alone and loses them while nobody
    has it. Node may take up a request on a new connection after two later ones on a kept one.
    """
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(stream.wait(), STREAM_SECONDS)


async def main(kind: str, url: str) -> None:
    """Initialize, list, call each tool, leave."""
    stream = asyncio.Event()

    async def note(response: httpx.Response) -> None:
        if response.request.method == "GET":
            stream.set()

    scenario = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    async with (
        httpx.AsyncClient(
            transport=transport(kind),
            auth=auth_for(kind, scenario, url, context),
            timeout=TIMEOUT,
            event_hooks={"response": [note]},
        ) as client,
        streamable_http_client(url, http_client=client) as (read, write, _),
        ClientSession(read, write, elicitation_callback=fill_in) as session,
    ):
        await session.initialize()
        if scenario == "initialize":
            return
        await answered(stream)
        for tool in (await session.list_tools()).tools:
            with contextlib.suppress(httpx.HTTPStatusError):
                await session.call_tool(tool.name, arguments_for(tool))


if __name__ == "__main__":
    asyncio.run(asyncio.wait_for(main(sys.argv[1], sys.argv[2]), 25))
