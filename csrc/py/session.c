/* Session: one MCP session, made by a Worker. */
#include "py/worker.h"

#include "mcp/ahead.h"
#include "py/convert.h"
#include "py/errors.h"

#include <errno.h>

typedef struct SessionObject {
    PyObject_HEAD
    WorkerObject *owner; /* keeps the ro_session alive */
    ro_session *session;
} SessionObject;

/* Wraps a session; NULL raises what failed, an errno, says. */
static PyObject *
session_object(PyObject *owner, ro_session *session, int failed)
{
    PyObject *module = PyType_GetModule(Py_TYPE(owner));
    if (module == NULL) {
        return NULL;
    }
    if (session == NULL) {
        return ro_py_raise_errno(failed);
    }
    /* The Worker owns the ro_session. This object only keeps the Worker alive.
     */
    SessionObject *self
        = (SessionObject *)ro_py_alloc(ro_py_state_of(module)->session_type);
    if (self == NULL) {
        return NULL; /* the Worker frees the session */
    }
    self->session = session;
    self->owner = (WorkerObject *)Py_NewRef(owner);
    return (PyObject *)self;
}

const char ro_py_worker_session_doc[] = PyDoc_STR(
    "session($self, server, url, proxy='', cafile='', capath='',\n"
    "        auth=False, legacy=False, /)\n--\n\n"
    "One MCP session over HTTP. Made while the gate is closed it is\n"
    "a discovery session, later the call session.\n\n"
    "server: name in the configuration\n"
    "url: the endpoint, absolute, no user info\n"
    "proxy: proxy URL or \"\"; cafile, capath: trust, one of them\n"
    "auth: an httpx.Auth sits above and sees 401 and 403\n"
    "legacy: url is the event stream of an HTTP with SSE server\n\n"
    "Raises MemoryError, or OSError in a forked child.");

PyObject *
ro_py_worker_session(PyObject *object, PyObject *args)
{
    WorkerObject *self = (WorkerObject *)object;
    ro_session_options options = {.proxy = "", .cafile = "", .capath = ""};
    int auth = 0;
    int legacy = 0;
    if (!PyArg_ParseTuple(args, "O&s|ssspp:session", ro_py_text,
                          &options.server, &options.url, &options.proxy,
                          &options.cafile, &options.capath, &auth, &legacy)) {
        return NULL;
    }
    options.auth = auth != 0;
    options.legacy = legacy != 0;
    ro_session *session = ro_mcp_session(self->mcp, &options);
    return session_object(object, session, errno);
}

/* A NULL-ended array of the strings of a list; freed with PyMem_Free. The
 * strings are borrowed from the list's items. */
static char **
string_array(PyObject *list)
{
    Py_ssize_t count = PyList_Size(list);
    if (count < 0) {
        return NULL;
    }
    char **array = PyMem_Calloc((size_t)count + 1, sizeof(*array));
    if (array == NULL) {
        (void)ro_py_raise_memory();
        return NULL;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        /* Without a place for the length, a NUL inside is ValueError. */
        if (PyBytes_AsStringAndSize(PyList_GetItem(list, i), &array[i], NULL)
            < 0) {
            PyMem_Free(array);
            return NULL;
        }
    }
    return array;
}

const char ro_py_worker_stdio_doc[] = PyDoc_STR(
    "stdio($self, server, argv, env, /)\n--\n\n"
    "One MCP session over the standard streams of a new child.\n\n"
    "server: name in the configuration\n"
    "argv: list[bytes], argv[0] is the path of the program\n"
    "env: list[bytes], each NAME=value; nothing else is inherited\n\n"
    "Raises OSError when the child cannot be started.");

PyObject *
ro_py_worker_stdio(PyObject *object, PyObject *args)
{
    WorkerObject *self = (WorkerObject *)object;
    ro_session_options options
        = {.url = RO_STDIO_URL, .proxy = "", .cafile = "", .capath = ""};
    PyObject *argv_list;
    PyObject *env_list;
    PyObject *result = NULL;
    if (!PyArg_ParseTuple(args, "O&O!O!:stdio", ro_py_text, &options.server,
                          &PyList_Type, &argv_list, &PyList_Type, &env_list)) {
        return NULL;
    }
    char **argv = string_array(argv_list);
    char **envp = argv == NULL ? NULL : string_array(env_list);
    if (envp != NULL && argv[0] == NULL) {
        (void)ro_py_raise_value("argv is empty");
    }
    else if (envp != NULL) {
        const ro_py_state *state = PyType_GetModuleState(Py_TYPE(object));
        options.core_limit = state->core_limited ? &state->core_limit : NULL;
        /* The GIL is held until the child has its strings: they belong to
         * lists that other threads could change. */
        ro_session *session
            = ro_mcp_stdio_session(self->mcp, &options, argv, envp);
        result = session_object(object, session, errno);
    }
    PyMem_Free(argv);
    PyMem_Free(envp);
    return result;
}

