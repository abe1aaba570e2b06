"""The laboratory: servers, proxies, an authority and runs of `dcode`, for whoever has to see.

It ships with the qualification and has one of each; tests, benchmarks and the demonstration use the
same ones and add what only they need, by a subclass, a handler or a tool. It needs what DCode
brings anyway (the MCP SDK, uvicorn, cryptography), and each module only what its own line says.

- `oracle`: what the command is promised to print, as data that does not come from the product
- `authority`: a certificate authority and the certificates of servers
- `helper`: a helper process, from either side, and its log
- `listener`: a listening socket with a thread for each connection, below the next two
- `raw_server`: an MCP server of which each byte can be scripted
- `proxy`: one that is far away, one that speaks CONNECT and may end TLS, one that nobody is to use
- `sdk_server`: a real MCP server made with the SDK, in a helper process; any other app served so
- `runs`: a private world in which `dcode` runs, and the run, which is judged by the oracle

A scripted server is threads of whoever scripts it, since scripts are code of a test; the SDK's is a
process of its own, since its event loop would take the time of what is measured beside it.

Who adds what:

- the qualification: `scripted` (tables of tools and results), `journal` (requests by run), `runner`
- tests: `servers/dcode` (forked runs, redirections, peaks, schemas), `servers/legacy` (HTTP with
  SSE), `closing_server` (how a connection ends); `wire_server` is for tests of an event loop of
  their own, and so is the one server that is not built on `listener`
- benchmarks: `hostile` (bulky and endless answers), `server` (many tools), `sandbox` (what a run
  costs); the demonstration: nothing
"""
