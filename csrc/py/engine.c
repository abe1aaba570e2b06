/* Engine: one worker of net/net.h, or a share of another Engine's, with a
 * mailbox of its own. */
#include "py/engine.h"

#include "core/limits.h"
#include "py/convert.h"
#include "py/errors.h"

/* milliseconds: a worker without an owner has this long to end */
#define LAST_WAIT_MS 1000
/* ids: one call into the mailbox */
#define POLL_MAX 64

typedef struct EngineObject {
    PyObject_HEAD
    ro_net *net;
    ro_mailbox *mailbox;
    PyObject *base; /* the Engine whose worker this is, or NULL: our own */
    char closed;
} EngineObject;

static EngineObject *
engine_of(PyObject *object)
{
    return (EngineObject *)object;
}

/* ---- requests ---- */

/* -1 with an exception; the headers are to be freed in any case. */
static int
take_arguments(PyObject *args, PyObject *kwargs, ro_request *request,
               ro_py_headers *headers)
{
    static char *names[] = {
        "method", "url",        "headers", "body",     "proxy",       "cafile",
        "capath", "connect_ms", "read_ms", "write_ms", "max_headers", "http2",
        "fresh",  "raw",        "again",   NULL,
    };
    Py_ssize_t max_headers = RO_MAX_HEADERS;
    int http2 = 0;
    int fresh = 0;
    int raw = 0;
    int again = 0;

    request->proxy = "";
    request->cafile = "";
    request->capath = "";
    if (!PyArg_ParseTupleAndKeywords(
            args, kwargs, "ssO&O&|$ssslllnpppp:submit", names,
            &request->method, &request->url, ro_py_headers_read, headers,
            ro_py_optional_bytes, &request->body, &request->proxy,
            &request->cafile, &request->capath, &request->connect_ms,
            &request->read_ms, &request->write_ms, &max_headers, &http2,
            &fresh, &raw, &again)) {
        return -1;
    }
    if (max_headers < 0 || request->connect_ms < 0 || request->read_ms < 0
        || request->write_ms < 0) {
        (void)ro_py_raise_value("limits must not be negative");
        return -1;
    }
    request->max_headers = (size_t)max_headers;
    request->http2 = http2 != 0;
    request->fresh = fresh != 0;
    request->raw = raw != 0;
    request->sending = again ? RO_SEND_AGAIN : RO_SEND_ONCE;
    request->has_body = request->body.ptr != NULL;
    request->headers = headers->items;
    request->n_headers = headers->count;
    return 0;
}

PyDoc_STRVAR(
    engine_submit_doc,
    "submit($self, /, method, url, headers, body, *, proxy='', cafile='',\n"
    "       capath='', connect_ms=0, read_ms=0, write_ms=0,\n"
    "       max_headers=262144, http2=False, fresh=False, raw=False,\n"
    "       again=False)\n"
    "--\n\n"
    "Send one request; a Transfer. Never waits.\n\n"
    "headers is a sequence of pairs of bytes, sent as they are; body is\n"
    "bytes or None. proxy is a URL or '' for none. cafile or capath names\n"
    "the trusted roots of an https URL. Times are milliseconds, 0 for no\n"
    "limit. raw leaves Content-Encoding alone; without it only codings\n"
    "that the Accept-Encoding header names are accepted, and undone.\n"
    "again allows a second sending when a kept connection ends before the\n"
    "first byte of the answer.\n\n"
    "TransportError when the request cannot be sent as it is, or the\n"
    "engine is closed or another process's.");

static PyObject *
engine_submit(PyObject *self, PyObject *args, PyObject *kwargs)
{
    ro_request request = {.method = NULL};
    ro_py_headers headers = {.items = NULL};
    PyObject *module = PyType_GetModule(Py_TYPE(self));
    PyObject *result = NULL;
    ro_download *download = NULL;

    if (module != NULL
        && take_arguments(args, kwargs, &request, &headers) == 0) {
        ro_net_code code = engine_of(self)->closed
                               ? RO_NET_SHUT_DOWN
                               : ro_mailbox_submit(engine_of(self)->mailbox,
                                                   &request, &download);
        result = code == RO_NET_OK ? ro_py_transfer_new(module, self, download)
                                   : ro_py_raise_net(module, code);
    }
    ro_py_headers_free(&headers);
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
    return PyLong_FromLong(ro_mailbox_fd(engine_of(self)->mailbox));
}

PyDoc_STRVAR(engine_poll_doc,
             "poll($self, /)\n--\n\n"
             "list[int]: ids of the transfers that have something new.");

static PyObject *
engine_poll(PyObject *self, PyObject *Py_UNUSED(ignored))
{
    uint64_t ids[POLL_MAX];
    size_t n = ro_mailbox_poll(engine_of(self)->mailbox, ids, POLL_MAX);
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
    /* A share ends its own submissions alone: others use the worker. */
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

    /* Nobody polls from here on. The mailbox itself lives as long as a
     * download does, and a download until the worker is done with it. */
    if (engine->mailbox != NULL) {
        ro_mailbox_close(engine->mailbox);
    }
    if (engine->base == NULL && engine->net != NULL) {
        /* Needs no GIL to end; leaks when it does not end. */
        (void)ro_net_shut_down(engine->net, LAST_WAIT_MS);
        ro_net_free(engine->net);
    }
    ro_mailbox_release(engine->mailbox);
    Py_XDECREF(engine->base);
    ro_py_dealloc(self);
}

static PyObject *
engine_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"base", NULL};
    PyObject *base = Py_None;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:Engine", names,
                                     &base)) {
        return NULL;
    }
    if (base != Py_None && Py_TYPE(base) != type) {
        return ro_py_raise_type("base must be an Engine or None");
    }
    PyObject *self = ro_py_alloc(type);
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
        engine->mailbox = ro_mailbox_new(engine->net);
    }
    if (engine->mailbox == NULL) {
        Py_DECREF(self);
        return ro_py_raise_runtime(
            "out of memory, threads or descriptors for a transport");
    }
    return self;
}

static PyMethodDef engine_methods[] = {
    {"submit", (PyCFunction)(void (*)(void))engine_submit,
     METH_VARARGS | METH_KEYWORDS, engine_submit_doc},
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

PyDoc_STRVAR(net_library_doc,
             "net_library()\n"
             "--\n"
             "\n"
             "libcurl and the TLS library that it uses, with their versions.\n"
             "\n"
             "Raises TransportError when libcurl cannot be set up.");

static PyObject *
net_library(PyObject *module, PyObject *Py_UNUSED(ignored))
{
    const char *library = ro_net_library();
    if (library == NULL) {
        return ro_py_raise_net(module, RO_NET_INTERNAL);
    }
    return PyUnicode_FromString(library);
}

static PyMethodDef functions[] = {
    {"net_library", net_library, METH_NOARGS, net_library_doc},
    {NULL, NULL, 0, NULL},
};

int
ro_py_add_engine(PyObject *module)
{
    if (PyModule_AddFunctions(module, functions) < 0) {
        return -1;
    }
    if (ro_py_add_type(module, &engine_spec,
                       &ro_py_state_of(module)->engine_type)
        < 0) {
        return -1;
    }
    return ro_py_add_transfer(module);
}
