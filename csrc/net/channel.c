#include "net/channel.h"

#include "core/json.h"
#include "core/limits.h"

static void
each_waiting(ro_session *session, ro_code code, const char *reason)
{
    while (session->waiting != NULL) {
        ro_exchange *exchange = session->waiting;
        ro_exchange_fail(exchange, code, reason); /* takes it off the list */
        ro_exchange_settle(exchange);
    }
}

void
ro_channel_send(ro_exchange *exchange)
{
    ro_session *session = exchange->session;
    ro_buf line;
    ro_buf_init(&line, RO_MAX_REQUEST);
    /* minified: a line must not hold a raw line feed */
    if (ro_json_minify(ro_slice_of(exchange->body, exchange->body_len), &line)
        != RO_BUF_OK) {
        ro_exchange_fail(exchange, RO_CODE_RUNTIME_FAILURE, "memory");
        ro_buf_free(&line);
        return;
    }
    exchange->next_waiting = session->waiting;
    session->waiting = exchange;
    exchange->is_waiting = true;
    session->channel->send(session, exchange, ro_buf_slice(&line));
    ro_buf_free(&line);
}

/* Whether a line that the scanner refuses was meant as a message. */
static bool
looks_like_rpc(ro_slice line)
{
    static const char mark[] = "\"jsonrpc\"";
    while (line.len != 0 && (*line.ptr == ' ' || *line.ptr == '\t')) {
        line.ptr++;
        line.len--;
    }
    return line.len != 0 && *line.ptr == '{'
           && memmem(line.ptr, line.len, mark, sizeof(mark) - 1) != NULL;
}

static void
junk_line(ro_session *session, ro_slice line, bool junk)
{
    if (!junk || looks_like_rpc(line)) {
        each_waiting(session, RO_CODE_MALFORMED_RESULT, "not_json");
    }
    else if (++session->junk > RO_MAX_JUNK_LINES) {
        each_waiting(session, RO_CODE_RUNTIME_FAILURE, "junk");
    }
}

/* The exchange that an answer is for: the one of its id, else, since a wrong
 * id is an answer too, the oldest. */
static ro_exchange *
exchange_of(ro_session *session, ro_slice id)
{
    ro_exchange *oldest = NULL;
    for (ro_exchange *each = session->waiting; each != NULL;
         each = each->next_waiting) {
        if (each->kind == RO_KIND_NOTIFY) {
            continue;
        }
        if (ro_rpc_id_equal(each->id, id)) {
            return each;
        }
        oldest = each;
    }
    return oldest;
}

void
ro_channel_message(ro_session *session, ro_slice message, bool junk)
{
    static const ro_json_limits loose
        = {RO_MAX_DISCOVERY, RO_MAX_DEPTH + RO_LIST_EXTRA_DEPTH, true};
    ro_rpc rpc;
    ro_buf answer;
    ro_exchange *exchange = NULL;
    ro_json_code code = ro_json_validate(message, &loose, NULL);
    if (code == RO_JSON_NO_MEMORY) {
        ro_channel_no_memory(session);
        return;
    }
    if (code != RO_JSON_OK) {
        junk_line(session, message, junk);
        return;
    }
    switch (ro_rpc_classify(message, &rpc)) {
    case RO_RPC_INVALID:
        junk_line(session, message, junk);
        return;
    case RO_RPC_NOTIFICATION:
        return;
    case RO_RPC_REQUEST:
        ro_buf_init(&answer, RO_MAX_REQUEST);
        if (session->answers < RO_MAX_ANSWERS_SENT
            && ro_rpc_write_answer(&answer, &rpc) == RO_BUF_OK) {
            session->answers++;
            session->channel->answer(session, ro_buf_slice(&answer));
        }
        ro_buf_free(&answer);
        return;
    case RO_RPC_RESULT:
    case RO_RPC_ERROR:
        exchange = exchange_of(session, rpc.id);
        break;
    }
    if (exchange == NULL) {
        return; /* an answer to nothing */
    }
    if (message.len > exchange->cap) {
        ro_exchange_fail(exchange, RO_CODE_RESULT_TOO_LARGE, "too_large");
    }
    else {
        ro_exchange_answer(exchange, message);
    }
    ro_exchange_settle(exchange);
}

void
ro_channel_count(ro_session *session, size_t bytes)
{
    bool within = ro_call_count(session->mcp->call, bytes);
    ro_exchange *next;
    for (ro_exchange *each = session->waiting; each != NULL; each = next) {
        next = each->next_waiting;
        each->received += bytes;
        if (!within || each->received > each->cap) {
            ro_exchange_fail(each, RO_CODE_RESULT_TOO_LARGE, "too_large");
            ro_exchange_settle(each);
        }
    }
}

void
ro_channel_too_large(ro_session *session)
{
    each_waiting(session, RO_CODE_RESULT_TOO_LARGE, "too_large");
}

void
ro_channel_no_memory(ro_session *session)
{
    each_waiting(session, RO_CODE_RUNTIME_FAILURE, "memory");
}

void
ro_channel_closed(ro_session *session, const char *reason)
{
    if (!session->broken) {
        session->broken = true;
        session->broken_reason = reason;
    }
    each_waiting(session, RO_CODE_RUNTIME_FAILURE, reason);
}
