/* Python objects from strict JSON. */
#ifndef RO_PY_JSON_BUILD_H
#define RO_PY_JSON_BUILD_H

#include "py/state.h"

#include "core/json.h"

/* A new reference to what the document stands for, always without
 * duplicate keys. Else NULL, with either *error set and no exception, or an
 * exception and error->code RO_JSON_OK. An integer of more digits than
 * sys.get_int_max_str_digits() is RO_JSON_NUMBER at its first byte.
 *
 * The collector may run any Python code meanwhile: the caller sees to it
 * that nobody can change the bytes. */
PyObject *ro_py_build_json(ro_slice doc, const ro_json_limits *limits,
                           ro_json_error *error);

#endif
