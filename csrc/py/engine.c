/* Engine: one worker of net/net.h, or a share of another Engine's, with a
 * port of its own. */
#include "py/engine.h"
#include "py/errors.h"

#include <limits.h>

#include "core/alloc.h"
#include "core/limits.h"

/* milliseconds: a forgotten worker is waited for so long */
#define LAST_WAIT_MS 1000
/* ids: one call into the port */
#define POLL_MAX 64

typedef struct EngineObject {
    PyObject_HEAD
    ro_net *net;
    ro_port *port;
    PyObject *base; /* the Engine whose worker this is, or NULL: our own */
    char closed;
} EngineObject;

static EngineObject *
engine_of(PyObject *object)
{
    return (EngineObject *)object;
}

/* ---- requests ---- */

typedef struct request_arguments {
    ro_request request;
    PyObject *pairs; /* what the header array borrows from */
    ro_header *headers;
} request_arguments;

static void
drop_arguments(request_arguments *arguments)
{
    ro_free(arguments->headers);
    arguments->headers = NULL;
    Py_CLEAR(arguments->pairs);
}

static int
slice_of_bytes(PyObject *object, ro_slice *slice)
{
    char *bytes = NULL;
    Py_ssize_t len = 0;

    if (PyBytes_AsStringAndSize(object, &bytes, &len) < 0) {
        return -1;
    }
    *slice = ro_slice_of(bytes, (size_t)len);
    return 0;
}

static int
take_header(PyObject *pair, ro_header *header)
{
    if (!PyTuple_Check(pair) || PyTuple_Size(pair) != 2) {
        PyErr_SetString(PyExc_TypeError, "headers must be pairs of bytes");
        return -1;
    }
    if (slice_of_bytes(PyTuple_GetItem(pair, 0), &header->name) < 0) {
        return -1;
    }
    return slice_of_bytes(PyTuple_GetItem(pair, 1), &header->value);
}

static int
take_headers(PyObject *headers, request_arguments *arguments)
{
    arguments->pairs = PySequence_Tuple(headers);
    if (arguments->pairs == NULL) {
        return -1;
    }
    Py_ssize_t n = PyTuple_Size(arguments->pairs);
    arguments->headers = ro_calloc((size_t)n + 1, sizeof(ro_header));
    if (arguments->headers == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        if (take_header(PyTuple_GetItem(arguments->pairs, i),
                        &arguments->headers[i])
            < 0) {
            return -1;
        }
    }
    arguments->request.headers = arguments->headers;
    arguments->request.n_headers = (size_t)n;
    return 0;
}

/* -1 with an exception; drop_arguments is needed in any case. */
static int
take_arguments(PyObject *args, PyObject *kwargs, request_arguments *arguments)
{
    static char *names[] = {
        "method",      "url",    "headers",    "body",    "proxy",
        "cafile",      "capath", "connect_ms", "read_ms", "write_ms",
        "max_headers", "http2",  "fresh",      "raw",     NULL,
    };
    ro_request *request = &arguments->request;
    PyObject *headers = NULL;
    PyObject *body = NULL;
    Py_ssize_t max_headers = RO_MAX_HEADERS;
    int http2 = 0;
    int fresh = 0;
    int raw = 0;

    request->proxy = "";
    request->cafile = "";
    request->capath = "";
    if (!PyArg_ParseTupleAndKeywords(
            args, kwargs, "ssOO|$ssslllnppp:submit", names, &request->method,
            &request->url, &headers, &body, &request->proxy, &request->cafile,
            &request->capath, &request->connect_ms, &request->read_ms,
            &request->write_ms, &max_headers, &http2, &fresh, &raw)) {
        return -1;
    }
    if (max_headers < 0 || request->connect_ms < 0 || request->read_ms < 0
        || request->write_ms < 0) {
        ro_py_raise_value("limits must not be negative");
        return -1;
    }
    request->max_headers = (size_t)max_headers;
    request->http2 = http2 != 0;
    request->fresh = fresh != 0;
    request->raw = raw != 0;
    request->has_body = body != Py_None;
    if (request->has_body && slice_of_bytes(body, &request->body) < 0) {
        return -1;
    }
    return take_headers(headers, arguments);
}

