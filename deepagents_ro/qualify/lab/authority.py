"""A certificate authority that is made on the spot, and what servers and clients need of it.

    python -m deepagents_ro.qualify.lab.authority DIRECTORY

writes `ca.pem` and `server.pem` there, for programs that are not to load a cryptography library.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import ssl
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

LIFETIME = dt.timedelta(hours=6)
SKEW = dt.timedelta(minutes=5)
LOOPBACK = ("127.0.0.1", "localhost")


class Authority:
    """One private CA below `directory`, and a server certificate of it for `names`.

    `ca_file` is what a client trusts (`SSL_CERT_FILE`). `cert_file` holds a server's certificate
    and its key: one path is enough for a server.
    """

    def __init__(self, directory: Path, names: Sequence[str] = LOOPBACK) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.ca_file = directory / "ca.pem"
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _common_name("laboratory authority")
        self._identifier = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        ca = (
            _builder(self._name, self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(signs_certificates=True), critical=True)
            .add_extension(self._identifier, critical=False)
            .sign(self._key, hashes.SHA256())
        )
        self.ca_file.write_bytes(ca.public_bytes(serialization.Encoding.PEM))
        self.cert_file = self._issue("server", names)

    @classmethod
    def self_signed(cls, directory: Path, address: str) -> Authority:
        """A certificate for `address` that nobody else vouches for; clients trust itself."""
        directory.mkdir(parents=True, exist_ok=True)
        made = cls.__new__(cls)
        made.directory = directory
        made._key = ec.generate_private_key(ec.SECP256R1())
        made._name = _common_name(address)
        leaf = (
            _builder(made._name, made._name, made._key.public_key())
            .add_extension(_alternatives([address]), critical=False)
            .sign(made._key, hashes.SHA256())
        )
        made.ca_file = directory / "leaf.pem"
        made.ca_file.write_bytes(leaf.public_bytes(serialization.Encoding.PEM))
        made.cert_file = _write(directory / "leaf-and-key.pem", leaf, made._key)
        return made

    def server_context(
        self,
        *,
        minimum: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2,
        maximum: ssl.TLSVersion = ssl.TLSVersion.MAXIMUM_SUPPORTED,
    ) -> ssl.SSLContext:
        """A server's context with the certificate for `names`, HTTP/1.1 only."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # old versions, on purpose
            context.minimum_version = minimum
            context.maximum_version = maximum
        if maximum < ssl.TLSVersion.TLSv1_2:
            context.set_ciphers("ALL:@SECLEVEL=0")
        context.set_alpn_protocols(["http/1.1"])
        context.load_cert_chain(self.cert_file)
        return context

    def other_name_context(self, name: str) -> ssl.SSLContext:
        """A server's context whose certificate is for `name` only."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._issue(name, [name]))
        return context

    def client_context(self) -> ssl.SSLContext:
        """A client's context that trusts this authority alone."""
        return ssl.create_default_context(cafile=str(self.ca_file))

    def _issue(self, stem: str, names: Sequence[str]) -> Path:
        key = ec.generate_private_key(ec.SECP256R1())
        signer = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(self._identifier)
        certificate = (
            _builder(_common_name("laboratory server"), self._name, key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            .add_extension(_alternatives(names), critical=False)
            .add_extension(signer, critical=False)
            .sign(self._key, hashes.SHA256())
        )
        return _write(self.directory / f"{stem}.pem", certificate, key)


def _write(path: Path, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Path:
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    path.touch(mode=0o600)
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM) + secret)
    return path


def _common_name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(now + LIFETIME)
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _alternatives(names: Sequence[str]) -> x509.SubjectAlternativeName:
    return x509.SubjectAlternativeName([_general_name(name) for name in names])


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


if __name__ == "__main__":
    Authority(Path(sys.argv[1]))
