/* How a transfer ends. Thread safe: no state. */
#ifndef RO_NET_CODES_H
#define RO_NET_CODES_H

/* Each: id, word, sentence, which carries no URL, header or host. */
#define RO_NET_CODES(X)                                                       \
    X(OK, "ok", "The transfer succeeded.")                                    \
    X(CANCELLED, "cancelled", "The transfer was cancelled.")                  \
    X(SHUT_DOWN, "shut_down", "The transport is closed.")                     \
    X(FORKED, "forked", "The transport was made by another process.")         \
    X(NO_MEMORY, "no_memory", "Out of memory.")                               \
    /* scheme, host, port, user info, length */                               \
    X(BAD_URL, "bad_url", "The URL cannot be used.")                          \
    /* CR, LF, NUL, too long, bad name */                                     \
    X(BAD_HEADER, "bad_header",                                               \
      "The method or a header of the request cannot be sent.")                \
    /* SOCKS or a malformed proxy URL */                                      \
    X(BAD_PROXY, "bad_proxy",                                                 \
      "The proxy URL cannot be used; only http and https are.")               \
    /* CA file or directory cannot be read */                                 \
    X(BAD_TRUST, "bad_trust", "The trusted certificates cannot be read.")     \
    X(RESOLVE, "resolve", "The host name could not be resolved.")             \
    /* nothing listens on the port */                                         \
    X(REFUSED, "refused", "The host refused the connection.")                 \
    X(CONNECT, "connect", "The connection could not be made.")                \
    /* not trusted, expired, of another name */                               \
    X(CERTIFICATE, "certificate",                                             \
      "The peer's certificate is not trusted for its name.")                  \
    X(TLS, "tls", "TLS could not be established.")                            \
    /* CONNECT refused, 407 */                                                \
    X(PROXY, "proxy", "The proxy refused the connection.")                    \
    X(SEND, "send", "The request could not be sent.")                         \
    /* reset, closed before the head, truncated */                            \
    X(RECEIVE, "receive",                                                     \
      "The connection was lost before the answer was complete.")              \
    /* not HTTP, bad chunk, bad header */                                     \
    X(PROTOCOL, "protocol", "The answer is not valid HTTP.")                  \
    /* content coding unknown or broken */                                    \
    X(ENCODING, "encoding", "The content coding is unknown or broken.")       \
    /* over max_headers */                                                    \
    X(HEADERS_TOO_LARGE, "headers_too_large",                                 \
      "The response headers exceed their limit.")                             \
    /* would have been sent a second time */                                  \
    X(REPLAY, "replay",                                                       \
      "The connection was lost and the request is not sent twice.")           \
    X(CONNECT_TIMEOUT, "connect_timeout",                                     \
      "The connection was not made in time.")                                 \
    X(READ_TIMEOUT, "read_timeout", "Nothing was received in time.")          \
    X(WRITE_TIMEOUT, "write_timeout",                                         \
      "The request could not be sent in time.")                               \
    /* a sink callback returned RO_SINK_FAIL */                               \
    X(SINK, "sink", "The receiver refused the answer.")                       \
    X(INTERNAL, "internal", "The transport failed.")

#define X(id, ...) RO_NET_##id,
typedef enum ro_net_code { RO_NET_CODES(X) } ro_net_code;
#undef X
#define RO_NET_CODE_COUNT (RO_NET_INTERNAL + 1)

/* Static texts; those of INTERNAL for a value outside the enum. */
const char *ro_net_code_word(ro_net_code code);
const char *ro_net_code_text(ro_net_code code);

#endif
