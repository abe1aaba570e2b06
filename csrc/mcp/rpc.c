#include "mcp/rpc.h"

#include "core/json.h"
#include "core/json_text.h"

static bool
is_type(ro_slice value, ro_json_type type)
{
    return value.len > 0 && ro_json_type_of(value) == type;
}

/* A number token without fraction and exponent. */
static bool
is_integer(ro_slice value)
{
    if (!is_type(value, RO_JSON_NUMBER_VALUE)) {
        return false;
    }
    for (size_t i = 0; i < value.len; i++) {
        char c = value.ptr[i];
        if (c != '-' && (c < '0' || c > '9')) {
            return false;
        }
    }
    return true;
}

static bool
is_id(ro_slice value)
{
    return is_type(value, RO_JSON_STRING) || is_integer(value);
}

static bool
is_params(ro_slice value)
{
    return value.len == 0 || is_type(value, RO_JSON_OBJECT)
           || is_type(value, RO_JSON_ARRAY) || is_type(value, RO_JSON_NULL);
}

static bool
is_error(ro_slice value)
{
    ro_slice code = {NULL, 0};
    ro_slice message = {NULL, 0};
    return is_type(value, RO_JSON_OBJECT)
           && ro_json_find(value, "code", &code) == 1 && is_integer(code)
           && ro_json_find(value, "message", &message) == 1
           && is_type(message, RO_JSON_STRING);
}

/* The members of this level; false when one of them appears twice. */
static bool
read_members(ro_slice root, ro_slice *version, ro_rpc *out)
{
    const struct {
        const char *name;
        ro_slice *value;
    } members[] = {
        {"jsonrpc", version},     {"id", &out->id},
        {"method", &out->method}, {"params", &out->params},
        {"result", &out->result}, {"error", &out->error},
    };
    ro_json_iter iter = ro_json_iter_of(root);
    ro_slice key;
    ro_slice value;
    while (ro_json_next_member(&iter, &key, &value)) {
        for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
            if (!ro_json_string_is(key, ro_slice_str(members[i].name))) {
                continue;
            }
            if (members[i].value->len > 0) {
                return false;
            }
            *members[i].value = value;
            break;
        }
    }
    return true;
}

static ro_rpc_kind
kind_of(ro_slice root, ro_rpc *out)
{
    ro_slice version = {NULL, 0};
    if (!is_type(root, RO_JSON_OBJECT) || !read_members(root, &version, out)
        || !is_type(version, RO_JSON_STRING)
        || !ro_json_string_is(version, ro_slice_str("2.0"))
        || (out->id.len > 0 && !is_id(out->id))) {
        return RO_RPC_INVALID;
    }
    bool has_id = out->id.len > 0;
    bool has_result = out->result.len > 0;
    bool has_error = out->error.len > 0;
    if (out->method.len > 0) {
        if (!is_type(out->method, RO_JSON_STRING) || !is_params(out->params)
            || has_result || has_error) {
            return RO_RPC_INVALID;
        }
        return has_id ? RO_RPC_REQUEST : RO_RPC_NOTIFICATION;
    }
    if (!has_id || has_result == has_error) {
        return RO_RPC_INVALID;
    }
    if (has_result) {
        return RO_RPC_RESULT;
    }
    return is_error(out->error) ? RO_RPC_ERROR : RO_RPC_INVALID;
}

ro_rpc_kind
ro_rpc_classify(ro_slice message, ro_rpc *out)
{
    static const ro_rpc nothing;
    *out = nothing;
    ro_rpc_kind kind = kind_of(ro_json_root(message), out);
    if (kind == RO_RPC_INVALID) {
        *out = nothing;
    }
    return kind;
}

bool
ro_rpc_id_equal(ro_slice a, ro_slice b)
{
    if (is_type(a, RO_JSON_STRING) && is_type(b, RO_JSON_STRING)) {
        return ro_json_same_text(a.ptr + 1, b.ptr + 1);
    }
    return is_integer(a) && is_integer(b) && ro_slice_equal(a, b);
}

bool
ro_rpc_method_is(const ro_rpc *message, const char *name)
{
    return message->method.len > 0
           && ro_json_string_is(message->method, ro_slice_str(name));
}

/* ---- writing ---- */

