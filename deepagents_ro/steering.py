"""Which environment variables steer where or how the bytes of a call travel.

A project's `.env` travels with a cloned repository. Whoever wrote it could read the tokens of the
user's own servers by such a variable. It counts only where the user trusts the project.
`host.load_environment` applies this table.
"""

from __future__ import annotations

_PROXY = "httpx and libcurl send requests, headers included, through it"
_ROOTS = "it names the certificates that prove who a server is"
_RESOLVER = "the C library's resolver takes the address of a server from where it says"
_LOADER = "the loader of programs or libraries takes code from where it says, or writes there"
_PYTHON = "an interpreter takes code from where it says"
_NODE = "Node takes code or certificates from where it says, or stops asking for them"
_OPENSSL = "OpenSSL takes its configuration, its providers or its engines from where it says"
_OWN = "DCode takes the user's own servers, tokens or plugins from where it says"

STEERING_VARIABLES = {
    "*_PROXY": _PROXY,
    "CURL_CA_BUNDLE": _ROOTS,
    "CURL_HOME": "the curl command reads its configuration there",
    "CURL_SSL_BACKEND": "libcurl chooses its TLS library by it",
    "DEEPAGENTS_CODE_PLUGIN_CACHE_DIR": _OWN,
    "DEEPAGENTS_RO_*": "it sets the deadline and other behaviour of this package",
    "GCONV_PATH": _LOADER,
    "GLIBC_TUNABLES": _LOADER,
    "HOME": _OWN,
    "HOSTALIASES": _RESOLVER,
    "LD_ASSUME_KERNEL": _LOADER,
    "LD_AUDIT": _LOADER,
    "LD_BIND_NOT": _LOADER,
    "LD_BIND_NOW": _LOADER,
    "LD_DEBUG": _LOADER,
    "LD_DEBUG_OUTPUT": _LOADER,
    "LD_DYNAMIC_WEAK": _LOADER,
    "LD_HWCAP_MASK": _LOADER,
    "LD_LIBRARY_PATH": _LOADER,
    "LD_ORIGIN_PATH": _LOADER,
    "LD_PRELOAD": _LOADER,
    "LD_PROFILE": _LOADER,
    "LD_PROFILE_OUTPUT": _LOADER,
    "LD_USE_LOAD_BIAS": _LOADER,
    "LOCALDOMAIN": _RESOLVER,
    "NODE_EXTRA_CA_CERTS": _NODE,
    "NODE_OPTIONS": _NODE,
    "NODE_PATH": _NODE,
    "NODE_TLS_REJECT_UNAUTHORIZED": _NODE,
    "OPENSSL_*": _OPENSSL,
    "PATH": _LOADER,
    "PYTHONBREAKPOINT": _PYTHON,
    "PYTHONEXECUTABLE": _PYTHON,
    "PYTHONHOME": _PYTHON,
    "PYTHONHTTPSVERIFY": _PYTHON,
    "PYTHONPATH": _PYTHON,
    "PYTHONPLATLIBDIR": _PYTHON,
    "PYTHONPYCACHEPREFIX": _PYTHON,
    "PYTHONSTARTUP": _PYTHON,
    "PYTHONUSERBASE": _PYTHON,
    "PYTHONWARNINGS": _PYTHON,
    "REQUESTS_CA_BUNDLE": _ROOTS,
    "REQUEST_METHOD": "httpx, like urllib, passes over HTTP_PROXY where it is set",
    "RESOLV_*": _RESOLVER,
    "RES_OPTIONS": _RESOLVER,
    "SHELL": "the SDK gives it to a stdio server, which may start it",
    "SSLKEYLOGFILE": "it names a file for the keys of every TLS connection",
    "SSL_CERT_DIR": _ROOTS,
    "SSL_CERT_FILE": _ROOTS,
}
"""Each name with the reason. `*` stands for any text; see `is_steering`."""

_PREFIXES = tuple(name[:-1] for name in STEERING_VARIABLES if name.endswith("*"))


def is_steering(name: str) -> bool:
    """Whether the table holds a variable of that name.

    Names are told apart by case, as by those who read them; but the proxies' are not, since urllib
    reads `https_proxy`, `Https_Proxy` and `HTTPS_PROXY`.
    """
    if name in STEERING_VARIABLES or name.startswith(_PREFIXES):
        return True
    return name.upper().endswith("_PROXY")
