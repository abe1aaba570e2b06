/* Worker: the C side of one run of the command. */
#include "py/worker.h"

#include "core/hints.h"
#include "py/convert.h"
#include "py/errors.h"
#include "py/json.h"

/* milliseconds: a Worker that is freed waits this long for its thread */
#define CLOSE_MS 1000

/* ---- Worker ---- */

/* False: out of memory, threads or descriptors. */
static bool
start(WorkerObject *self, ro_slice tool)
{
    self->discovery = ro_discovery_new(tool);
    if (tool.len != 0) {
        self->gate = ro_gate_new(tool);
        self->record = ro_record_new();
        if (self->gate == NULL || self->record == NULL) {
            return false;
        }
    }
    self->net = self->discovery == NULL ? NULL : ro_net_new();
    self->mcp = self->net == NULL ? NULL
                                  : ro_mcp_new(self->net, self->discovery,
                                               self->gate, self->record);
    return self->mcp != NULL;
}

static PyObject *
worker_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"tool", NULL};
    ro_slice tool;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&:Worker", names,
                                     ro_py_text, &tool)) {
        return NULL;
    }
    WorkerObject *self = (WorkerObject *)ro_py_alloc(type);
    if (self == NULL) {
        return NULL;
    }
    if (!start(self, tool)) {
        Py_DECREF(self);
        return ro_py_raise_memory();
    }
    return (PyObject *)self;
}

static void
worker_dealloc(PyObject *object)
{
    WorkerObject *self = (WorkerObject *)object;
    /* May block up to CLOSE_MS while the worker unwinds its transfers, and
     * until killed children are reaped. A worker that does not end keeps all
     * that it uses: the memory is lost, and nobody reads freed memory. */
    Py_BEGIN_ALLOW_THREADS
    if (ro_net_shut_down(self->net, CLOSE_MS)) {
        ro_mcp_free(self->mcp);
        ro_net_free(self->net);
        ro_discovery_free(self->discovery);
        ro_gate_free(self->gate);
        ro_record_free(self->record);
    }
    Py_END_ALLOW_THREADS
    ro_py_dealloc(object);
}

PyDoc_STRVAR(worker_fileno_doc,
             "fileno($self, /)\n--\n\n"
             "Descriptor that is readable while replies wait.");

static PyObject *
worker_fileno(PyObject *self, PyObject *Py_UNUSED(ignored))
{
    return PyLong_FromLong(
        ro_replies_fd(ro_mcp_replies(((WorkerObject *)self)->mcp)));
}

static PyObject *
reply_object(const ro_reply *reply)
{
    return Py_BuildValue(
        "(KlNN)", (unsigned long long)reply->ticket, reply->status,
        ro_py_header_list(reply->headers.items, reply->headers.count),
        ro_py_bytes_of(ro_slice_of(reply->body, reply->body_len)));
}

PyDoc_STRVAR(worker_poll_doc,
             "poll($self, /)\n--\n\n"
             "Replies that wait, oldest first: a list of\n"
             "(ticket: int, status: int, headers: list[tuple[bytes, bytes]],\n"
             "body: bytes). Every submitted request has exactly one reply.");

