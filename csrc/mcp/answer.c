#include "mcp/answer.h"

#include "core/json.h"
#include "core/limits.h"
#include "mcp/ending.h"
#include "mcp/exchange.h"
#include "mcp/owner.h"
#include "mcp/reduce.h"
#include "mcp/result.h"

static ro_reason
reason_of_reduced(ro_reduce_code code)
{
    switch (code) {
    case RO_REDUCE_UNREADABLE:
        return RO_REASON_NUMBER_TOO_LONG;
    case RO_REDUCE_OVER_BUDGET:
        return RO_REASON_TOO_MANY_VALUES;
    case RO_REDUCE_OK:
    case RO_REDUCE_TOO_LARGE:
    case RO_REDUCE_NO_MEMORY:
        break;
    }
    return RO_REASON_MEMORY;
}

/* What the call's answer is when it cannot go up. */
static ro_code
code_of_reduced(ro_reduce_code code)
{
    switch (code) {
    case RO_REDUCE_UNREADABLE:
        return RO_CODE_MALFORMED_RESULT;
    case RO_REDUCE_OVER_BUDGET:
        return RO_CODE_RESULT_TOO_LARGE;
    case RO_REDUCE_OK:
    case RO_REDUCE_TOO_LARGE:
    case RO_REDUCE_NO_MEMORY:
        break;
    }
    return RO_CODE_RUNTIME_FAILURE;
}

static void
answer_call(ro_exchange *exchange, ro_slice message)
{
    static const ro_json_limits strict = {RO_MAX_ANSWER, RO_MAX_DEPTH, false};
    ro_session *session = exchange->session;
    ro_result result;
    ro_json_code json = ro_json_validate(message, &strict, NULL);
    if (json == RO_JSON_NO_MEMORY) {
        ro_exchange_fail(exchange, RO_CODE_RUNTIME_FAILURE, RO_REASON_MEMORY);
        return;
    }
    if (json != RO_JSON_OK) {
        ro_exchange_fail(exchange, RO_CODE_MALFORMED_RESULT,
                         RO_REASON_NOT_AN_ANSWER);
        return;
    }
    ro_result_code code = ro_result_judge(message, exchange->id, &result);
    if (code != RO_RESULT_OK) {
        ro_exchange_fail(exchange, ro_result_envelope_code(code),
                         RO_REASON_NOT_AN_ANSWER);
        return;
    }
    if (ro_reduce_least_envelope(&result) > RO_MAX_STDOUT) {
        ro_exchange_fail(exchange, RO_CODE_RESULT_TOO_LARGE,
                         RO_REASON_TOO_LARGE);
        return;
    }
    /* The SDK checks structuredContent against an output schema and the
     * adapter converts the blocks; nothing else of the result is used. */
    bool structured = result.structured_content.len != 0
                      && ro_discovery_has_output_schema(
                          session->mcp->discovery, session->server);
    ro_buf up;
    ro_buf_init(&up, RO_MAX_ANSWER + RO_UP_FRAME);
    ro_reduce_code reduced
        = ro_reduce_result(exchange->id, &result, structured, &up);
    if (reduced != RO_REDUCE_OK) {
        ro_exchange_fail(exchange, code_of_reduced(reduced),
                         reason_of_reduced(reduced));
    }
    else if (!ro_exchange_be_json(exchange)) {
        ro_exchange_fail(exchange, RO_CODE_RUNTIME_FAILURE, RO_REASON_MEMORY);
    }
    else {
        ro_record_success(session->mcp->record, result.structured_content);
        ro_exchange_reply(exchange, 200, &up);
        ro_mcp_end_sessions(session->mcp);
    }
    ro_buf_free(&up);
}

static bool
keep_entry(void *arg, ro_slice entry)
{
    ro_session *session = ((ro_exchange *)arg)->session;
    ro_discovery *discovery = session->mcp->discovery;
    if (ro_discovery_tool(discovery).len != 0
        && session->kept++ >= RO_MAX_ALIKE) {
        return true;
    }
    return ro_discovery_add(discovery, session->server, entry);
}

void
ro_exchange_reply_list(ro_exchange *exchange, size_t max)
{
    ro_session *session = exchange->session;
    ro_buf up;
    ro_buf_init(&up, max);
    if (ro_discovery_write_list(session->mcp->discovery, session->server,
                                exchange->id, &up)
        == RO_BUF_OK) {
        ro_exchange_reply_json(exchange, &up);
    }
    else {
        ro_exchange_fail(exchange, RO_CODE_RUNTIME_FAILURE, RO_REASON_MEMORY);
    }
    ro_buf_free(&up);
}

static ro_reason
reason_of_list(ro_list_code code)
{
    switch (code) {
    case RO_LIST_UNREADABLE:
        return reason_of_reduced(RO_REDUCE_UNREADABLE);
    case RO_LIST_ENTRY_TOO_LARGE:
        return reason_of_reduced(RO_REDUCE_OVER_BUDGET);
    case RO_LIST_CURSOR_TOO_LARGE:
        return RO_REASON_LIST_CURSOR_TOO_LARGE;
    case RO_LIST_TOO_LARGE:
    case RO_LIST_NO_MEMORY:
    case RO_LIST_STOPPED: /* the entry could not be copied */
        return RO_REASON_MEMORY;
    case RO_LIST_OK: /* then its id is another's */
    case RO_LIST_MALFORMED:
        break;
    }
    return RO_REASON_LIST_MALFORMED;
}

