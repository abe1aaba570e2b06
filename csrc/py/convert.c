#include "py/convert.h"

#include "core/alloc.h"
#include "py/errors.h"

PyObject *
ro_py_bytes_of(ro_slice slice)
{
    return PyBytes_FromStringAndSize(slice.ptr, (Py_ssize_t)slice.len);
}

int
ro_py_text(PyObject *object, void *to)
{
    Py_ssize_t len = 0;
    const char *utf8;

    if (!PyUnicode_Check(object)) {
        (void)ro_py_raise_type("an argument must be str");
        return 0;
    }
    utf8 = PyUnicode_AsUTF8AndSize(object, &len);
    if (utf8 == NULL) {
        return 0;
    }
    *(ro_slice *)to = ro_slice_of(utf8, (size_t)len);
    return 1;
}

int
ro_py_bytes(PyObject *object, void *to)
{
    char *bytes = NULL;
    Py_ssize_t len = 0;

    if (PyBytes_AsStringAndSize(object, &bytes, &len) < 0) {
        return 0;
    }
    *(ro_slice *)to = ro_slice_of(bytes, (size_t)len);
    return 1;
}

int
ro_py_optional_bytes(PyObject *object, void *to)
{
    if (object != Py_None) {
        return ro_py_bytes(object, to);
    }
    *(ro_slice *)to = ro_slice_of(NULL, 0);
    return 1;
}

/* ---- headers ---- */

static int
read_pair(PyObject *pair, ro_header *header)
{
    if (!PyTuple_Check(pair) || PyTuple_Size(pair) != 2) {
        (void)ro_py_raise_type("headers must be pairs of bytes");
        return 0;
    }
    return ro_py_bytes(PyTuple_GetItem(pair, 0), &header->name)
           && ro_py_bytes(PyTuple_GetItem(pair, 1), &header->value);
}

int
ro_py_headers_read(PyObject *sequence, void *to)
{
    ro_py_headers *headers = to;

    /* A tuple of our own: nobody else can take a pair out of it. */
    headers->pairs = PySequence_Tuple(sequence);
    if (headers->pairs == NULL) {
        return 0;
    }
    size_t count = (size_t)PyTuple_Size(headers->pairs);
    headers->items = ro_calloc(count + 1, sizeof(*headers->items));
    if (headers->items == NULL) {
        (void)ro_py_raise_memory();
        return 0;
    }
    for (size_t i = 0; i < count; i++) {
        PyObject *pair = PyTuple_GetItem(headers->pairs, (Py_ssize_t)i);
        if (!read_pair(pair, &headers->items[i])) {
            return 0;
        }
    }
    headers->count = count;
    return 1;
}

void
ro_py_headers_free(ro_py_headers *headers)
{
    ro_free(headers->items);
    headers->items = NULL;
    Py_CLEAR(headers->pairs);
}

PyObject *
ro_py_header_list(const ro_header *items, size_t count)
{
    PyObject *list = PyList_New((Py_ssize_t)count);

    for (size_t i = 0; list != NULL && i < count; i++) {
        PyObject *pair = Py_BuildValue("(NN)", ro_py_bytes_of(items[i].name),
                                       ro_py_bytes_of(items[i].value));
        if (pair == NULL || PyList_SetItem(list, (Py_ssize_t)i, pair) < 0) {
            Py_CLEAR(list);
        }
    }
    return list;
}
