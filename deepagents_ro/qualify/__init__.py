"""The proof that an installed `dcode` keeps the call's contract.

`python -m deepagents_ro.qualify` starts local MCP servers over TLS, runs the actual `dcode` process
against them, state by state and in both modes of tool disclosure, and compares every outcome with
what was promised: the envelope's bytes, the exit status, what the servers saw, what is left behind.
It needs what an image has anyway: DCode, and under it the MCP SDK, uvicorn, cryptography and rich.

- `lab`: servers, proxies, an authority, runs of `dcode`; tests, benchmarks and `make demo` use them
- `servers`, `journal`: the servers of one qualification, and what they saw
- `scripted`: the server whose tools and results are scripted bytes
- `runner`: one run of `dcode` in a world of its own
- `cases`: what is promised, as data
- `report`: progress and the report
- `unpatched`: DCode without the patch, for `--upstream`
"""
