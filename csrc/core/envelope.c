#include "core/envelope.h"

#include "core/doc.h"
#include "core/json.h"
#include "core/limits.h"

typedef struct row {
    const char *name;
    const char *message;
    int exit_code;
} row;

static const row rows[RO_CODES] = {
    [RO_CODE_OK] = {"ok", "", 0},
    [RO_CODE_INVALID_COMMAND]
    = {"invalid_command", "Use: dcode tools call-read-only TOOL --json", 2},
    [RO_CODE_INVALID_TOOL_NAME]
    = {"invalid_tool_name", "The MCP tool name is invalid.", 2},
    [RO_CODE_INTERRUPTED]
    = {"interrupted", "The MCP tool call was interrupted.", 130},
    [RO_CODE_TIMEOUT]
    = {"timeout", "The managed MCP tool call exceeded its time limit.", 1},
    [RO_CODE_INPUT_REQUIRED]
    = {"input_required", "A JSON object is required on standard input.", 1},
    [RO_CODE_INPUT_TOO_LARGE]
    = {"input_too_large", "The JSON input exceeds the managed size limit.", 1},
    [RO_CODE_INVALID_INPUT]
    = {"invalid_input", "Standard input must be one JSON object.", 1},
    [RO_CODE_RUNTIME_FAILURE]
    = {"runtime_failure", "The managed MCP tool call failed.", 1},
    [RO_CODE_NOT_MCP_TOOL]
    = {"not_mcp_tool", "The selected tool is not an MCP tool.", 1},
    [RO_CODE_TOOL_NOT_FOUND]
    = {"tool_not_found", "The exact MCP tool is unavailable.", 1},
    [RO_CODE_AMBIGUOUS_TOOL]
    = {"ambiguous_tool", "The exact MCP tool name is ambiguous.", 1},
    [RO_CODE_TOOL_NOT_READ_ONLY]
    = {"tool_not_read_only",
       "The selected MCP tool is not coherently read-only.", 1},
    [RO_CODE_RESULT_TOO_LARGE]
    = {"result_too_large",
       "The MCP tool result exceeds the managed size limit.", 1},
    [RO_CODE_MALFORMED_RESULT]
    = {"malformed_result", "The MCP tool returned an unsupported result.", 1},
    [RO_CODE_TOOL_FAILED]
    = {"tool_failed", "The MCP tool reported a failure.", 1},
};

static const row *
row_of(ro_code code)
{
    if ((unsigned)code >= RO_CODES) {
        return &rows[RO_CODE_RUNTIME_FAILURE];
    }
    return &rows[code];
}

const char *
ro_code_name(ro_code code)
{
    return row_of(code)->name;
}

const char *
ro_code_message(ro_code code)
{
    return row_of(code)->message;
}

int
ro_code_exit(ro_code code)
{
    return row_of(code)->exit_code;
}

bool
ro_code_of_name(ro_slice name, ro_code *code)
{
    for (int i = 0; i < (int)RO_CODES; i++) {
        if (ro_slice_equal(name, ro_slice_str(rows[i].name))) {
            *code = (ro_code)i;
            return true;
        }
    }
    return false;
}

static ro_envelope_code
of_doc(ro_doc_code code)
{
    if (code == RO_DOC_OK) {
        return RO_ENVELOPE_BUILT;
    }
    return code == RO_DOC_TOO_LARGE ? RO_ENVELOPE_TOO_LARGE
                                    : RO_ENVELOPE_NO_MEMORY;
}

static ro_envelope_code
of_buf(ro_buf_code code)
{
    if (code == RO_BUF_OK) {
        return RO_ENVELOPE_BUILT;
    }
    return code == RO_BUF_TOO_LARGE ? RO_ENVELOPE_TOO_LARGE
                                    : RO_ENVELOPE_NO_MEMORY;
}

/* The whole document around the members of data. */
static ro_envelope_code
build(const ro_doc_member *members, size_t count, ro_buf *out, size_t max)
{
    ro_buf data;
    ro_buf text;
    ro_buf_init(&data, max);
    ro_buf_init(&text, max);
    ro_envelope_code code = of_doc(ro_doc_write_object(members, count, &data));
    if (code == RO_ENVELOPE_BUILT) {
        const ro_doc_member top[] = {
            {"schema_version", ro_slice_str("1")},
            {"command", ro_slice_str("\"tools call-read-only\"")},
            {"data", ro_buf_slice(&data)},
        };
        code = of_doc(ro_doc_write_object(top, 3, &text));
    }
    if (code == RO_ENVELOPE_BUILT) {
        code = of_buf(ro_buf_append_slice(out, ro_buf_slice(&text)));
    }
    ro_buf_free(&data);
    ro_buf_free(&text);
    return code;
}

ro_envelope_code
ro_envelope_error(ro_code code, ro_buf *out)
{
    const row *of
        = code == RO_CODE_OK ? row_of(RO_CODE_RUNTIME_FAILURE) : row_of(code);
    ro_buf name;
    ro_buf message;
    ro_buf_init(&name, RO_MAX_STDOUT);
    ro_buf_init(&message, RO_MAX_STDOUT);
    ro_envelope_code done
        = of_buf(ro_json_write_string(&name, ro_slice_str(of->name)));
    if (done == RO_ENVELOPE_BUILT) {
        done = of_buf(
            ro_json_write_string(&message, ro_slice_str(of->message)));
    }
    if (done == RO_ENVELOPE_BUILT) {
        const ro_doc_member members[] = {
            {"ok", ro_slice_str("false")},
            {"status", ro_slice_str("\"error\"")},
            {"code", ro_buf_slice(&name)},
            {"message", ro_buf_slice(&message)},
        };
        done = build(members, 4, out, RO_MAX_STDOUT);
    }
    ro_buf_free(&name);
    ro_buf_free(&message);
    return done;
}

ro_envelope_code
ro_envelope_ok(ro_slice tool, ro_slice content, ro_slice structured,
               ro_buf *out, size_t max)
{
    if (content.len > max || structured.len > max - content.len) {
        return RO_ENVELOPE_TOO_LARGE;
    }
    ro_buf name;
    ro_buf_init(&name, max);
    ro_envelope_code code = of_buf(ro_json_write_string(&name, tool));
    if (code == RO_ENVELOPE_BUILT) {
        const ro_doc_member members[] = {
            {"ok", ro_slice_str("true")},
            {"status", ro_slice_str("\"ok\"")},
            {"tool", ro_buf_slice(&name)},
            {"content", content},
            {"structured_content", structured},
        };
        code = build(members, structured.len > 0 ? 5 : 4, out, max);
    }
    ro_buf_free(&name);
    return code;
}
