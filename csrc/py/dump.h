/* Python objects to ASCII JSON. */
#ifndef RO_PY_DUMP_H
#define RO_PY_DUMP_H

#include "py/state.h"

extern const char ro_py_json_dump_ascii_doc[];
/* METH_O; see the docstring. */
PyObject *ro_py_json_dump_ascii(PyObject *module, PyObject *object);

#endif
