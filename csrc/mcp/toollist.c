#include "mcp/toollist.h"

#include "core/json.h"
#include "core/json_text.h"
#include "mcp/reduce.h"
#include "mcp/rpc.h"

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
        || ro_json_find(rpc.result, "tools", &found->tools) != 1
        || ro_json_type_of(found->tools) != RO_JSON_ARRAY
        || ro_json_find(rpc.result, "nextCursor", &found->cursor) > 1) {
        return false;
    }
    found->id = rpc.id;
    return true;
}

static bool
is_named(ro_slice entry, ro_slice prefix, ro_slice tool)
{
    ro_slice name = {NULL, 0};
    (void)ro_json_find(entry, "name", &name);
    if (ro_json_type_of(name) != RO_JSON_STRING || prefix.len > tool.len
        || !ro_slice_equal(prefix, ro_slice_of(tool.ptr, prefix.len))) {
        return false;
    }
    return ro_json_string_is(
        name, ro_slice_of(tool.ptr + prefix.len, tool.len - prefix.len));
}

/* ---- writing ---- */

static ro_list_code
of_reduce(ro_reduce_code code)
{
    switch (code) {
    case RO_REDUCE_OK:
        return RO_LIST_OK;
    case RO_REDUCE_UNREADABLE:
        return RO_LIST_UNREADABLE;
    case RO_REDUCE_OVER_BUDGET:
        return RO_LIST_ENTRY_TOO_LARGE;
    case RO_REDUCE_TOO_LARGE:
        return RO_LIST_TOO_LARGE;
    case RO_REDUCE_NO_MEMORY:
        break;
    }
    return RO_LIST_NO_MEMORY;
}

void
ro_list_open(ro_shaper *up, ro_slice id)
{
    ro_rpc_open(&up->to, id);
    ro_write_key(&up->to, "result");
    ro_write_open(&up->to, '{');
    ro_write_key(&up->to, "tools");
    ro_write_open(&up->to, '[');
}

ro_reduce_code
ro_list_close(ro_shaper *up, ro_slice cursor)
{
    static const ro_shape emptied = {RO_SHAPE_EMPTIED, NULL, NULL};
    ro_budget budget = ro_reduce_budget();
    ro_write_close(&up->to, ']');
    if (cursor.len > 0) {
        ro_write_key(&up->to, "nextCursor");
        if (ro_json_type_of(cursor) == RO_JSON_STRING) {
            ro_write_raw(&up->to, cursor);
        }
        else {
            ro_shape_put(up, cursor, &emptied, &budget);
        }
    }
    ro_write_close(&up->to, '}');
    ro_write_close(&up->to, '}');
    return ro_shape_done(up);
}

/* An entry that has a budget of its own and is refused leaves no trace. */
static void
put_entry(ro_shaper *up, ro_slice entry, ro_budget *budget)
{
    ro_budget own = ro_reduce_budget();
    ro_shaper before = *up;
    size_t len = up->to.out->len;
    ro_reduce_tool(up, entry, budget == NULL ? &own : budget);
    if (budget == NULL && up->refused != RO_REDUCE_OK) {
        *up = before;
        up->to.out->len = len;
    }
}

/* False when the callback stops. After a refusal nothing is reported. */
static bool
put_entries(ro_shaper *up, ro_slice tools, const ro_list_query *query,
            ro_list *list)
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
        if (query->max_kept == 0 || list->kept < query->max_kept) {
            put_entry(up, entry, query->budget);
        }
        if (up->to.code != RO_BUF_OK) {
            break;
        }
        list->kept++;
        if (query->entry != NULL && !query->entry(query->arg, entry)) {
            return false;
        }
    }
    return true;
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
    page found = {.cursor = {NULL, 0}};
    size_t before = out->len;
    *list = nothing;
    if (!read_page(message, &found)) {
        return RO_LIST_MALFORMED;
    }
    if (found.cursor.len > RO_MAX_CURSOR
        && ro_json_type_of(found.cursor) == RO_JSON_STRING) {
        return RO_LIST_CURSOR_TOO_LARGE;
    }
    ro_shaper up = ro_shaper_of(out);
    ro_list_open(&up, found.id);
    bool stopped = !put_entries(&up, found.tools, query, list);
    ro_list_code code = of_reduce(ro_list_close(&up, found.cursor));
    if (stopped && code == RO_LIST_OK) {
        out->len = before;
        code = RO_LIST_STOPPED;
    }
    if (code != RO_LIST_OK) {
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

/* Two runs of FNV-1a over the text and the quote behind it, unlike in start
 * and mixing. */
static void
hash_text(ro_slice raw, uint64_t hash[2], size_t *len)
{
    const uint64_t prime = UINT64_C(0x100000001b3);
    const char *ptr = raw.ptr + 1;
    const char *end = raw.ptr + raw.len;
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
