#include "mcp/tool_reason.h"

#include "core/table.h"

static const struct {
    const char *word;
    const char *text;
    const char *remedy;
    ro_code code;
} rows[] = {
#define X(id, code, word, text, remedy) {word, text, remedy, RO_CODE_##code},
    RO_TOOL_REASONS(X)
#undef X
};

static size_t
index_of(ro_tool_reason reason)
{
    return ro_row((unsigned)reason, RO_TOOL_COUNT, RO_TOOL_COUNT - 1);
}

const char *
ro_tool_reason_word(ro_tool_reason reason)
{
    return rows[index_of(reason)].word;
}

const char *
ro_tool_reason_text(ro_tool_reason reason)
{
    return rows[index_of(reason)].text;
}

const char *
ro_tool_reason_remedy(ro_tool_reason reason)
{
    return rows[index_of(reason)].remedy;
}

ro_code
ro_tool_reason_code(ro_tool_reason reason)
{
    return rows[index_of(reason)].code;
}
