/* A Worker, shared by worker.c and session.c. */
#ifndef RO_PY_WORKER_H
#define RO_PY_WORKER_H

#include "py/state.h"

#include "guard/guard.h"
#include "mcp/session.h"

typedef struct WorkerObject {
    PyObject_HEAD
    ro_discovery *discovery;
    ro_gate *gate;     /* NULL where nothing is called */
    ro_record *record; /* as the gate */
    ro_net *net;
    ro_mcp *mcp;
    ro_guard_exit_hook hook;
} WorkerObject;

/* session.c: methods of Worker about sessions, and their docstrings. */
extern const char ro_py_worker_session_doc[];
extern const char ro_py_worker_stdio_doc[];
extern const char ro_py_worker_run_ahead_doc[];
PyObject *ro_py_worker_session(PyObject *worker, PyObject *args);
PyObject *ro_py_worker_stdio(PyObject *worker, PyObject *args);
PyObject *ro_py_worker_run_ahead(PyObject *worker, PyObject *args);
extern const char ro_py_worker_await_preflight_doc[];
PyObject *ro_py_worker_await_preflight(PyObject *worker, PyObject *args);

#endif
