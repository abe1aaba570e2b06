/* Guard: the process's one guard/guard.h object. The Python object is only a
 * handle: the guard outlives it and the interpreter. */
#include "guard/guard.h"
#include "py/convert.h"
#include "py/errors.h"

typedef struct GuardObject {
    PyObject_HEAD
    ro_guard *guard; /* never freed */
} GuardObject;

static ro_guard *
guard_of(PyObject *object)
{
    return ((GuardObject *)object)->guard;
}

static PyObject *
raise_start(ro_guard_code code)
{
    switch (code) {
    case RO_GUARD_NO_MEMORY:
        return ro_py_raise_memory();
    case RO_GUARD_BAD_OPTION:
        return ro_py_raise_value("times are 0 or more, envelopes not empty");
    case RO_GUARD_TWICE:
        return ro_py_raise_runtime("the process has a guard already");
    default:
        return ro_py_raise_runtime(ro_guard_code_name(code));
    }
}

PyDoc_STRVAR(
    guard_start_doc,
    "start($type, /, timeout, interrupted, failed, deadline_ms=15000,\n"
    "      grace_ms=3000)\n--\n\n"
    "Take over standard output, the deadline, the signals that\n"
    "interrupt or crash and the descendants of this process: a\n"
    "Guard. It is not dumpable from here on.\n\n"
    "timeout, interrupted and failed (a crash) are the envelopes\n"
    "(bytes, with their newline) that end the process when Python\n"
    "does not. From the main thread, once a process, before any other "
    "thread.\n"
    "RuntimeError or MemoryError when it cannot: standard output\n"
    "is then as it was. ValueError for a negative time or an empty\n"
    "envelope. A signal that Python has noted and whose handler\n"
    "raises ends the process with interrupted, status 130.");

static PyObject *
guard_start(PyObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"timeout",     "interrupted", "failed",
                            "deadline_ms", "grace_ms",    NULL};
    ro_guard_code why;
    ro_guard_options options
        = {.deadline_ms = RO_DEADLINE_MS, .grace_ms = RO_DEADLINE_GRACE_MS};
    if (!PyArg_ParseTupleAndKeywords(
            args, kwargs, "O&O&O&|ii:start", names, ro_py_bytes,
            &options.timeout, ro_py_bytes, &options.interrupted, ro_py_bytes,
            &options.failed, &options.deadline_ms, &options.grace_ms)) {
        return NULL;
    }
    PyObject *self = ro_py_alloc((PyTypeObject *)type);
    if (self == NULL) {
        return NULL;
    }
    ro_guard *guard = ro_guard_start(&options, &why);
    if (guard == NULL) {
        Py_DECREF(self);
        return raise_start(why);
    }
    ((GuardObject *)self)->guard = guard;
    /* The guard takes the core limit away. Children get it back when they are
     * started, so it is kept where session.c finds it. */
    ro_py_state *state = PyType_GetModuleState((PyTypeObject *)type);
    state->core_limited = ro_guard_core_limit(guard, &state->core_limit);
    /* A signal that came before the guard's handlers stood is noted in Python,
     * which would raise KeyboardInterrupt where nobody has this guard yet, and
     * descriptor 1 is the null device already. */
    if (!ro_py_run_signal_handlers()) {
        ro_guard_finish(guard, RO_GUARD_INTERRUPTED, options.interrupted);
    }
    return self;
}

PyDoc_STRVAR(guard_lower_deadline_doc,
             "lower_deadline($self, text, /)\n--\n\n"
             "Move the deadline to text milliseconds after the process's\n"
             "start: digits, 100 to 15000. False, and nothing changes, for\n"
             "any other text and when that is not earlier.");

static PyObject *
guard_lower_deadline(PyObject *self, PyObject *text)
{
    ro_slice utf8;
    if (!ro_py_text(text, &utf8)) {
        /* an environment's undecodable byte is one more wrong text */
        if (!PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) {
            return NULL;
        }
        PyErr_Clear();
        Py_RETURN_FALSE;
    }
    int ms = strlen(utf8.ptr) == utf8.len ? ro_guard_parse_deadline(utf8.ptr)
                                          : -1;
    return PyBool_FromLong(ms >= 0
                           && ro_guard_set_deadline(guard_of(self), ms));
}

PyDoc_STRVAR(guard_ms_left_doc,
             "ms_left($self, /)\n--\n\n"
             "Milliseconds to the deadline, 0 when it has come.");

static PyObject *
guard_ms_left(PyObject *self, PyObject *Py_UNUSED(ignored))
{
    return PyLong_FromLong(ro_guard_ms_left(guard_of(self)));
}

static const char *
input_name(ro_guard_input result)
{
    switch (result) {
    case RO_INPUT_OK:
        return "ok";
    case RO_INPUT_MISSING:
        return "missing";
    case RO_INPUT_TOO_LARGE:
        return "too_large";
    case RO_INPUT_TIMEOUT:
        return "timeout";
    case RO_INPUT_BROKEN:
        return "broken";
    case RO_INPUT_STOPPING:
        return "stopping";
    case RO_INPUT_NO_MEMORY:
        return "no_memory";
    }
    return "broken";
}

PyDoc_STRVAR(guard_read_stdin_doc,
             "read_stdin($self, max_bytes, /)\n--\n\n"
             "(how: str, data: bytes) of standard input, read to its end.\n\n"
             "how is \"ok\", or, with empty data: \"missing\" (terminal,\n"
             "closed, empty), \"too_large\" (more than max_bytes came),\n"
             "\"timeout\" (the deadline came), \"broken\" (not readable:\n"
             "invalid input), \"stopping\" (the process is ending).\n"
             "MemoryError. ValueError for a negative max_bytes.");

