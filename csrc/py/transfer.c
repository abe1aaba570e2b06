/* Transfer: one download of net/mailbox.h. */
#include "py/engine.h"

#include "core/alloc.h"
#include "py/convert.h"
#include "py/errors.h"

typedef struct TransferObject {
    PyObject_HEAD
    ro_download *download;
    PyObject *engine;
} TransferObject;

static PyObject *
raise_code(PyObject *self, ro_net_code code)
{
    PyObject *module = PyType_GetModule(Py_TYPE(self));
    return module == NULL ? NULL : ro_py_raise_net(module, code);
}

PyDoc_STRVAR(transfer_head_doc,
             "head($self, /)\n--\n\n"
             "(status: int, version: int, reason: bytes, headers: list[\n"
             "tuple[bytes, bytes]]) of the answer; version is 10, 11 or 20.\n"
             "None when it has not come yet.\n\n"
             "TransportError when it will not come.");

static PyObject *
transfer_head(PyObject *self, PyObject *Py_UNUSED(ignored))
{
    ro_head head = {0};
    ro_net_code code = RO_NET_OK;

    switch (
        ro_download_head(((TransferObject *)self)->download, &head, &code)) {
    case RO_DOWNLOAD_WAITS:
        Py_RETURN_NONE;
    case RO_DOWNLOAD_READY:
        return Py_BuildValue("(liNN)", head.status, head.version,
                             ro_py_bytes_of(head.reason),
                             ro_py_header_list(head.headers, head.n_headers));
    case RO_DOWNLOAD_ENDED:
    case RO_DOWNLOAD_FAILED:
        break;
    }
    return raise_code(self, code);
}

PyDoc_STRVAR(transfer_read_doc,
             "read($self, /)\n--\n\n"
             "All bytes of the body that have come and were not read yet,\n"
             "at most 65536; b\"\" at its end; None when nothing is there\n"
             "yet. What was received before a failure is returned first.\n\n"
             "TransportError when the answer is not complete.");

static PyObject *
transfer_read(PyObject *self, PyObject *Py_UNUSED(ignored))
{
    char *bytes = NULL;
    size_t len = 0;
    ro_net_code code = RO_NET_OK;
    PyObject *result = NULL;

    switch (ro_download_read(((TransferObject *)self)->download, &bytes, &len,
                             &code)) {
    case RO_DOWNLOAD_WAITS:
        Py_RETURN_NONE;
    case RO_DOWNLOAD_READY:
        result = ro_py_bytes_of(ro_slice_of(bytes, len));
        ro_free(bytes);
        return result;
    case RO_DOWNLOAD_ENDED:
        return ro_py_bytes_of(ro_slice_of(NULL, 0));
    case RO_DOWNLOAD_FAILED:
        break;
    }
    return raise_code(self, code);
}

PyDoc_STRVAR(transfer_cancel_doc,
             "cancel($self, /)\n--\n\n"
             "End the transfer and close its connection. Nothing happens\n"
             "when it is done.");

static PyObject *
transfer_cancel(PyObject *self, PyObject *Py_UNUSED(ignored))
{
    ro_download_cancel(((TransferObject *)self)->download);
    Py_RETURN_NONE;
}

static PyObject *
transfer_get_id(PyObject *self, void *Py_UNUSED(closure))
{
    return PyLong_FromUnsignedLongLong(
        ro_download_id(((TransferObject *)self)->download));
}

static void
transfer_dealloc(PyObject *self)
{
    TransferObject *transfer = (TransferObject *)self;

    ro_download_release(transfer->download);
    Py_XDECREF(transfer->engine);
    ro_py_dealloc(self);
}

PyObject *
ro_py_transfer_new(PyObject *module, PyObject *engine, ro_download *download)
{
    PyObject *self = ro_py_alloc(ro_py_state_of(module)->transfer_type);

    if (self == NULL) {
        ro_download_release(download);
        return NULL;
    }
    ((TransferObject *)self)->download = download;
    ((TransferObject *)self)->engine = Py_NewRef(engine);
    return self;
}

static PyMethodDef transfer_methods[] = {
    {"head", transfer_head, METH_NOARGS, transfer_head_doc},
    {"read", transfer_read, METH_NOARGS, transfer_read_doc},
    {"cancel", transfer_cancel, METH_NOARGS, transfer_cancel_doc},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef transfer_getset[] = {
    {"id", transfer_get_id, NULL, "The id that Engine.poll returns.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyDoc_STRVAR(transfer_doc,
             "One HTTP exchange under way; made by Engine.submit.\n\n"
             "Deleting it cancels it.");

static PyType_Slot transfer_slots[] = {
    {Py_tp_doc, (void *)transfer_doc},
    {Py_tp_dealloc, (void *)transfer_dealloc},
    {Py_tp_methods, (void *)transfer_methods},
    {Py_tp_getset, (void *)transfer_getset},
    {0, NULL},
};

static PyType_Spec transfer_spec = {
    .name = "deepagents_ro._mcpro.Transfer",
    .basicsize = sizeof(TransferObject),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION
             | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = transfer_slots,
};

int
ro_py_add_transfer(PyObject *module)
{
    return ro_py_add_type(module, &transfer_spec,
                          &ro_py_state_of(module)->transfer_type);
}
