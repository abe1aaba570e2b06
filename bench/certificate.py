"""A certificate authority for one run, and a server certificate for the loopback."""

from __future__ import annotations

from pathlib import Path

import trustme


def make(directory: Path) -> tuple[Path, Path]:
    """Write `ca.pem` and `server.pem` (key and chain) into `directory`; returns both paths."""
    authority = trustme.CA()
    server = authority.issue_cert("localhost", "127.0.0.1")
    ca_path, server_path = directory / "ca.pem", directory / "server.pem"
    authority.cert_pem.write_to_path(ca_path)
    server.private_key_and_cert_chain_pem.write_to_path(server_path)
    server_path.chmod(0o600)
    return ca_path, server_path


if __name__ == "__main__":
    import sys

    make(Path(sys.argv[1]))
