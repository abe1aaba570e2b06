/* Wiring only. All state of py/ is in the module object, so each interpreter
 * has its own. */
#include "py/state.h"

static int
module_exec(PyObject *module)
{
    if (ro_py_add_errors(module) < 0 || ro_py_add_json(module) < 0
        || ro_py_add_mcp(module) < 0 || ro_py_add_envelopes(module) < 0
        || ro_py_add_redact(module) < 0 || ro_py_add_guard(module) < 0
        || ro_py_add_engine(module) < 0 || ro_py_add_worker(module) < 0
        || ro_py_add_session(module) < 0 || ro_py_add_reasons(module) < 0) {
        return -1;
    }
    return 0;
}

static int
module_traverse(PyObject *module, visitproc visit, void *arg)
{
    ro_py_state *state = ro_py_state_of(module);
    Py_VISIT(state->json_error);
    Py_VISIT(state->transport_error);
    Py_VISIT(state->guard_type);
    Py_VISIT(state->engine_type);
    Py_VISIT(state->transfer_type);
    Py_VISIT(state->worker_type);
    Py_VISIT(state->session_type);
    Py_VISIT(state->redactor_type);
    return 0;
}

static int
module_clear(PyObject *module)
{
    ro_py_state *state = ro_py_state_of(module);
    Py_CLEAR(state->json_error);
    Py_CLEAR(state->transport_error);
    Py_CLEAR(state->guard_type);
    Py_CLEAR(state->engine_type);
    Py_CLEAR(state->transfer_type);
    Py_CLEAR(state->worker_type);
    Py_CLEAR(state->session_type);
    Py_CLEAR(state->redactor_type);
    return 0;
}

static void
module_free(void *module)
{
    (void)module_clear((PyObject *)module);
}

static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, (void *)module_exec},
    {0, NULL},
};

static struct PyModuleDef module_def = {
    PyModuleDef_HEAD_INIT,
    .m_name = "deepagents_ro._mcpro",
    .m_doc = "Bounded parsing, hint verdicts, HTTP transport and deadline "
             "enforcement in C.",
    .m_size = sizeof(ro_py_state),
    .m_slots = module_slots,
    .m_traverse = module_traverse,
    .m_clear = module_clear,
    .m_free = module_free,
};

PyMODINIT_FUNC
PyInit__mcpro(void)
{
    return PyModuleDef_Init(&module_def);
}
