/* The JSON functions of the module. */
#include "py/errors.h"
#include "py/json_build.h"
#include "py/state.h"

#include "core/alloc.h"
#include "core/json.h"
#include "core/limits.h"

#include <limits.h>

/* ---- arguments ---- */

/* Bytes that nobody can change while they are read: those of a bytes
 * object, else a copy (objects are built in between, which may run any
 * Python code through the garbage collector). */
typedef struct document {
    Py_buffer view;
    char *copy;
    ro_slice bytes;
    ro_json_limits limits;
} document;

static void
document_close(document *doc)
{
    ro_free(doc->copy);
    PyBuffer_Release(&doc->view);
}

/* 0, or -1 with an exception and nothing to close. Looks at no byte. */
static int
document_open(document *doc, PyObject *data, Py_ssize_t max_bytes,
              Py_ssize_t max_depth)
{
    if (max_bytes < 0 || max_depth < 0 || (size_t)max_depth > UINT_MAX) {
        ro_py_raise_value("max_bytes or max_depth is out of range");
        return -1;
    }
    if (PyObject_GetBuffer(data, &doc->view, PyBUF_SIMPLE) < 0) {
        return -1;
    }
    doc->bytes = ro_slice_of(doc->view.buf, (size_t)doc->view.len);
    doc->limits.max_bytes = (size_t)max_bytes;
    doc->limits.max_depth = (unsigned)max_depth;
    /* What is too large is refused by its length alone. */
    if (!PyBytes_CheckExact(data) && doc->bytes.len <= (size_t)max_bytes) {
        doc->copy = ro_memdup(doc->bytes.ptr, doc->bytes.len);
        if (doc->copy == NULL) {
            PyBuffer_Release(&doc->view);
            PyErr_NoMemory();
            return -1;
        }
        doc->bytes.ptr = doc->copy;
    }
    return 0;
}

/* 0, or -1 with an exception. */
static int
document_check(const document *doc, PyObject *module)
{
    ro_json_error error;

    if (ro_json_validate(doc->bytes, &doc->limits, &error) != RO_JSON_OK) {
        ro_py_raise_json(module, &error);
        return -1;
    }
    return 0;
}

/* ---- module functions ---- */

#define DEFAULT_BYTES ((Py_ssize_t)RO_MAX_STDIN)
#define DEFAULT_DEPTH ((Py_ssize_t)RO_MAX_DEPTH)

PyDoc_STRVAR(
    json_loads_doc,
    "json_loads($module, data, /, *, max_bytes=131072, max_depth=64)\n"
    "--\n"
    "\n"
    "The Python objects of one strict JSON document in UTF-8 bytes.\n"
    "\n"
    "As json.loads, but for these, which raise JSONError: a duplicate key,\n"
    "NaN, Infinity, a byte order mark, half of a surrogate pair, what is\n"
    "not UTF-8, more than max_bytes bytes, containers nested deeper than\n"
    "max_depth (the outermost is 1), an integer of more digits than\n"
    "sys.get_int_max_str_digits().");

static PyObject *
json_loads(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"", "max_bytes", "max_depth", NULL};
    PyObject *data = NULL;
    Py_ssize_t max_bytes = DEFAULT_BYTES;
    Py_ssize_t max_depth = DEFAULT_DEPTH;
    document doc = {.copy = NULL};
    ro_json_error error;
    PyObject *value = NULL;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$nn:json_loads", names,
                                     &data, &max_bytes, &max_depth)
        || document_open(&doc, data, max_bytes, max_depth) < 0) {
        return NULL;
    }
    value = ro_py_build_json(doc.bytes, &doc.limits, &error);
    document_close(&doc);
    if (error.code != RO_JSON_OK) {
        return ro_py_raise_json(module, &error);
    }
    return value;
}

PyDoc_STRVAR(json_check_doc,
             "json_check($module, data, /, *, max_bytes=131072, "
             "max_depth=64, duplicates=False)\n"
             "--\n"
             "\n"
             "Raises JSONError unless data is one strict JSON document.\n"
             "\n"
             "duplicates: whether an object may have a key twice.");

