/* Call: the shim's view of core/call.h and of a worker's MCP side. */
#include "py/call.h"

#include "core/hints.h"
#include "py/errors.h"

/* milliseconds: a Call that is collected waits this long for its worker */
#define CLOSE_MS 1000

static ro_slice
slice_of(const Py_buffer *view)
{
    return ro_slice_of(view->buf, (size_t)view->len);
}

static PyObject *
bytes_of(ro_slice slice)
{
    return PyBytes_FromStringAndSize(slice.ptr, (Py_ssize_t)slice.len);
}

/* ---- Call ---- */

static PyObject *
call_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"tool", NULL};
    const char *tool;
    Py_ssize_t len;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "s#:Call", names, &tool,
                                     &len)) {
        return NULL;
    }
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    CallObject *self = (CallObject *)alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->call = ro_call_new(ro_slice_of(tool, (size_t)len));
    self->net = self->call == NULL ? NULL : ro_net_new();
    self->mcp = self->net == NULL ? NULL : ro_mcp_new(self->net, self->call);
    if (self->mcp == NULL) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    return (PyObject *)self;
}

static void
call_dealloc(PyObject *object)
{
    CallObject *self = (CallObject *)object;
    PyTypeObject *type = Py_TYPE(object);
    /* May block up to CLOSE_MS while the worker unwinds its transfers, and
     * until killed children are reaped. */
    Py_BEGIN_ALLOW_THREADS
    if (ro_net_shut_down(self->net, CLOSE_MS)) {
        ro_mcp_free(self->mcp);
        ro_net_free(self->net);
        ro_call_free(self->call);
    }
    Py_END_ALLOW_THREADS
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF(type);
}

PyDoc_STRVAR(call_fileno_doc,
             "fileno($self, /)\n--\n\n"
             "Descriptor that is readable while replies wait.");

static PyObject *
call_fileno(PyObject *self, PyObject *Py_UNUSED(ignored))
{
    return PyLong_FromLong(
        ro_replies_fd(ro_mcp_replies(((CallObject *)self)->mcp)));
}

static PyObject *
reply_object(const ro_reply *reply)
{
    PyObject *headers = PyList_New(0);
    if (headers == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < reply->headers.count; i++) {
        const ro_header *header = &reply->headers.items[i];
        PyObject *pair = Py_BuildValue(
            "(y#y#)", header->name.ptr, (Py_ssize_t)header->name.len,
            header->value.ptr, (Py_ssize_t)header->value.len);
        if (pair == NULL || PyList_Append(headers, pair) < 0) {
            Py_XDECREF(pair);
            Py_DECREF(headers);
            return NULL;
        }
        Py_DECREF(pair);
    }
    return Py_BuildValue(
        "(KlNy#)", (unsigned long long)reply->ticket, reply->status, headers,
        reply->body == NULL ? "" : reply->body, (Py_ssize_t)reply->body_len);
}

PyDoc_STRVAR(call_poll_doc,
             "poll($self, /)\n--\n\n"
             "Replies that wait, oldest first: a list of\n"
             "(ticket: int, status: int, headers: list[tuple[bytes, bytes]],\n"
             "body: bytes). Every submitted request has exactly one reply.");

static PyObject *
call_poll(PyObject *object, PyObject *Py_UNUSED(ignored))
{
    CallObject *self = (CallObject *)object;
    PyObject *list = PyList_New(0);
    if (list == NULL) {
        return NULL;
    }
    ro_reply *reply = ro_replies_take(ro_mcp_replies(self->mcp));
    while (reply != NULL) {
        ro_reply *next = reply->next;
        PyObject *item = list == NULL ? NULL : reply_object(reply);
        if (list != NULL && (item == NULL || PyList_Append(list, item) < 0)) {
            Py_CLEAR(list);
        }
        Py_XDECREF(item);
        ro_reply_free(reply);
        reply = next;
    }
    return list;
}

PyDoc_STRVAR(call_warm_doc,
             "warm($self, url, proxy, cafile, capath, body_len, hold_ms, /)\n"
             "--\n\n"
             "Open the connection for the first POST to url and send nothing\n"
             "on it. body_len: bytes that the POST is expected to have;\n"
             "hold_ms: milliseconds that the connection waits. Silent when\n"
             "it fails.");

