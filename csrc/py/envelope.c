/* The command's documents, and the table of their codes. */
#include "core/buf.h"
#include "core/envelope.h"
#include "core/limits.h"
#include "py/convert.h"
#include "py/errors.h"
#include "py/json.h"

static bool
code_of(PyObject *arg, bool failures_only, ro_code *code)
{
    ro_slice name;
    if (!ro_py_text(arg, &name)) {
        return false;
    }
    if (!ro_code_of_name(name, code)
        || (failures_only && *code == RO_CODE_OK)) {
        (void)ro_py_raise_value("unknown envelope code");
        return false;
    }
    return true;
}

static PyObject *
envelope_bytes(ro_buf_code code, ro_buf *out)
{
    PyObject *bytes = NULL;
    switch (code) {
    case RO_BUF_OK:
        bytes = ro_py_bytes_of(ro_buf_slice(out));
        break;
    case RO_BUF_TOO_LARGE:
        (void)ro_py_raise_value("too large");
        break;
    case RO_BUF_NO_MEMORY:
        (void)ro_py_raise_memory();
        break;
    }
    ro_buf_free(out);
    return bytes;
}

PyDoc_STRVAR(
    envelope_error_doc,
    "envelope_error(code, /)\n"
    "--\n\n"
    "The failure document for a name in ENVELOPE_CODES, without a newline.");

static PyObject *
envelope_error(PyObject *module, PyObject *arg)
{
    (void)module;
    ro_code code;
    if (!code_of(arg, true, &code)) {
        return NULL;
    }
    ro_buf out;
    ro_buf_init(&out, RO_MAX_STDOUT);
    return envelope_bytes(ro_envelope_error(code, &out), &out);
}

PyDoc_STRVAR(envelope_exit_doc,
             "envelope_exit(code, /)\n"
             "--\n\n"
             "The exit code for a name in ENVELOPE_CODES; 0 for \"ok\".");

static PyObject *
envelope_exit(PyObject *module, PyObject *arg)
{
    (void)module;
    ro_code code;
    if (!code_of(arg, false, &code)) {
        return NULL;
    }
    return PyLong_FromLong(ro_code_exit(code));
}

PyDoc_STRVAR(
    envelope_ok_doc,
    "envelope_ok(tool, content, structured, /)\n"
    "--\n\n"
    "The success document, without a newline.\n\n"
    "content is a JSON array in bytes; structured a JSON object, or None "
    "when\n"
    "the server sent none. White space between their tokens is removed, and\n"
    "content becomes ASCII; all else stays. Raises JSONError for other bytes\n"
    "and ValueError(\"too large\") when the document passes its bound.");

/* 0 with the minified document appended to out, or -1. */
static int
minify(PyObject *module, ro_slice document, ro_json_type type,
       ro_json_code otherwise, ro_buf *out)
{
    /* A larger one cannot fit, but may do so without its white space. */
    const ro_json_limits limits = {RO_MAX_ANSWER, RO_MAX_DEPTH, false};
    if (ro_py_check_type(module, document, &limits, type, otherwise) < 0) {
        return -1;
    }
    ro_buf_code code = ro_json_minify(ro_json_root(document), out);
    if (code != RO_BUF_OK) {
        (void)ro_py_raise_buf(code);
        return -1;
    }
    return 0;
}

static PyObject *
envelope_ok(PyObject *module, PyObject *args)
{
    ro_slice tool;
    ro_slice content;
    ro_slice structured;
    if (!PyArg_ParseTuple(args, "O&O&O&:envelope_ok", ro_py_text, &tool,
                          ro_py_bytes, &content, ro_py_optional_bytes,
                          &structured)) {
        return NULL;
    }
    PyObject *document = NULL;
    ro_buf small_content;
    ro_buf small_structured;
    ro_buf out;
    ro_buf_init(&small_content, RO_MAX_STDOUT);
    ro_buf_init(&small_structured, RO_MAX_STDOUT);
    ro_buf_init(&out, RO_MAX_STDOUT);
    if (minify(module, content, RO_JSON_ARRAY, RO_JSON_SYNTAX, &small_content)
        < 0) {
        goto done;
    }
    if (structured.ptr != NULL
        && minify(module, structured, RO_JSON_OBJECT, RO_JSON_NOT_OBJECT,
                  &small_structured)
               < 0) {
        goto done;
    }
    document = envelope_bytes(
        ro_envelope_ok(tool, ro_buf_slice(&small_content),
                       ro_buf_slice(&small_structured), &out, RO_MAX_STDOUT),
        &out);
done:
    ro_buf_free(&small_content);
    ro_buf_free(&small_structured);
    return document;
}

/* ---- wiring ---- */

static PyMethodDef methods[] = {
    {"envelope_error", envelope_error, METH_O, envelope_error_doc},
    {"envelope_exit", envelope_exit, METH_O, envelope_exit_doc},
    {"envelope_ok", envelope_ok, METH_VARARGS, envelope_ok_doc},
    {NULL, NULL, 0, NULL},
};

static int
add_codes(PyObject *module)
{
    const int first = RO_CODE_OK + 1;
    PyObject *codes = PyTuple_New(RO_CODES - first);
    if (codes == NULL) {
        return -1;
    }
    for (int i = first; i < (int)RO_CODES; i++) {
        PyObject *name = PyUnicode_FromString(ro_code_name((ro_code)i));
        if (name == NULL || PyTuple_SetItem(codes, i - first, name) < 0) {
            Py_DECREF(codes);
            return -1;
        }
    }
    int result = PyModule_AddObjectRef(module, "ENVELOPE_CODES", codes);
    Py_DECREF(codes);
    return result;
}

int
ro_py_add_envelopes(PyObject *module)
{
    if (PyModule_AddFunctions(module, methods) < 0
        || PyModule_AddIntConstant(module, "MAX_REDIRECTS", RO_MAX_REDIRECTS)
               < 0
        || PyModule_AddIntConstant(module, "MAX_STDIN", RO_MAX_STDIN) < 0
        || PyModule_AddIntConstant(module, "MAX_STDOUT", RO_MAX_STDOUT) < 0) {
        return -1;
    }
    return add_codes(module);
}
