/* Verdicts on MCP bytes: hints, tool lists, results, event streams. */
#include "core/buf.h"
#include "core/hints.h"
#include "core/json.h"
#include "core/limits.h"
#include "mcp/reduce.h"
#include "mcp/result.h"
#include "mcp/rpc.h"
#include "mcp/sse.h"
#include "mcp/toollist.h"
#include "py/convert.h"
#include "py/errors.h"
#include "py/json.h"

/* ---- hints ---- */

PyDoc_STRVAR(
    hint_verdict_doc,
    "hint_verdict(entry, /, *, max_depth=64)\n"
    "--\n\n"
    "Whether a raw tools/list entry says that its tool is read-only.\n\n"
    "Returns (allowed, reason); the reason is a lower-case name,\n"
    "\"read_only\" when allowed. A duplicate key is a refusal. Raises\n"
    "JSONError for bytes that are not one JSON object of at most 8 MiB and\n"
    "max_depth levels.");

static PyObject *
hint_verdict(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"", "max_depth", NULL};
    ro_slice entry;
    int max_depth = RO_MAX_DEPTH;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&|$i:hint_verdict", names,
                                     ro_py_bytes, &entry, &max_depth)) {
        return NULL;
    }
    if (max_depth < 1) {
        return ro_py_raise_value("max_depth must be at least 1");
    }
    const ro_json_limits limits
        = {RO_MAX_DISCOVERY, (unsigned)max_depth, true};
    if (ro_py_check_type(module, entry, &limits, RO_JSON_OBJECT,
                         RO_JSON_NOT_OBJECT)
        < 0) {
        return NULL;
    }
    ro_hints_code code = ro_hints_judge(entry, (unsigned)max_depth);
    return Py_BuildValue("(Os)",
                         code == RO_HINTS_READ_ONLY ? Py_True : Py_False,
                         ro_hints_reason(code));
}

/* ---- tool lists ---- */

PyDoc_STRVAR(
    reduce_tool_list_doc,
    "reduce_tool_list(message, prefix, tool, /)\n"
    "--\n\n"
    "The tools/list answer with only the entries that resolve to one name.\n\n"
    "Keeps the entries whose prefix + name is tool (every object if tool is\n"
    "empty) and nextCursor. Returns (message, entries) in bytes: of each "
    "entry\n"
    "in message what DCode and the SDK read, the entries as they were sent.\n"
    "Raises JSONError for bytes that are not JSON within the bounds of a\n"
    "discovery answer, ValueError for what is not a tools/list result or "
    "must\n"
    "not go up.");

static bool
collect_entry(void *arg, ro_slice entry)
{
    PyObject *bytes = ro_py_bytes_of(entry);
    if (bytes == NULL) {
        return false;
    }
    int failed = PyList_Append((PyObject *)arg, bytes);
    Py_DECREF(bytes);
    return failed == 0;
}

/* The exception is set already for RO_LIST_STOPPED. */
static PyObject *
raise_list(ro_list_code code)
{
    switch (code) {
    case RO_LIST_OK:
    case RO_LIST_STOPPED:
        return NULL;
    case RO_LIST_MALFORMED:
        return ro_py_raise_value("not a tools/list result");
    case RO_LIST_TOO_LARGE:
    case RO_LIST_ENTRY_TOO_LARGE:
    case RO_LIST_CURSOR_TOO_LARGE:
        return ro_py_raise_value("too large");
    case RO_LIST_UNREADABLE:
        return ro_py_raise_value("a number is too long");
    case RO_LIST_NO_MEMORY:
        break;
    }
    return ro_py_raise_memory();
}

static PyObject *
reduce_tool_list(PyObject *module, PyObject *args)
{
    ro_slice message;
    ro_budget budget = ro_reduce_budget();
    ro_list_query query = {.entry = collect_entry};
    if (!PyArg_ParseTuple(args, "O&O&O&:reduce_tool_list", ro_py_bytes,
                          &message, ro_py_text, &query.prefix, ro_py_text,
                          &query.tool)) {
        return NULL;
    }
    if (query.tool.len != 0) {
        query.budget = &budget;
    }
    const ro_json_limits limits
        = {RO_MAX_DISCOVERY, RO_MAX_DEPTH + RO_LIST_EXTRA_DEPTH, true};
    if (ro_py_check(module, message, &limits) < 0) {
        return NULL;
    }
    PyObject *entries = PyList_New(0);
    if (entries == NULL) {
        return NULL;
    }
    PyObject *reduced = NULL;
    ro_list list;
    ro_buf out;
    ro_buf_init(&out, RO_MAX_DISCOVERY);
    query.arg = entries;
    ro_list_code code = ro_list_reduce(message, &query, &list, &out);
    if (code == RO_LIST_OK) {
        reduced
            = Py_BuildValue("(y#O)", out.data, (Py_ssize_t)out.len, entries);
    }
    else {
        (void)raise_list(code);
    }
    ro_buf_free(&out);
    Py_DECREF(entries);
    return reduced;
}

