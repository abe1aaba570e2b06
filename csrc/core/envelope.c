#include "core/envelope.h"

#include "core/json_write.h"
#include "core/limits.h"
#include "core/table.h"

typedef struct row {
    const char *name;
    const char *message;
    int exit_code;
} row;

#define X(id, name, exit_code, message) {name, message, exit_code},
static const row rows[RO_CODES] = {RO_ENVELOPE_CODES(X)};
#undef X

static const row *
row_of(ro_code code)
{
    return &rows[ro_row((unsigned)code, RO_CODES, RO_CODE_RUNTIME_FAILURE)];
}

const char *
ro_code_name(ro_code code)
{
    return row_of(code)->name;
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

static void
open_data(ro_writer *to, const char *ok, const char *status)
{
    ro_write_open(to, '{');
    ro_write_member(to, "schema_version", ro_slice_str("1"));
    ro_write_member_text(to, "command", "tools call-read-only");
    ro_write_key(to, "data");
    ro_write_open(to, '{');
    ro_write_member(to, "ok", ro_slice_str(ok));
    ro_write_member_text(to, "status", status);
}

static ro_buf_code
close_data(ro_writer *to, size_t max)
{
    ro_write_close(to, '}');
    ro_write_close(to, '}');
    if (to->code == RO_BUF_OK && to->out->len - to->start > max) {
        to->code = RO_BUF_TOO_LARGE;
    }
    return ro_write_done(to);
}

ro_buf_code
ro_envelope_error(ro_code code, ro_buf *out)
{
    const row *of
        = code == RO_CODE_OK ? row_of(RO_CODE_RUNTIME_FAILURE) : row_of(code);
    ro_writer to = ro_writer_of(out);
    open_data(&to, "false", "error");
    ro_write_member_text(&to, "code", of->name);
    ro_write_member_text(&to, "message", of->message);
    return close_data(&to, RO_MAX_STDOUT);
}

ro_buf_code
ro_envelope_ok(ro_slice tool, ro_slice content, ro_slice structured,
               ro_buf *out, size_t max)
{
    if (content.len > max || structured.len > max - content.len) {
        return RO_BUF_TOO_LARGE;
    }
    ro_writer to = ro_writer_of(out);
    open_data(&to, "true", "ok");
    ro_write_key(&to, "tool");
    ro_write_string(&to, tool);
    ro_write_key(&to, "content");
    ro_write_ascii(&to, content);
    if (structured.len > 0) {
        ro_write_member(&to, "structured_content", structured);
    }
    return close_data(&to, max);
}
