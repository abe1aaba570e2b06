"""A certificate authority made on the spot, and what servers and clients need of it."""

from __future__ import annotations

import ssl
import warnings
from pathlib import Path

import trustme

NAMES = ("127.0.0.1", "localhost")


class Authority:
    """One private CA whose files live in `directory`.

    `ca_file` is what a client trusts (`SSL_CERT_FILE`); `cert_file` and
    `key_file` are a server certificate for the loopback names.
    """

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._ca = trustme.CA()
        self.ca_file = directory / "ca.pem"
        self.cert_file = directory / "server.pem"
        self.key_file = directory / "server.key"
        self._ca.cert_pem.write_to_path(str(self.ca_file))
        leaf = self._ca.issue_cert(*NAMES)
        for index, blob in enumerate(leaf.cert_chain_pems):
            blob.write_to_path(str(self.cert_file), append=index > 0)
        self.key_file.touch(mode=0o600)
        leaf.private_key_pem.write_to_path(str(self.key_file))
        self._leaf = leaf

    def server_context(
        self,
        *,
        minimum: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2,
        maximum: ssl.TLSVersion = ssl.TLSVersion.MAXIMUM_SUPPORTED,
    ) -> ssl.SSLContext:
        """A server's context with the loopback certificate, HTTP/1.1 only."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # old versions, on purpose
            context.minimum_version = minimum
            context.maximum_version = maximum
        if maximum < ssl.TLSVersion.TLSv1_2:
            context.set_ciphers("ALL:@SECLEVEL=0")
        context.set_alpn_protocols(["http/1.1"])
        self._leaf.configure_cert(context)
        return context

    def other_name_context(self, name: str) -> ssl.SSLContext:
        """A server's context whose certificate is for `name` only."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._ca.issue_cert(name).configure_cert(context)
        return context

    def client_context(self) -> ssl.SSLContext:
        """A client's context that trusts this CA alone."""
        return ssl.create_default_context(cafile=str(self.ca_file))