/* ---- answers ---- */

/* 0 with the raw id appended to out, or -1 with an exception. */
static int
write_id(PyObject *id, ro_buf *out)
{
    ro_slice utf8;
    ro_buf_code code;
    if (PyUnicode_Check(id)) {
        if (!ro_py_text(id, &utf8)) {
            return -1;
        }
        code = ro_json_write_string(out, utf8);
    }
    else if (PyLong_CheckExact(id)) {
        PyObject *digits = PyObject_Str(id);
        if (digits == NULL || !ro_py_text(digits, &utf8)) {
            Py_XDECREF(digits);
            return -1;
        }
        code = ro_buf_append_slice(out, utf8);
        Py_DECREF(digits);
    }
    else {
        (void)ro_py_raise_type("id must be int or str");
        return -1;
    }
    if (code != RO_BUF_OK) {
        (void)ro_py_raise_buf(code);
        return -1;
    }
    return 0;
}

PyDoc_STRVAR(
    hand_up_doc,
    "hand_up(message, id, /, *, call=False, structured=False)\n"
    "--\n\n"
    "What of an answer the SDK gets, as one message in bytes.\n\n"
    "message answers initialize, or tools/call when call is true; id is the\n"
    "int or str that the request carried. structured says that the tool has\n"
    "an output schema. Raises ValueError when the answer is not handed up.");

/* The message in out, or NULL and why not. */
static const char *
write_initialize(ro_slice message, ro_slice id, ro_buf *out)
{
    ro_rpc rpc;
    if (ro_rpc_classify(message, &rpc) != RO_RPC_RESULT
        || !ro_rpc_id_equal(rpc.id, id)
        || ro_json_type_of(rpc.result) != RO_JSON_OBJECT) {
        return "not an initialize result";
    }
    return ro_reduce_initialize(id, rpc.result, out) == RO_REDUCE_OK
               ? NULL
               : "refused";
}

static const char *
write_result(ro_slice message, ro_slice id, bool structured, ro_buf *out)
{
    ro_result result;
    if (ro_result_judge(message, id, &result) != RO_RESULT_OK) {
        return "not a tools/call result";
    }
    if (ro_reduce_least_envelope(&result) > RO_MAX_STDOUT) {
        return "too large";
    }
    structured = structured && result.structured_content.len != 0;
    return ro_reduce_result(id, &result, structured, out) == RO_REDUCE_OK
               ? NULL
               : "refused";
}

static PyObject *
hand_up(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"", "", "call", "structured", NULL};
    ro_slice message;
    PyObject *id;
    int call = 0;
    int structured = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&O|$pp:hand_up", names,
                                     ro_py_bytes, &message, &id, &call,
                                     &structured)) {
        return NULL;
    }
    const ro_json_limits limits
        = {call ? RO_MAX_ANSWER : RO_MAX_DISCOVERY, RO_MAX_DEPTH, !call};
    if (ro_py_check(module, message, &limits) < 0) {
        return NULL;
    }
    PyObject *up = NULL;
    ro_buf raw_id;
    ro_buf out;
    ro_buf_init(&raw_id, RO_MAX_ANSWER);
    ro_buf_init(&out, 2 * RO_MAX_ANSWER);
    if (write_id(id, &raw_id) == 0) {
        ro_slice wanted = ro_buf_slice(&raw_id);
        const char *refused
            = call ? write_result(message, wanted, structured != 0, &out)
                   : write_initialize(message, wanted, &out);
        up = refused == NULL ? ro_py_bytes_of(ro_buf_slice(&out))
                             : ro_py_raise_value(refused);
    }
    ro_buf_free(&raw_id);
    ro_buf_free(&out);
    return up;
}

/* ---- failures ---- */

PyDoc_STRVAR(
    rpc_failure_doc,
    "rpc_failure(request, /)\n"
    "--\n\n"
    "The JSON-RPC error, in bytes, for a request that failed on this\n"
    "side; None when nobody waits for an answer: bytes that are no\n"
    "JSON object, or one without an id.");

static PyObject *
rpc_failure(PyObject *module, PyObject *arg)
{
    ro_slice request;
    ro_slice id;
    (void)module;
    if (!ro_py_bytes(arg, &request)) {
        return NULL;
    }
    const ro_json_limits limits = {request.len, RO_MAX_DEPTH, false};
    switch (ro_json_validate(request, &limits, NULL)) {
    case RO_JSON_OK:
        break;
    case RO_JSON_NO_MEMORY:
        return ro_py_raise_memory();
    default:
        Py_RETURN_NONE;
    }
    if (ro_json_find(ro_json_root(request), "id", &id) == 0) {
        Py_RETURN_NONE;
    }
    ro_buf out;
    ro_buf_init(&out, id.len + RO_MAX_ANSWER);
    ro_buf_code code = ro_rpc_write_failure(&out, id);
    PyObject *answer = code == RO_BUF_OK ? ro_py_bytes_of(ro_buf_slice(&out))
                                         : ro_py_raise_buf(code);
    ro_buf_free(&out);
    return answer;
}