static PyObject *
json_check(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"", "max_bytes", "max_depth", "duplicates", NULL};
    PyObject *data = NULL;
    Py_ssize_t max_bytes = DEFAULT_BYTES;
    Py_ssize_t max_depth = DEFAULT_DEPTH;
    int duplicates = 0;
    int done = 0;
    document doc = {.copy = NULL};

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$nnp:json_check", names,
                                     &data, &max_bytes, &max_depth,
                                     &duplicates)) {
        return NULL;
    }
    doc.limits.keep_duplicates = duplicates != 0;
    if (document_open(&doc, data, max_bytes, max_depth) < 0) {
        return NULL;
    }
    done = document_check(&doc, module);
    document_close(&doc);
    return done < 0 ? NULL : Py_NewRef(Py_None);
}

PyDoc_STRVAR(
    json_minify_doc,
    "json_minify($module, data, /, *, max_bytes=131072, max_depth=64)\n"
    "--\n"
    "\n"
    "The bytes of one strict JSON document without white space between\n"
    "tokens; every token stays as it is. Raises JSONError.");

static PyObject *
minified(PyObject *module, const document *doc)
{
    ro_buf out;
    PyObject *value = NULL;

    if (document_check(doc, module) < 0) {
        return NULL;
    }
    ro_buf_init(&out, doc->bytes.len);
    if (ro_json_minify(ro_json_root(doc->bytes), &out) == RO_BUF_OK) {
        value = PyBytes_FromStringAndSize(out.data, (Py_ssize_t)out.len);
    }
    else {
        PyErr_NoMemory();
    }
    ro_buf_free(&out);
    return value;
}

static PyObject *
json_minify(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"", "max_bytes", "max_depth", NULL};
    PyObject *data = NULL;
    Py_ssize_t max_bytes = DEFAULT_BYTES;
    Py_ssize_t max_depth = DEFAULT_DEPTH;
    document doc = {.copy = NULL};
    PyObject *value = NULL;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$nn:json_minify", names,
                                     &data, &max_bytes, &max_depth)
        || document_open(&doc, data, max_bytes, max_depth) < 0) {
        return NULL;
    }
    value = minified(module, &doc);
    document_close(&doc);
    return value;
}

PyDoc_STRVAR(
    json_raw_doc,
    "json_raw($module, data, key, /, *, max_bytes=131072, max_depth=64)\n"
    "--\n"
    "\n"
    "The bytes, as they stand, of the member key of the outermost object;\n"
    "None when it has no such member. The key is compared after unescaping.\n"
    "Raises JSONError, with code \"not_object\" for any other value.");

static PyObject *
raw_member(PyObject *module, const document *doc, ro_slice name)
{
    ro_slice root = ro_json_root(doc->bytes);
    ro_json_error error;
    ro_json_iter iter;
    ro_slice key;
    ro_slice value;

    if (document_check(doc, module) < 0) {
        return NULL;
    }
    if (ro_json_type_of(root) != RO_JSON_OBJECT) {
        error.code = RO_JSON_NOT_OBJECT;
        error.pos = (size_t)(root.ptr - doc->bytes.ptr);
        return ro_py_raise_json(module, &error);
    }
    iter = ro_json_iter_of(root);
    while (ro_json_next_member(&iter, &key, &value)) {
        if (ro_json_string_is(key, name)) {
            return PyBytes_FromStringAndSize(value.ptr, (Py_ssize_t)value.len);
        }
    }
    Py_RETURN_NONE;
}

static PyObject *
json_raw(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"", "", "max_bytes", "max_depth", NULL};
    PyObject *data = NULL;
    const char *name = NULL;
    Py_ssize_t name_len = 0;
    Py_ssize_t max_bytes = DEFAULT_BYTES;
    Py_ssize_t max_depth = DEFAULT_DEPTH;
    document doc = {.copy = NULL};
    PyObject *value = NULL;
    PyObject *key = NULL;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OU|$nn:json_raw", names,
                                     &data, &key, &max_bytes, &max_depth)) {
        return NULL;
    }
    name = PyUnicode_AsUTF8AndSize(key, &name_len);
    if (name == NULL || document_open(&doc, data, max_bytes, max_depth) < 0) {
        return NULL;
    }
    value = raw_member(module, &doc, ro_slice_of(name, (size_t)name_len));
    document_close(&doc);
    return value;
}

#define METHOD(name)                                                          \
    {                                                                         \
#name, (PyCFunction)(void (*)(void))name,                             \
            METH_VARARGS | METH_KEYWORDS, name##_doc                          \
    }

static PyMethodDef json_methods[] = {
    METHOD(json_loads), METHOD(json_check),    METHOD(json_minify),
    METHOD(json_raw),   {NULL, NULL, 0, NULL},
};

int
ro_py_add_json(PyObject *module)
{
    return PyModule_AddFunctions(module, json_methods);
}
