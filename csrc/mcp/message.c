#include "mcp/message.h"

#include "core/json.h"
#include "core/limits.h"

static const char mark[] = "\xef\xbb\xbf";

ro_slice
ro_message_text(ro_slice bytes)
{
    size_t len = sizeof(mark) - 1;
    if (bytes.len >= len && memcmp(bytes.ptr, mark, len) == 0) {
        bytes.ptr += len;
        bytes.len -= len;
    }
    return bytes;
}

/* ---- what the outermost members say ---- */

typedef struct members {
    ro_slice version; /* of each name the last */
    ro_slice id;
    bool has_method;
    bool has_outcome; /* a result or an error */
} members;

static void
note_member(members *seen, ro_slice key, ro_slice value)
{
    if (ro_json_string_is(key, ro_slice_str("id"))) {
        seen->id = value;
    }
    else if (ro_json_string_is(key, ro_slice_str("jsonrpc"))) {
        seen->version = value;
    }
    else if (ro_json_string_is(key, ro_slice_str("method"))) {
        seen->has_method = true;
    }
    else if (ro_json_string_is(key, ro_slice_str("result"))
             || ro_json_string_is(key, ro_slice_str("error"))) {
        seen->has_outcome = true;
    }
}

/* Of a valid document. */
static members
members_of(ro_slice document)
{
    members seen = {.has_method = false};
    ro_slice root = ro_json_root(document);
    if (ro_json_type_of(root) == RO_JSON_OBJECT) {
        ro_json_iter iter = ro_json_iter_of(root);
        ro_slice key;
        ro_slice value;
        while (ro_json_next_member(&iter, &key, &value)) {
            note_member(&seen, key, value);
        }
    }
    return seen;
}

/* ---- the same of bytes that are no JSON ---- */

static bool
is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static size_t
skip_blanks(ro_slice text, size_t at)
{
    while (at < text.len && is_blank(text.ptr[at])) {
        at++;
    }
    return at;
}

/* The end of the string that begins at text[at], whatever it holds. */
static size_t
string_end(ro_slice text, size_t at)
{
    for (at++; at < text.len && text.ptr[at] != '"'; at++) {
        if (text.ptr[at] == '\\') {
            at++;
        }
    }
    return at < text.len ? at + 1 : text.len;
}

/* The end of the scalar at text[at]: a string, or what a separator ends. */
static size_t
scalar_end(ro_slice text, size_t at)
{
    if (at < text.len && text.ptr[at] == '"') {
        return string_end(text, at);
    }
    while (at < text.len && !is_blank(text.ptr[at])
           && strchr(",:[]{}\"", text.ptr[at]) == NULL) {
        at++;
    }
    return at;
}

static bool
is_valid(ro_slice scalar)
{
    static const ro_json_limits limits = {RO_MAX_DISCOVERY, 1, false};
    return ro_json_validate(scalar, &limits, NULL) == RO_JSON_OK;
}

/* A string that stands at the outermost level: a key with its value, when a
 * colon follows. The value is a scalar; containers read as empty. */
static void
read_member(ro_slice text, size_t begin, size_t end, members *seen)
{
    ro_slice key = ro_slice_of(text.ptr + begin, end - begin);
    size_t at = skip_blanks(text, end);
    if (at == text.len || text.ptr[at] != ':' || !is_valid(key)) {
        return;
    }
    at = skip_blanks(text, at + 1);
    ro_slice value = ro_slice_of(text.ptr + at, scalar_end(text, at) - at);
    note_member(seen, key, is_valid(value) ? value : ro_slice_of(NULL, 0));
}

/* Only strings and brackets are told apart, so that a number, an escape, a
 * depth or an end that JSON refuses hides no member before or behind it. */
static members
members_of_broken(ro_slice text)
{
    members seen = {.has_method = false};
    size_t depth = 0;
    size_t at = 0;
    while (at < text.len
           && (is_blank(text.ptr[at]) || strchr(mark, text.ptr[at]) != NULL)) {
        at++;
    }
    if (at == text.len || text.ptr[at] != '{') {
        return seen;
    }
    while (at < text.len) {
        char c = text.ptr[at];
        if (c == '"') {
            size_t end = string_end(text, at);
            if (depth == 1) {
                read_member(text, at, end, &seen);
            }
            at = end;
            continue;
        }
        if (c == '{' || c == '[') {
            depth++;
        }
        else if (c == '}' || c == ']') {
            depth -= depth != 0;
        }
        at++;
    }
    return seen;
}

/* ---- the rule ---- */

static ro_message_kind
kind_of_outcome(const members *seen)
{
    if (!seen->has_outcome || seen->id.len == 0) {
        return RO_MESSAGE_JUNK;
    }
    return RO_MESSAGE_CLAIM;
}

/* A valid document that is no JSON-RPC message as it stands. */
static ro_message_kind
kind_of_invalid(const members *seen)
{
    bool versioned = seen->version.len != 0
                     && ro_json_type_of(seen->version) == RO_JSON_STRING
                     && ro_json_string_is(seen->version, ro_slice_str("2.0"));
    if (versioned && seen->has_outcome && !seen->has_method
        && seen->id.len != 0) {
        return RO_MESSAGE_ANSWER;
    }
    return kind_of_outcome(seen);
}

static void
take_kind(ro_message *out, ro_message_kind kind, const members *seen)
{
    out->kind = kind;
    if (kind != RO_MESSAGE_JUNK) {
        out->id = seen->id;
    }
}

void
ro_message_read(ro_slice bytes, ro_message *out)
{
    static const ro_json_limits loose
        = {RO_MAX_DISCOVERY, RO_MAX_DEPTH + RO_LIST_EXTRA_DEPTH, true};
    static const ro_message nothing;
    members seen;
    *out = nothing;
    out->text = ro_message_text(bytes);
    ro_json_code code = ro_json_validate(out->text, &loose, NULL);
    if (code == RO_JSON_NO_MEMORY) {
        out->kind = RO_MESSAGE_NO_MEMORY;
        return;
    }
    if (code != RO_JSON_OK) {
        seen = members_of_broken(out->text);
        take_kind(out, kind_of_outcome(&seen), &seen);
        return;
    }
    switch (ro_rpc_classify(out->text, &out->rpc)) {
    case RO_RPC_NOTIFICATION:
        out->kind = RO_MESSAGE_NOTIFICATION;
        return;
    case RO_RPC_REQUEST:
        out->kind = RO_MESSAGE_REQUEST;
        return;
    case RO_RPC_RESULT:
    case RO_RPC_ERROR:
        out->kind = RO_MESSAGE_ANSWER;
        out->id = out->rpc.id;
        return;
    case RO_RPC_INVALID:
        break;
    }
    seen = members_of(out->text);
    take_kind(out, kind_of_invalid(&seen), &seen);
}
