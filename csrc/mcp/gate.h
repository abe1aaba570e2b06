/* The one-shot gate: closed until the verdict, open for one tools/call of
 * one tool on one server with given arguments, then closed for good.
 *
 * Every function may be called from any thread; one lock inside. The object
 * must outlive every session that uses it. Where nothing is called (the
 * audit) there is no gate: NULL is one that is closed and stays closed.
 */
#ifndef RO_MCP_GATE_H
#define RO_MCP_GATE_H

#include "core/buf.h"
#include "core/slice.h"
#include "mcp/discovery.h"

typedef struct ro_gate ro_gate;

typedef enum ro_gate_state {
    RO_GATE_CLOSED,
    RO_GATE_OPEN,
    RO_GATE_USED,
} ro_gate_state;

/* tool is the full name (`<server>_<name>`). NULL: out of memory. */
ro_gate *ro_gate_new(ro_slice tool);
void ro_gate_free(ro_gate *gate);

ro_gate_state ro_gate_state_of(ro_gate *gate);
/* Open for one call of the tool on server with these arguments (one strict
 * JSON object, copied minified). False unless the gate was closed, the
 * server can own the tool, the verdict on what discovery found allows it and
 * memory sufficed. */
bool ro_gate_open(ro_gate *gate, ro_discovery *discovery, ro_slice server,
                  ro_slice arguments);
/* A tools/call of name (after unescaping) wants to pass. True at most once
 * in the life of the object; arguments are appended to out. A refusal
 * changes nothing. */
bool ro_gate_pass(ro_gate *gate, ro_slice server, ro_slice name, ro_buf *out);

#endif
