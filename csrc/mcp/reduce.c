#include "mcp/reduce.h"

#include <stdint.h>

#include "core/json.h"
#include "core/limits.h"
#include "mcp/rpc.h"

/* ---- what the models know ---- */

#define END                                                                   \
    {                                                                         \
        NULL, NULL                                                            \
    }

static const ro_shape whole = {RO_SHAPE_WHOLE, NULL, NULL};
static const ro_shape emptied = {RO_SHAPE_EMPTIED, NULL, NULL};
static const ro_shape schema = {RO_SHAPE_SCHEMA, NULL, NULL};
static const ro_shape emptied_by_name = {RO_SHAPE_MEMBERS, NULL, &emptied};

static const ro_shape_member icon_members[]
    = {{"src", &whole}, {"mimeType", &whole}, {"sizes", &whole}, END};
static const ro_shape icon = {RO_SHAPE_OBJECT, icon_members, NULL};
static const ro_shape icons = {RO_SHAPE_ITEMS, NULL, &icon};

/* initialize */

static const ro_shape_member info_members[]
    = {{"name", &whole},       {"title", &whole}, {"version", &whole},
       {"websiteUrl", &whole}, {"icons", &icons}, END};
static const ro_shape info = {RO_SHAPE_OBJECT, info_members, NULL};

static const ro_shape_member changes_members[]
    = {{"listChanged", &whole}, {"subscribe", &whole}, END};
static const ro_shape changes = {RO_SHAPE_OBJECT, changes_members, NULL};

static const ro_shape_member task_tools_members[] = {{"call", &emptied}, END};
static const ro_shape task_tools = {RO_SHAPE_OBJECT, task_tools_members, NULL};
static const ro_shape_member task_requests_members[]
    = {{"tools", &task_tools}, END};
static const ro_shape task_requests
    = {RO_SHAPE_OBJECT, task_requests_members, NULL};
static const ro_shape_member tasks_members[] = {{"list", &emptied},
                                                {"cancel", &emptied},
                                                {"requests", &task_requests},
                                                END};
static const ro_shape tasks = {RO_SHAPE_OBJECT, tasks_members, NULL};

static const ro_shape_member capabilities_members[]
    = {{"experimental", &emptied_by_name},
       {"logging", &emptied},
       {"prompts", &changes},
       {"resources", &changes},
       {"tools", &changes},
       {"completions", &emptied},
       {"tasks", &tasks},
       END};
static const ro_shape capabilities
    = {RO_SHAPE_OBJECT, capabilities_members, NULL};

static const ro_shape_member initialize_members[]
    = {{"protocolVersion", &whole}, {"capabilities", &capabilities},
       {"serverInfo", &info},       {"instructions", &whole},
       {"_meta", &emptied},         END};
static const ro_shape initialize = {RO_SHAPE_OBJECT, initialize_members, NULL};

/* tools/list */

static const ro_shape_member hint_members[]
    = {{"title", &whole},           {"readOnlyHint", &whole},
       {"destructiveHint", &whole}, {"idempotentHint", &whole},
       {"openWorldHint", &whole},   END};
static const ro_shape hints = {RO_SHAPE_OBJECT, hint_members, NULL};

static const ro_shape_member execution_members[]
    = {{"taskSupport", &whole}, END};
static const ro_shape execution = {RO_SHAPE_OBJECT, execution_members, NULL};

static const ro_shape_member tool_members[]
    = {{"name", &whole},          {"title", &whole},
       {"description", &whole},   {"inputSchema", &schema},
       {"outputSchema", &whole},  {"icons", &icons},
       {"annotations", &hints},   {"_meta", &emptied},
       {"execution", &execution}, END};
static const ro_shape tool = {RO_SHAPE_OBJECT, tool_members, NULL};

/* tools/call */

static const ro_shape_member annotations_members[]
    = {{"audience", &whole}, {"priority", &whole}, END};
static const ro_shape annotations
    = {RO_SHAPE_OBJECT, annotations_members, NULL};

static const ro_shape_member contents_members[]
    = {{"uri", &whole},  {"mimeType", &whole}, {"text", &whole},
       {"blob", &whole}, {"_meta", &emptied},  END};
static const ro_shape contents = {RO_SHAPE_OBJECT, contents_members, NULL};

#define OF_EVERY_BLOCK                                                        \
    {"type", &whole}, {"annotations", &annotations},                          \
    {                                                                         \
        "_meta", &emptied                                                     \
    }