/* What stands between two places of one document. */
static void
put_span(ro_writer *to, const char *from, const char *until)
{
    ro_write_span(to, ro_slice_of(from, (size_t)(until - from)));
}

/* The params value with arguments in their place. */
static void
put_params(ro_writer *to, ro_slice params, ro_slice arguments)
{
    if (!is_type(params, RO_JSON_OBJECT)) {
        params = ro_slice_str("{}");
    }
    const char *from = params.ptr;
    const char *end = params.ptr + params.len;
    bool replaced = false;
    ro_json_iter iter = ro_json_iter_of(params);
    ro_slice key;
    ro_slice value;
    while (ro_json_next_member(&iter, &key, &value)) {
        if (!ro_json_string_is(key, ro_slice_str("arguments"))) {
            continue;
        }
        put_span(to, from, value.ptr);
        ro_write_minified(to, arguments);
        from = value.ptr + value.len;
        replaced = true;
    }
    if (!replaced) {
        put_span(to, from, end - 1);
        ro_write_key(to, "arguments");
        ro_write_minified(to, arguments);
        from = end - 1;
    }
    put_span(to, from, end);
}

ro_buf_code
ro_rpc_replace_arguments(ro_slice request, ro_slice arguments, ro_buf *out)
{
    ro_writer to = ro_writer_of(out);
    ro_slice root = ro_json_root(request);
    const char *from = request.ptr;
    const char *end = request.ptr + request.len;
    bool found = false;
    ro_json_iter iter = ro_json_iter_of(root);
    ro_slice key;
    ro_slice value;
    while (ro_json_next_member(&iter, &key, &value)) {
        if (!ro_json_string_is(key, ro_slice_str("params"))) {
            continue;
        }
        put_span(&to, from, value.ptr);
        put_params(&to, value, arguments);
        from = value.ptr + value.len;
        found = true;
    }
    if (!found) {
        const char *brace = root.ptr + root.len - 1;
        put_span(&to, from, brace);
        ro_write_key(&to, "params");
        put_params(&to, ro_slice_of(NULL, 0), arguments);
        from = brace;
    }
    put_span(&to, from, end);
    return ro_write_done(&to);
}

void
ro_rpc_open(ro_writer *to, ro_slice id)
{
    ro_write_open(to, '{');
    ro_write_member_text(to, "jsonrpc", "2.0");
    ro_write_member(to, "id", id);
}

ro_buf_code
ro_rpc_write_error(ro_buf *out, ro_slice id, int code, const char *message)
{
    ro_writer to = ro_writer_of(out);
    ro_rpc_open(&to, id);
    ro_write_key(&to, "error");
    ro_write_open(&to, '{');
    ro_write_key(&to, "code");
    ro_write_int(&to, code);
    ro_write_member_text(&to, "message", message);
    ro_write_close(&to, '}');
    ro_write_close(&to, '}');
    return ro_write_done(&to);
}

ro_buf_code
ro_rpc_write_failure(ro_buf *out, ro_slice id)
{
    return ro_rpc_write_error(out, id, RO_RPC_INTERNAL_ERROR,
                              "The request failed.");
}

ro_buf_code
ro_rpc_write_result(ro_buf *out, ro_slice id, ro_slice result)
{
    ro_writer to = ro_writer_of(out);
    ro_rpc_open(&to, id);
    ro_write_member(&to, "result", result);
    ro_write_close(&to, '}');
    return ro_write_done(&to);
}

ro_buf_code
ro_rpc_write_answer(ro_buf *out, const ro_rpc *request)
{
    static const struct {
        const char *method;
        const char *message;
    } declined[] = {
        {"sampling/createMessage", "Sampling not supported"},
        {"elicitation/create", "Elicitation not supported"},
        {"roots/list", "List roots not supported"},
    };
    if (ro_rpc_method_is(request, "ping")) {
        return ro_rpc_write_result(out, request->id, ro_slice_str("{}"));
    }
    for (size_t i = 0; i < sizeof(declined) / sizeof(declined[0]); i++) {
        if (ro_rpc_method_is(request, declined[i].method)) {
            return ro_rpc_write_error(out, request->id, RO_RPC_INVALID_REQUEST,
                                      declined[i].message);
        }
    }
    return ro_rpc_write_error(out, request->id, RO_RPC_METHOD_NOT_FOUND,
                              "Method not found");
}
