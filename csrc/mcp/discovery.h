/* What discovery found: of each server the entries that its lists kept, why
 * it failed and the protocol version that it named; of all servers the bytes
 * that they have sent.
 *
 * Every function may be called from any thread; one lock inside, held for
 * list operations only. What is kept neither moves nor changes until the
 * object is freed, so that whatever is borrowed stays. The object must
 * outlive every session that uses it.
 */
#ifndef RO_MCP_DISCOVERY_H
#define RO_MCP_DISCOVERY_H

#include "core/buf.h"
#include "core/hints.h"
#include "core/slice.h"
#include "mcp/reason.h"

typedef struct ro_discovery ro_discovery;

/* tool is the full name (`<server>_<name>`) whose entries are kept; empty
 * keeps every tool of every list (the audit). NULL: out of memory. */
ro_discovery *ro_discovery_new(ro_slice tool);
void ro_discovery_free(ro_discovery *discovery);
ro_slice ro_discovery_tool(const ro_discovery *discovery);

/* Count received bytes; false when all together pass RO_MAX_TOTAL. */
bool ro_discovery_count(ro_discovery *discovery, size_t bytes);

/* ---- entries ---- */

typedef struct ro_entry {
    struct ro_entry *next; /* under the lock: see ro_discovery_next */
    ro_slice raw;          /* as the server sent it */
} ro_entry;

/* Keep a copy of one raw tools/list entry; false when out of memory. */
bool ro_discovery_add(ro_discovery *discovery, ro_slice server,
                      ro_slice entry);
/* The server's entry behind previous, in wire order; the first for NULL.
 * NULL behind the last. Borrowed. */
const ro_entry *ro_discovery_next(ro_discovery *discovery, ro_slice server,
                                  const ro_entry *previous);
/* The verdict on the one entry of a server; anything but exactly one entry
 * refuses. */
ro_hints_code ro_discovery_judge(ro_discovery *discovery, ro_slice server);
/* Whether the server's first entry has an outputSchema. */
bool ro_discovery_has_output_schema(ro_discovery *discovery, ro_slice server);
/* A tools/list answer made of the server's entries, reduced. */
ro_buf_code ro_discovery_write_list(ro_discovery *discovery, ro_slice server,
                                    ro_slice id, ro_buf *out);

/* ---- advice: out of memory, it is not kept ---- */

/* Why a server's discovery failed. First wins. */
void ro_discovery_note(ro_discovery *discovery, ro_slice server,
                       ro_reason reason);
/* RO_REASON_NONE when nothing was noted. */
ro_reason ro_discovery_noted(ro_discovery *discovery, ro_slice server);
/* The protocol version that a server's answer to initialize named, raw: a
 * string with its quotes. Last wins. */
void ro_discovery_note_version(ro_discovery *discovery, ro_slice server,
                               ro_slice text);
/* Borrowed; len 0 when none was named. */
ro_slice ro_discovery_version(ro_discovery *discovery, ro_slice server);

#endif