static const ro_shape_member text_members[]
    = {OF_EVERY_BLOCK, {"text", &whole}, END};
static const ro_shape_member image_members[]
    = {OF_EVERY_BLOCK, {"data", &whole}, {"mimeType", &whole}, END};
static const ro_shape_member link_members[]
    = {OF_EVERY_BLOCK,    {"uri", &whole},         {"name", &whole},
       {"title", &whole}, {"description", &whole}, {"mimeType", &whole},
       {"size", &whole},  {"icons", &icons},       END};
static const ro_shape_member embedded_members[]
    = {OF_EVERY_BLOCK, {"resource", &contents}, END};

static const struct {
    const char *type;
    ro_shape shape;
} blocks[] = {
    {"text", {RO_SHAPE_OBJECT, text_members, NULL}},
    {"image", {RO_SHAPE_OBJECT, image_members, NULL}},
    {"resource_link", {RO_SHAPE_OBJECT, link_members, NULL}},
    {"resource", {RO_SHAPE_OBJECT, embedded_members, NULL}},
};

/* ---- writing ---- */

ro_budget
ro_reduce_budget(void)
{
    return (ro_budget){RO_MAX_UP_VALUES, RO_MAX_UP_BYTES};
}

static ro_reduce_code
write_message(ro_buf *out, ro_slice id, ro_slice result, const ro_shape *shape)
{
    ro_budget budget = ro_reduce_budget();
    ro_shaper up = ro_shaper_of(out);
    ro_rpc_open(&up.to, id);
    ro_write_key(&up.to, "result");
    ro_shape_put(&up, result, shape, &budget);
    ro_write_close(&up.to, '}');
    return ro_shape_done(&up);
}

ro_reduce_code
ro_reduce_initialize(ro_slice id, ro_slice result, ro_buf *out)
{
    return write_message(out, id, result, &initialize);
}

ro_reduce_code
ro_reduce_other(ro_slice id, ro_slice result, ro_buf *out)
{
    return write_message(out, id, result, &whole);
}

void
ro_reduce_tool(ro_shaper *up, ro_slice entry, ro_budget *budget)
{
    ro_shape_put(up, entry, &tool, budget);
}

/* ---- the call's result ---- */

static const ro_shape *
shape_of_block(ro_slice block)
{
    ro_slice type = {NULL, 0};
    (void)ro_json_find(block, "type", &type);
    for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++) {
        if (ro_json_type_of(type) == RO_JSON_STRING
            && ro_json_string_is(type, ro_slice_str(blocks[i].type))) {
            return &blocks[i].shape;
        }
    }
    return &whole; /* of no type that ro_result_judge lets through */
}

ro_reduce_code
ro_reduce_result(ro_slice id, const ro_result *result, bool structured,
                 ro_buf *out)
{
    ro_budget budget = ro_reduce_budget();
    /* Its size is bounded by the envelope that it has to fit into. */
    ro_budget unbounded = {SIZE_MAX, SIZE_MAX};
    ro_json_iter iter = ro_json_iter_of(result->content);
    ro_slice block;
    ro_shaper up = ro_shaper_of(out);
    ro_rpc_open(&up.to, id);
    ro_write_key(&up.to, "result");
    ro_write_open(&up.to, '{');
    ro_write_key(&up.to, "content");
    ro_write_open(&up.to, '[');
    while (up.to.code == RO_BUF_OK && ro_json_next_item(&iter, &block)) {
        ro_shape_put(&up, block, shape_of_block(block), &budget);
    }
    ro_write_close(&up.to, ']');
    if (structured) {
        ro_write_key(&up.to, "structuredContent");
        ro_shape_put(&up, result->structured_content, &whole, &unbounded);
    }
    ro_write_close(&up.to, '}');
    ro_write_close(&up.to, '}');
    return ro_shape_done(&up);
}

/* ---- the least envelope ---- */

static size_t
least_of(ro_slice value)
{
    ro_json_iter iter = {value.ptr, value.ptr + value.len};
    ro_slice token;
    size_t bytes = 0;
    while (ro_json_next_token(&iter, &token)) {
        bytes += *token.ptr == '"' ? 2 : token.len;
    }
    return bytes;
}

size_t
ro_reduce_least_envelope(const ro_result *result)
{
    size_t count = ro_json_count(result->content);
    size_t bytes = count * RO_MIN_BLOCK + (count == 0 ? 0 : count - 1);
    if (result->structured_content.len != 0) {
        bytes += least_of(result->structured_content);
    }
    return bytes;
}
