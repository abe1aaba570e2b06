#include "mcp/discovery.h"

#include <pthread.h>

#include "core/alloc.h"
#include "core/json.h"
#include "core/limits.h"
#include "mcp/reduce.h"
#include "mcp/toollist.h"

/* One server; made with the first thing that is kept for it. Servers, entries
 * and versions are only ever added: a pointer that was found under the lock
 * stays good after it, and its bytes never change. */
typedef struct server {
    struct server *next;
    ro_slice name; /* in the same block */
    ro_entry *entries;
    ro_entry **entries_end;
    ro_entry *versions; /* the last one first; earlier ones stay, because a
                           reader may still hold their bytes */
    ro_reason reason;   /* zeroed, it is RO_REASON_NONE */
} server;

struct ro_discovery {
    pthread_mutex_t lock; /* all below but tool */
    char *tool_bytes;
    ro_slice tool;
    size_t received;
    server *servers;
};

ro_discovery *
ro_discovery_new(ro_slice tool)
{
    ro_discovery *discovery = ro_calloc(1, sizeof(*discovery));
    if (discovery == NULL) {
        return NULL;
    }
    discovery->tool_bytes = ro_memdup(tool.ptr, tool.len);
    if (discovery->tool_bytes == NULL
        || pthread_mutex_init(&discovery->lock, NULL) != 0) {
        ro_free(discovery->tool_bytes);
        ro_free(discovery);
        return NULL;
    }
    discovery->tool = ro_slice_of(discovery->tool_bytes, tool.len);
    return discovery;
}

static void
free_entries(ro_entry *entry)
{
    while (entry != NULL) {
        ro_entry *next = entry->next;
        ro_free(entry);
        entry = next;
    }
}

void
ro_discovery_free(ro_discovery *discovery)
{
    if (discovery == NULL) {
        return;
    }
    while (discovery->servers != NULL) {
        server *next = discovery->servers->next;
        free_entries(discovery->servers->entries);
        free_entries(discovery->servers->versions);
        ro_free(discovery->servers);
        discovery->servers = next;
    }
    ro_free(discovery->tool_bytes);
    (void)pthread_mutex_destroy(&discovery->lock);
    ro_free(discovery);
}

ro_slice
ro_discovery_tool(const ro_discovery *discovery)
{
    return discovery->tool;
}

bool
ro_discovery_count(ro_discovery *discovery, size_t bytes)
{
    pthread_mutex_lock(&discovery->lock);
    /* received never passes the total, so the difference cannot wrap. */
    bool within = bytes <= RO_MAX_TOTAL - discovery->received;
    discovery->received = within ? discovery->received + bytes : RO_MAX_TOTAL;
    pthread_mutex_unlock(&discovery->lock);
    return within;
}

/* ---- servers ---- */

static server *
find_locked(const ro_discovery *discovery, ro_slice name)
{
    server *each = discovery->servers;
    while (each != NULL && !ro_slice_equal(each->name, name)) {
        each = each->next;
    }
    return each;
}

/* NULL: out of memory. */
static server *
make_server(ro_slice name)
{
    server *made = ro_calloc(1, sizeof(*made) + name.len);
    if (made != NULL) {
        char *bytes = (char *)(made + 1);
        if (name.len != 0) {
            memcpy(bytes, name.ptr, name.len);
        }
        made->name = ro_slice_of(bytes, name.len);
        made->entries_end = &made->entries;
    }
    return made;
}

/* Found or made; NULL: out of memory. */
static server *
server_of(ro_discovery *discovery, ro_slice name)
{
    pthread_mutex_lock(&discovery->lock);
    server *found = find_locked(discovery, name);
    if (found == NULL) {
        found = make_server(name);
        if (found != NULL) {
            found->next = discovery->servers;
            discovery->servers = found;
        }
    }
    pthread_mutex_unlock(&discovery->lock);
    return found;
}

/* ---- entries ---- */

static ro_entry *
copy_of(ro_slice raw)
{
    ro_entry *copy = ro_malloc(sizeof(*copy) + raw.len);
    if (copy != NULL) {
        if (raw.len != 0) {
            memcpy(copy + 1, raw.ptr, raw.len);
        }
        copy->next = NULL;
        copy->raw = ro_slice_of((char *)(copy + 1), raw.len);
    }
    return copy;
}

