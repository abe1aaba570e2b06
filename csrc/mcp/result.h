/* The verdict on the call's one answer.
 *
 * The message has passed ro_json_validate without keep_duplicates, so it
 * has no duplicate keys and is within the depth. Slices point into it.
 * Thread safe: no state.
 */
#ifndef RO_MCP_RESULT_H
#define RO_MCP_RESULT_H

#include "core/envelope.h"
#include "core/slice.h"

typedef enum ro_result_code {
    RO_RESULT_OK = 0,
    RO_RESULT_MALFORMED,   /* no JSON-RPC answer with our id; a member of
                              the result of a wrong type; a block of an
                              unknown type or with a wrong member */
    RO_RESULT_TOOL_FAILED, /* a JSON-RPC error, or isError true: its blocks
                              are not looked at */
    RO_RESULT_UNSUPPORTED, /* well-formed, with a block that the adapter
                              cannot convert (audio) */
} ro_result_code;

/* Filled for RO_RESULT_OK, else zeroed. */
typedef struct ro_result {
    ro_slice content;            /* the raw array */
    ro_slice structured_content; /* the raw object; len 0 when absent */
} ro_result;

/* id is the raw id of the request; out may be NULL. */
ro_result_code ro_result_judge(ro_slice message, ro_slice id, ro_result *out);

/* ok, malformed_result, tool_failed, runtime_failure */
ro_code ro_result_envelope_code(ro_result_code code);

#endif
