/* Dictionaries find the keys that come twice, by their size, so the scan
 * that feeds them need not; a full scan afterwards says which fault of a
 * document comes first. No recursion: containers wait on a stack.
 */
#include "py/json_build.h"

#include "core/alloc.h"
#include "core/json_scan.h"

#include <float.h>

/* ---- scalars ---- */

/* Direct-mapped memory of short strings: keys and words that come again
 * are one object. */
#define SHORT_SLOTS 256u
#define SHORT_MAX 64u

typedef struct builder {
    ro_slice doc;
    ro_json_error error; /* what no scan can find */
    char *scratch;       /* decoded strings and numbers, NUL-terminated */
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
        b->error.code = RO_JSON_NUMBER;
        b->error.pos = (size_t)(token.ptr - b->doc.ptr);
    }
    return value;
}

#if FLT_EVAL_METHOD == 0
/* Up to 15 digits and no exponent: both the digits and the power of ten are
 * exact in a double, so that one division rounds once, as strtod does. */
static bool
short_decimal(ro_slice token, double *value)
{
    static const double powers[] = {1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6, 1e7,
                                    1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14};
    size_t minus = token.ptr[0] == '-';
    size_t dot = token.len;
    long long digits = 0;

    if (token.len - minus > 16) {
        return false;
    }
    for (size_t i = minus; i < token.len; i++) {
        char c = token.ptr[i];
        if (c == '.') {
            dot = i;
        }
        else if (c >= '0' && c <= '9') {
            digits = digits * 10 + (c - '0');
        }
        else {
            return false;
        }
    }
    *value = (double)digits / powers[token.len - dot - 1];
    if (minus) {
        *value = -*value;
    }
    return true;
}
#else
static bool
short_decimal(ro_slice token, double *value)
{
    (void)token;
    (void)value;
    return false;
}
#endif

static PyObject *
build_float(builder *b, ro_slice token)
{
    double value = 0;

    if (short_decimal(token, &value)) {
        return PyFloat_FromDouble(value);
    }
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

/* One token: 0, or -1, with an exception unless a key came twice or
 * b->error says more. */
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

PyObject *
ro_py_build_json(ro_slice doc, const ro_json_limits *limits,
                 ro_json_error *error)
{
    builder b = {.doc = doc};
    ro_json_limits loose = *limits;
    ro_json_scan scan;
    PyObject *root = NULL;

    loose.keep_duplicates = true;
    ro_json_scan_open(&scan, doc, &loose);
    root = build_tokens(&b, &scan);
    ro_json_scan_close(&scan);
    for (size_t i = 0; i < SHORT_SLOTS; i++) {
        Py_XDECREF(b.short_object[i]);
    }
    ro_free(b.scratch);
    *error = b.error;
    if (root == NULL && error->code == RO_JSON_OK && !PyErr_Occurred()
        && ro_json_validate(doc, limits, error) == RO_JSON_OK) {
        /* Nothing but a passing lack of memory. */
        error->code = RO_JSON_NO_MEMORY;
    }
    return root;
}