PyDoc_STRVAR(
    engine_submit_doc,
    "submit($self, /, method, url, headers, body, *, proxy='', cafile='',\n"
    "       capath='', connect_ms=0, read_ms=0, write_ms=0,\n"
    "       max_headers=262144, http2=False, fresh=False, raw=False)\n"
    "--\n\n"
    "Send one request; a Transfer. Never waits.\n\n"
    "headers is a sequence of pairs of bytes, sent as they are; body is\n"
    "bytes or None. proxy is a URL or '' for none. cafile or capath names\n"
    "the trusted roots of an https URL. Times are milliseconds, 0 for no\n"
    "limit. raw leaves Content-Encoding alone; without it only codings\n"
    "that the Accept-Encoding header names are accepted, and undone.\n\n"
    "TransportError when the request cannot be sent as it is, or the\n"
    "engine is closed or another process's.");

static PyObject *
engine_submit(PyObject *self, PyObject *args, PyObject *kwargs)
{
    request_arguments arguments = {0};
    PyObject *module = PyType_GetModule(Py_TYPE(self));
    PyObject *result = NULL;
    ro_flow *flow = NULL;

    if (module != NULL && take_arguments(args, kwargs, &arguments) == 0) {
        ro_net_code code = engine_of(self)->closed
                               ? RO_NET_SHUT_DOWN
                               : ro_port_submit(engine_of(self)->port,
                                                &arguments.request, &flow);
        result = code == RO_NET_OK ? ro_py_transfer_new(module, self, flow)
                                   : ro_py_raise_net(module, code);
    }
    drop_arguments(&arguments);
    return result;
}

PyDoc_STRVAR(
    engine_warm_doc,
    "warm($self, hold_ms, /, method, url, headers, body, **options)\n"
    "--\n\n"
    "Open a connection for a request that submit gets within hold_ms, and\n"
    "send nothing on it. method, url, proxy, trust and the length of the\n"
    "body must be those of the request; headers and the body's bytes need\n"
    "not. Failing is silent.");

static PyObject *
engine_warm(PyObject *self, PyObject *args, PyObject *kwargs)
{
    request_arguments arguments = {0};
    PyObject *rest = NULL;
    PyObject *result = NULL;
    long hold_ms = -1;

    if (PyTuple_Size(args) > 0) {
        hold_ms = PyLong_AsLong(PyTuple_GetItem(args, 0));
    }
    if (PyErr_Occurred()) {
        return NULL;
    }
    if (hold_ms < 0 || hold_ms > INT_MAX) {
        return ro_py_raise_value("hold_ms must be milliseconds");
    }
    rest = PyTuple_GetSlice(args, 1, PyTuple_Size(args));
    if (rest != NULL && take_arguments(rest, kwargs, &arguments) == 0) {
        ro_net_warm(engine_of(self)->net, &arguments.request,
                    arguments.request.body.len, (int)hold_ms);
        result = Py_NewRef(Py_None);
    }
    drop_arguments(&arguments);
    Py_XDECREF(rest);
    return result;
}

/* ---- the rest ---- */

PyDoc_STRVAR(engine_fileno_doc,
             "fileno($self, /)\n--\n\n"
             "A descriptor that is readable while poll would return\n"
             "something; owned by the engine.");

static PyObject *
engine_fileno(PyObject *self, PyObject *Py_UNUSED(ignored))
{
    return PyLong_FromLong(ro_port_fd(engine_of(self)->port));
}

PyDoc_STRVAR(engine_poll_doc,
             "poll($self, /)\n--\n\n"
             "list[int]: ids of the transfers that have something new.");

static PyObject *
engine_poll(PyObject *self, PyObject *Py_UNUSED(ignored))
{
    uint64_t ids[POLL_MAX];
    size_t n = ro_port_poll(engine_of(self)->port, ids, POLL_MAX);
    PyObject *list = PyList_New((Py_ssize_t)n);

    for (size_t i = 0; list != NULL && i < n; i++) {
        PyObject *id = PyLong_FromUnsignedLongLong(ids[i]);
        if (id == NULL || PyList_SetItem(list, (Py_ssize_t)i, id) < 0) {
            Py_CLEAR(list);
        }
    }
    return list;
}

PyDoc_STRVAR(engine_stats_doc,
             "stats($self, /)\n--\n\n"
             "dict[str, int] of the worker: transfers (submitted),\n"
             "connections (opened), bytes_in (of bodies), active (not done).");

static PyObject *
engine_stats(PyObject *self, PyObject *Py_UNUSED(ignored))
{
    ro_net_stats stats;

    ro_net_get_stats(engine_of(self)->net, &stats);
    return Py_BuildValue("{sKsKsKsK}", "transfers",
                         (unsigned long long)stats.transfers, "connections",
                         (unsigned long long)stats.connections, "bytes_in",
                         (unsigned long long)stats.bytes_in, "active",
                         (unsigned long long)stats.active);
}

