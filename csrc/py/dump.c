#include "py/dump.h"

#include "py/errors.h"

#include "core/buf.h"
#include "core/json.h"
#include "core/limits.h"

const char ro_py_json_dump_ascii_doc[]
    = "json_dump_ascii(object, /)\n"
      "--\n\n"
      "Compact ASCII JSON of str, bool, None, int, list, tuple and\n"
      "dict[str, ...], with lower-case \\uxxxx, as bytes.\n\n"
      "Raises TypeError for any other type (float included), ValueError for\n"
      "lone surrogates, more than 64 levels or more than 8 MiB.";

static int dump(ro_buf *out, PyObject *object, unsigned depth);

/* 0, or -1 with an exception. */
static int
appended(ro_buf_code code)
{
    switch (code) {
    case RO_BUF_OK:
        return 0;
    case RO_BUF_TOO_LARGE:
        (void)ro_py_raise_value("the JSON is too large");
        return -1;
    case RO_BUF_NO_MEMORY:
        break;
    }
    PyErr_NoMemory();
    return -1;
}

static int
append_text(ro_buf *out, const char *text)
{
    return appended(ro_buf_append_slice(out, ro_slice_str(text)));
}

static int
dump_str(ro_buf *out, PyObject *text)
{
    Py_ssize_t len;
    const char *utf8 = PyUnicode_AsUTF8AndSize(text, &len);

    if (utf8 == NULL) {
        /* Its message would quote the text. */
        if (PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) {
            PyErr_Clear();
            (void)ro_py_raise_value("a lone surrogate");
        }
        return -1;
    }
    return appended(ro_json_write_string(out, ro_slice_of(utf8, (size_t)len)));
}

static int
dump_int(ro_buf *out, PyObject *number)
{
    PyObject *digits = PyNumber_ToBase(number, 10);
    Py_ssize_t len;
    const char *utf8;
    int status = -1;

    if (digits == NULL) {
        return -1;
    }
    utf8 = PyUnicode_AsUTF8AndSize(digits, &len);
    if (utf8 != NULL) {
        status = appended(ro_buf_append(out, utf8, (size_t)len));
    }
    Py_DECREF(digits);
    return status;
}

/* With a reference of our own: the container is the caller's. */
static int
dump_inner(ro_buf *out, PyObject *object, unsigned depth)
{
    int status;
    Py_INCREF(object);
    status = dump(out, object, depth);
    Py_DECREF(object);
    return status;
}

static int
dump_items(ro_buf *out, PyObject *items, unsigned depth)
{
    bool list = PyList_Check(items);

    if (append_text(out, "[") < 0) {
        return -1;
    }
    for (Py_ssize_t i = 0;
         i < (list ? PyList_Size(items) : PyTuple_Size(items)); i++) {
        PyObject *item
            = list ? PyList_GetItem(items, i) : PyTuple_GetItem(items, i);
        if (item == NULL || (i > 0 && append_text(out, ",") < 0)
            || dump_inner(out, item, depth + 1) < 0) {
            return -1;
        }
    }
    return append_text(out, "]");
}

static int
dump_members(ro_buf *out, PyObject *members, unsigned depth)
{
    Py_ssize_t at = 0;
    PyObject *key;
    PyObject *value;
    bool first = true;

    if (append_text(out, "{") < 0) {
        return -1;
    }
    while (PyDict_Next(members, &at, &key, &value)) {
        if (!PyUnicode_Check(key)) {
            PyErr_SetString(PyExc_TypeError, "a key is not a str");
            return -1;
        }
        if ((!first && append_text(out, ",") < 0) || dump_str(out, key) < 0
            || append_text(out, ":") < 0
            || dump_inner(out, value, depth + 1) < 0) {
            return -1;
        }
        first = false;
    }
    return append_text(out, "}");
}

/* Recursion is bounded by RO_MAX_DEPTH. */
static int
dump(ro_buf *out, PyObject *object, unsigned depth)
{
    bool dict = PyDict_Check(object);

    if (object == Py_None) {
        return append_text(out, "null");
    }
    if (PyBool_Check(object)) {
        return append_text(out, object == Py_True ? "true" : "false");
    }
    if (PyUnicode_Check(object)) {
        return dump_str(out, object);
    }
    if (PyLong_Check(object)) {
        return dump_int(out, object);
    }
    if (!dict && !PyList_Check(object) && !PyTuple_Check(object)) {
        PyErr_SetString(PyExc_TypeError, "not a JSON type");
        return -1;
    }
    if (depth > RO_MAX_DEPTH) {
        (void)ro_py_raise_value("too many levels");
        return -1;
    }
    return dict ? dump_members(out, object, depth)
                : dump_items(out, object, depth);
}

PyObject *
ro_py_json_dump_ascii(PyObject *module, PyObject *object)
{
    ro_buf out;
    PyObject *bytes = NULL;

    (void)module;
    ro_buf_init(&out, RO_MAX_DISCOVERY);
    if (dump(&out, object, 1) == 0) {
        bytes = PyBytes_FromStringAndSize(out.data, (Py_ssize_t)out.len);
    }
    ro_buf_free(&out);
    return bytes;
}