const char ro_py_worker_run_ahead_doc[] = PyDoc_STR(
    "run_ahead($self, server, url, proxy, cafile, capath, versions,\n"
    "          headers, initialize, initialized, tools_list, /)\n--\n\n"
    "Send what the sessions of a server are about to be asked for\n"
    "(csrc/mcp/ahead.h); a session that asks for the same bytes gets the\n"
    "answers.\n\n"
    "versions: protocol versions that the SDK speaks, with a space between\n"
    "headers: of initialize, a sequence of pairs of bytes\n"
    "initialize, initialized, tools_list: bodies, bytes\n\n"
    "Whether it started; nothing else depends on it.");

PyObject *
ro_py_worker_run_ahead(PyObject *object, PyObject *args)
{
    ro_py_headers headers = {.items = NULL};
    ro_ahead_plan plan = {.headers = NULL};
    PyObject *result = NULL;
    if (PyArg_ParseTuple(args, "O&sssssO&O&O&O&:run_ahead", ro_py_text,
                         &plan.server, &plan.url, &plan.proxy, &plan.cafile,
                         &plan.capath, &plan.versions, ro_py_headers_read,
                         &headers, ro_py_bytes, &plan.initialize, ro_py_bytes,
                         &plan.initialized, ro_py_bytes, &plan.list)) {
        plan.headers = headers.items;
        plan.n_headers = headers.count;
        result = PyBool_FromLong(
            ro_mcp_run_ahead(((WorkerObject *)object)->mcp, &plan));
    }
    ro_py_headers_free(&headers);
    return result;
}

const char ro_py_worker_await_preflight_doc[] = PyDoc_STR(
    "await_preflight($self, /)\n--\n\n"
    "DCode's preflight begins: what ran ahead is not to be in its\n"
    "way (csrc/mcp/ahead.h).");

PyObject *
ro_py_worker_await_preflight(PyObject *object, PyObject *Py_UNUSED(args))
{
    ro_mcp_await_preflight(((WorkerObject *)object)->mcp);
    Py_RETURN_NONE;
}

/* ---- the type ---- */

static void
session_dealloc(PyObject *object)
{
    Py_XDECREF((PyObject *)((SessionObject *)object)->owner);
    ro_py_dealloc(object);
}

PyDoc_STRVAR(
    session_submit_doc,
    "submit($self, ticket, method, url, headers, body, /)\n--\n\n"
    "Take one HTTP request of the SDK; Worker.poll() returns its reply\n"
    "under the ticket.\n\n"
    "headers: a sequence of pairs of bytes; body: bytes or None\n\n"
    "Raises RuntimeError when the worker is gone.");

static PyObject *
session_submit(PyObject *object, PyObject *args)
{
    SessionObject *self = (SessionObject *)object;
    unsigned long long ticket;
    const char *method;
    const char *url;
    ro_py_headers headers = {.items = NULL};
    ro_slice body;
    PyObject *result = NULL;
    if (PyArg_ParseTuple(args, "KssO&O&:submit", &ticket, &method, &url,
                         ro_py_headers_read, &headers, ro_py_optional_bytes,
                         &body)) {
        bool taken = ro_session_submit(self->session, ticket, method, url,
                                       headers.items, headers.count, body,
                                       body.ptr != NULL);
        result = taken ? Py_NewRef(Py_None)
                       : ro_py_raise_runtime("the worker is gone");
    }
    ro_py_headers_free(&headers);
    return result;
}

PyDoc_STRVAR(
    session_end_doc,
    "end($self, /)\n--\n\n"
    "The client is done: a child is asked to end, in the background.");

static PyObject *
session_end(PyObject *object, PyObject *Py_UNUSED(ignored))
{
    ro_session_end(((SessionObject *)object)->session);
    Py_RETURN_NONE;
}

static PyMethodDef session_methods[] = {
    {"end", session_end, METH_NOARGS, session_end_doc},
    {"submit", session_submit, METH_VARARGS, session_submit_doc},
    {NULL, NULL, 0, NULL},
};

PyDoc_STRVAR(session_doc, "One MCP session; made by Worker.session().");

static PyType_Slot session_slots[] = {
    {Py_tp_dealloc, (void *)session_dealloc},
    {Py_tp_methods, session_methods},
    {Py_tp_doc, (void *)session_doc},
    {0, NULL},
};

static PyType_Spec session_spec = {
    .name = "deepagents_ro._mcpro.Session",
    .basicsize = sizeof(SessionObject),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE
             | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = session_slots,
};

int
ro_py_add_session(PyObject *module)
{
    return ro_py_add_type(module, &session_spec,
                          &ro_py_state_of(module)->session_type);
}
