#include "core/call.h"

#include <pthread.h>

#include "core/alloc.h"
#include "core/json.h"
#include "core/limits.h"

typedef struct entry {
    struct entry *next;
    ro_slice server; /* both in the same block */
    ro_slice raw;
} entry;

typedef struct note {
    struct note *next;
    ro_slice server;
    const char *reason;
} note;

struct ro_call {
    pthread_mutex_t lock;
    ro_slice tool;
    char *tool_bytes;
    size_t received;
    entry *entries;
    entry **entries_end;
    note *notes;
    ro_gate gate;
    char *server; /* the one server that the gate is open for */
    size_t server_len;
    ro_buf arguments;
    bool recorded;
    ro_code outcome;
    ro_buf structured;
};

ro_call *
ro_call_new(ro_slice tool)
{
    ro_call *call = ro_calloc(1, sizeof(*call));
    if (call == NULL) {
        return NULL;
    }
    call->tool_bytes = ro_memdup(tool.ptr, tool.len);
    if (call->tool_bytes == NULL) {
        ro_free(call);
        return NULL;
    }
    if (pthread_mutex_init(&call->lock, NULL) != 0) {
        ro_free(call->tool_bytes);
        ro_free(call);
        return NULL;
    }
    call->tool = ro_slice_of(call->tool_bytes, tool.len);
    call->entries_end = &call->entries;
    ro_buf_init(&call->arguments, RO_MAX_STDIN);
    ro_buf_init(&call->structured, RO_MAX_ANSWER);
    return call;
}

void
ro_call_free(ro_call *call)
{
    if (call == NULL) {
        return;
    }
    while (call->entries != NULL) {
        entry *next = call->entries->next;
        ro_free(call->entries);
        call->entries = next;
    }
    while (call->notes != NULL) {
        note *next = call->notes->next;
        ro_free(call->notes);
        call->notes = next;
    }
    ro_buf_free(&call->arguments);
    ro_buf_free(&call->structured);
    ro_free(call->server);
    ro_free(call->tool_bytes);
    (void)pthread_mutex_destroy(&call->lock);
    ro_free(call);
}

ro_slice
ro_call_tool(const ro_call *call)
{
    return call->tool;
}

bool
ro_call_count(ro_call *call, size_t bytes)
{
    bool within;
    pthread_mutex_lock(&call->lock);
    if (bytes > RO_MAX_TOTAL - call->received) {
        call->received = RO_MAX_TOTAL;
        within = false;
    }
    else {
        call->received += bytes;
        within = true;
    }
    pthread_mutex_unlock(&call->lock);
    return within;
}

/* ---- discovery ---- */

bool
ro_call_add_entry(ro_call *call, ro_slice server, ro_slice raw)
{
    entry *added = ro_malloc(sizeof(*added) + server.len + raw.len);
    if (added == NULL) {
        return false;
    }
    char *bytes = (char *)(added + 1);
    if (server.len != 0) {
        memcpy(bytes, server.ptr, server.len);
    }
    memcpy(bytes + server.len, raw.ptr, raw.len);
    added->next = NULL;
    added->server = ro_slice_of(bytes, server.len);
    added->raw = ro_slice_of(bytes + server.len, raw.len);
    pthread_mutex_lock(&call->lock);
    *call->entries_end = added;
    call->entries_end = &added->next;
    pthread_mutex_unlock(&call->lock);
    return true;
}

static const entry *
entry_locked(const ro_call *call, ro_slice server, size_t index)
{
    for (const entry *each = call->entries; each != NULL; each = each->next) {
        if (ro_slice_equal(each->server, server) && index-- == 0) {
            return each;
        }
    }
    return NULL;
}

bool
ro_call_entry(ro_call *call, ro_slice server, size_t index, ro_slice *raw)
{
    pthread_mutex_lock(&call->lock);
    const entry *found = entry_locked(call, server, index);
    pthread_mutex_unlock(&call->lock);
    if (found == NULL) {
        return false;
    }
    *raw = found->raw;
    return true;
}

static const note *
note_locked(const ro_call *call, ro_slice server)
{
    for (const note *each = call->notes; each != NULL; each = each->next) {
        if (ro_slice_equal(each->server, server)) {
            return each;
        }
    }
    return NULL;
}

void
ro_call_note(ro_call *call, ro_slice server, const char *reason)
{
    note *added = ro_malloc(sizeof(*added) + server.len);
    if (added == NULL) {
        return; /* the reason is advice; the failure itself is answered */
    }
    char *bytes = (char *)(added + 1);
    if (server.len != 0) {
        memcpy(bytes, server.ptr, server.len);
    }
    added->server = ro_slice_of(bytes, server.len);
    added->reason = reason;
    pthread_mutex_lock(&call->lock);
    if (note_locked(call, server) == NULL) {
        added->next = call->notes;
        call->notes = added;
        added = NULL;
    }
    pthread_mutex_unlock(&call->lock);
    ro_free(added);
}

const char *
ro_call_noted(ro_call *call, ro_slice server)
{
    pthread_mutex_lock(&call->lock);
    const note *found = note_locked(call, server);
    pthread_mutex_unlock(&call->lock);
    return found == NULL ? NULL : found->reason;
}

