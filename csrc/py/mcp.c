/* Verdicts on MCP bytes: hints, tool lists, results, event streams. */
#include "py/mcp.h"

#include "py/errors.h"

#include "core/buf.h"
#include "core/envelope.h"
#include "core/hints.h"
#include "core/json.h"
#include "core/limits.h"
#include "core/result.h"
#include "core/sse.h"
#include "core/toollist.h"

PyObject *
ro_py_bytes_of(ro_slice slice)
{
    return PyBytes_FromStringAndSize(slice.ptr, (Py_ssize_t)slice.len);
}

bool
ro_py_utf8_of(PyObject *text, ro_slice *utf8)
{
    Py_ssize_t len = 0;
    utf8->ptr = PyUnicode_AsUTF8AndSize(text, &len);
    utf8->len = (size_t)len;
    return utf8->ptr != NULL;
}

/* 0, or -1 with JSONError. */
static int
validate(PyObject *module, ro_slice document, const ro_json_limits *limits)
{
    ro_json_error error;
    if (ro_json_validate(document, limits, &error) != RO_JSON_OK) {
        (void)ro_py_raise_json(module, &error);
        return -1;
    }
    return 0;
}

int
ro_py_validate_type(PyObject *module, ro_slice document,
                    const ro_json_limits *limits, ro_json_type type,
                    ro_json_code otherwise)
{
    if (validate(module, document, limits) < 0) {
        return -1;
    }
    ro_slice root = ro_json_root(document);
    if (ro_json_type_of(root) != type) {
        ro_json_error error = {otherwise, (size_t)(root.ptr - document.ptr)};
        (void)ro_py_raise_json(module, &error);
        return -1;
    }
    return 0;
}

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
    const char *ptr;
    Py_ssize_t len;
    int max_depth = RO_MAX_DEPTH;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "y#|$i:hint_verdict", names,
                                     &ptr, &len, &max_depth)) {
        return NULL;
    }
    if (max_depth < 1) {
        return ro_py_raise_value("max_depth must be at least 1");
    }
    ro_slice entry = {ptr, (size_t)len};
    const ro_json_limits limits
        = {RO_MAX_DISCOVERY, (unsigned)max_depth, true};
    if (ro_py_validate_type(module, entry, &limits, RO_JSON_OBJECT,
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
    "empty) and nextCursor. Returns (message, entries) as raw bytes. Raises\n"
    "JSONError for bytes that are not JSON within the bounds of a discovery\n"
    "answer, ValueError for what is not a tools/list result.");

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
    case RO_LIST_TOO_DEEP:
        return ro_py_raise_value("too deep");
    case RO_LIST_TOO_LARGE:
        return ro_py_raise_value("too large");
    case RO_LIST_NO_MEMORY:
        break;
    }
    return PyErr_NoMemory();
}

