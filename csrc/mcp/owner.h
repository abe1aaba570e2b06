/* Which server owns a tool's full name: `<server>_<name>`.
 *
 * A name may have several owners (`a` with `b_c`, `a_b` with `c`). Thread
 * safe: no state.
 */
#ifndef RO_MCP_OWNER_H
#define RO_MCP_OWNER_H

#include "core/buf.h"
#include "core/slice.h"

/* Whether tool may be one of server's. */
bool ro_owner_can(ro_slice server, ro_slice tool);
/* Whether tool is exactly server's tool name. */
bool ro_owner_has(ro_slice server, ro_slice name, ro_slice tool);
/* Append what stands before the name in every full name of server's. */
ro_buf_code ro_owner_prefix(ro_slice server, ro_buf *out);

#endif
