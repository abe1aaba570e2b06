/* Engine and Transfer: transfers of one worker for one event loop. */
#ifndef RO_PY_ENGINE_H
#define RO_PY_ENGINE_H

#include "py/state.h"

#include "net/mailbox.h"

int ro_py_add_transfer(PyObject *module);
/* Takes over the download, also on failure; keeps a reference to engine, and
 * with it the worker, for its life. */
PyObject *ro_py_transfer_new(PyObject *module, PyObject *engine,
                             ro_download *download);

#endif
