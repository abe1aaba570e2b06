/* Why a server cannot be used: one word and one sentence a cause.
 *
 * The words are what the audit prints and what programs compare; the
 * sentences are for people and say what to do. Neither holds anything that
 * came from a server, a configuration or the environment. Static texts;
 * thread safe.
 */
#ifndef RO_MCP_REASON_H
#define RO_MCP_REASON_H

#include <stddef.h>

#include "net/net.h"

/* What the audit says of a server first: id, word, text. */
#define RO_STATES(X)                                                          \
    X(REACHABLE, "reachable", "answered with its tools")                      \
    X(NEEDS_LOGIN, "needs_login", "wants a login: dcode mcp login <server>")  \
    X(DENIED, "denied", "refused the configured credentials")                 \
    X(UNREACHABLE, "unreachable", "could not be reached")                     \
    X(HTTP_ERROR, "http_error", "answered, but not as an MCP server")         \
    X(TIMED_OUT, "timed_out", "did not answer in time")                       \
    X(DISABLED, "disabled", "is switched off by the user")                    \
    X(MALFORMED_LIST, "malformed_list", "sent an answer that cannot be used") \
    X(MISCONFIGURED, "misconfigured", "its configuration cannot be used")     \
    X(NOT_TRUSTED, "not_trusted",                                             \
      "is a project's server that nobody has approved")                       \
    X(FAILED, "failed", "failed while it was asked")

