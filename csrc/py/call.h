/* A Call, shared by call.c and session.c. */
#ifndef RO_PY_CALL_H
#define RO_PY_CALL_H

#include "py/state.h"

#include "core/call.h"
#include "guard/guard.h"
#include "net/session.h"

typedef struct CallObject {
    PyObject_HEAD
    ro_call *call;
    ro_net *net;
    ro_mcp *mcp;
    ro_guard_exit_hook hook;
} CallObject;

/* session.c: methods of Call that make a Session, and their docstrings. */
extern const char ro_py_call_session_doc[];
extern const char ro_py_call_stdio_doc[];
PyObject *ro_py_call_session(PyObject *call, PyObject *args);
PyObject *ro_py_call_stdio(PyObject *call, PyObject *args);

#endif
