/* The only file that sets an exception; beside it CPython's own functions
 * do, where they fail. Every function that raises returns NULL. */
#ifndef RO_PY_ERRORS_H
#define RO_PY_ERRORS_H

#include "py/state.h"

#include "core/buf.h"
#include "core/json.h"
#include "net/net.h"

/* JSONError(message); .code is the lower-case name of the code
 * ("duplicate_key"), .position the byte offset. */
PyObject *ro_py_raise_json(PyObject *module, const ro_json_error *error);
/* TransportError(message); .code is ro_net_code_word(code). */
PyObject *ro_py_raise_net(PyObject *module, ro_net_code code);
/* What a buffer refused: ValueError("too large") or MemoryError. */
PyObject *ro_py_raise_buf(ro_buf_code code);
/* OSError of the subclass that belongs to the errno; MemoryError for
 * ENOMEM. */
PyObject *ro_py_raise_errno(int number);
PyObject *ro_py_raise_memory(void);
PyObject *ro_py_raise_runtime(const char *message);
PyObject *ro_py_raise_type(const char *message);
PyObject *ro_py_raise_value(const char *message);
/* Runs Python's handlers of the signals that it has noted. False with the
 * exception that one raised. */
bool ro_py_run_signal_handlers(void);

#endif