bool
ro_discovery_add(ro_discovery *discovery, ro_slice name, ro_slice raw)
{
    server *owner = server_of(discovery, name);
    ro_entry *added = owner == NULL ? NULL : copy_of(raw);
    if (added == NULL) {
        return false;
    }
    pthread_mutex_lock(&discovery->lock);
    *owner->entries_end = added;
    owner->entries_end = &added->next;
    pthread_mutex_unlock(&discovery->lock);
    return true;
}

const ro_entry *
ro_discovery_next(ro_discovery *discovery, ro_slice name,
                  const ro_entry *previous)
{
    const ro_entry *next = NULL;
    pthread_mutex_lock(&discovery->lock);
    if (previous != NULL) {
        next = previous->next;
    }
    else {
        const server *owner = find_locked(discovery, name);
        next = owner == NULL ? NULL : owner->entries;
    }
    pthread_mutex_unlock(&discovery->lock);
    return next;
}

ro_hints_code
ro_discovery_judge(ro_discovery *discovery, ro_slice name)
{
    const ro_entry *only = ro_discovery_next(discovery, name, NULL);
    if (only == NULL || ro_discovery_next(discovery, name, only) != NULL) {
        return RO_HINTS_ENTRY_NOT_OBJECT; /* none, or more than one */
    }
    return ro_hints_judge(only->raw, RO_MAX_DEPTH);
}

bool
ro_discovery_has_output_schema(ro_discovery *discovery, ro_slice name)
{
    const ro_entry *first = ro_discovery_next(discovery, name, NULL);
    ro_slice schema;
    return first != NULL && ro_json_type_of(first->raw) == RO_JSON_OBJECT
           && ro_json_find(first->raw, "outputSchema", &schema) != 0
           && ro_json_type_of(schema) != RO_JSON_NULL;
}

ro_buf_code
ro_discovery_write_list(ro_discovery *discovery, ro_slice name, ro_slice id,
                        ro_buf *out)
{
    ro_budget budget = ro_reduce_budget();
    const ro_entry *entry = NULL;
    ro_shaper up = ro_shaper_of(out);
    ro_list_open(&up, id);
    while ((entry = ro_discovery_next(discovery, name, entry)) != NULL) {
        ro_reduce_tool(&up, entry->raw, &budget);
    }
    /* An entry that is refused here was refused when it was listed, and its
     * server has failed then. */
    switch (ro_list_close(&up, (ro_slice){NULL, 0})) {
    case RO_REDUCE_OK:
        return RO_BUF_OK;
    case RO_REDUCE_NO_MEMORY:
        return RO_BUF_NO_MEMORY;
    case RO_REDUCE_UNREADABLE:
    case RO_REDUCE_OVER_BUDGET:
    case RO_REDUCE_TOO_LARGE:
        break;
    }
    return RO_BUF_TOO_LARGE;
}

/* ---- advice ---- */

void
ro_discovery_note(ro_discovery *discovery, ro_slice name, ro_reason reason)
{
    server *of = server_of(discovery, name);
    if (of == NULL) {
        return; /* the failure itself is answered */
    }
    pthread_mutex_lock(&discovery->lock);
    if (of->reason == RO_REASON_NONE) {
        of->reason = reason;
    }
    pthread_mutex_unlock(&discovery->lock);
}

ro_reason
ro_discovery_noted(ro_discovery *discovery, ro_slice name)
{
    pthread_mutex_lock(&discovery->lock);
    const server *of = find_locked(discovery, name);
    ro_reason reason = of == NULL ? RO_REASON_NONE : of->reason;
    pthread_mutex_unlock(&discovery->lock);
    return reason;
}

void
ro_discovery_note_version(ro_discovery *discovery, ro_slice name,
                          ro_slice text)
{
    server *of = server_of(discovery, name);
    ro_entry *added = of == NULL ? NULL : copy_of(text);
    if (added == NULL) {
        return;
    }
    pthread_mutex_lock(&discovery->lock);
    added->next = of->versions;
    of->versions = added;
    pthread_mutex_unlock(&discovery->lock);
}

ro_slice
ro_discovery_version(ro_discovery *discovery, ro_slice name)
{
    ro_slice text = {NULL, 0};
    pthread_mutex_lock(&discovery->lock);
    const server *of = find_locked(discovery, name);
    if (of != NULL && of->versions != NULL) {
        text = of->versions->raw;
    }
    pthread_mutex_unlock(&discovery->lock);
    return text;
}
