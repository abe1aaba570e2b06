#include "mcp/result.h"

#include "core/json.h"
#include "mcp/rpc.h"

/* The members of a content block, and of the resource inside one. */
typedef struct field {
    const char *name;
    ro_json_type type;
    bool required; /* if not: absent or null will do as well */
} field;

typedef enum verdict {
    BLOCK_OK,
    BLOCK_MALFORMED,
    BLOCK_UNSUPPORTED,
} verdict;

static const field common_fields[] = {
    {"annotations", RO_JSON_OBJECT, false},
    {"_meta", RO_JSON_OBJECT, false},
    {.name = NULL},
};

static const field text_fields[] = {
    {"text", RO_JSON_STRING, true},
    {.name = NULL},
};

/* Of images and audio. */
static const field media_fields[] = {
    {"data", RO_JSON_STRING, true},
    {"mimeType", RO_JSON_STRING, true},
    {.name = NULL},
};

static const field link_fields[] = {
    {"uri", RO_JSON_STRING, true},
    {"name", RO_JSON_STRING, true},
    {"mimeType", RO_JSON_STRING, false},
    {.name = NULL},
};

static const field embedded_fields[] = {
    {"resource", RO_JSON_OBJECT, true},
    {.name = NULL},
};

static const field resource_fields[] = {
    {"uri", RO_JSON_STRING, true},
    {"mimeType", RO_JSON_STRING, false},
    {"_meta", RO_JSON_OBJECT, false},
    {.name = NULL},
};

static const struct {
    const char *type;
    const field *fields;
    verdict verdict; /* of a block whose fields are right */
} block_types[] = {
    {"text", text_fields, BLOCK_OK},
    {"image", media_fields, BLOCK_OK},
    {"audio", media_fields, BLOCK_UNSUPPORTED},
    {"resource_link", link_fields, BLOCK_OK},
    {"resource", embedded_fields, BLOCK_OK},
};

static bool
has_string(ro_slice object, const char *name)
{
    ro_slice value;
    return ro_json_find(object, name, &value) > 0
           && ro_json_type_of(value) == RO_JSON_STRING;
}

static bool
fields_fit(ro_slice object, const field *fields)
{
    for (; fields->name != NULL; fields++) {
        ro_slice value;
        if (ro_json_find(object, fields->name, &value) == 0) {
            if (fields->required) {
                return false;
            }
            continue;
        }
        ro_json_type type = ro_json_type_of(value);
        if (type != fields->type
            && (fields->required || type != RO_JSON_NULL)) {
            return false;
        }
    }
    return true;
}

/* Text or blob; of the other the type does not matter then. */
static bool
resource_fits(ro_slice block)
{
    ro_slice resource = {NULL, 0};
    (void)ro_json_find(block, "resource", &resource);
    return fields_fit(resource, resource_fields)
           && (has_string(resource, "text") || has_string(resource, "blob"));
}

static verdict
judge_block(ro_slice block)
{
    ro_slice type = {NULL, 0};
    (void)ro_json_find(block, "type", &type);
    if (ro_json_type_of(type) != RO_JSON_STRING
        || !fields_fit(block, common_fields)) {
        return BLOCK_MALFORMED;
    }
    for (size_t i = 0; i < sizeof(block_types) / sizeof(*block_types); i++) {
        if (!ro_json_string_is(type, ro_slice_str(block_types[i].type))) {
            continue;
        }
        const field *fields = block_types[i].fields;
        if (!fields_fit(block, fields)
            || (fields == embedded_fields && !resource_fits(block))) {
            return BLOCK_MALFORMED;
        }
        return block_types[i].verdict;
    }
    return BLOCK_MALFORMED;
}

static ro_result_code
judge_blocks(ro_slice content)
{
    ro_result_code code = RO_RESULT_OK;
    ro_json_iter iter = ro_json_iter_of(content);
    ro_slice block;
    while (ro_json_next_item(&iter, &block)) {
        switch (judge_block(block)) {
        case BLOCK_OK:
            break;
        case BLOCK_MALFORMED:
            return RO_RESULT_MALFORMED;
        case BLOCK_UNSUPPORTED:
            code = RO_RESULT_UNSUPPORTED;
            break;
        }
    }
    return code;
}

static ro_result_code
judge_result(ro_slice result, ro_result *out)
{
    ro_slice failed = ro_slice_str("false");
    (void)ro_json_find(result, "content", &out->content);
    if (ro_json_type_of(out->content) != RO_JSON_ARRAY) {
        return RO_RESULT_MALFORMED;
    }
    (void)ro_json_find(result, "isError", &failed);
    ro_json_type type = ro_json_type_of(failed);
    if (type != RO_JSON_TRUE && type != RO_JSON_FALSE) {
        return RO_RESULT_MALFORMED;
    }
    if (ro_json_find(result, "structuredContent", &out->structured_content) > 0
        && ro_json_type_of(out->structured_content) != RO_JSON_OBJECT) {
        return RO_RESULT_MALFORMED;
    }
    if (type == RO_JSON_TRUE) {
        return RO_RESULT_TOOL_FAILED;
    }
    return judge_blocks(out->content);
}

ro_result_code
ro_result_judge(ro_slice message, ro_slice id, ro_result *out)
{
    static const ro_result nothing;
    ro_result found = nothing;
    ro_rpc rpc;
    ro_rpc_kind kind = ro_rpc_classify(message, &rpc);
    ro_result_code code = RO_RESULT_MALFORMED;
    if ((kind == RO_RPC_RESULT || kind == RO_RPC_ERROR)
        && ro_rpc_id_equal(rpc.id, id)) {
        code = kind == RO_RPC_ERROR ? RO_RESULT_TOOL_FAILED
                                    : judge_result(rpc.result, &found);
    }
    if (out != NULL) {
        *out = code == RO_RESULT_OK ? found : nothing;
    }
    return code;
}

ro_code
ro_result_envelope_code(ro_result_code code)
{
    switch (code) {
    case RO_RESULT_OK:
        return RO_CODE_OK;
    case RO_RESULT_MALFORMED:
        return RO_CODE_MALFORMED_RESULT;
    case RO_RESULT_TOOL_FAILED:
        return RO_CODE_TOOL_FAILED;
    case RO_RESULT_UNSUPPORTED:
        break;
    }
    return RO_CODE_RUNTIME_FAILURE;
}