ro_hints_code
ro_call_judge(ro_call *call, ro_slice server)
{
    ro_slice raw;
    ro_slice second;
    if (!ro_call_entry(call, server, 0, &raw)
        || ro_call_entry(call, server, 1, &second)) {
        return RO_HINTS_ENTRY_NOT_OBJECT;
    }
    return ro_hints_judge(raw, RO_MAX_DEPTH);
}

ro_buf_code
ro_call_write_list(ro_call *call, ro_slice server, ro_slice id, ro_buf *out)
{
    ro_slice raw;
    ro_buf_code code = ro_buf_append_slice(
        out, ro_slice_str("{\"jsonrpc\":\"2.0\",\"id\":"));
    if (code == RO_BUF_OK) {
        code = ro_buf_append_slice(out, id);
    }
    if (code == RO_BUF_OK) {
        code = ro_buf_append_slice(out,
                                   ro_slice_str(",\"result\":{\"tools\":["));
    }
    for (size_t i = 0;
         code == RO_BUF_OK && ro_call_entry(call, server, i, &raw); i++) {
        if (i != 0) {
            code = ro_buf_append_char(out, ',');
        }
        if (code == RO_BUF_OK) {
            code = ro_buf_append_slice(out, raw);
        }
    }
    if (code == RO_BUF_OK) {
        code = ro_buf_append_slice(out, ro_slice_str("]}}"));
    }
    return code;
}

bool
ro_call_has_output_schema(ro_call *call, ro_slice server)
{
    ro_slice raw;
    ro_slice schema;
    return ro_call_entry(call, server, 0, &raw)
           && ro_json_type_of(raw) == RO_JSON_OBJECT
           && ro_json_find(raw, "outputSchema", &schema) != 0
           && ro_json_type_of(schema) != RO_JSON_NULL;
}

/* ---- the gate ---- */

/* Whether tool is `<server>_<name>`. */
static bool
owns(ro_slice tool, ro_slice server, ro_slice name)
{
    return tool.len == server.len + 1 + name.len && tool.len != 0
           && memcmp(tool.ptr, server.ptr, server.len) == 0
           && tool.ptr[server.len] == '_'
           && (name.len == 0
               || memcmp(tool.ptr + server.len + 1, name.ptr, name.len) == 0);
}

bool
ro_call_open(ro_call *call, ro_slice server, ro_slice arguments)
{
    bool opened = false;
    if (server.len == 0 || server.len >= call->tool.len
        || memcmp(call->tool.ptr, server.ptr, server.len) != 0
        || call->tool.ptr[server.len] != '_'
        || ro_call_judge(call, server) != RO_HINTS_READ_ONLY) {
        return false;
    }
    char *copy = ro_memdup(server.ptr, server.len);
    if (copy == NULL) {
        return false;
    }
    pthread_mutex_lock(&call->lock);
    if (call->gate == RO_GATE_CLOSED
        && ro_json_minify(arguments, &call->arguments) == RO_BUF_OK) {
        call->server = copy;
        call->server_len = server.len;
        call->gate = RO_GATE_OPEN;
        copy = NULL;
        opened = true;
    }
    pthread_mutex_unlock(&call->lock);
    ro_free(copy);
    return opened;
}

ro_gate
ro_call_gate(ro_call *call)
{
    pthread_mutex_lock(&call->lock);
    ro_gate gate = call->gate;
    pthread_mutex_unlock(&call->lock);
    return gate;
}

bool
ro_call_pass(ro_call *call, ro_slice server, ro_slice name, ro_buf *out)
{
    bool passed = false;
    pthread_mutex_lock(&call->lock);
    if (call->gate == RO_GATE_OPEN
        && ro_slice_equal(server, ro_slice_of(call->server, call->server_len))
        && owns(call->tool, server, name)
        && ro_buf_append_slice(out, ro_buf_slice(&call->arguments))
               == RO_BUF_OK) {
        call->gate = RO_GATE_USED;
        passed = true;
    }
    pthread_mutex_unlock(&call->lock);
    return passed;
}

/* ---- the record ---- */

void
ro_call_record(ro_call *call, ro_code code)
{
    pthread_mutex_lock(&call->lock);
    if (!call->recorded) {
        call->recorded = true;
        call->outcome = code;
    }
    pthread_mutex_unlock(&call->lock);
}

void
ro_call_record_ok(ro_call *call, ro_slice structured)
{
    pthread_mutex_lock(&call->lock);
    if (!call->recorded) {
        call->recorded = true;
        call->outcome = RO_CODE_OK;
        if (structured.len != 0
            && ro_json_minify(structured, &call->structured) != RO_BUF_OK) {
            call->outcome = RO_CODE_RUNTIME_FAILURE;
        }
    }
    pthread_mutex_unlock(&call->lock);
}

bool
ro_call_outcome(ro_call *call, ro_code *code)
{
    pthread_mutex_lock(&call->lock);
    bool recorded = call->recorded;
    if (recorded) {
        *code = call->outcome;
    }
    pthread_mutex_unlock(&call->lock);
    return recorded;
}

ro_slice
ro_call_structured(ro_call *call)
{
    pthread_mutex_lock(&call->lock);
    ro_slice structured = ro_buf_slice(&call->structured);
    pthread_mutex_unlock(&call->lock);
    return structured;
}
