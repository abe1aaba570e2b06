#include "py/errors.h"

#include <errno.h>

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

    /* No message holds a byte of the document: it may be a secret. */
    if (error->code == RO_JSON_NO_MEMORY) {
        return PyErr_NoMemory();
    }
    position = PyLong_FromSize_t(error->pos);
    if (position == NULL) {
        return NULL;
    }
    return raise_with(state->json_error, ro_json_code_text(error->code),
                      ro_json_code_word(error->code), position);
}

PyObject *
ro_py_raise_net(PyObject *module, ro_net_code code)
{
    ro_py_state *state = ro_py_state_of(module);
    if (code == RO_NET_NO_MEMORY) {
        return PyErr_NoMemory();
    }
    return raise_with(state->transport_error, ro_net_code_text(code),
                      ro_net_code_word(code), NULL);
}

PyObject *
ro_py_raise_buf(ro_buf_code code)
{
    return code == RO_BUF_TOO_LARGE ? ro_py_raise_value("too large")
                                    : PyErr_NoMemory();
}

PyObject *
ro_py_raise_errno(int number)
{
    if (number == ENOMEM) {
        return PyErr_NoMemory();
    }
    errno = number;
    return PyErr_SetFromErrno(PyExc_OSError);
}

PyObject *
ro_py_raise_memory(void)
{
    return PyErr_NoMemory();
}

PyObject *
ro_py_raise_runtime(const char *message)
{
    PyErr_SetString(PyExc_RuntimeError, message);
    return NULL;
}

PyObject *
ro_py_raise_type(const char *message)
{
    PyErr_SetString(PyExc_TypeError, message);
    return NULL;
}

PyObject *
ro_py_raise_value(const char *message)
{
    PyErr_SetString(PyExc_ValueError, message);
    return NULL;
}

bool
ro_py_run_signal_handlers(void)
{
    return PyErr_CheckSignals() == 0;
}