static PyObject *
reduce_tool_list(PyObject *module, PyObject *args)
{
    const char *ptr;
    Py_ssize_t len;
    PyObject *prefix;
    PyObject *tool;
    ro_list_query query = {.max_depth = RO_MAX_DEPTH, .entry = collect_entry};
    if (!PyArg_ParseTuple(args, "y#UU:reduce_tool_list", &ptr, &len, &prefix,
                          &tool)
        || !ro_py_utf8_of(prefix, &query.prefix)
        || !ro_py_utf8_of(tool, &query.tool)) {
        return NULL;
    }
    ro_slice message = {ptr, (size_t)len};
    const ro_json_limits limits
        = {RO_MAX_DISCOVERY, RO_MAX_DEPTH + RO_LIST_EXTRA_DEPTH, true};
    if (validate(module, message, &limits) < 0) {
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

/* ---- results ---- */

PyDoc_STRVAR(
    judge_result_doc,
    "judge_result(message, id, /)\n"
    "--\n\n"
    "The envelope code that a tools/call answer leads to, or \"ok\".\n\n"
    "message is one JSON-RPC message in bytes; id is the int or str that the\n"
    "request carried.");

/* 0 with the raw id appended to out, or -1 with an exception. */
static int
write_id(PyObject *id, ro_buf *out)
{
    ro_slice utf8;
    ro_buf_code code;
    if (PyUnicode_Check(id)) {
        if (!ro_py_utf8_of(id, &utf8)) {
            return -1;
        }
        code = ro_json_write_string(out, utf8);
    }
    else if (PyLong_CheckExact(id)) {
        PyObject *digits = PyObject_Str(id);
        if (digits == NULL || !ro_py_utf8_of(digits, &utf8)) {
            Py_XDECREF(digits);
            return -1;
        }
        code = ro_buf_append_slice(out, utf8);
        Py_DECREF(digits);
    }
    else {
        PyErr_SetString(PyExc_TypeError, "id must be int or str");
        return -1;
    }
    if (code == RO_BUF_TOO_LARGE) {
        (void)ro_py_raise_value("too large");
    }
    else if (code == RO_BUF_NO_MEMORY) {
        (void)PyErr_NoMemory();
    }
    return code == RO_BUF_OK ? 0 : -1;
}

static PyObject *
judge_result(PyObject *module, PyObject *args)
{
    (void)module;
    const char *ptr;
    Py_ssize_t len;
    PyObject *id;
    if (!PyArg_ParseTuple(args, "y#O:judge_result", &ptr, &len, &id)) {
        return NULL;
    }
    ro_slice message = {ptr, (size_t)len};
    ro_buf raw_id;
    ro_buf_init(&raw_id, RO_MAX_ANSWER);
    if (write_id(id, &raw_id) < 0) {
        ro_buf_free(&raw_id);
        return NULL;
    }
    const ro_json_limits limits = {RO_MAX_ANSWER, RO_MAX_DEPTH, false};
    ro_code code = RO_CODE_MALFORMED_RESULT;
    ro_json_code json = ro_json_validate(message, &limits, NULL);
    if (json == RO_JSON_OK) {
        code = ro_result_envelope_code(
            ro_result_judge(message, ro_buf_slice(&raw_id), NULL));
    }
    else if (json == RO_JSON_TOO_LARGE) {
        code = RO_CODE_RESULT_TOO_LARGE;
    }
    ro_buf_free(&raw_id);
    if (json == RO_JSON_NO_MEMORY) {
        return PyErr_NoMemory();
    }
    return PyUnicode_FromString(ro_code_name(code));
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
    const char *ptr;
    Py_ssize_t len;
    Py_ssize_t max_bytes = RO_MAX_ANSWER;
    Py_ssize_t chunk = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "y#|$nn:sse_events", names,
                                     &ptr, &len, &max_bytes, &chunk)) {
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
    ro_sse_code code
        = feed_in_chunks(&sse, ro_slice_of(ptr, (size_t)len), (size_t)chunk);
    ro_sse_free(&sse);
    if (code == RO_SSE_OK) {
        return events;
    }
    if (code == RO_SSE_TOO_LARGE) {
        (void)ro_py_raise_value("too large");
    }
    else if (code == RO_SSE_NO_MEMORY) {
        (void)PyErr_NoMemory();
    }
    Py_DECREF(events);
    return NULL;
}

/* ---- wiring ---- */

static PyMethodDef methods[] = {
    {"hint_verdict", (PyCFunction)(void (*)(void))hint_verdict,
     METH_VARARGS | METH_KEYWORDS, hint_verdict_doc},
    {"reduce_tool_list", reduce_tool_list, METH_VARARGS, reduce_tool_list_doc},
    {"judge_result", judge_result, METH_VARARGS, judge_result_doc},
    {"sse_events", (PyCFunction)(void (*)(void))sse_events,
     METH_VARARGS | METH_KEYWORDS, sse_events_doc},
    {NULL, NULL, 0, NULL},
};

int
ro_py_add_mcp(PyObject *module)
{
    if (PyModule_AddFunctions(module, methods) < 0) {
        return -1;
    }
    return ro_py_add_envelopes(module);
}