/* ---- event streams ---- */

PyDoc_STRVAR(
    sse_events_doc,
    "sse_events(data, /, *, max_bytes=1048576, chunk=0)\n"
    "--\n\n"
    "The events of an event stream, as (type, data, id, retry) tuples.\n\n"
    "type is a str, data bytes; id is a str, or None when the event has\n"
    "none; retry is in milliseconds, or None. A block that only sets an id\n"
    "or a retry time is in the list with empty data. The stream is fed to\n"
    "the parser chunk bytes at a time; 0 is all at once. Raises ValueError\n"
    "for an event with more than max_bytes of data, or an event type or id\n"
    "of more than 16 KiB.");

static bool
collect_event(void *arg, const ro_sse_event *event)
{
    PyObject *list = arg;
    PyObject *id = NULL;
    PyObject *retry = NULL;
    PyObject *item = NULL;
    bool more = false;
    if (event->has_id) {
        id = PyUnicode_DecodeUTF8(event->last_id.len > 0 ? event->last_id.ptr
                                                         : "",
                                  (Py_ssize_t)event->last_id.len, "replace");
    }
    else {
        id = Py_NewRef(Py_None);
    }
    retry = event->retry_ms >= 0 ? PyLong_FromLong(event->retry_ms)
                                 : Py_NewRef(Py_None);
    if (id == NULL || retry == NULL) {
        goto done;
    }
    PyObject *type = PyUnicode_DecodeUTF8(
        event->type.ptr, (Py_ssize_t)event->type.len, "replace");
    PyObject *data = ro_py_bytes_of(event->data);
    item = Py_BuildValue("(NNOO)", type, data, id, retry);
    more = item != NULL && PyList_Append(list, item) == 0;
done:
    Py_XDECREF(item);
    Py_XDECREF(retry);
    Py_XDECREF(id);
    return more;
}

static ro_sse_code
feed_in_chunks(ro_sse *sse, ro_slice data, size_t chunk)
{
    ro_sse_code code = RO_SSE_OK;
    size_t step = chunk > 0 ? chunk : data.len;
    for (size_t at = 0; code == RO_SSE_OK && at < data.len;) {
        size_t len = data.len - at < step ? data.len - at : step;
        code = ro_sse_feed(sse, data.ptr + at, len);
        at += len;
    }
    return code;
}

static PyObject *
sse_events(PyObject *module, PyObject *args, PyObject *kwargs)
{
    (void)module;
    static char *names[] = {"", "max_bytes", "chunk", NULL};
    ro_slice data;
    Py_ssize_t max_bytes = RO_MAX_ANSWER;
    Py_ssize_t chunk = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&|$nn:sse_events", names,
                                     ro_py_bytes, &data, &max_bytes, &chunk)) {
        return NULL;
    }
    if (max_bytes < 0 || chunk < 0) {
        return ro_py_raise_value("max_bytes and chunk must not be negative");
    }
    PyObject *events = PyList_New(0);
    if (events == NULL) {
        return NULL;
    }
    ro_sse sse;
    ro_sse_init(&sse, (size_t)max_bytes, RO_MAX_HEADER_VALUE, collect_event,
                events);
    ro_sse_code code = feed_in_chunks(&sse, data, (size_t)chunk);
    ro_sse_free(&sse);
    if (code == RO_SSE_OK) {
        return events;
    }
    if (code == RO_SSE_TOO_LARGE) {
        (void)ro_py_raise_value("too large");
    }
    else if (code == RO_SSE_NO_MEMORY) {
        (void)ro_py_raise_memory();
    }
    Py_DECREF(events);
    return NULL;
}

/* ---- wiring ---- */

static PyMethodDef methods[] = {
    {"hint_verdict", (PyCFunction)(void (*)(void))hint_verdict,
     METH_VARARGS | METH_KEYWORDS, hint_verdict_doc},
    {"reduce_tool_list", reduce_tool_list, METH_VARARGS, reduce_tool_list_doc},
    {"hand_up", (PyCFunction)(void (*)(void))hand_up,
     METH_VARARGS | METH_KEYWORDS, hand_up_doc},
    {"rpc_failure", rpc_failure, METH_O, rpc_failure_doc},
    {"sse_events", (PyCFunction)(void (*)(void))sse_events,
     METH_VARARGS | METH_KEYWORDS, sse_events_doc},
    {NULL, NULL, 0, NULL},
};

int
ro_py_add_mcp(PyObject *module)
{
    return PyModule_AddFunctions(module, methods);
}
