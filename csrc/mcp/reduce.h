/* What goes up of the three answers that the SDK gets: what DCode, the
 * adapter and the SDK read of them, in bounds, and nothing that their JSON
 * reader refuses, since the SDK would then never answer its caller.
 *
 * The tables name every member that the SDK's models know, so that they
 * judge what they would have judged; a test compares both. Values have
 * passed ro_json_validate. Thread safe: no state.
 */
#ifndef RO_MCP_REDUCE_H
#define RO_MCP_REDUCE_H

#include "core/buf.h"
#include "core/slice.h"
#include "mcp/result.h"
#include "mcp/shape.h"

/* RO_MAX_UP_VALUES and RO_MAX_UP_BYTES. */
ro_budget ro_reduce_budget(void);

/* Each appends one document or value and leaves out as it was unless
 * RO_REDUCE_OK. id is raw. */

/* The whole message with the result of initialize, an object. */
ro_reduce_code ro_reduce_initialize(ro_slice id, ro_slice result, ro_buf *out);
/* One tools/list entry, an object, as the next value of a document. An
 * inputSchema over its bound goes up as {}: the arguments of the one call
 * are written behind the models' back. */
void ro_reduce_tool(ro_shaper *up, ro_slice entry, ro_budget *budget);
/* The whole message with the result of the call; structuredContent only when
 * the SDK checks it against a schema. */
ro_reduce_code ro_reduce_result(ro_slice id, const ro_result *result,
                                bool structured, ro_buf *out);
/* The whole message with any other result, an object. */
ro_reduce_code ro_reduce_other(ro_slice id, ro_slice result, ro_buf *out);

/* Bytes that the envelope of this result has at least, whatever is redacted:
 * secrets stand in strings, so of a string its quotes are counted. */
size_t ro_reduce_least_envelope(const ro_result *result);

#endif
