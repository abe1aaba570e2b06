#include "core/toollist.h"

#include "core/json.h"
#include "core/json_text.h"
#include "core/rpc.h"

/* ---- reading ---- */

typedef struct page {
    ro_slice id;
    ro_slice tools;  /* the raw array */
    ro_slice cursor; /* raw, len 0 when absent */
} page;

static bool
read_page(ro_slice message, page *found)
{
    ro_rpc rpc;
    if (ro_rpc_classify(message, &rpc) != RO_RPC_RESULT
        || ro_json_type_of(rpc.result) != RO_JSON_OBJECT
        || ro_json_find(rpc.result, "tools", &found->tools) != 1
        || ro_json_type_of(found->tools) != RO_JSON_ARRAY
        || ro_json_find(rpc.result, "nextCursor", &found->cursor) > 1) {
        return false;
    }
    found->id = rpc.id;
    return true;
}

/* Levels of containers in a valid value. */
static unsigned
depth_of(ro_slice value)
{
    unsigned depth = 0;
    unsigned deepest = 0;
    bool in_string = false;
    for (size_t i = 0; i < value.len; i++) {
        char c = value.ptr[i];
        if (in_string) {
            if (c == '\\') {
                i++;
            }
            in_string = c != '"';
        }
        else if (c == '"') {
            in_string = true;
        }
        else if (c == '{' || c == '[') {
            depth++;
            deepest = depth > deepest ? depth : deepest;
        }
        else if (c == '}' || c == ']') {
            depth--;
        }
    }
    return deepest;
}

static bool
is_named(ro_slice entry, ro_slice prefix, ro_slice tool)
{
    ro_slice name;
    if (ro_json_find(entry, "name", &name) == 0
        || ro_json_type_of(name) != RO_JSON_STRING || prefix.len > tool.len
        || !ro_slice_equal(prefix, ro_slice_of(tool.ptr, prefix.len))) {
        return false;
    }
    return ro_json_string_is(
        name, ro_slice_of(tool.ptr + prefix.len, tool.len - prefix.len));
}

/* ---- writing ---- */

static ro_list_code
of_buf(ro_buf_code code)
{
    if (code == RO_BUF_OK) {
        return RO_LIST_OK;
    }
    return code == RO_BUF_TOO_LARGE ? RO_LIST_TOO_LARGE : RO_LIST_NO_MEMORY;
}

static ro_list_code
put(ro_buf *out, ro_slice bytes)
{
    return of_buf(ro_buf_append_slice(out, bytes));
}

static ro_list_code
put_text(ro_buf *out, const char *text)
{
    return put(out, ro_slice_str(text));
}

static ro_list_code
put_head(ro_buf *out, ro_slice id)
{
    ro_list_code code = put_text(out, "{\"jsonrpc\":\"2.0\",\"id\":");
    if (code == RO_LIST_OK) {
        code = put(out, id);
    }
    if (code == RO_LIST_OK) {
        code = put_text(out, ",\"result\":{\"tools\":[");
    }
    return code;
}

static ro_list_code
put_tail(ro_buf *out, ro_slice cursor)
{
    ro_list_code code = put_text(out, "]");
    if (code == RO_LIST_OK && cursor.len > 0) {
        code = put_text(out, ",\"nextCursor\":");
        if (code == RO_LIST_OK) {
            code = put(out, cursor);
        }
    }
    if (code == RO_LIST_OK) {
        code = put_text(out, "}}");
    }
    return code;
}

static ro_list_code
keep_entry(ro_slice entry, const ro_list_query *query, ro_list *list,
           ro_buf *out)
{
    ro_list_code code = RO_LIST_OK;
    if (list->kept > 0) {
        code = put_text(out, ",");
    }
    if (code == RO_LIST_OK) {
        code = put(out, entry);
    }
    if (code != RO_LIST_OK) {
        return code;
    }
    list->kept++;
    if (query->entry != NULL && !query->entry(query->arg, entry)) {
        return RO_LIST_STOPPED;
    }
    return RO_LIST_OK;
}

