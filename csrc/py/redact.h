/* What other files of py/ may know of a Redactor. */
#ifndef RO_PY_REDACT_H
#define RO_PY_REDACT_H

#include "py/state.h"

#include "core/secrets.h"

/* The compiled secrets of a Redactor: borrowed, unchanged as long as the
 * object lives, to be read by any thread. TypeError and NULL when object is
 * none. */
const ro_secrets *ro_py_redactor_secrets(PyObject *module, PyObject *object);

#endif