/* Why: id, state, word, text. */
#define RO_REASONS(X)                                                         \
    X(NONE, REACHABLE, "", "nothing is in the way")                           \
    /* the configuration */                                                   \
    X(DISABLED, DISABLED, "disabled",                                         \
      "enable it in DCode, or with disabled_servers in config.toml")          \
    X(NOT_TRUSTED, NOT_TRUSTED, "not_trusted",                                \
      "approve the project's servers in DCode, or pass --trust-project-mcp")  \
    X(BROKEN_FILE, MISCONFIGURED, "broken_file",                              \
      "the configuration file is missing, is no JSON or has an entry that "   \
      "DCode refuses")                                                        \
    X(BAD_ENTRY, MISCONFIGURED, "bad_entry",                                  \
      "the server's entry has a field that is missing, unknown or of a "      \
      "wrong type")                                                           \
    X(UNSET_VARIABLE, MISCONFIGURED, "unset_variable",                        \
      "the entry names a variable that is not set: export it, or give it a "  \
      "default")                                                              \
    X(BAD_URL, MISCONFIGURED, "bad_url", "the URL cannot be used")            \
    X(BAD_HEADER, MISCONFIGURED, "bad_header",                                \
      "a configured header cannot be sent")                                   \
    X(BAD_PROXY, MISCONFIGURED, "bad_proxy",                                  \
      "the proxy's URL cannot be used: check HTTP_PROXY, HTTPS_PROXY and "    \
      "ALL_PROXY")                                                            \
    X(BAD_TRUST, MISCONFIGURED, "bad_trust",                                  \
      "the trusted certificates cannot be read: check SSL_CERT_FILE and "     \
      "SSL_CERT_DIR")                                                         \
    X(COMMAND_NOT_FOUND, UNREACHABLE, "command_not_found",                    \
      "the command is not on PATH: install it, or write its whole path")      \
    X(COMMAND_NOT_STARTED, UNREACHABLE, "command_not_started",                \
      "the command cannot be started: check its permissions")                 \
    /* the way to the server */                                               \
    X(UNKNOWN_HOST, UNREACHABLE, "unknown_host",                              \
      "the host name is not known: check the URL and DNS")                    \
    X(REFUSED_PORT, UNREACHABLE, "refused_port",                              \
      "nothing listens on that port: start the server, or check the URL")     \
    X(NO_CONNECTION, UNREACHABLE, "no_connection",                            \
      "no connection to the host could be made: check network and firewall")  \
    X(CERTIFICATE, UNREACHABLE, "certificate",                                \
      "the server's certificate is not trusted, expired or for another "      \
      "name: check SSL_CERT_FILE and the URL")                                \
    X(TLS, UNREACHABLE, "tls",                                                \
      "TLS could not be established: check that the port speaks TLS")         \
    X(PROXY, UNREACHABLE, "proxy", "the proxy refused the connection")        \
    X(CLOSED_BY_SERVER, UNREACHABLE, "closed_by_server",                      \
      "the server closed the connection before its answer was complete")      \
    X(NOT_HTTP, UNREACHABLE, "not_http", "the answer is not valid HTTP")      \
    X(CONTENT_ENCODING, UNREACHABLE, "content_encoding",                      \
      "the answer's content coding is unknown or broken")                     \
    X(HEADERS_TOO_LARGE, UNREACHABLE, "headers_too_large",                    \
      "the answer's headers are larger than 256 KiB")                         \
    X(SILENT, TIMED_OUT, "silent",                                            \
      "the server accepts connections, or none, but did not answer in time")  \
    /* HTTP */                                                                \
    X(LOGIN, NEEDS_LOGIN, "login", "log in: dcode mcp login <server>")        \
    X(HTTP_401, NEEDS_LOGIN, "http_401",                                      \
      "HTTP 401: log in with dcode mcp login <server>, or configure a "       \
      "header")                                                               \
    X(CREDENTIALS, DENIED, "credentials",                                     \
      "HTTP 401 in spite of a configured header: check its credentials")      \
    X(HTTP_403, DENIED, "http_403",                                           \
      "HTTP 403: the configured credentials do not suffice")                  \
    X(HTTP_404, HTTP_ERROR, "http_404",                                       \
      "HTTP 404: there is no MCP endpoint at the URL's path")                 \
    X(HTTP_4XX, HTTP_ERROR, "http_4xx",                                       \
      "the server refused the request with an HTTP status of 400 to 499")     \
    X(HTTP_5XX, HTTP_ERROR, "http_5xx",                                       \
      "the server failed with an HTTP status of 500 or more")                 \
    X(HEAD_5XX, HTTP_ERROR, "head_5xx",                                       \
      "DCode asks with HEAD first and takes a status of 500 or more for a "   \
      "server that is down: answer HEAD with any other status")               \
    X(REDIRECTED, HTTP_ERROR, "redirected",                                   \
      "a redirect that is not followed: configure the URL it leads to")       \
    X(REDIRECT_TO_OTHER_ORIGIN, HTTP_ERROR, "redirect_to_other_origin",       \
      "a redirect to another host, port or scheme is never followed: "        \
      "configure the URL it leads to")                                        \
    X(NO_ANSWER, MALFORMED_LIST, "no_answer",                                 \
      "an HTTP success without the answer in it")                             \
    /* MCP */                                                                 \
    X(NOT_MCP, MALFORMED_LIST, "not_mcp",                                     \
      "the answer is neither JSON nor an event stream: check the URL's path") \
    X(NOT_JSON, MALFORMED_LIST, "not_json", "the answer is not valid JSON")   \
    X(NOT_AN_ANSWER, MALFORMED_LIST, "not_an_answer",                         \
      "the answer is no JSON-RPC answer to the request")                      \
    X(REFUSED_REQUEST, FAILED, "refused_request",                             \
      "the server answered the handshake with a JSON-RPC error")              \
    X(PROTOCOL_VERSION, FAILED, "protocol_version",                           \
      "the server speaks a protocol version that the SDK does not")           \
    X(BAD_HANDSHAKE, FAILED, "bad_handshake",                                 \
      "the SDK cannot read the server's answer to initialize")                \
    X(LIST_MALFORMED, MALFORMED_LIST, "list_malformed",                       \
      "the answer to tools/list is an error, or no list of tools")            \
    X(LIST_TOO_DEEP, MALFORMED_LIST, "list_too_deep",                         \
      "an entry of the list is nested deeper than 64 levels")                 \
    X(LIST_CURSOR_REPEATED, MALFORMED_LIST, "list_cursor_repeated",           \
      "the list's pages repeat a cursor")                                     \
    X(LIST_TOO_MANY_PAGES, MALFORMED_LIST, "list_too_many_pages",             \
      "the list has more than 64 pages")                                      \
    X(LIST_CURSOR_TOO_LARGE, MALFORMED_LIST, "list_cursor_too_large",         \
      "a cursor of the list is longer than 64 KiB")                           \
    X(NUMBER_TOO_LONG, MALFORMED_LIST, "number_too_long",                     \
      "the handshake or the tool's entry has a number of more than 4,300 "    \
      "digits, which the SDK cannot read")                                    \
    X(TOO_MANY_VALUES, MALFORMED_LIST, "too_many_values",                     \
      "of the handshake or the tool's entry the SDK would read more than "    \
      "32,768 values or 1 MiB")                                               \
    X(TOO_LARGE, MALFORMED_LIST, "too_large",                                 \
      "the answer is larger than 8 MiB, or all answers than 32 MiB")          \
    X(LINE_TOO_LARGE, MALFORMED_LIST, "line_too_large",                       \
      "the server wrote a line of more than 1 MiB")                           \
    X(JUNK, MALFORMED_LIST, "junk",                                           \
      "more than 64 lines or events were no JSON-RPC message: log to "        \
      "standard error")                                                       \
    X(STREAM_ENDED, UNREACHABLE, "stream_ended",                              \
      "the event stream ended without the answer")                            \
    X(ENDPOINT, MALFORMED_LIST, "endpoint",                                   \
      "the event stream names no endpoint of its own origin")                 \
    X(EXITED, UNREACHABLE, "exited",                                          \
      "the command ended, or closed its output, before it answered: run it "  \
      "by hand")                                                              \
    X(CLOSED_INPUT, UNREACHABLE, "closed_input",                              \
      "the command closed its standard input before the request was out")     \
    /* this side */                                                           \
    X(OTHER_ORIGIN, FAILED, "other_origin",                                   \
      "a request to another origin was not sent")                             \
    X(GATE, FAILED, "gate", "the one call was not open")                      \
    X(REFUSED, FAILED, "refused", "a request that is not sent here")          \
    X(STOPPED, FAILED, "stopped", "the work ended first")                     \
    X(MEMORY, FAILED, "memory", "out of memory")                              \
    X(INTERNAL, FAILED, "internal", "the transport failed")

#define X(id, ...) RO_STATE_##id,
typedef enum ro_state { RO_STATES(X) RO_STATE_COUNT } ro_state;
#undef X

#define X(id, ...) RO_REASON_##id,
typedef enum ro_reason { RO_REASONS(X) RO_REASON_COUNT } ro_reason;
#undef X

/* A value outside an enum reads as its last one. */
const char *ro_state_word(ro_state state);
const char *ro_state_text(ro_state state);
const char *ro_reason_word(ro_reason reason); /* "" for NONE alone */
const char *ro_reason_text(ro_reason reason);
ro_state ro_reason_state(ro_reason reason);

/* Of a transfer that failed; INTERNAL for RO_NET_OK. */
ro_reason ro_reason_of_net(ro_net_code code);

#endif
