"""Which layers a variable counts from that steers where or how bytes travel."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from deepagents_ro.steering import STEERING_VARIABLES, is_steering

# Every name of the table; `*` gets a text in its place.
NAMES = [name.replace("*", "X") for name in STEERING_VARIABLES]
PROXIES = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "FTP_PROXY"]
SPELLINGS = [*PROXIES, *(name.lower() for name in PROXIES), "Https_Proxy", "hTTP_pROXY"]


@pytest.mark.parametrize("name", [*NAMES, *SPELLINGS, "OPENSSL_MODULES", "OPENSSL_CONF_INCLUDE",
                                  "DEEPAGENTS_RO_DEADLINE_MS", "RESOLV_HOST_CONF"])  # fmt: skip
def test_steers(name: str) -> None:
    assert is_steering(name)


@pytest.mark.parametrize(
    "name",
    ["PROXY", "PROXY_URL", "NOPROXY", "HTTP_PROXY_USER", "SSL_CERT", "SSL_CERT_FILES", "LD_API_KEY",
     "PYTHON_VERSION", "RES", "OPENSSL", "CURL_TOKEN", "NODE_ENV", "ssl_cert_file", "home", "HOMES",
     "MY_HOME", "DEEPAGENTS_CODE_THEME", "SERVER_URL", "API_TOKEN", "LANG", "TZ", ""],
)  # fmt: skip
def test_does_not_steer(name: str) -> None:
    assert not is_steering(name)


def test_the_table_gives_reasons() -> None:
    assert all(len(reason.split()) > 4 for reason in STEERING_VARIABLES.values())
    assert list(STEERING_VARIABLES) == sorted(STEERING_VARIABLES)


# Prints what `load_environment` makes of each case; DCode's own state is as in a fresh process.
LOAD = """
import json, os, pathlib, sys
from deepagents_ro import host
host.prepare_package()
from deepagents_code import config
base = dict(os.environ)
for case in json.load(sys.stdin):
    os.environ.clear()
    os.environ.update(base | case["process"])
    for path, text in (("user", case["user"]), ("project", case["project"])):
        file = config._GLOBAL_DOTENV_PATH if path == "user" else pathlib.Path(".env")
        file.unlink(missing_ok=True)
        if text is not None:
            file.write_bytes(text.encode("latin-1"))
    config._bootstrap_state.done = False
    config._dotenv_loaded_values.clear()
    host.load_environment(trust_project=case["trust"])
    print(json.dumps({n: v for n, v in os.environ.items() if v != base.get(n)}))
"""


def load(tmp_path: Path, cases: list[dict[str, Any]]) -> list[dict[str, str]]:
    """The variables that each case leaves set beyond those of an empty one."""
    blank = {"process": {}, "user": None, "project": None, "trust": False}
    (tmp_path / "home" / ".deepagents").mkdir(parents=True)
    (tmp_path / "project").mkdir()
    done = subprocess.run(
        [sys.executable, "-I", "-c", LOAD],
        input=json.dumps([blank | case for case in [{}, *cases]]),
        capture_output=True,
        text=True,
        cwd=tmp_path / "project",
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home")},
        check=True,
    )
    empty, *found = [json.loads(line) for line in done.stdout.splitlines()]
    return [{n: v for n, v in one.items() if empty.get(n) != v} for one in found]


def test_layers(tmp_path: Path) -> None:
    """Each case: process, user's layer, project's layer, trusted or not; then what is set."""
    cases: list[tuple[dict[str, Any], dict[str, str]]] = [
        # the project's layer
        ({"project": "HTTPS_PROXY=p\nexport no_proxy='*'\nOTHER=o\n"}, {"OTHER": "o"}),
        ({"project": "HTTPS_PROXY=p\nOTHER=o\n", "trust": True},
         {"HTTPS_PROXY": "p", "OTHER": "o"}),
        ({"project": "Https_Proxy=p\nSSL_CERT_FILE=f\nOPENSSL_CONF=c\nRES_OPTIONS=r\nLD_DEBUG=l\n"
                     "DEEPAGENTS_RO_DEADLINE_MS=100\nREQUEST_METHOD=GET\nssl_cert_file=n\n"},
         {"ssl_cert_file": "n"}),
        # DCode's own list stands with trust, too
        ({"project": "LD_PRELOAD=l\nSSL_CERT_DIR=d\n", "trust": True}, {"SSL_CERT_DIR": "d"}),
        # TLS keys are never written
        ({"project": "SSLKEYLOGFILE=k\n", "trust": True}, {}),
        ({"user": "SSLKEYLOGFILE=k\n"}, {}),
        # the user's layer, which the project's does not cover
        ({"user": "HTTPS_PROXY=u\n", "project": "HTTPS_PROXY=p\n"}, {"HTTPS_PROXY": "u"}),
        ({"user": "HTTPS_PROXY=u\n", "project": "HTTPS_PROXY=p\n", "trust": True},
         {"HTTPS_PROXY": "p"}),
        ({"user": "HTTPS_PROXY=u\n", "project": "https_proxy=p\nHTTPS_PROXY=\n"},
         {"HTTPS_PROXY": "u"}),
        ({"user": "OTHER=u\n", "project": "OTHER=p\n"}, {"OTHER": "p"}),
        ({"user": "LD_PRELOAD=u\nHTTPS_PROXY\nALL_PROXY=a\n"}, {"ALL_PROXY": "a"}),
        # a reference does not lead to the project's layer by another way
        ({"user": "HTTPS_PROXY=http://${EVIL}\nCOPY=${EVIL}\n", "project": "EVIL=e\n"},
         {"HTTPS_PROXY": "http://", "COPY": "e", "EVIL": "e"}),
        ({"user": "MINE=m\nHTTPS_PROXY=http://${MINE}\n", "project": "MINE=e\n"},
         {"HTTPS_PROXY": "http://m", "MINE": "e"}),
        ({"user": "HTTPS_PROXY=http://${SET}\n", "project": "SET=e\n", "process": {"SET": "s"}},
         {"HTTPS_PROXY": "http://s", "SET": "s"}),
        # the process's environment comes before all, also when it is empty
        ({"process": {"HTTPS_PROXY": "e"}, "user": "HTTPS_PROXY=u\n", "project": "HTTPS_PROXY=p\n"},
         {"HTTPS_PROXY": "e"}),
        ({"process": {"NO_PROXY": ""}, "user": "NO_PROXY=u\n", "project": "NO_PROXY=p\n"},
         {"NO_PROXY": ""}),
        ({"process": {"HTTPS_PROXY": "e"}, "project": "HTTPS_PROXY=p\n", "trust": True},
         {"HTTPS_PROXY": "e"}),
        # a layer that cannot be read is passed over, and hides nothing of the other
        ({"user": "\xff=1\n", "project": "HTTPS_PROXY=p\nOTHER=o\n"}, {"OTHER": "o"}),
        ({"user": "HTTPS_PROXY=u\n", "project": "\xff=1\n"}, {"HTTPS_PROXY": "u"}),
    ]  # fmt: skip
    found = load(tmp_path, [case for case, _ in cases])
    for (case, expected), got in zip(cases, found, strict=True):
        assert got == expected, case