PyDoc_STRVAR(engine_close_doc,
             "close($self, wait_ms=1000, /)\n--\n\n"
             "Refuse further requests and poll no more. An engine with its\n"
             "own worker also ends it: its transfers fail, its connections\n"
             "close. bool: the worker ended within wait_ms (always True for\n"
             "a share). May run twice.");

static PyObject *
engine_close(PyObject *self, PyObject *args)
{
    EngineObject *engine = engine_of(self);
    int wait_ms = LAST_WAIT_MS;
    bool ended = true;

    if (!PyArg_ParseTuple(args, "|i:close", &wait_ms)) {
        return NULL;
    }
    if (wait_ms < 0) {
        return ro_py_raise_value("wait_ms must not be negative");
    }
    engine->closed = 1;
    if (engine->base == NULL) {
        /* the worker may be inside a TLS step */
        PyThreadState *released = PyEval_SaveThread();
        ended = ro_net_shut_down(engine->net, wait_ms);
        PyEval_RestoreThread(released);
    }
    return PyBool_FromLong(ended);
}

/* ---- life ---- */

static void
engine_dealloc(PyObject *self)
{
    EngineObject *engine = engine_of(self);
    PyTypeObject *type = Py_TYPE(self);
    freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);

    if (engine->port != NULL) {
        ro_port_close(engine->port);
    }
    if (engine->base == NULL && engine->net != NULL) {
        /* Needs no GIL to end; leaks when it does not end. */
        (void)ro_net_shut_down(engine->net, LAST_WAIT_MS);
        ro_net_free(engine->net);
    }
    ro_port_release(engine->port);
    Py_XDECREF(engine->base);
    free_object(self);
    Py_DECREF(type);
}

static PyObject *
engine_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"base", NULL};
    PyObject *base = Py_None;
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:Engine", names,
                                     &base)) {
        return NULL;
    }
    if (base != Py_None && Py_TYPE(base) != type) {
        PyErr_SetString(PyExc_TypeError, "base must be an Engine or None");
        return NULL;
    }
    PyObject *self = alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    EngineObject *engine = engine_of(self);
    if (base != Py_None) {
        engine->base = Py_NewRef(base);
        engine->net = engine_of(base)->net;
    }
    else {
        engine->net = ro_net_new();
    }
    if (engine->net != NULL) {
        engine->port = ro_port_new(engine->net);
    }
    if (engine->port == NULL) {
        Py_DECREF(self);
        return ro_py_raise_runtime(
            "out of memory, threads or descriptors for a transport");
    }
    return self;
}

static PyMethodDef engine_methods[] = {
    {"submit", (PyCFunction)(void (*)(void))engine_submit,
     METH_VARARGS | METH_KEYWORDS, engine_submit_doc},
    {"warm", (PyCFunction)(void (*)(void))engine_warm,
     METH_VARARGS | METH_KEYWORDS, engine_warm_doc},
    {"fileno", engine_fileno, METH_NOARGS, engine_fileno_doc},
    {"poll", engine_poll, METH_NOARGS, engine_poll_doc},
    {"stats", engine_stats, METH_NOARGS, engine_stats_doc},
    {"close", engine_close, METH_VARARGS, engine_close_doc},
    {NULL, NULL, 0, NULL},
};

PyDoc_STRVAR(engine_doc,
             "Engine(base=None)\n--\n\n"
             "HTTP transfers on one worker thread, for one event loop.\n\n"
             "base is an Engine whose worker is shared. The worker of an\n"
             "engine without base lives until close or the last reference\n"
             "to the engine, its shares and their transfers. RuntimeError\n"
             "when it cannot be started.");

static PyType_Slot engine_slots[] = {
    {Py_tp_doc, (void *)engine_doc},
    {Py_tp_new, (void *)engine_new},
    {Py_tp_dealloc, (void *)engine_dealloc},
    {Py_tp_methods, (void *)engine_methods},
    {0, NULL},
};

static PyType_Spec engine_spec = {
    .name = "deepagents_ro._mcpro.Engine",
    .basicsize = sizeof(EngineObject),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = engine_slots,
};

int
ro_py_add_engine(PyObject *module)
{
    if (ro_py_add_type(module, &engine_spec,
                       &ro_py_state_of(module)->engine_type)
        < 0) {
        return -1;
    }
    return ro_py_add_transfer(module);
}
