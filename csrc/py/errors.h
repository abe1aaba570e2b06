/* The only place that raises. Every function returns NULL (or -1). */
#ifndef RO_PY_ERRORS_H
#define RO_PY_ERRORS_H

#include "py/state.h"

#include "core/json.h"
#include "net/net.h"

/* JSONError(message); .code is the lower-case name of the code
 * ("duplicate_key"), .position the byte offset. */
PyObject *ro_py_raise_json(PyObject *module, const ro_json_error *error);
/* TransportError(message); .code is the lower-case name ("tls"). */
PyObject *ro_py_raise_net(PyObject *module, ro_net_code code);
PyObject *ro_py_raise_value(const char *message);
PyObject *ro_py_raise_runtime(const char *message);

#endif
