/* Between Python's objects and the slices of the layers below.
 *
 * A slice borrows from the object that it is read from. Arguments live as
 * long as the call does, so such a slice is good until the function returns.
 */
#ifndef RO_PY_CONVERT_H
#define RO_PY_CONVERT_H

#include "py/state.h"

#include "net/net.h"

/* A new bytes object, or NULL with an exception. */
PyObject *ro_py_bytes_of(ro_slice slice);

/* Converters for "O&" of PyArg_Parse; `to` is a ro_slice. 1, or 0 with an
 * exception. */
/* A str in UTF-8. TypeError, or UnicodeEncodeError for a lone surrogate. */
int ro_py_text(PyObject *object, void *to);
/* bytes. TypeError. */
int ro_py_bytes(PyObject *object, void *to);
/* bytes, or None, which is {NULL, 0}. TypeError. */
int ro_py_optional_bytes(PyObject *object, void *to);

typedef struct ro_py_headers {
    ro_header *items;
    size_t count;
    PyObject *pairs; /* what the items borrow from */
} ro_py_headers;

/* A sequence of pairs of bytes; `to` is a zeroed ro_py_headers, which needs
 * ro_py_headers_free in any case. */
int ro_py_headers_read(PyObject *sequence, void *to);
void ro_py_headers_free(ro_py_headers *headers);
/* list[tuple[bytes, bytes]], or NULL with an exception. */
PyObject *ro_py_header_list(const ro_header *items, size_t count);

#endif
