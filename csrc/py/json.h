/* Documents that Python hands over. */
#ifndef RO_PY_JSON_H
#define RO_PY_JSON_H

#include "py/state.h"

#include "core/json.h"

/* 0, or -1 with JSONError: the document is not JSON within the limits. */
int ro_py_check(PyObject *module, ro_slice document,
                const ro_json_limits *limits);
/* The same, and -1 with JSONError of the code `otherwise` for a document of
 * another type. */
int ro_py_check_type(PyObject *module, ro_slice document,
                     const ro_json_limits *limits, ro_json_type type,
                     ro_json_code otherwise);

#endif