static PyObject *
call_warm(PyObject *object, PyObject *args)
{
    /* whether a coding is accepted is set before the connection is made */
    const ro_header codings
        = {ro_slice_str("accept-encoding"), ro_slice_str("gzip, deflate")};
    CallObject *self = (CallObject *)object;
    ro_request request = {.method = "POST",
                          .has_body = true,
                          .headers = &codings,
                          .n_headers = 1};
    Py_ssize_t body_len;
    int hold_ms;
    if (!PyArg_ParseTuple(args, "ssssni:warm", &request.url, &request.proxy,
                          &request.cafile, &request.capath, &body_len,
                          &hold_ms)) {
        return NULL;
    }
    if (body_len < 0) {
        return ro_py_raise_value("body_len is negative");
    }
    request.max_headers = RO_MAX_HEADERS;
    ro_net_warm(self->net, &request, (size_t)body_len, hold_ms);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(call_entries_doc,
             "entries($self, server, /)\n--\n\n"
             "The raw tools/list entries kept for a server, in wire order:\n"
             "a list of bytes.");

static PyObject *
call_entries(PyObject *object, PyObject *args)
{
    CallObject *self = (CallObject *)object;
    const char *server;
    Py_ssize_t len;
    ro_slice entry;
    if (!PyArg_ParseTuple(args, "s#:entries", &server, &len)) {
        return NULL;
    }
    PyObject *list = PyList_New(0);
    for (size_t i = 0;
         list != NULL
         && ro_call_entry(self->call, ro_slice_of(server, (size_t)len), i,
                          &entry);
         i++) {
        PyObject *item = bytes_of(entry);
        if (item == NULL || PyList_Append(list, item) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(item);
    }
    return list;
}

PyDoc_STRVAR(call_verdict_doc,
             "verdict($self, server, /)\n--\n\n"
             "(allowed: bool, reason: str) of the server's one entry, judged\n"
             "on the bytes that it sent.");

static PyObject *
call_verdict(PyObject *object, PyObject *args)
{
    CallObject *self = (CallObject *)object;
    const char *server;
    Py_ssize_t len;
    if (!PyArg_ParseTuple(args, "s#:verdict", &server, &len)) {
        return NULL;
    }
    ro_hints_code code
        = ro_call_judge(self->call, ro_slice_of(server, (size_t)len));
    return Py_BuildValue("(Ns)", PyBool_FromLong(code == RO_HINTS_READ_ONLY),
                         ro_hints_reason(code));
}

PyDoc_STRVAR(call_open_doc,
             "open($self, server, arguments, /)\n--\n\n"
             "Open the gate for one tools/call of the tool on server, with\n"
             "these argument bytes (one strict JSON object). False unless\n"
             "the gate was closed and the verdict allows. Raises JSONError.");

static PyObject *
call_open(PyObject *object, PyObject *args)
{
    static const ro_json_limits limits = {RO_MAX_STDIN, RO_MAX_DEPTH, false};
    CallObject *self = (CallObject *)object;
    const char *server;
    Py_ssize_t len;
    Py_buffer view;
    ro_json_error error;
    if (!PyArg_ParseTuple(args, "s#y*:open", &server, &len, &view)) {
        return NULL;
    }
    PyObject *result = NULL;
    PyObject *module = PyType_GetModule(Py_TYPE(object));
    if (module != NULL) {
        ro_json_code code = ro_json_validate(slice_of(&view), &limits, &error);
        ro_slice root = {NULL, 0};
        if (code == RO_JSON_OK) {
            root = ro_json_root(slice_of(&view));
            if (ro_json_type_of(root) != RO_JSON_OBJECT) {
                error.code = RO_JSON_NOT_OBJECT;
                error.pos = 0;
                code = RO_JSON_NOT_OBJECT;
            }
        }
        result = code == RO_JSON_OK ? PyBool_FromLong(ro_call_open(
                     self->call, ro_slice_of(server, (size_t)len), root))
                                    : ro_py_raise_json(module, &error);
    }
    PyBuffer_Release(&view);
    return result;
}

PyDoc_STRVAR(call_outcome_doc,
             "outcome($self, /)\n--\n\n"
             "What the wire said of the one call: \"ok\", an envelope code,\n"
             "or None while nothing is recorded.");

static PyObject *
call_outcome(PyObject *object, PyObject *Py_UNUSED(ignored))
{
    ro_code code;
    if (!ro_call_outcome(((CallObject *)object)->call, &code)) {
        Py_RETURN_NONE;
    }
    return PyUnicode_FromString(ro_code_name(code));
}

PyDoc_STRVAR(call_structured_doc,
             "structured($self, /)\n--\n\n"
             "The recorded structuredContent, token for token without white\n"
             "space: bytes, or None when the server sent none.");

static PyObject *
call_structured(PyObject *object, PyObject *Py_UNUSED(ignored))
{
    ro_slice raw = ro_call_structured(((CallObject *)object)->call);
    if (raw.len == 0) {
        Py_RETURN_NONE;
    }
    return bytes_of(raw);
}

PyDoc_STRVAR(call_noted_doc,
             "noted($self, server, /)\n--\n\n"
             "Why a server's discovery failed on the wire (\"http_401\",\n"
             "\"tls\", \"list_malformed\", ...), or None.");

static PyObject *
call_noted(PyObject *object, PyObject *args)
{
    CallObject *self = (CallObject *)object;
    const char *server;
    Py_ssize_t len;
    if (!PyArg_ParseTuple(args, "s#:noted", &server, &len)) {
        return NULL;
    }
    const char *reason
        = ro_call_noted(self->call, ro_slice_of(server, (size_t)len));
    if (reason == NULL) {
        Py_RETURN_NONE;
    }
    return PyUnicode_FromString(reason);
}

static void
run_exit_hook(void *ctx, int wait_ms)
{
    ro_mcp_close(ctx, wait_ms);
}

PyDoc_STRVAR(call_exit_hook_doc,
             "exit_hook($self, /)\n--\n\n"
             "A capsule for Guard.set_exit_hook: sends the DELETE of each\n"
             "session before the process ends. It keeps the Call alive.");

static void
release_hook(PyObject *capsule)
{
    Py_XDECREF((PyObject *)PyCapsule_GetContext(capsule));
}

static PyObject *
call_exit_hook(PyObject *object, PyObject *Py_UNUSED(ignored))
{
    CallObject *self = (CallObject *)object;
    self->hook.hook = run_exit_hook;
    self->hook.ctx = self->mcp;
    PyObject *capsule
        = PyCapsule_New(&self->hook, RO_GUARD_EXIT_HOOK_CAPSULE, release_hook);
    if (capsule != NULL) {
        (void)PyCapsule_SetContext(capsule, Py_NewRef(object));
    }
    return capsule;
}

PyDoc_STRVAR(call_close_doc,
             "close($self, wait_ms, /)\n--\n\n"
             "Send the DELETE of each session and wait at most wait_ms\n"
             "milliseconds for the answers.");

static PyObject *
call_close(PyObject *object, PyObject *args)
{
    CallObject *self = (CallObject *)object;
    int wait_ms;
    if (!PyArg_ParseTuple(args, "i:close", &wait_ms)) {
        return NULL;
    }
    /* Blocks until the DELETEs are answered or the time is over. */
    Py_BEGIN_ALLOW_THREADS
    ro_mcp_close(self->mcp, wait_ms);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

PyDoc_STRVAR(call_stats_doc,
             "stats($self, /)\n--\n\n"
             "Counters of the worker: a dict of transfers, connections,\n"
             "bytes_in and active.");

static PyObject *
call_stats(PyObject *object, PyObject *Py_UNUSED(ignored))
{
    ro_net_stats stats;
    ro_net_get_stats(((CallObject *)object)->net, &stats);
    return Py_BuildValue("{sKsKsKsK}", "transfers",
                         (unsigned long long)stats.transfers, "connections",
                         (unsigned long long)stats.connections, "bytes_in",
                         (unsigned long long)stats.bytes_in, "active",
                         (unsigned long long)stats.active);
}

static PyObject *
call_get_gate(PyObject *object, void *Py_UNUSED(closure))
{
    switch (ro_call_gate(((CallObject *)object)->call)) {
    case RO_GATE_CLOSED:
        return PyUnicode_FromString("closed");
    case RO_GATE_OPEN:
        return PyUnicode_FromString("open");
    case RO_GATE_USED:
        break;
    }
    return PyUnicode_FromString("used");
}

static PyMethodDef call_methods[] = {
    {"fileno", call_fileno, METH_NOARGS, call_fileno_doc},
    {"poll", call_poll, METH_NOARGS, call_poll_doc},
    {"session", ro_py_call_session, METH_VARARGS, ro_py_call_session_doc},
    {"stdio", ro_py_call_stdio, METH_VARARGS, ro_py_call_stdio_doc},
    {"warm", call_warm, METH_VARARGS, call_warm_doc},
    {"entries", call_entries, METH_VARARGS, call_entries_doc},
    {"verdict", call_verdict, METH_VARARGS, call_verdict_doc},
    {"open", call_open, METH_VARARGS, call_open_doc},
    {"outcome", call_outcome, METH_NOARGS, call_outcome_doc},
    {"structured", call_structured, METH_NOARGS, call_structured_doc},
    {"noted", call_noted, METH_VARARGS, call_noted_doc},
    {"exit_hook", call_exit_hook, METH_NOARGS, call_exit_hook_doc},
    {"close", call_close, METH_VARARGS, call_close_doc},
    {"stats", call_stats, METH_NOARGS, call_stats_doc},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef call_getset[] = {
    {"gate", call_get_gate, NULL,
     "\"closed\", \"open\" (for one call) or \"used\".", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyDoc_STRVAR(call_doc,
             "Call(tool)\n--\n\n"
             "The one call of one tool: its worker thread, sessions, gate\n"
             "and record.\n\n"
             "tool: full name, \"<server>_<name>\"; \"\" keeps every tool of\n"
             "every list and cannot call.\n\n"
             "Raises MemoryError when threads or descriptors are short.");

static PyType_Slot call_slots[] = {
    {Py_tp_new, (void *)call_new}, {Py_tp_dealloc, (void *)call_dealloc},
    {Py_tp_methods, call_methods}, {Py_tp_getset, call_getset},
    {Py_tp_doc, (void *)call_doc}, {0, NULL},
};

static PyType_Spec call_spec = {
    .name = "deepagents_ro._mcpro.Call",
    .basicsize = sizeof(CallObject),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = call_slots,
};

int
ro_py_add_call(PyObject *module)
{
    return ro_py_add_type(module, &call_spec,
                          &ro_py_state_of(module)->call_type);
}