static void
answer_list(ro_exchange *exchange, ro_slice message)
{
    ro_session *session = exchange->session;
    ro_list list;
    ro_buf prefix;
    ro_buf up;
    ro_buf_init(&prefix, session->server.len + 1);
    ro_buf_init(&up, RO_MAX_DISCOVERY + RO_UP_FRAME);
    ro_list_query query = {
        .tool = ro_discovery_tool(session->mcp->discovery),
        .entry = keep_entry,
        .arg = exchange,
    };
    if (query.tool.len != 0) {
        query.budget = &session->budget;
        query.max_kept = RO_MAX_ALIKE;
    }
    if (ro_owner_prefix(session->server, &prefix) != RO_BUF_OK) {
        ro_exchange_fail(exchange, RO_CODE_RUNTIME_FAILURE, RO_REASON_MEMORY);
        goto done;
    }
    query.prefix = ro_buf_slice(&prefix);
    ro_list_code code = ro_list_reduce(message, &query, &list, &up);
    if (code != RO_LIST_OK || !ro_rpc_id_equal(list.id, exchange->id)) {
        ro_exchange_fail(exchange, RO_CODE_RUNTIME_FAILURE,
                         reason_of_list(code));
        goto done;
    }
    if (session->kept > RO_MAX_ALIKE) {
        /* More of that name cannot make it more ambiguous: the list ends here,
         * without a next page. */
        ro_exchange_reply_list(exchange, RO_MAX_TOTAL);
        goto done;
    }
    if (list.next_cursor.len != 0
        && ro_cursors_add(&session->cursors, list.next_cursor)
               != RO_CURSOR_NEW) {
        ro_exchange_fail(exchange, RO_CODE_RUNTIME_FAILURE,
                         RO_REASON_LIST_CURSOR_REPEATED);
        goto done;
    }
    ro_exchange_reply_json(exchange, &up);
done:
    ro_buf_free(&prefix);
    ro_buf_free(&up);
}

/* The version that the server chose: the SDK may not speak it. */
static void
note_version(ro_exchange *exchange, ro_slice result)
{
    ro_session *session = exchange->session;
    ro_slice text;
    if (exchange->kind == RO_KIND_INITIALIZE && !session->call_phase
        && ro_json_find(result, "protocolVersion", &text) == 1
        && ro_json_type_of(text) == RO_JSON_STRING
        && text.len <= RO_MAX_VERSION) {
        ro_discovery_note_version(session->mcp->discovery, session->server,
                                  text);
    }
}

static void
answer_other(ro_exchange *exchange, ro_slice message)
{
    ro_rpc rpc;
    ro_buf up;
    ro_rpc_kind kind = ro_rpc_classify(message, &rpc);
    if ((kind != RO_RPC_RESULT && kind != RO_RPC_ERROR)
        || !ro_rpc_id_equal(rpc.id, exchange->id)) {
        ro_exchange_fail(exchange, RO_CODE_RUNTIME_FAILURE,
                         RO_REASON_NOT_AN_ANSWER);
        return;
    }
    if (kind == RO_RPC_ERROR
        || ro_json_type_of(rpc.result) != RO_JSON_OBJECT) {
        ro_exchange_fail(exchange, RO_CODE_RUNTIME_FAILURE,
                         RO_REASON_REFUSED_REQUEST);
        return;
    }
    note_version(exchange, rpc.result);
    ro_buf_init(&up, RO_MAX_DISCOVERY);
    ro_reduce_code code
        = exchange->kind == RO_KIND_INITIALIZE
              ? ro_reduce_initialize(exchange->id, rpc.result, &up)
              : ro_reduce_other(exchange->id, rpc.result, &up);
    if (code != RO_REDUCE_OK) {
        ro_exchange_fail(exchange, RO_CODE_RUNTIME_FAILURE,
                         reason_of_reduced(code));
    }
    else {
        ro_exchange_reply_json(exchange, &up);
    }
    ro_buf_free(&up);
}

void
ro_exchange_answer(ro_exchange *exchange, ro_slice message)
{
    if (exchange->replied) {
        return;
    }
    if (exchange->kind == RO_KIND_CALL) {
        answer_call(exchange, message);
        return;
    }
    ro_json_limits loose = {exchange->cap, RO_MAX_DEPTH, true};
    if (exchange->kind == RO_KIND_LIST) {
        loose.max_depth += RO_LIST_EXTRA_DEPTH;
    }
    ro_json_code json = ro_json_validate(message, &loose, NULL);
    if (json != RO_JSON_OK) {
        bool too_deep
            = json == RO_JSON_DEPTH && exchange->kind == RO_KIND_LIST;
        ro_exchange_fail(exchange, RO_CODE_RUNTIME_FAILURE,
                         too_deep ? RO_REASON_LIST_TOO_DEEP
                                  : RO_REASON_NOT_JSON);
        return;
    }
    if (exchange->kind == RO_KIND_LIST) {
        answer_list(exchange, message);
        return;
    }
    answer_other(exchange, message);
}
