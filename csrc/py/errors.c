#include "py/errors.h"

int
ro_py_add_errors(PyObject *module)
{
    ro_py_state *state = ro_py_state_of(module);
    state->json_error = PyErr_NewExceptionWithDoc(
        "deepagents_ro._mcpro.JSONError",
        "Bytes that are not one strict, bounded JSON document.\n\n"
        "code: str, the kind of fault (\"duplicate_key\", \"depth\", ...)\n"
        "position: int, byte offset of the first wrong byte",
        PyExc_ValueError, NULL);
    if (state->json_error == NULL
        || PyModule_AddObjectRef(module, "JSONError", state->json_error) < 0) {
        return -1;
    }
    state->transport_error = PyErr_NewExceptionWithDoc(
        "deepagents_ro._mcpro.TransportError",
        "An HTTP transfer that did not end well.\n\n"
        "code: str, the kind of fault (\"tls\", \"connect_timeout\", ...)",
        PyExc_OSError, NULL);
    if (state->transport_error == NULL
        || PyModule_AddObjectRef(module, "TransportError",
                                 state->transport_error)
               < 0) {
        return -1;
    }
    return 0;
}

int
ro_py_add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **slot)
{
    PyObject *type = PyType_FromModuleAndSpec(module, spec, NULL);
    if (type == NULL) {
        return -1;
    }
    *slot = (PyTypeObject *)type;
    return PyModule_AddType(module, *slot);
}

static const char *
json_code_name(ro_json_code code)
{
    switch (code) {
    case RO_JSON_OK:
        return "ok";
    case RO_JSON_EMPTY:
        return "empty";
    case RO_JSON_TOO_LARGE:
        return "too_large";
    case RO_JSON_BOM:
        return "bom";
    case RO_JSON_TRUNCATED:
        return "truncated";
    case RO_JSON_SYNTAX:
        return "syntax";
    case RO_JSON_NUMBER:
        return "number";
    case RO_JSON_CONTROL:
        return "control";
    case RO_JSON_ESCAPE:
        return "escape";
    case RO_JSON_SURROGATE:
        return "surrogate";
    case RO_JSON_UTF8:
        return "utf8";
    case RO_JSON_DEPTH:
        return "depth";
    case RO_JSON_DUPLICATE_KEY:
        return "duplicate_key";
    case RO_JSON_TRAILING:
        return "trailing";
    case RO_JSON_NOT_OBJECT:
        return "not_object";
    case RO_JSON_NO_MEMORY:
        return "no_memory";
    }
    return "unknown";
}

static const char *
net_code_name(ro_net_code code)
{
    switch (code) {
    case RO_NET_OK:
        return "ok";
    case RO_NET_CANCELLED:
        return "cancelled";
    case RO_NET_SHUT_DOWN:
        return "shut_down";
    case RO_NET_FORKED:
        return "forked";
    case RO_NET_NO_MEMORY:
        return "no_memory";
    case RO_NET_BAD_URL:
        return "bad_url";
    case RO_NET_BAD_HEADER:
        return "bad_header";
    case RO_NET_BAD_PROXY:
        return "bad_proxy";
    case RO_NET_BAD_TRUST:
        return "bad_trust";
    case RO_NET_RESOLVE:
        return "resolve";
    case RO_NET_CONNECT:
        return "connect";
    case RO_NET_TLS:
        return "tls";
    case RO_NET_PROXY:
        return "proxy";
    case RO_NET_SEND:
        return "send";
    case RO_NET_RECEIVE:
        return "receive";
    case RO_NET_PROTOCOL:
        return "protocol";
    case RO_NET_ENCODING:
        return "encoding";
    case RO_NET_HEADERS_TOO_LARGE:
        return "headers_too_large";
    case RO_NET_REPLAY:
        return "replay";
    case RO_NET_CONNECT_TIMEOUT:
        return "connect_timeout";
    case RO_NET_READ_TIMEOUT:
        return "read_timeout";
    case RO_NET_WRITE_TIMEOUT:
        return "write_timeout";
    case RO_NET_SINK:
        return "sink";
    case RO_NET_INTERNAL:
        return "internal";
    }
    return "unknown";
}

/* Raises type(message) with the given attributes; value is stolen. */
static PyObject *
raise_with(PyObject *type, const char *message, const char *code,
           PyObject *position)
{
    PyObject *error = NULL;
    PyObject *name = NULL;

    error = PyObject_CallFunction(type, "s", message);
    if (error == NULL) {
        goto done;
    }
    name = PyUnicode_FromString(code);
    if (name == NULL || PyObject_SetAttrString(error, "code", name) < 0) {
        goto done;
    }
    if (position != NULL
        && PyObject_SetAttrString(error, "position", position) < 0) {
        goto done;
    }
    PyErr_SetObject(type, error);
done:
    Py_XDECREF(position);
    Py_XDECREF(name);
    Py_XDECREF(error);
    return NULL;
}

PyObject *
ro_py_raise_json(PyObject *module, const ro_json_error *error)
{
    ro_py_state *state = ro_py_state_of(module);
    PyObject *position = NULL;

    if (error->code == RO_JSON_NO_MEMORY) {
        return PyErr_NoMemory();
    }
    position = PyLong_FromSize_t(error->pos);
    if (position == NULL) {
        return NULL;
    }
    return raise_with(state->json_error, ro_json_code_text(error->code),
                      json_code_name(error->code), position);
}

PyObject *
ro_py_raise_net(PyObject *module, ro_net_code code)
{
    ro_py_state *state = ro_py_state_of(module);
    if (code == RO_NET_NO_MEMORY) {
        return PyErr_NoMemory();
    }
    return raise_with(state->transport_error, ro_net_code_text(code),
                      net_code_name(code), NULL);
}

PyObject *
ro_py_raise_value(const char *message)
{
    PyErr_SetString(PyExc_ValueError, message);
    return NULL;
}

PyObject *
ro_py_raise_runtime(const char *message)
{
    PyErr_SetString(PyExc_RuntimeError, message);
    return NULL;
}
