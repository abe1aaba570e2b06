/* The command's one JSON document on standard output.
 *
 * Codes, messages and exit codes are one static table. Thread safe.
 */
#ifndef RO_CORE_ENVELOPE_H
#define RO_CORE_ENVELOPE_H

#include "core/buf.h"
#include "core/slice.h"

/* In the order of the contract's table: where several fit, the first. */
typedef enum ro_code {
    RO_CODE_OK = 0,
    RO_CODE_INVALID_COMMAND,
    RO_CODE_INVALID_TOOL_NAME,
    RO_CODE_INTERRUPTED,
    RO_CODE_TIMEOUT,
    RO_CODE_INPUT_REQUIRED,
    RO_CODE_INPUT_TOO_LARGE,
    RO_CODE_INVALID_INPUT,
    RO_CODE_RUNTIME_FAILURE,
    RO_CODE_NOT_MCP_TOOL,
    RO_CODE_TOOL_NOT_FOUND,
    RO_CODE_AMBIGUOUS_TOOL,
    RO_CODE_TOOL_NOT_READ_ONLY,
    RO_CODE_RESULT_TOO_LARGE,
    RO_CODE_MALFORMED_RESULT,
    RO_CODE_TOOL_FAILED,
} ro_code;

#define RO_CODES (RO_CODE_TOOL_FAILED + 1)

/* Static texts. A value outside the enum reads as runtime_failure. */
const char *ro_code_name(ro_code code);    /* "timeout"; "ok" */
const char *ro_code_message(ro_code code); /* "" for ok */
int ro_code_exit(ro_code code);            /* 0, 1, 2 or 130 */
/* False when no code has that name. */
bool ro_code_of_name(ro_slice name, ro_code *code);

typedef enum ro_envelope_code {
    RO_ENVELOPE_BUILT = 0,
    RO_ENVELOPE_TOO_LARGE, /* over max, or over out's cap */
    RO_ENVELOPE_NO_MEMORY,
} ro_envelope_code;

/* Append the failure document, without a newline. RO_CODE_OK is written as
 * runtime_failure. Nothing is appended unless RO_ENVELOPE_BUILT. */
ro_envelope_code ro_envelope_error(ro_code code, ro_buf *out);

/* Append the success document, without a newline, at most max bytes. tool
 * is UTF-8 text; content a valid ASCII JSON array; structured a minified
 * JSON object, or empty when the server sent none. Nothing is appended
 * unless RO_ENVELOPE_BUILT. */
ro_envelope_code ro_envelope_ok(ro_slice tool, ro_slice content,
                                ro_slice structured, ro_buf *out, size_t max);

#endif
