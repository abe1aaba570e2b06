/* A tools/list answer, reduced to the entries that matter, and of those to
 * what the models above read (mcp/reduce.h).
 *
 * The message has passed ro_json_validate with keep_duplicates. Around an
 * entry are RO_LIST_EXTRA_DEPTH levels, so that what has passed with so many
 * more than a bound has no entry, kept or not, that is deeper. Slices point
 * into the message. Thread safe: no state but the caller's objects.
 */
#ifndef RO_MCP_TOOLLIST_H
#define RO_MCP_TOOLLIST_H

#include <stdint.h>

#include "core/buf.h"
#include "core/limits.h"
#include "core/slice.h"
#include "mcp/shape.h"

typedef enum ro_list_code {
    RO_LIST_OK = 0,
    RO_LIST_MALFORMED,  /* not one JSON-RPC result, result no object, tools
                           missing or no array, tools or nextCursor twice */
    RO_LIST_TOO_LARGE,  /* out's cap */
    RO_LIST_UNREADABLE, /* a kept entry has a number that the models'
                           JSON reader refuses */
    RO_LIST_ENTRY_TOO_LARGE,  /* the kept entries pass the budget */
    RO_LIST_CURSOR_TOO_LARGE, /* RO_MAX_CURSOR */
    RO_LIST_NO_MEMORY,
    RO_LIST_STOPPED, /* the callback returned false */
} ro_list_code;

/* Called for each entry that is kept, in order, with its raw bytes; false
 * stops. May be NULL. */
typedef bool (*ro_list_entry_fn)(void *arg, ro_slice entry);

typedef struct ro_list_query {
    ro_slice prefix;   /* "<server>_", or empty */
    ro_slice tool;     /* the resolved name; empty keeps every object */
    ro_budget *budget; /* of all kept entries. NULL: each has its own, and
                          one that cannot go up is reported and left out */
    size_t max_kept;   /* entries that go up; more are only reported. 0 is
                          no bound */
    ro_list_entry_fn entry;
    void *arg;
} ro_list_query;

typedef struct ro_list {
    ro_slice id;          /* raw */
    ro_slice next_cursor; /* raw string, len 0 when there is no next page:
                             absent, null, "" or no string (DCode's models
                             refuse the last) */
    size_t entries;       /* items of tools */
    size_t kept;
    size_t not_objects; /* items dropped for that */
} ro_list;

/* Append to out the message {"jsonrpc":"2.0","id":<raw>,"result":
 * {"tools":[<kept entries, reduced>],"nextCursor":<raw, when present>}}. A
 * nextCursor that is no string goes up as another value of its type.
 *
 * An entry is kept when it is an object and prefix + its name reads as tool,
 * byte for byte after unescaping; of several members "name" the last counts,
 * as in the models above. list is filled when RO_LIST_OK, else zeroed; out
 * is as it was unless RO_LIST_OK. */
ro_list_code ro_list_reduce(ro_slice message, const ro_list_query *query,
                            ro_list *list, ro_buf *out);

/* ---- a list from other entries (ro_reduce_tool) ---- */

/* Up to the first entry. */
void ro_list_open(ro_shaper *up, ro_slice id);
/* What follows the last; cursor is raw, len 0 for none. As ro_shape_done. */
ro_reduce_code ro_list_close(ro_shaper *up, ro_slice cursor);

/* ---- cursors that were seen ---- */

typedef enum ro_cursor_code {
    RO_CURSOR_NEW = 0,
    RO_CURSOR_REPEATED,
    RO_CURSOR_TOO_MANY, /* RO_MAX_PAGES are remembered already */
} ro_cursor_code;

/* Remembers a cursor by its length and a 128-bit hash, so that a cursor of
 * megabytes costs nothing. A collision could only cut short the list of a
 * server that looked for one. Zeroed is empty; there is nothing to free. */
typedef struct ro_cursors {
    struct {
        uint64_t hash[2];
        size_t len;
    } seen[RO_MAX_PAGES];
    size_t count;
} ro_cursors;

/* raw is a string with its quotes; remembered after unescaping. */
ro_cursor_code ro_cursors_add(ro_cursors *cursors, ro_slice raw);

#endif
