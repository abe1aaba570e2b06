#include "mcp/waiting.h"

#include "core/json.h"
#include "core/limits.h"
#include "mcp/allowance.h"
#include "mcp/answer.h"
#include "mcp/exchange.h"
#include "mcp/message.h"

static void
each_waiting(ro_session *session, ro_code code, ro_reason reason)
{
    while (session->waiting != NULL) {
        ro_exchange *exchange = session->waiting;
        ro_exchange_fail(exchange, code, reason); /* takes it off the list */
        ro_exchange_settle(exchange);
    }
}

bool
ro_waiting_enter(ro_exchange *exchange, ro_buf *line)
{
    ro_session *session = exchange->session;
    if (ro_json_minify(ro_slice_of(exchange->body, exchange->body_len), line)
        != RO_BUF_OK) {
        ro_exchange_fail(exchange, RO_CODE_RUNTIME_FAILURE, RO_REASON_MEMORY);
        return false;
    }
    exchange->next_waiting = session->waiting;
    session->waiting = exchange;
    exchange->is_waiting = true;
    return true;
}

void
ro_waiting_pass_over(ro_session *session)
{
    if (!ro_session_pass_over(session)) {
        ro_waiting_closed(session, RO_REASON_JUNK);
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

/* Whether somebody waits for exactly this id. */
static bool
is_awaited(ro_session *session, ro_slice id)
{
    const ro_exchange *found = exchange_of(session, id);
    return found != NULL && ro_rpc_id_equal(found->id, id);
}

void
ro_waiting_message(ro_session *session, ro_slice bytes)
{
    ro_message message;
    ro_message_read(bytes, &message);
    switch (message.kind) {
    case RO_MESSAGE_NO_MEMORY:
        ro_waiting_no_memory(session);
        return;
    case RO_MESSAGE_NOTIFICATION:
        return;
    case RO_MESSAGE_REQUEST:
        ro_session_answer(session, &message.rpc);
        return;
    case RO_MESSAGE_ANSWER:
        break;
    case RO_MESSAGE_CLAIM:
        if (is_awaited(session, message.id)) {
            break;
        }
        ro_waiting_pass_over(session);
        return;
    case RO_MESSAGE_JUNK:
        ro_waiting_pass_over(session);
        return;
    }
    ro_exchange *exchange = exchange_of(session, message.id);
    if (exchange == NULL) {
        return; /* nobody waits, so that nothing is decided */
    }
    if (message.text.len > exchange->cap) {
        ro_exchange_fail(exchange, RO_CODE_RESULT_TOO_LARGE,
                         RO_REASON_TOO_LARGE);
    }
    else {
        ro_exchange_answer(exchange, message.text);
    }
    ro_exchange_settle(exchange);
}

void
ro_waiting_count(ro_session *session, size_t bytes)
{
    bool within = ro_discovery_count(session->mcp->discovery, bytes);
    ro_exchange *next;
    for (ro_exchange *each = session->waiting; each != NULL; each = next) {
        next = each->next_waiting;
        each->received += bytes;
        if (!within || each->received > each->cap) {
            ro_exchange_fail(each, RO_CODE_RESULT_TOO_LARGE,
                             RO_REASON_TOO_LARGE);
            ro_exchange_settle(each);
        }
    }
}

void
ro_waiting_too_large(ro_session *session, ro_reason reason)
{
    each_waiting(session, RO_CODE_RESULT_TOO_LARGE, reason);
}

void
ro_waiting_no_memory(ro_session *session)
{
    each_waiting(session, RO_CODE_RUNTIME_FAILURE, RO_REASON_MEMORY);
}

void
ro_waiting_closed(ro_session *session, ro_reason reason)
{
    if (!session->broken) {
        session->broken = true;
        session->broken_reason = reason;
    }
    each_waiting(session, RO_CODE_RUNTIME_FAILURE, reason);
}
