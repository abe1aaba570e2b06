/* The command's one JSON document on standard output.
 *
 * Codes, messages and exit codes are one static table. Thread safe.
 */
#ifndef RO_CORE_ENVELOPE_H
#define RO_CORE_ENVELOPE_H

#include "core/buf.h"
#include "core/slice.h"

/* In the order of the contract's table: where several fit, the first. Each:
 * id, word, exit status, message. */
#define RO_ENVELOPE_CODES(X)                                                  \
    X(OK, "ok", 0, "")                                                        \
    X(INVALID_COMMAND, "invalid_command", 2,                                  \
      "Use: dcode tools call-read-only TOOL --json")                          \
    X(INVALID_TOOL_NAME, "invalid_tool_name", 2,                              \
      "The MCP tool name is invalid.")                                        \
    X(INTERRUPTED, "interrupted", 130, "The MCP tool call was interrupted.")  \
    X(TIMEOUT, "timeout", 1,                                                  \
      "The managed MCP tool call exceeded its time limit.")                   \
    X(INPUT_REQUIRED, "input_required", 1,                                    \
      "A JSON object is required on standard input.")                         \
    X(INPUT_TOO_LARGE, "input_too_large", 1,                                  \
      "The JSON input exceeds the managed size limit.")                       \
    X(INVALID_INPUT, "invalid_input", 1,                                      \
      "Standard input must be one JSON object.")                              \
    X(RUNTIME_FAILURE, "runtime_failure", 1,                                  \
      "The managed MCP tool call failed.")                                    \
    X(NOT_MCP_TOOL, "not_mcp_tool", 1,                                        \
      "The selected tool is not an MCP tool.")                                \
    X(TOOL_NOT_FOUND, "tool_not_found", 1,                                    \
      "The exact MCP tool is unavailable.")                                   \
    X(AMBIGUOUS_TOOL, "ambiguous_tool", 1,                                    \
      "The exact MCP tool name is ambiguous.")                                \
    X(TOOL_NOT_READ_ONLY, "tool_not_read_only", 1,                            \
      "The selected MCP tool is not coherently read-only.")                   \
    X(RESULT_TOO_LARGE, "result_too_large", 1,                                \
      "The MCP tool result exceeds the managed size limit.")                  \
    X(MALFORMED_RESULT, "malformed_result", 1,                                \
      "The MCP tool returned an unsupported result.")                         \
    X(TOOL_FAILED, "tool_failed", 1, "The MCP tool reported a failure.")

#define X(id, ...) RO_CODE_##id,
typedef enum ro_code { RO_ENVELOPE_CODES(X) } ro_code;
#undef X
#define RO_CODES (RO_CODE_TOOL_FAILED + 1)

/* Static texts. A value outside the enum reads as runtime_failure. */
const char *ro_code_name(ro_code code); /* "timeout"; "ok" */
int ro_code_exit(ro_code code);         /* 0, 1, 2 or 130 */
/* False when no code has that name. */
bool ro_code_of_name(ro_slice name, ro_code *code);

/* Append the failure document, without a newline. RO_CODE_OK is written as
 * runtime_failure. Nothing is appended unless RO_BUF_OK. */
ro_buf_code ro_envelope_error(ro_code code, ro_buf *out);

/* Append the success document, without a newline, at most max bytes. tool
 * is UTF-8 text; content a minified JSON array, which is written in ASCII;
 * structured a minified JSON object, which is written as it stands, or empty
 * when the server sent none. Nothing is appended unless RO_BUF_OK. */
ro_buf_code ro_envelope_ok(ro_slice tool, ro_slice content,
                           ro_slice structured, ro_buf *out, size_t max);

#endif
