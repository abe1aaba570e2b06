/* From a whole message to the one reply: what is recorded, what goes up. */
#include "net/exchange.h"

#include "core/json.h"
#include "core/limits.h"
#include "core/result.h"

static void
answer_call(ro_exchange *exchange, ro_slice message)
{
    static const ro_json_limits strict = {RO_MAX_ANSWER, RO_MAX_DEPTH, false};
    ro_call *call = exchange->session->mcp->call;
    ro_result result;
    ro_json_code json = ro_json_validate(message, &strict, NULL);
    if (json == RO_JSON_NO_MEMORY) {
        ro_exchange_fail(exchange, RO_CODE_RUNTIME_FAILURE, "memory");
        return;
    }
    if (json != RO_JSON_OK) {
        ro_exchange_fail(exchange, RO_CODE_MALFORMED_RESULT, "malformed");
        return;
    }
    ro_result_code code = ro_result_judge(message, exchange->id, &result);
    if (code != RO_RESULT_OK) {
        ro_exchange_fail(exchange, ro_result_envelope_code(code), "malformed");
        return;
    }
    /* The SDK checks structuredContent against an output schema and the
     * adapter converts the blocks; nothing else of the result is used. */
    ro_buf up;
    ro_buf_init(&up, RO_MAX_ANSWER + 1024);
    ro_buf_code built = ro_buf_append_slice(
        &up, ro_slice_str("{\"jsonrpc\":\"2.0\",\"id\":"));
    if (built == RO_BUF_OK) {
        built = ro_buf_append_slice(&up, exchange->id);
    }
    if (built == RO_BUF_OK) {
        built = ro_buf_append_slice(&up,
                                    ro_slice_str(",\"result\":{\"content\":"));
    }
    if (built == RO_BUF_OK) {
        built = ro_buf_append_slice(&up, result.content);
    }
    if (built == RO_BUF_OK && result.structured_content.len != 0
        && ro_call_has_output_schema(call, exchange->session->server)) {
        built = ro_buf_append_slice(&up,
                                    ro_slice_str(",\"structuredContent\":"));
        if (built == RO_BUF_OK) {
            built = ro_buf_append_slice(&up, result.structured_content);
        }
    }
    if (built == RO_BUF_OK) {
        built = ro_buf_append_slice(&up, ro_slice_str("}}"));
    }
    if (built != RO_BUF_OK || !ro_exchange_be_json(exchange)) {
        ro_exchange_fail(exchange, RO_CODE_RUNTIME_FAILURE, "memory");
    }
    else {
        ro_call_record_ok(call, result.structured_content);
        ro_exchange_reply(exchange, 200, &up);
        ro_mcp_end_sessions(exchange->session->mcp);
    }
    ro_buf_free(&up);
}

static bool
keep_entry(void *arg, ro_slice entry)
{
    ro_session *session = ((ro_exchange *)arg)->session;
    ro_call *call = session->mcp->call;
    if (ro_call_tool(call).len != 0 && session->kept++ >= RO_MAX_ALIKE) {
        return true;
    }
    return ro_call_add_entry(call, session->server, entry);
}

void
ro_exchange_reply_list(ro_exchange *exchange, size_t max)
{
    ro_session *session = exchange->session;
    ro_buf up;
    ro_buf_init(&up, max);
    if (ro_call_write_list(session->mcp->call, session->server, exchange->id,
                           &up)
        == RO_BUF_OK) {
        ro_exchange_reply_json(exchange, &up);
    }
    else {
        ro_exchange_fail(exchange, RO_CODE_RUNTIME_FAILURE, "memory");
    }
    ro_buf_free(&up);
}

static void
answer_list(ro_exchange *exchange, ro_slice message)
{
    ro_session *session = exchange->session;
    ro_list list;
    ro_buf prefix;
    ro_buf up;
    ro_buf_init(&prefix, 65536);
    ro_buf_init(&up, RO_MAX_DISCOVERY + 1024);
    ro_list_query query = {
        .tool = ro_call_tool(session->mcp->call),
        .max_depth = RO_MAX_DEPTH,
        .entry = keep_entry,
        .arg = exchange,
    };
    if (ro_buf_append_slice(&prefix, session->server) != RO_BUF_OK
        || ro_buf_append_char(&prefix, '_') != RO_BUF_OK) {
        ro_exchange_fail(exchange, RO_CODE_RUNTIME_FAILURE, "memory");
        goto done;
    }
    query.prefix = ro_buf_slice(&prefix);
    ro_list_code code = ro_list_reduce(message, &query, &list, &up);
    if (code != RO_LIST_OK || !ro_rpc_id_equal(list.id, exchange->id)) {
        ro_exchange_fail(exchange, RO_CODE_RUNTIME_FAILURE,
                         code == RO_LIST_TOO_DEEP ? "list_too_deep"
                                                  : "list_malformed");
        goto done;
    }
    if (session->kept > RO_MAX_ALIKE) {
        /* the list up to here, and no next page */
        ro_exchange_reply_list(exchange, RO_MAX_TOTAL);
        goto done;
    }
    if (list.next_cursor.len != 0
        && ro_cursors_add(&session->cursors, list.next_cursor)
               != RO_CURSOR_NEW) {
        ro_exchange_fail(exchange, RO_CODE_RUNTIME_FAILURE,
                         "list_cursor_repeated");
        goto done;
    }
    ro_exchange_reply_json(exchange, &up);
done:
    ro_buf_free(&prefix);
    ro_buf_free(&up);
}

static void
answer_other(ro_exchange *exchange, ro_slice message)
{
    ro_rpc rpc;
    ro_buf up;
    ro_rpc_kind kind = ro_rpc_classify(message, &rpc);
    if ((kind != RO_RPC_RESULT && kind != RO_RPC_ERROR)
        || !ro_rpc_id_equal(rpc.id, exchange->id)) {
        ro_exchange_fail(exchange, RO_CODE_RUNTIME_FAILURE, "not_an_answer");
        return;
    }
    if (kind == RO_RPC_ERROR
        || ro_json_type_of(rpc.result) != RO_JSON_OBJECT) {
        ro_exchange_fail(exchange, RO_CODE_RUNTIME_FAILURE, "refused");
        return;
    }
    ro_buf_init(&up, RO_MAX_DISCOVERY);
    if (ro_buf_append_slice(&up, ro_json_root(message)) != RO_BUF_OK) {
        ro_exchange_fail(exchange, RO_CODE_RUNTIME_FAILURE, "memory");
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
    if (ro_json_validate(message, &loose, NULL) != RO_JSON_OK) {
        ro_exchange_fail(exchange, RO_CODE_RUNTIME_FAILURE, "not_json");
        return;
    }
    if (exchange->kind == RO_KIND_LIST) {
        answer_list(exchange, message);
        return;
    }
    answer_other(exchange, message);
}
