/* Redactor, and the JSON that is redacted. */
#include "py/redact.h"

#include "py/dump.h"
#include "py/errors.h"

#include "core/alloc.h"
#include "core/json.h"
#include "core/limits.h"
#include "core/redact.h"

typedef struct RedactorObject {
    PyObject ob_base;
    ro_secrets *secrets; /* NULL only in a half-built object */
} RedactorObject;

PyDoc_STRVAR(
    redactor_doc,
    "Redactor(secrets, /)\n"
    "--\n\n"
    "Configured secrets, compiled: an iterable of bytes; those under 8 bytes\n"
    "are ignored. No secret is kept. Never changes; any thread may use it.\n\n"
    "Raises TypeError for an item that is not bytes, ValueError for over\n"
    "4,096 secrets or one over 1 MiB.");

/* Slices of the bytes objects in values; NULL with an exception. */
static ro_slice *
slices_of(PyObject *values, size_t count)
{
    ro_slice *slices = ro_calloc(count > 0 ? count : 1, sizeof(*slices));

    if (slices == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        PyObject *value = PyTuple_GetItem(values, (Py_ssize_t)i);
        char *ptr;
        Py_ssize_t len;
        if (value == NULL || PyBytes_AsStringAndSize(value, &ptr, &len) < 0) {
            ro_free(slices);
            return NULL;
        }
        slices[i] = ro_slice_of(ptr, (size_t)len);
    }
    return slices;
}

/* 0, or -1 with an exception. */
static int
compile(RedactorObject *self, PyObject *values)
{
    static const ro_secrets_limits limits = {
        .min_len = RO_MIN_SECRET,
        .max_len = RO_MAX_SECRET,
        .max_count = RO_MAX_SECRETS,
    };
    size_t count = (size_t)PyTuple_Size(values);
    ro_slice *slices = slices_of(values, count);
    ro_secrets_code code;

    if (slices == NULL) {
        return -1;
    }
    code = ro_secrets_new(slices, count, &limits, &self->secrets);
    ro_free(slices);
    switch (code) {
    case RO_SECRETS_OK:
        return 0;
    case RO_SECRETS_TOO_MANY:
        (void)ro_py_raise_value("too many secrets");
        return -1;
    case RO_SECRETS_TOO_LONG:
        (void)ro_py_raise_value("a secret is too long");
        return -1;
    case RO_SECRETS_NO_MEMORY:
        break;
    }
    PyErr_NoMemory();
    return -1;
}

static PyObject *
redactor_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"", NULL};
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    PyObject *iterable;
    PyObject *values;
    PyObject *self;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:Redactor", names,
                                     &iterable)) {
        return NULL;
    }
    /* A tuple of our own: nobody changes it while it is read. */
    values = PySequence_Tuple(iterable);
    if (values == NULL) {
        return NULL;
    }
    self = allocate(type, 0);
    if (self != NULL && compile((RedactorObject *)self, values) < 0) {
        Py_CLEAR(self);
    }
    Py_DECREF(values);
    return self;
}

static void
redactor_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    ro_secrets_free(((RedactorObject *)self)->secrets);
    release(self);
    Py_DECREF(type);
}

PyDoc_STRVAR(
    redactor_redact_doc,
    "redact($self, value, /, *, shapes=True, attested=False)\n"
    "--\n\n"
    "One strict JSON value (bytes) with every secret inside its strings and\n"
    "keys replaced by <redacted-secret>, and what looks like a credential\n"
    "too when shapes is true. attested says that value is structured\n"
    "content: below qualification.output_attestation only configured\n"
    "secrets go.\n\n"
    "Raises JSONError for anything but one JSON value of at most 8 MiB and\n"
    "64 levels, ValueError(\"keys collide\") when two keys become equal.");

static PyObject *
bytes_or_raise(ro_redact_code code, const ro_buf *out)
{
    switch (code) {
    case RO_REDACT_OK:
        return PyBytes_FromStringAndSize(out->data, (Py_ssize_t)out->len);
    case RO_REDACT_KEYS_COLLIDE:
        return ro_py_raise_value("keys collide");
    case RO_REDACT_TOO_LARGE:
        return ro_py_raise_value("too large");
    case RO_REDACT_NO_MEMORY:
        break;
    }
    return PyErr_NoMemory();
}

static PyObject *
redactor_redact(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"", "shapes", "attested", NULL};
    static const ro_json_limits limits = {
        .max_bytes = RO_MAX_DISCOVERY,
        .max_depth = RO_MAX_DEPTH,
    };
    ro_redact_rules rules = {.secrets = ((RedactorObject *)self)->secrets};
    PyObject *bytes;
    int shapes = 1;
    int attested = 0;
    ro_slice value;
    ro_json_error error;
    ro_redact_code code = RO_REDACT_OK;
    ro_buf out;
    PyObject *result;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "S|$pp:redact", names,
                                     &bytes, &shapes, &attested)) {
        return NULL;
    }
    value = ro_slice_of(PyBytes_AsString(bytes), (size_t)PyBytes_Size(bytes));
    rules.shapes = shapes != 0;
    rules.attested = attested ? ro_redact_attestation : NULL;
    /* A replacement is 17 bytes for 8 at least. */
    ro_buf_init(&out, 3 * value.len + sizeof(RO_REDACTED));
    Py_BEGIN_ALLOW_THREADS /* up to 8 MiB are read a dozen times */
    if (ro_json_validate(value, &limits, &error) == RO_JSON_OK) {
        code = ro_redact(value, &rules, &out);
    }
    Py_END_ALLOW_THREADS
    result = error.code == RO_JSON_OK
                 ? bytes_or_raise(code, &out)
                 : ro_py_raise_json(PyType_GetModule(Py_TYPE(self)), &error);
    ro_buf_free(&out);
    return result;
}

static PyObject *
redactor_count(PyObject *self, void *closure)
{
    (void)closure;
    return PyLong_FromSize_t(
        ro_secrets_count(((RedactorObject *)self)->secrets));
}

static PyMethodDef redactor_methods[] = {
    {"redact", (PyCFunction)(void (*)(void))redactor_redact,
     METH_VARARGS | METH_KEYWORDS, redactor_redact_doc},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef redactor_getset[] = {
    {"count", redactor_count, NULL, "Distinct secrets that are searched for.",
     NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot redactor_slots[] = {
    {Py_tp_doc, (void *)redactor_doc},
    {Py_tp_new, (void *)redactor_new},
    {Py_tp_dealloc, (void *)redactor_dealloc},
    {Py_tp_methods, redactor_methods},
    {Py_tp_getset, redactor_getset},
    {0, NULL},
};

static PyType_Spec redactor_spec = {
    .name = "deepagents_ro._mcpro.Redactor",
    .basicsize = sizeof(RedactorObject),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = redactor_slots,
};

const ro_secrets *
ro_py_redactor_secrets(PyObject *module, PyObject *object)
{
    if (Py_TYPE(object) != ro_py_state_of(module)->redactor_type) {
        PyErr_SetString(PyExc_TypeError, "not a Redactor");
        return NULL;
    }
    return ((RedactorObject *)object)->secrets;
}

static PyMethodDef functions[] = {
    {"json_dump_ascii", ro_py_json_dump_ascii, METH_O,
     ro_py_json_dump_ascii_doc},
    {NULL, NULL, 0, NULL},
};

int
ro_py_add_redact(PyObject *module)
{
    if (PyModule_AddFunctions(module, functions) < 0) {
        return -1;
    }
    return ro_py_add_type(module, &redactor_spec,
                          &ro_py_state_of(module)->redactor_type);
}
