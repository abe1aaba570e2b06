/* The JSON functions of the module. */
#include "py/json.h"

#include "core/limits.h"
#include "py/convert.h"
#include "py/errors.h"

#include <limits.h>

int
ro_py_check(PyObject *module, ro_slice document, const ro_json_limits *limits)
{
    ro_json_error error;

    if (ro_json_validate(document, limits, &error) != RO_JSON_OK) {
        (void)ro_py_raise_json(module, &error);
        return -1;
    }
    return 0;
}

int
ro_py_check_type(PyObject *module, ro_slice document,
                 const ro_json_limits *limits, ro_json_type type,
                 ro_json_code otherwise)
{
    if (ro_py_check(module, document, limits) < 0) {
        return -1;
    }
    ro_slice root = ro_json_root(document);
    if (ro_json_type_of(root) != type) {
        ro_json_error error = {otherwise, (size_t)(root.ptr - document.ptr)};
        (void)ro_py_raise_json(module, &error);
        return -1;
    }
    return 0;
}

/* 0, or -1 with an exception. */
static int
limits_of(Py_ssize_t max_bytes, Py_ssize_t max_depth, bool keep_duplicates,
          ro_json_limits *limits)
{
    if (max_bytes < 0 || max_depth < 0 || (size_t)max_depth > UINT_MAX) {
        (void)ro_py_raise_value("max_bytes or max_depth is out of range");
        return -1;
    }
    *limits = (ro_json_limits){(size_t)max_bytes, (unsigned)max_depth,
                               keep_duplicates};
    return 0;
}

/* ---- module functions ---- */

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
    ro_slice data;
    Py_ssize_t max_bytes = RO_MAX_STDIN;
    Py_ssize_t max_depth = RO_MAX_DEPTH;
    int duplicates = 0;
    ro_json_limits limits;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&|$nnp:json_check", names,
                                     ro_py_bytes, &data, &max_bytes,
                                     &max_depth, &duplicates)
        || limits_of(max_bytes, max_depth, duplicates != 0, &limits) < 0
        || ro_py_check(module, data, &limits) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
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
json_raw(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"", "", "max_bytes", "max_depth", NULL};
    ro_slice data;
    ro_slice name;
    ro_slice key;
    ro_slice value;
    Py_ssize_t max_bytes = RO_MAX_STDIN;
    Py_ssize_t max_depth = RO_MAX_DEPTH;
    ro_json_limits limits;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&O&|$nn:json_raw", names,
                                     ro_py_bytes, &data, ro_py_text, &name,
                                     &max_bytes, &max_depth)
        || limits_of(max_bytes, max_depth, false, &limits) < 0
        || ro_py_check_type(module, data, &limits, RO_JSON_OBJECT,
                            RO_JSON_NOT_OBJECT)
               < 0) {
        return NULL;
    }
    ro_json_iter iter = ro_json_iter_of(ro_json_root(data));
    while (ro_json_next_member(&iter, &key, &value)) {
        if (ro_json_string_is(key, name)) {
            return ro_py_bytes_of(value);
        }
    }
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"json_check", (PyCFunction)(void (*)(void))json_check,
     METH_VARARGS | METH_KEYWORDS, json_check_doc},
    {"json_raw", (PyCFunction)(void (*)(void))json_raw,
     METH_VARARGS | METH_KEYWORDS, json_raw_doc},
    {NULL, NULL, 0, NULL},
};

int
ro_py_add_json(PyObject *module)
{
    return PyModule_AddFunctions(module, methods);
}
