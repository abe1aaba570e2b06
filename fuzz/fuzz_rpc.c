/* Whatever a message is taken for: what is written of it is strict JSON
 * again, and says the same. */
#include <stdint.h>
#include <stdlib.h>

#include "core/json.h"
#include "core/limits.h"
#include "mcp/result.h"
#include "mcp/rpc.h"
#include "mcp/toollist.h"

#define MAX_OUT (1u << 20)

static void
require(bool condition)
{
    if (!condition) {
        abort();
    }
}

static bool
is_json(ro_slice bytes, bool keep_duplicates)
{
    const ro_json_limits limits
        = {MAX_OUT, RO_MAX_DEPTH + RO_LIST_EXTRA_DEPTH + 2, keep_duplicates};
    return ro_json_validate(bytes, &limits, NULL) == RO_JSON_OK;
}

static void
check_request(ro_slice message, const ro_rpc *rpc)
{
    ro_buf out;
    ro_rpc again;
    ro_slice arguments;
    ro_buf_init(&out, MAX_OUT);
    require(ro_rpc_write_answer(&out, rpc) == RO_BUF_OK);
    require(is_json(ro_buf_slice(&out), false));
    ro_rpc_kind kind = ro_rpc_classify(ro_buf_slice(&out), &again);
    require(kind == RO_RPC_RESULT || kind == RO_RPC_ERROR);
    require(ro_rpc_id_equal(again.id, rpc->id));
    ro_buf_clear(&out);
    require(
        ro_rpc_replace_arguments(message, ro_slice_str("{ \"a\" : 1 }"), &out)
        == RO_BUF_OK);
    require(is_json(ro_buf_slice(&out), true));
    require(ro_rpc_classify(ro_buf_slice(&out), &again) == RO_RPC_REQUEST);
    require(ro_slice_equal(again.id, rpc->id)
            && ro_slice_equal(again.method, rpc->method));
    require(ro_json_find(again.params, "arguments", &arguments) > 0
            && ro_slice_equal(arguments, ro_slice_str("{\"a\":1}")));
    ro_buf_free(&out);
}

static void
check_list(ro_slice message, ro_slice tool)
{
    const ro_list_query query = {
        .prefix = ro_slice_str("s_"),
        .tool = tool,
    };
    ro_list list;
    ro_list again;
    ro_buf out;
    ro_buf twice;
    ro_buf_init(&out, MAX_OUT);
    ro_buf_init(&twice, MAX_OUT);
    if (ro_list_reduce(message, &query, &list, &out) == RO_LIST_OK) {
        require(is_json(ro_buf_slice(&out), true));
        require(ro_list_reduce(ro_buf_slice(&out), &query, &again, &twice)
                == RO_LIST_OK);
        require(ro_slice_equal(ro_buf_slice(&out), ro_buf_slice(&twice)));
        /* what may not go up was kept and is not there */
        require(again.kept <= list.kept && again.entries == again.kept
                && again.not_objects == 0);
    }
    ro_buf_free(&out);
    ro_buf_free(&twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const ro_json_limits limits
        = {MAX_OUT / 4, RO_MAX_DEPTH + RO_LIST_EXTRA_DEPTH, true};
    ro_slice message = {(const char *)data, size};
    ro_rpc rpc;
    ro_result result;
    if (ro_json_validate(message, &limits, NULL) != RO_JSON_OK) {
        return 0;
    }
    ro_rpc_kind kind = ro_rpc_classify(message, &rpc);
    require((kind == RO_RPC_INVALID) == (rpc.id.len + rpc.method.len == 0));
    if (kind == RO_RPC_REQUEST) {
        check_request(message, &rpc);
    }
    if (kind != RO_RPC_INVALID && kind != RO_RPC_NOTIFICATION) {
        require(ro_rpc_id_equal(rpc.id, rpc.id));
    }
    ro_result_code code = ro_result_judge(message, rpc.id, &result);
    require(code == RO_RESULT_MALFORMED || kind == RO_RPC_RESULT
            || kind == RO_RPC_ERROR);
    require(code != RO_RESULT_OK
            || ro_json_type_of(result.content) == RO_JSON_ARRAY);
    check_list(message, ro_slice_str("s_t"));
    check_list(message, ro_slice_of(NULL, 0));
    return 0;
}
