/* What mcp.c and envelope.c share. */
#ifndef RO_PY_MCP_H
#define RO_PY_MCP_H

#include "py/state.h"

#include "core/json.h"

/* A new bytes object, or NULL with an exception. */
PyObject *ro_py_bytes_of(ro_slice slice);
/* The text of a str in UTF-8, which lives as long as the str; false with an
 * exception for a lone surrogate. */
bool ro_py_utf8_of(PyObject *text, ro_slice *utf8);
/* 0, or -1 with JSONError: the document is not JSON within the limits, or
 * (with the code `otherwise`) not of that type. */
int ro_py_validate_type(PyObject *module, ro_slice document,
                        const ro_json_limits *limits, ro_json_type type,
                        ro_json_code otherwise);

/* envelope_error, envelope_exit, envelope_ok, ENVELOPE_CODES; 0 or -1. */
int ro_py_add_envelopes(PyObject *module);

#endif
