/* The one call: what discovery found, the one-shot gate, the record.
 *
 * Every function may be called from any thread; one mutex inside, held for
 * copies only. The object must outlive every session that uses it.
 *
 * The gate is closed until the verdict, open for one tools/call of one tool
 * on one server, and then closed for good. The record keeps the first
 * outcome; later ones are ignored.
 */
#ifndef RO_CORE_CALL_H
#define RO_CORE_CALL_H

#include <stdint.h>

#include "core/buf.h"
#include "core/envelope.h"
#include "core/hints.h"
#include "core/slice.h"

typedef struct ro_call ro_call;

typedef enum ro_gate {
    RO_GATE_CLOSED,
    RO_GATE_OPEN,
    RO_GATE_USED,
} ro_gate;

/* tool is the full name (`<server>_<name>`); empty keeps every tool of
 * every list (the audit) and can never be opened. NULL: out of memory. */
ro_call *ro_call_new(ro_slice tool);
void ro_call_free(ro_call *call);
ro_slice ro_call_tool(const ro_call *call);

/* Count received bytes; false when all together pass RO_MAX_TOTAL. */
bool ro_call_count(ro_call *call, size_t bytes);

/* ---- discovery ---- */

/* Keep a copy of one raw tools/list entry; false when out of memory. */
bool ro_call_add_entry(ro_call *call, ro_slice server, ro_slice entry);
/* Entries kept for a server, in wire order. entry is borrowed and stays
 * until the call is freed. False behind the last. */
bool ro_call_entry(ro_call *call, ro_slice server, size_t index,
                   ro_slice *entry);
/* Why a server's discovery failed; reason is static text. First wins. */
void ro_call_note(ro_call *call, ro_slice server, const char *reason);
/* NULL when nothing was noted. */
const char *ro_call_noted(ro_call *call, ro_slice server);
/* The verdict on the one entry of a server; anything but exactly one entry
 * refuses. */
ro_hints_code ro_call_judge(ro_call *call, ro_slice server);
/* A tools/list answer made of the entries kept for the server. */
ro_buf_code ro_call_write_list(ro_call *call, ro_slice server, ro_slice id,
                               ro_buf *out);
/* Whether the server's entry has an outputSchema. */
bool ro_call_has_output_schema(ro_call *call, ro_slice server);

/* ---- the gate ---- */

/* Open for one call of the tool on server with these arguments (one strict
 * JSON object, copied minified). False unless the gate was closed, the
 * server can own the tool, the verdict allows it and memory sufficed. */
bool ro_call_open(ro_call *call, ro_slice server, ro_slice arguments);
ro_gate ro_call_gate(ro_call *call);
/* A tools/call of name (after unescaping) wants to pass. True at most once
 * in the life of the object; arguments are appended to out. A refusal
 * changes nothing. */
bool ro_call_pass(ro_call *call, ro_slice server, ro_slice name, ro_buf *out);

/* ---- the record ---- */

void ro_call_record(ro_call *call, ro_code code);
/* structured is copied minified; len 0 when the server sent none. */
void ro_call_record_ok(ro_call *call, ro_slice structured);
/* False while nothing is recorded. RO_CODE_OK is a success. */
bool ro_call_outcome(ro_call *call, ro_code *code);
/* The minified structuredContent of a recorded success; borrowed, stays
 * until the call is freed. len 0 when there was none. */
ro_slice ro_call_structured(ro_call *call);

#endif
