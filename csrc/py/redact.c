/* Redactor: the compiled secrets of core/secrets.h. */
#include "py/state.h"

#include "core/alloc.h"
#include "core/json.h"
#include "core/limits.h"
#include "core/redact.h"
#include "py/convert.h"
#include "py/errors.h"

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
        (void)ro_py_raise_memory();
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        PyObject *value = PyTuple_GetItem(values, (Py_ssize_t)i);
        if (!ro_py_bytes(value, &slices[i])) {
            ro_free(slices);
            return NULL;
        }
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
    (void)ro_py_raise_memory();
    return -1;
}

static PyObject *
redactor_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"", NULL};
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
    self = ro_py_alloc(type);
    if (self != NULL && compile((RedactorObject *)self, values) < 0) {
        Py_CLEAR(self);
    }
    Py_DECREF(values);
    return self;
}

static void
redactor_dealloc(PyObject *self)
{
    ro_secrets_free(((RedactorObject *)self)->secrets);
    ro_py_dealloc(self);
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
        return ro_py_bytes_of(ro_buf_slice(out));
    case RO_REDACT_KEYS_COLLIDE:
        return ro_py_raise_value("keys collide");
    case RO_REDACT_TOO_LARGE:
        return ro_py_raise_value("too large");
    case RO_REDACT_NO_MEMORY:
        break;
    }
    return ro_py_raise_memory();
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
    int shapes = 1;
    int attested = 0;
    ro_slice value;
    ro_json_error error;
    ro_redact_code code = RO_REDACT_OK;
    ro_buf out;
    PyObject *result;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&|$pp:redact", names,
                                     ro_py_bytes, &value, &shapes,
                                     &attested)) {
        return NULL;
    }
    rules.shapes = shapes != 0;
    rules.attested = attested ? ro_redact_attestation : NULL;
    /* A marker of 17 bytes replaces 8 at least: less than three times as much.
     */
    ro_buf_init(&out, 3 * value.len + sizeof(RO_REDACTED));
    /* Up to 8 MiB are read a dozen times. bytes and the compiled secrets never
     * change, so other threads may run. */
    Py_BEGIN_ALLOW_THREADS
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

static PyMethodDef redactor_methods[] = {
    {"redact", (PyCFunction)(void (*)(void))redactor_redact,
     METH_VARARGS | METH_KEYWORDS, redactor_redact_doc},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot redactor_slots[] = {
    {Py_tp_doc, (void *)redactor_doc},
    {Py_tp_new, (void *)redactor_new},
    {Py_tp_dealloc, (void *)redactor_dealloc},
    {Py_tp_methods, redactor_methods},
    {0, NULL},
};

static PyType_Spec redactor_spec = {
    .name = "deepagents_ro._mcpro.Redactor",
    .basicsize = sizeof(RedactorObject),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = redactor_slots,
};

int
ro_py_add_redact(PyObject *module)
{
    return ro_py_add_type(module, &redactor_spec,
                          &ro_py_state_of(module)->redactor_type);
}
