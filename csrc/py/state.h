/* Module state and what the files of py/ share. Translation only: objects
 * in, objects out; every rule lives below py/.
 *
 * Each ro_py_add_* is called once per module object from module.c and
 * returns 0, or -1 with an exception set.
 */
#ifndef RO_PY_STATE_H
#define RO_PY_STATE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <sys/resource.h>

typedef struct ro_py_state {
    PyObject *json_error;      /* JSONError(ValueError): code, position */
    PyObject *transport_error; /* TransportError(OSError): code */
    PyTypeObject *guard_type;
    PyTypeObject *engine_type;
    PyTypeObject *transfer_type;
    PyTypeObject *worker_type;
    PyTypeObject *session_type;
    PyTypeObject *redactor_type;
    /* bytes: the soft limit of core files that children get, if limited */
    bool core_limited;
    rlim_t core_limit;
} ro_py_state;

static inline ro_py_state *
ro_py_state_of(PyObject *module)
{
    return (ro_py_state *)PyModule_GetState(module);
}

int ro_py_add_errors(PyObject *module);
int ro_py_add_json(PyObject *module);
int ro_py_add_mcp(PyObject *module);
int ro_py_add_envelopes(PyObject *module);
int ro_py_add_redact(PyObject *module);
int ro_py_add_guard(PyObject *module);
int ro_py_add_engine(PyObject *module);
int ro_py_add_worker(PyObject *module);
int ro_py_add_session(PyObject *module);
int ro_py_add_reasons(PyObject *module);

/* Make a type and keep it in the state. */
int ro_py_add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **slot);
/* A zeroed object of a type, or NULL with MemoryError. */
PyObject *ro_py_alloc(PyTypeObject *type);
/* The last act of a tp_dealloc: frees the object and its hold on its type. */
void ro_py_dealloc(PyObject *self);

#endif
