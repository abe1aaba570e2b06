#include "mcp/reason.h"

#include "core/table.h"

typedef struct row {
    const char *word;
    const char *text;
    ro_state state;
} row;

#define X(id, word, text) {word, text, RO_STATE_##id},
static const row states[] = {RO_STATES(X)};
#undef X

#define X(id, state, word, text) {word, text, RO_STATE_##state},
static const row reasons[] = {RO_REASONS(X)};
#undef X

static const row *
state_row(ro_state state)
{
    return &states[ro_row((unsigned)state, RO_STATE_COUNT,
                          RO_STATE_COUNT - 1)];
}

static const row *
reason_row(ro_reason reason)
{
    return &reasons[ro_row((unsigned)reason, RO_REASON_COUNT,
                           RO_REASON_COUNT - 1)];
}

const char *
ro_state_word(ro_state state)
{
    return state_row(state)->word;
}

const char *
ro_state_text(ro_state state)
{
    return state_row(state)->text;
}

const char *
ro_reason_word(ro_reason reason)
{
    return reason_row(reason)->word;
}

const char *
ro_reason_text(ro_reason reason)
{
    return reason_row(reason)->text;
}

ro_state
ro_reason_state(ro_reason reason)
{
    return reason_row(reason)->state;
}

ro_reason
ro_reason_of_net(ro_net_code code)
{
    switch (code) {
    case RO_NET_NO_MEMORY:
        return RO_REASON_MEMORY;
    case RO_NET_BAD_URL:
        return RO_REASON_BAD_URL;
    case RO_NET_BAD_HEADER:
        return RO_REASON_BAD_HEADER;
    case RO_NET_BAD_PROXY:
        return RO_REASON_BAD_PROXY;
    case RO_NET_BAD_TRUST:
        return RO_REASON_BAD_TRUST;
    case RO_NET_RESOLVE:
        return RO_REASON_UNKNOWN_HOST;
    case RO_NET_REFUSED:
        return RO_REASON_REFUSED_PORT;
    case RO_NET_CONNECT:
        return RO_REASON_NO_CONNECTION;
    case RO_NET_CERTIFICATE:
        return RO_REASON_CERTIFICATE;
    case RO_NET_TLS:
        return RO_REASON_TLS;
    case RO_NET_PROXY:
        return RO_REASON_PROXY;
    case RO_NET_SEND:
    case RO_NET_RECEIVE:
    case RO_NET_REPLAY:
        return RO_REASON_CLOSED_BY_SERVER;
    case RO_NET_PROTOCOL:
        return RO_REASON_NOT_HTTP;
    case RO_NET_ENCODING:
        return RO_REASON_CONTENT_ENCODING;
    case RO_NET_HEADERS_TOO_LARGE:
        return RO_REASON_HEADERS_TOO_LARGE;
    case RO_NET_CONNECT_TIMEOUT:
    case RO_NET_READ_TIMEOUT:
    case RO_NET_WRITE_TIMEOUT:
        return RO_REASON_SILENT;
    case RO_NET_CANCELLED:
    case RO_NET_SHUT_DOWN:
        return RO_REASON_STOPPED;
    case RO_NET_OK:
    case RO_NET_FORKED:
    case RO_NET_SINK:
    case RO_NET_INTERNAL:
        break;
    }
    return RO_REASON_INTERNAL;
}
