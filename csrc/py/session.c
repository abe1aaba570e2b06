/* Session: one MCP session, made by a Call. */
#include "py/call.h"

#include <errno.h>

#include "py/errors.h"

typedef struct SessionObject {
    PyObject_HEAD
    CallObject *owner; /* keeps the ro_session alive */
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
    if (session == NULL && failed == ENOMEM) {
        return PyErr_NoMemory();
    }
    if (session == NULL) {
        errno = failed;
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    PyTypeObject *type = ro_py_state_of(module)->session_type;
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    SessionObject *self = (SessionObject *)alloc(type, 0);
    if (self == NULL) {
        return NULL; /* the Call frees the session */
    }
    self->session = session;
    self->owner = (CallObject *)Py_NewRef(owner);
    return (PyObject *)self;
}

const char ro_py_call_session_doc[] = PyDoc_STR(
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
ro_py_call_session(PyObject *object, PyObject *args)
{
    CallObject *self = (CallObject *)object;
    ro_session_options options = {.proxy = "", .cafile = "", .capath = ""};
    const char *server;
    Py_ssize_t len;
    int auth = 0;
    int legacy = 0;
    if (!PyArg_ParseTuple(args, "s#s|ssspp:session", &server, &len,
                          &options.url, &options.proxy, &options.cafile,
                          &options.capath, &auth, &legacy)) {
        return NULL;
    }
    options.server = ro_slice_of(server, (size_t)len);
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
        (void)PyErr_NoMemory();
        return NULL;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        Py_ssize_t len;
        PyObject *item = PyList_GetItem(list, i); /* borrowed */
        if (PyBytes_AsStringAndSize(item, &array[i], &len) < 0
            || strlen(array[i]) != (size_t)len) {
            if (!PyErr_Occurred()) {
                (void)ro_py_raise_value("embedded null byte");
            }
            PyMem_Free(array);
            return NULL;
        }
    }
    return array;
}

const char ro_py_call_stdio_doc[] = PyDoc_STR(
    "stdio($self, server, argv, env, /)\n--\n\n"
    "One MCP session over the standard streams of a new child.\n\n"
    "server: name in the configuration\n"
    "argv: list[bytes], argv[0] is the path of the program\n"
    "env: list[bytes], each NAME=value; nothing else is inherited\n\n"
    "Raises OSError when the child cannot be started.");

PyObject *
ro_py_call_stdio(PyObject *object, PyObject *args)
{
    CallObject *self = (CallObject *)object;
    ro_session_options options
        = {.url = RO_STDIO_URL, .proxy = "", .cafile = "", .capath = ""};
    const char *server;
    Py_ssize_t len;
    PyObject *argv_list;
    PyObject *env_list;
    PyObject *result = NULL;
    if (!PyArg_ParseTuple(args, "s#O!O!:stdio", &server, &len, &PyList_Type,
                          &argv_list, &PyList_Type, &env_list)) {
        return NULL;
    }
    char **argv = string_array(argv_list);
    char **envp = argv == NULL ? NULL : string_array(env_list);
    if (envp != NULL && argv[0] == NULL) {
        (void)ro_py_raise_value("argv is empty");
    }
    else if (envp != NULL) {
        options.server = ro_slice_of(server, (size_t)len);
        ro_session *session
            = ro_mcp_stdio_session(self->mcp, &options, argv, envp);
        result = session_object(object, session, errno);
    }
    PyMem_Free(argv);
    PyMem_Free(envp);
    return result;
}

/* ---- the type ---- */

static void
session_dealloc(PyObject *object)
{
    SessionObject *self = (SessionObject *)object;
    PyTypeObject *type = Py_TYPE(object);
    Py_XDECREF((PyObject *)self->owner);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF(type);
}

/* Headers of a submit; on success *out is the caller's, freed with
 * PyMem_Free. */
static Py_ssize_t
read_headers(PyObject *list, ro_header **out)
{
    Py_ssize_t count = PyList_Size(list);
    if (count < 0) {
        return -1;
    }
    ro_header *headers
        = PyMem_Malloc((size_t)(count == 0 ? 1 : count) * sizeof(*headers));
    if (headers == NULL) {
        (void)PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        char *name;
        char *value;
        Py_ssize_t name_len;
        Py_ssize_t value_len;
        PyObject *pair = PyList_GetItem(list, i); /* borrowed */
        if (pair == NULL || !PyTuple_Check(pair) || PyTuple_Size(pair) != 2
            || PyBytes_AsStringAndSize(PyTuple_GetItem(pair, 0), &name,
                                       &name_len)
                   < 0
            || PyBytes_AsStringAndSize(PyTuple_GetItem(pair, 1), &value,
                                       &value_len)
                   < 0) {
            PyMem_Free(headers);
            if (!PyErr_Occurred()) {
                PyErr_SetString(PyExc_TypeError,
                                "headers are (bytes, bytes) pairs");
            }
            return -1;
        }
        headers[i].name = ro_slice_of(name, (size_t)name_len);
        headers[i].value = ro_slice_of(value, (size_t)value_len);
    }
    *out = headers;
    return count;
}

PyDoc_STRVAR(
    session_submit_doc,
    "submit($self, ticket, method, url, headers, body, /)\n--\n\n"
    "Take one HTTP request of the SDK; Call.poll() returns its reply\n"
    "under the ticket.\n\n"
    "headers: list[tuple[bytes, bytes]]; body: bytes or None\n\n"
    "Raises RuntimeError when the worker is gone.");

static PyObject *
session_submit(PyObject *object, PyObject *args)
{
    SessionObject *self = (SessionObject *)object;
    unsigned long long ticket;
    const char *method;
    const char *url;
    PyObject *list;
    PyObject *body;
    ro_header *headers = NULL;
    char *bytes = "";
    Py_ssize_t len = 0;
    if (!PyArg_ParseTuple(args, "KssOO:submit", &ticket, &method, &url, &list,
                          &body)) {
        return NULL;
    }
    if (body != Py_None && PyBytes_AsStringAndSize(body, &bytes, &len) < 0) {
        return NULL;
    }
    if (!PyList_Check(list)) {
        PyErr_SetString(PyExc_TypeError, "headers must be a list");
        return NULL;
    }
    Py_ssize_t count = read_headers(list, &headers);
    if (count < 0) {
        return NULL;
    }
    bool taken = ro_session_submit(
        self->session, ticket, method, url, headers, (size_t)count,
        ro_slice_of(bytes, (size_t)len), body != Py_None);
    PyMem_Free(headers);
    if (!taken) {
        return ro_py_raise_runtime("the worker is gone");
    }
    Py_RETURN_NONE;
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

PyDoc_STRVAR(session_doc, "One MCP session; made by Call.session().");

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
