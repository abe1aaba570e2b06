/* JSON-RPC 2.0 messages, as slices of the message's own bytes.
 *
 * Input is always one document that ro_json_validate has passed, with or
 * without keep_duplicates. Nothing is owned, nothing is kept past a call;
 * slices in ro_rpc point into the message. Thread safe: no state.
 */
#ifndef RO_MCP_RPC_H
#define RO_MCP_RPC_H

#include "core/buf.h"
#include "core/json_write.h"
#include "core/slice.h"

/* The error codes of JSON-RPC that this side writes. */
#define RO_RPC_INVALID_REQUEST (-32600)
#define RO_RPC_METHOD_NOT_FOUND (-32601)
#define RO_RPC_INTERNAL_ERROR (-32603)

typedef enum ro_rpc_kind {
    RO_RPC_INVALID = 0,
    RO_RPC_REQUEST,      /* id, method, params */
    RO_RPC_NOTIFICATION, /* method, params */
    RO_RPC_RESULT,       /* id, result */
    RO_RPC_ERROR,        /* id, error */
} ro_rpc_kind;

/* Raw values; a member that is absent has len 0. */
typedef struct ro_rpc {
    ro_slice id;     /* a string with its quotes, or an integer token */
    ro_slice method; /* a string with its quotes */
    ro_slice params; /* an object, an array or null */
    ro_slice result; /* any value: callers that need an object check it */
    ro_slice error;  /* an object */
} ro_rpc;

/* Strict. INVALID is everything else than: an object with "jsonrpc" "2.0"
 * that has a method and neither result nor error, or an id and exactly one
 * of result and error; an id is a string or an integer without fraction or
 * exponent; an error has an integer code and a string message; none of the
 * members named here appears twice. Members of other names do not matter.
 * out is filled only for what is not INVALID, else zeroed. */
ro_rpc_kind ro_rpc_classify(ro_slice message, ro_rpc *out);

/* Whether two raw ids are the same: strings after unescaping, integers
 * token by token; 1 and "1" differ. An empty slice equals nothing. */
bool ro_rpc_id_equal(ro_slice a, ro_slice b);

/* Whether a raw method reads as name. */
bool ro_rpc_method_is(const ro_rpc *message, const char *name);

/* The request's bytes with params.arguments replaced by the minified
 * arguments, or inserted as the last member of params; all else byte for
 * byte, white space included. request is a valid object. A params that is
 * absent or no object becomes {"arguments":...}. */
ro_buf_code ro_rpc_replace_arguments(ro_slice request, ro_slice arguments,
                                     ro_buf *out);

/* {"jsonrpc":"2.0","id":<id>,"error":{"code":<code>,"message":<message>}};
 * id is raw, message is UTF-8 text. Appends; on failure out is as it was. */
ro_buf_code ro_rpc_write_error(ro_buf *out, ro_slice id, int code,
                               const char *message);
/* The answer to a request that failed on this side, whatever the reason. */
ro_buf_code ro_rpc_write_failure(ro_buf *out, ro_slice id);
/* The same with "result": a valid value, copied as it is. */
ro_buf_code ro_rpc_write_result(ro_buf *out, ro_slice id, ro_slice result);

/* What every message begins with, up to its id; the rest and the closing
 * bracket are the caller's. */
void ro_rpc_open(ro_writer *to, ro_slice id);

/* This side's answer to a server's request: {} for ping; for sampling,
 * elicitation and roots the error that the stock client gives when the
 * host has no such feature; "Method not found" for all else. */
ro_buf_code ro_rpc_write_answer(ro_buf *out, const ro_rpc *request);

#endif