static PyObject *
worker_poll(PyObject *object, PyObject *Py_UNUSED(ignored))
{
    WorkerObject *self = (WorkerObject *)object;
    PyObject *list = PyList_New(0);
    if (list == NULL) {
        return NULL;
    }
    ro_reply *reply = ro_replies_take(ro_mcp_replies(self->mcp));
    /* All of them are ours by now: after a failure the rest is still freed. */
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

/* The one argument of a method that asks about a server. False with an
 * exception; the bytes are those of the argument. */
static bool
server_of(PyObject *args, const char *format, ro_slice *server)
{
    return PyArg_ParseTuple(args, format, ro_py_text, server) != 0;
}

PyDoc_STRVAR(worker_entries_doc,
             "entries($self, server, /)\n--\n\n"
             "The raw tools/list entries kept for a server, in wire order:\n"
             "a list of bytes.");

static PyObject *
worker_entries(PyObject *object, PyObject *args)
{
    WorkerObject *self = (WorkerObject *)object;
    ro_slice server;
    const ro_entry *entry = NULL;
    if (!server_of(args, "O&:entries", &server)) {
        return NULL;
    }
    PyObject *list = PyList_New(0);
    while (list != NULL
           && (entry = ro_discovery_next(self->discovery, server, entry))
                  != NULL) {
        PyObject *item = ro_py_bytes_of(entry->raw);
        if (item == NULL || PyList_Append(list, item) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(item);
    }
    return list;
}

PyDoc_STRVAR(worker_verdict_doc,
             "verdict($self, server, /)\n--\n\n"
             "(allowed: bool, reason: str) of the server's one entry, judged\n"
             "on the bytes that it sent.");

static PyObject *
worker_verdict(PyObject *object, PyObject *args)
{
    WorkerObject *self = (WorkerObject *)object;
    ro_slice server;
    if (!server_of(args, "O&:verdict", &server)) {
        return NULL;
    }
    ro_hints_code code = ro_discovery_judge(self->discovery, server);
    return Py_BuildValue("(Ns)", PyBool_FromLong(code == RO_HINTS_READ_ONLY),
                         ro_hints_reason(code));
}

PyDoc_STRVAR(worker_open_doc,
             "open($self, server, arguments, /)\n--\n\n"
             "Open the gate for one tools/call of the tool on server, with\n"
             "these argument bytes (one strict JSON object). False unless\n"
             "the gate was closed and the verdict allows. Raises JSONError.");

static PyObject *
worker_open(PyObject *object, PyObject *args)
{
    static const ro_json_limits limits = {RO_MAX_STDIN, RO_MAX_DEPTH, false};
    WorkerObject *self = (WorkerObject *)object;
    ro_slice server;
    ro_slice arguments;
    if (!PyArg_ParseTuple(args, "O&O&:open", ro_py_text, &server, ro_py_bytes,
                          &arguments)) {
        return NULL;
    }
    PyObject *module = PyType_GetModule(Py_TYPE(object));
    if (module == NULL
        || ro_py_check_type(module, arguments, &limits, RO_JSON_OBJECT,
                            RO_JSON_NOT_OBJECT)
               < 0) {
        return NULL;
    }
    return PyBool_FromLong(ro_gate_open(self->gate, self->discovery, server,
                                        ro_json_root(arguments)));
}

PyDoc_STRVAR(worker_outcome_doc,
             "outcome($self, /)\n--\n\n"
             "What the wire said of the one call: \"ok\", an envelope code,\n"
             "or None while nothing is recorded.");

static PyObject *
worker_outcome(PyObject *object, PyObject *Py_UNUSED(ignored))
{
    ro_code code;
    if (!ro_record_outcome(((WorkerObject *)object)->record, &code)) {
        Py_RETURN_NONE;
    }
    return PyUnicode_FromString(ro_code_name(code));
}

PyDoc_STRVAR(worker_structured_doc,
             "structured($self, /)\n--\n\n"
             "The recorded structuredContent, token for token without white\n"
             "space: bytes, or None when the server sent none.");

static PyObject *
worker_structured(PyObject *object, PyObject *Py_UNUSED(ignored))
{
    ro_slice raw = ro_record_structured(((WorkerObject *)object)->record);
    if (raw.len == 0) {
        Py_RETURN_NONE;
    }
    return ro_py_bytes_of(raw);
}

PyDoc_STRVAR(worker_noted_doc,
             "noted($self, server, /)\n--\n\n"
             "Why a server's discovery failed on the wire: a word of\n"
             "REASONS, or None.");

static PyObject *
worker_noted(PyObject *object, PyObject *args)
{
    WorkerObject *self = (WorkerObject *)object;
    ro_slice server;
    if (!server_of(args, "O&:noted", &server)) {
        return NULL;
    }
    ro_reason reason = ro_discovery_noted(self->discovery, server);
    if (reason == RO_REASON_NONE) {
        Py_RETURN_NONE;
    }
    return PyUnicode_FromString(ro_reason_word(reason));
}

PyDoc_STRVAR(worker_version_doc,
             "version($self, server, /)\n--\n\n"
             "The protocol version that the server's answer to initialize\n"
             "named, as raw JSON; None when it named none.");

static PyObject *
worker_version(PyObject *object, PyObject *args)
{
    WorkerObject *self = (WorkerObject *)object;
    ro_slice server;
    if (!server_of(args, "O&:version", &server)) {
        return NULL;
    }
    ro_slice text = ro_discovery_version(self->discovery, server);
    if (text.len == 0) {
        Py_RETURN_NONE;
    }
    return ro_py_bytes_of(text);
}

static void
run_exit_hook(void *ctx, int wait_ms)
{
    ro_mcp_close(ctx, wait_ms);
}

PyDoc_STRVAR(worker_exit_hook_doc,
             "exit_hook($self, /)\n--\n\n"
             "A capsule for Guard.set_exit_hook: sends the DELETE of each\n"
             "session before the process ends. It keeps the Worker alive.");

static void
release_hook(PyObject *capsule)
{
    Py_XDECREF((PyObject *)PyCapsule_GetContext(capsule));
}

static PyObject *
worker_exit_hook(PyObject *object, PyObject *Py_UNUSED(ignored))
{
    WorkerObject *self = (WorkerObject *)object;
    /* The guard calls it without the GIL, so it is plain C over an object that
     * the capsule keeps alive. */
    self->hook.hook = run_exit_hook;
    self->hook.ctx = self->mcp;
    PyObject *capsule
        = PyCapsule_New(&self->hook, RO_GUARD_EXIT_HOOK_CAPSULE, release_hook);
    if (capsule != NULL) {
        (void)PyCapsule_SetContext(capsule, Py_NewRef(object));
    }
    return capsule;
}

static PyObject *
worker_get_gate(PyObject *object, void *Py_UNUSED(closure))
{
    switch (ro_gate_state_of(((WorkerObject *)object)->gate)) {
    case RO_GATE_CLOSED:
        return PyUnicode_FromString("closed");
    case RO_GATE_OPEN:
        return PyUnicode_FromString("open");
    case RO_GATE_USED:
        break;
    }
    return PyUnicode_FromString("used");
}

static PyMethodDef worker_methods[] = {
    {"fileno", worker_fileno, METH_NOARGS, worker_fileno_doc},
    {"poll", worker_poll, METH_NOARGS, worker_poll_doc},
    {"session", ro_py_worker_session, METH_VARARGS, ro_py_worker_session_doc},
    {"stdio", ro_py_worker_stdio, METH_VARARGS, ro_py_worker_stdio_doc},
    {"run_ahead", ro_py_worker_run_ahead, METH_VARARGS,
     ro_py_worker_run_ahead_doc},
    {"await_preflight", ro_py_worker_await_preflight, METH_NOARGS,
     ro_py_worker_await_preflight_doc},
    {"entries", worker_entries, METH_VARARGS, worker_entries_doc},
    {"verdict", worker_verdict, METH_VARARGS, worker_verdict_doc},
    {"open", worker_open, METH_VARARGS, worker_open_doc},
    {"outcome", worker_outcome, METH_NOARGS, worker_outcome_doc},
    {"structured", worker_structured, METH_NOARGS, worker_structured_doc},
    {"noted", worker_noted, METH_VARARGS, worker_noted_doc},
    {"version", worker_version, METH_VARARGS, worker_version_doc},
    {"exit_hook", worker_exit_hook, METH_NOARGS, worker_exit_hook_doc},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef worker_getset[] = {
    {"gate", worker_get_gate, NULL,
     "\"closed\", \"open\" (for one call) or \"used\".", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyDoc_STRVAR(worker_doc,
             "Worker(tool)\n--\n\n"
             "The C side of one run: a worker thread with its MCP sessions,\n"
             "what discovery found, the call's gate and its record.\n\n"
             "tool: full name, \"<server>_<name>\"; \"\" keeps every tool of\n"
             "every list and cannot call.\n\n"
             "Raises MemoryError when threads or descriptors are short.");

static PyType_Slot worker_slots[] = {
    {Py_tp_new, (void *)worker_new}, {Py_tp_dealloc, (void *)worker_dealloc},
    {Py_tp_methods, worker_methods}, {Py_tp_getset, worker_getset},
    {Py_tp_doc, (void *)worker_doc}, {0, NULL},
};

static PyType_Spec worker_spec = {
    .name = "deepagents_ro._mcpro.Worker",
    .basicsize = sizeof(WorkerObject),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = worker_slots,
};

int
ro_py_add_worker(PyObject *module)
{
    return ro_py_add_type(module, &worker_spec,
                          &ro_py_state_of(module)->worker_type);
}
