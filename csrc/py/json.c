/* Python objects, checks and slices from strict JSON. */
#include "py/errors.h"
#include "py/state.h"

#include "core/alloc.h"
#include "core/json_scan.h"
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

static PyObject *
raise_at(PyObject *module, const document *doc, ro_json_code code,
         const char *where)
{
    ro_json_error error = {code, (size_t)(where - doc->bytes.ptr)};
    return ro_py_raise_json(module, &error);
}

/* ---- scalars ---- */

/* Direct-mapped memory of short strings: keys and words that come again
 * are one object. */
#define SHORT_SLOTS 256u
#define SHORT_MAX 64u

typedef struct builder {
    PyObject *module;
    const document *doc;
    char *scratch; /* decoded strings and numbers, NUL-terminated */
    size_t scratch_size;
    ro_slice short_raw[SHORT_SLOTS];
    PyObject *short_object[SHORT_SLOTS];
} builder;

static char *
scratch_for(builder *b, size_t size)
{
    char *grown = NULL;

    if (size <= b->scratch_size) {
        return b->scratch;
    }
    size = size < 256 ? 256 : size;
    grown = ro_realloc(b->scratch, size);
    if (grown == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    b->scratch = grown;
    b->scratch_size = size;
    return grown;
}

static PyObject *
decode_string(builder *b, const ro_json_token *token)
{
    ro_slice raw = token->raw;
    const char *text = raw.ptr + 1;
    size_t len = raw.len - 2;

    if (token->escaped) {
        char *decoded = scratch_for(b, raw.len);
        if (decoded == NULL) {
            return NULL;
        }
        len = ro_json_decode(raw, decoded);
        text = decoded;
    }
    return PyUnicode_DecodeUTF8(text, (Py_ssize_t)len, NULL);
}

static unsigned
short_slot(ro_slice raw)
{
    uint32_t mix = (uint32_t)raw.len << 24
                   ^ (uint32_t)(unsigned char)raw.ptr[1] << 16
                   ^ (uint32_t)(unsigned char)raw.ptr[raw.len / 2] << 8
                   ^ (uint32_t)(unsigned char)raw.ptr[raw.len - 2];
    return (mix * 0x9e3779b1u >> 16) % SHORT_SLOTS;
}

static PyObject *
build_string(builder *b, const ro_json_token *token)
{
    unsigned slot = 0;
    PyObject *text = NULL;

    if (token->raw.len > SHORT_MAX) {
        return decode_string(b, token);
    }
    slot = short_slot(token->raw);
    if (ro_slice_equal(b->short_raw[slot], token->raw)) {
        return Py_NewRef(b->short_object[slot]);
    }
    text = decode_string(b, token);
    if (text != NULL) {
        Py_XDECREF(b->short_object[slot]);
        b->short_object[slot] = Py_NewRef(text);
        b->short_raw[slot] = token->raw;
    }
    return text;
}

/* A token of digits with an optional minus. */
static PyObject *
build_int(builder *b, ro_slice token)
{
    PyObject *value = NULL;

    if (token.len <= 18) {
        bool minus = token.ptr[0] == '-';
        long long small = 0;
        for (size_t i = minus; i < token.len; i++) {
            small = small * 10 + (token.ptr[i] - '0');
        }
        return PyLong_FromLongLong(minus ? -small : small);
    }
    if (scratch_for(b, token.len + 1) == NULL) {
        return NULL;
    }
    memcpy(b->scratch, token.ptr, token.len);
    b->scratch[token.len] = '\0';
    value = PyLong_FromString(b->scratch, NULL, 10);
    /* Only sys.set_int_max_str_digits makes a ValueError here. */
    if (value == NULL && PyErr_ExceptionMatches(PyExc_ValueError)) {
        PyErr_Clear();
        return raise_at(b->module, b->doc, RO_JSON_NUMBER, token.ptr);
    }
    return value;
}

static PyObject *
build_float(builder *b, ro_slice token)
{
    double value = 0;

    if (scratch_for(b, token.len + 1) == NULL) {
        return NULL;
    }
    memcpy(b->scratch, token.ptr, token.len);
    b->scratch[token.len] = '\0';
    value = PyOS_string_to_double(b->scratch, NULL, NULL);
    if (value == -1.0 && PyErr_Occurred()) {
        return NULL;
    }
    return PyFloat_FromDouble(value);
}

static PyObject *
build_value(builder *b, const ro_json_token *token)
{
    switch (*token->raw.ptr) {
    case '{':
        return PyDict_New();
    case '[':
        return PyList_New(0);
    case '"':
        return build_string(b, token);
    case 't':
        return Py_NewRef(Py_True);
    case 'f':
        return Py_NewRef(Py_False);
    case 'n':
        return Py_NewRef(Py_None);
    default:
        return token->integer ? build_int(b, token->raw)
                              : build_float(b, token->raw);
    }
}

/* ---- containers ---- */

typedef struct frame {
    PyObject *container; /* owned */
    PyObject *key;       /* owned; waits for its value */
    Py_ssize_t size;     /* members of an object, -1 for an array */
} frame;

#define FEW_FRAMES 72u

typedef struct frames {
    frame *all;
    size_t depth;
    size_t cap;
    frame few[FEW_FRAMES];
} frames;

static int
frames_push(frames *f, PyObject *container, bool is_object)
{
    if (f->depth == f->cap) {
        frame *old = f->all == f->few ? NULL : f->all;
        frame *grown = ro_realloc(old, 2 * f->cap * sizeof(*grown));
        if (grown == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        if (old == NULL) {
            memcpy(grown, f->few, sizeof(f->few));
        }
        f->all = grown;
        f->cap *= 2;
    }
    f->all[f->depth++] = (frame){.container = Py_NewRef(container),
                                 .size = is_object ? 0 : -1};
    return 0;
}

static void
frames_pop(frames *f)
{
    frame *top = &f->all[--f->depth];
    Py_CLEAR(top->key);
    Py_CLEAR(top->container);
}

static void
frames_free(frames *f)
{
    while (f->depth > 0) {
        frames_pop(f);
    }
    if (f->all != f->few) {
        ro_free(f->all);
    }
}

/* 0, or -1, with an exception unless the key came twice. */
static int
frame_add(frame *top, PyObject *value)
{
    int done = 0;

    if (top->size < 0) {
        return PyList_Append(top->container, value);
    }
    done = PyDict_SetItem(top->container, top->key, value);
    Py_CLEAR(top->key);
    if (done < 0) {
        return -1;
    }
    return PyDict_Size(top->container) == ++top->size ? 0 : -1;
}

/* One token: 0, or -1, with an exception unless a key came twice. */
static int
build_token(builder *b, frames *f, const ro_json_token *token, PyObject **root)
{
    char first = *token->raw.ptr;
    PyObject *value = NULL;
    int done = 0;

    if (first == ']' || first == '}') {
        frames_pop(f);
        return 0;
    }
    if (token->is_key) {
        value = build_string(b, token);
        f->all[f->depth - 1].key = value;
        return value == NULL ? -1 : 0;
    }
    value = build_value(b, token);
    if (value == NULL) {
        return -1;
    }
    if (f->depth == 0) {
        *root = Py_NewRef(value);
    }
    else {
        done = frame_add(&f->all[f->depth - 1], value);
    }
    if (done == 0 && (first == '{' || first == '[')) {
        done = frames_push(f, value, first == '{');
    }
    Py_DECREF(value);
    return done;
}

/* The last token and all before it were built, or an error is noted:
 * a Python exception, or in the scan. */
static PyObject *
build_tokens(builder *b, ro_json_scan *scan)
{
    frames f = {.cap = FEW_FRAMES};
    PyObject *root = NULL;
    ro_json_token token;
    int done = 0;

    f.all = f.few;
    while (done == 0 && ro_json_scan_next(scan, &token)) {
        done = build_token(b, &f, &token, &root);
    }
    frames_free(&f);
    if (done < 0 || scan->lexer.error.code != RO_JSON_OK) {
        Py_CLEAR(root);
    }
    return root;
}

/* Built while it is scanned. Python's dictionaries find the duplicate keys
 * here, by their size; the full scan then says which fault comes first. */
static PyObject *
build_document(PyObject *module, const document *doc)
{
    builder b = {.module = module, .doc = doc};
    ro_json_limits limits = doc->limits;
    ro_json_scan scan;
    PyObject *root = NULL;

    limits.keep_duplicates = true;
    ro_json_scan_open(&scan, doc->bytes, &limits);
    root = build_tokens(&b, &scan);
    ro_json_scan_close(&scan);
    for (size_t i = 0; i < SHORT_SLOTS; i++) {
        Py_XDECREF(b.short_object[i]);
    }
    ro_free(b.scratch);
    if (root == NULL && !PyErr_Occurred()
        && document_check(doc, module) == 0) {
        PyErr_NoMemory(); /* nothing but a passing lack of memory */
    }
    return root;
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
    PyObject *value = NULL;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$nn:json_loads", names,
                                     &data, &max_bytes, &max_depth)
        || document_open(&doc, data, max_bytes, max_depth) < 0) {
        return NULL;
    }
    value = build_document(module, &doc);
    document_close(&doc);
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
    ro_json_iter iter;
    ro_slice key;
    ro_slice value;

    if (document_check(doc, module) < 0) {
        return NULL;
    }
    if (ro_json_type_of(root) != RO_JSON_OBJECT) {
        return raise_at(module, doc, RO_JSON_NOT_OBJECT, root.ptr);
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
