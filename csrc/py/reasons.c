/* The tables of causes, as tuples, and who owns a name. */
#include "core/hints.h"
#include "mcp/owner.h"
#include "mcp/reason.h"
#include "mcp/tool_reason.h"
#include "py/convert.h"
#include "py/errors.h"

static PyObject *
state_row(int index)
{
    return Py_BuildValue("(ss)", ro_state_word((ro_state)index),
                         ro_state_text((ro_state)index));
}

static PyObject *
reason_row(int index)
{
    ro_reason reason = (ro_reason)index;
    return Py_BuildValue("(sss)", ro_reason_word(reason),
                         ro_state_word(ro_reason_state(reason)),
                         ro_reason_text(reason));
}

static PyObject *
tool_row(int index)
{
    ro_tool_reason reason = (ro_tool_reason)index;
    return Py_BuildValue("(ssss)", ro_tool_reason_word(reason),
                         ro_code_name(ro_tool_reason_code(reason)),
                         ro_tool_reason_text(reason),
                         ro_tool_reason_remedy(reason));
}

static PyObject *
hint_row(int index)
{
    ro_hints_code code = (ro_hints_code)index;
    return Py_BuildValue("(sss)", ro_hints_reason(code), ro_hints_text(code),
                         ro_hints_remedy(code));
}

static int
add_table(PyObject *module, const char *name, int count,
          PyObject *(*row)(int index))
{
    PyObject *table = PyTuple_New(count);
    if (table == NULL) {
        return -1;
    }
    int result = -1;
    for (int i = 0; i < count; i++) {
        PyObject *item = row(i);
        if (item == NULL || PyTuple_SetItem(table, i, item) < 0) {
            goto done;
        }
    }
    result = PyModule_AddObjectRef(module, name, table);
done:
    Py_DECREF(table);
    return result;
}

/* TransportError.code -> the word of the reason */
static int
add_transport_reasons(PyObject *module)
{
    PyObject *table = PyDict_New();
    if (table == NULL) {
        return -1;
    }
    int result = -1;
    for (int code = RO_NET_OK; code < RO_NET_CODE_COUNT; code++) {
        const char *word = ro_reason_word(ro_reason_of_net((ro_net_code)code));
        PyObject *value = PyUnicode_FromString(word);
        int set = value == NULL
                      ? -1
                      : PyDict_SetItemString(
                          table, ro_net_code_word((ro_net_code)code), value);
        Py_XDECREF(value);
        if (set < 0) {
            goto done;
        }
    }
    result = PyModule_AddObjectRef(module, "TRANSPORT_REASONS", table);
done:
    Py_DECREF(table);
    return result;
}

PyDoc_STRVAR(can_own_doc,
             "can_own(server, tool, /)\n"
             "--\n"
             "\n"
             "Whether a tool's full name may be one of the server's.");

static PyObject *
can_own(PyObject *module, PyObject *args)
{
    ro_slice server;
    ro_slice tool;
    (void)module;
    if (!PyArg_ParseTuple(args, "O&O&:can_own", ro_py_text, &server,
                          ro_py_text, &tool)) {
        return NULL;
    }
    return PyBool_FromLong(ro_owner_can(server, tool));
}

static PyMethodDef methods[] = {
    {"can_own", can_own, METH_VARARGS, can_own_doc},
    {NULL, NULL, 0, NULL},
};

int
ro_py_add_reasons(PyObject *module)
{
    if (PyModule_AddFunctions(module, methods) < 0
        || add_transport_reasons(module) < 0) {
        return -1;
    }
    if (add_table(module, "STATES", RO_STATE_COUNT, state_row) < 0
        || add_table(module, "REASONS", RO_REASON_COUNT, reason_row) < 0) {
        return -1;
    }
    if (add_table(module, "HINTS", RO_HINTS_CODES, hint_row) < 0) {
        return -1;
    }
    return add_table(module, "TOOL_REASONS", RO_TOOL_COUNT, tool_row);
}