static PyObject *
guard_read_stdin(PyObject *self, PyObject *args)
{
    Py_ssize_t max;
    ro_guard_input result;
    ro_buf out;
    if (!PyArg_ParseTuple(args, "n:read_stdin", &max)) {
        return NULL;
    }
    if (max < 0) {
        return ro_py_raise_value("max_bytes must not be negative");
    }
    ro_buf_init(&out, (size_t)max);
    /* blocks until the input ends or the first deadline comes */
    Py_BEGIN_ALLOW_THREADS
    result = ro_guard_read_stdin(guard_of(self), (size_t)max, &out);
    Py_END_ALLOW_THREADS
    PyObject *pair = result == RO_INPUT_NO_MEMORY
                         ? ro_py_raise_memory()
                         : Py_BuildValue("(sN)", input_name(result),
                                         ro_py_bytes_of(ro_buf_slice(&out)));
    ro_buf_free(&out);
    return pair;
}

PyDoc_STRVAR(guard_set_exit_hook_doc,
             "set_exit_hook($self, capsule, /)\n--\n\n"
             "Have the capsule's function (\"deepagents_ro.exit_hook\")\n"
             "called, without the GIL, when the envelope is out. The capsule\n"
             "is never freed.");

static PyObject *
guard_set_exit_hook(PyObject *self, PyObject *capsule)
{
    const ro_guard_exit_hook *hook
        = PyCapsule_GetPointer(capsule, RO_GUARD_EXIT_HOOK_CAPSULE);
    if (hook == NULL) {
        return NULL;
    }
    /* Never given back: the hook may run until the process ends, and nobody
     * could tell the finisher that it is gone. */
    (void)Py_NewRef(capsule);
    ro_guard_set_exit_hook(guard_of(self), hook->hook, hook->ctx);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(guard_finish_doc,
             "finish($self, exit_code, data, /)\n--\n\n"
             "Write data to standard output, end the descendants and then\n"
             "the process with exit_code (1 when not all was taken). Never\n"
             "returns. ValueError unless exit_code is 0 to 255.");

static PyObject *
guard_finish(PyObject *self, PyObject *args)
{
    int exit_code;
    ro_slice data;
    if (!PyArg_ParseTuple(args, "iO&:finish", &exit_code, ro_py_bytes,
                          &data)) {
        return NULL;
    }
    if (exit_code < 0 || exit_code > 255) {
        return ro_py_raise_value("exit_code is 0 to 255");
    }
    /* The caller's frame never ends, so the bytes live on. The GIL is given up
     * for good: the worker's hook and Python's other threads may run. */
    (void)PyEval_SaveThread();
    ro_guard_finish(guard_of(self), exit_code, data);
}

static PyObject *
guard_cancel_fd(PyObject *self, void *Py_UNUSED(closure))
{
    return PyLong_FromLong(ro_guard_cancel_fd(guard_of(self)));
}

static PyObject *
guard_stopping(PyObject *self, void *Py_UNUSED(closure))
{
    return PyBool_FromLong(ro_guard_stopping(guard_of(self)));
}

static PyObject *
guard_degraded(PyObject *self, void *Py_UNUSED(closure))
{
    return PyLong_FromUnsignedLong(ro_guard_degraded(guard_of(self)));
}

static PyMethodDef guard_methods[] = {
    {"start", (PyCFunction)(void (*)(void))guard_start,
     METH_VARARGS | METH_KEYWORDS | METH_CLASS, guard_start_doc},
    {"lower_deadline", guard_lower_deadline, METH_O, guard_lower_deadline_doc},
    {"ms_left", guard_ms_left, METH_NOARGS, guard_ms_left_doc},
    {"read_stdin", guard_read_stdin, METH_VARARGS, guard_read_stdin_doc},
    {"set_exit_hook", guard_set_exit_hook, METH_O, guard_set_exit_hook_doc},
    {"finish", guard_finish, METH_VARARGS, guard_finish_doc},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef guard_getset[] = {
    {"cancel_fd", guard_cancel_fd, NULL,
     "A descriptor that is readable from the deadline on; not to be read.",
     NULL},
    {"stopping", guard_stopping, NULL,
     "An envelope is chosen; the process is about to end.", NULL},
    {"degraded", guard_degraded, NULL,
     "What start could do without: 1 the process's age, 2 /proc, 4 the\n"
     "sub-reaper, 8 the list of children at start, 16 being out of\n"
     "other processes' reach.",
     NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyDoc_STRVAR(guard_doc,
             "The one owner of this process's output, deadline and end.\n\n"
             "Made by Guard.start.");

static PyType_Slot guard_slots[] = {
    {Py_tp_doc, (void *)guard_doc},
    {Py_tp_dealloc, (void *)ro_py_dealloc},
    {Py_tp_methods, guard_methods},
    {Py_tp_getset, guard_getset},
    {0, NULL},
};

static PyType_Spec guard_spec = {
    .name = "deepagents_ro._mcpro.Guard",
    .basicsize = sizeof(GuardObject),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = guard_slots,
};

int
ro_py_add_guard(PyObject *module)
{
    return ro_py_add_type(module, &guard_spec,
                          &ro_py_state_of(module)->guard_type);
}