static ro_list_code
put_entries(ro_slice tools, const ro_list_query *query, ro_list *list,
            ro_buf *out)
{
    ro_json_iter iter = ro_json_iter_of(tools);
    ro_slice entry;
    while (ro_json_next_item(&iter, &entry)) {
        list->entries++;
        if (ro_json_type_of(entry) != RO_JSON_OBJECT) {
            list->not_objects++;
            continue;
        }
        if (query->tool.len > 0
            && !is_named(entry, query->prefix, query->tool)) {
            continue;
        }
        ro_list_code code = keep_entry(entry, query, list, out);
        if (code != RO_LIST_OK) {
            return code;
        }
    }
    return RO_LIST_OK;
}

/* Before the first callback, so that no entry of a bad page is reported. */
static bool
is_too_deep(ro_slice tools, unsigned max_depth)
{
    ro_json_iter iter = ro_json_iter_of(tools);
    ro_slice entry;
    while (ro_json_next_item(&iter, &entry)) {
        if (depth_of(entry) > max_depth) {
            return true;
        }
    }
    return false;
}

static bool
is_next_page(ro_slice cursor)
{
    return cursor.len > 2 && ro_json_type_of(cursor) == RO_JSON_STRING;
}

ro_list_code
ro_list_reduce(ro_slice message, const ro_list_query *query, ro_list *list,
               ro_buf *out)
{
    static const ro_list nothing;
    page found = {{NULL, 0}, {NULL, 0}, {NULL, 0}};
    size_t before = out->len;
    *list = nothing;
    if (!read_page(message, &found)) {
        return RO_LIST_MALFORMED;
    }
    if (is_too_deep(found.tools, query->max_depth)) {
        return RO_LIST_TOO_DEEP;
    }
    ro_list_code code = put_head(out, found.id);
    if (code == RO_LIST_OK) {
        code = put_entries(found.tools, query, list, out);
    }
    if (code == RO_LIST_OK) {
        code = put_tail(out, found.cursor);
    }
    if (code != RO_LIST_OK) {
        out->len = before;
        *list = nothing;
        return code;
    }
    list->id = found.id;
    if (is_next_page(found.cursor)) {
        list->next_cursor = found.cursor;
    }
    return RO_LIST_OK;
}

/* ---- cursors that were seen ---- */

/* Two runs of FNV-1a over the text, unlike in start and mixing. */
static void
hash_text(ro_slice raw, uint64_t hash[2], size_t *len)
{
    const uint64_t prime = UINT64_C(0x100000001b3);
    const char *ptr = raw.ptr + 1;
    const char *end = raw.ptr + raw.len - 1;
    hash[0] = UINT64_C(0xcbf29ce484222325);
    hash[1] = UINT64_C(0x9e3779b97f4a7c15);
    *len = 0;
    while (ptr < end) {
        char bytes[4];
        size_t count = ro_json_read_char(&ptr, bytes);
        for (size_t i = 0; i < count; i++) {
            unsigned char byte = (unsigned char)bytes[i];
            hash[0] = (hash[0] ^ byte) * prime;
            hash[1] = (hash[1] ^ byte ^ (hash[1] >> 29)) * prime;
        }
        *len += count;
    }
}

ro_cursor_code
ro_cursors_add(ro_cursors *cursors, ro_slice raw)
{
    uint64_t hash[2];
    size_t len;
    hash_text(raw, hash, &len);
    for (size_t i = 0; i < cursors->count; i++) {
        if (cursors->seen[i].len == len && cursors->seen[i].hash[0] == hash[0]
            && cursors->seen[i].hash[1] == hash[1]) {
            return RO_CURSOR_REPEATED;
        }
    }
    if (cursors->count == RO_MAX_PAGES) {
        return RO_CURSOR_TOO_MANY;
    }
    cursors->seen[cursors->count].len = len;
    cursors->seen[cursors->count].hash[0] = hash[0];
    cursors->seen[cursors->count].hash[1] = hash[1];
    cursors->count++;
    return RO_CURSOR_NEW;
}
