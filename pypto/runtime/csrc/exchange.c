/* Tensors of one foreign class, seen through the table of C functions that its library publishes by DLPack.
 *
 * In: tensors of `hooks.direct`, and its table.  Out: array heads that have what the checks look at, over the same memory.
 * Invariant: a head is good until Python code runs again; whatever this does not understand goes the usual way.
 */
#include "launcher.h"
#include "numpy_layout.h"

enum { HOST = 1, MAJOR = 1, MAX_ELEMENTS = 24 };

/* DLPack's own structures, version 1. */
typedef struct {
    void *data;
    int32_t device, device_id, rank;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides; /* strides count elements; NULL: dense */
    uint64_t byte_offset;
} ForeignTensor;

typedef struct {
    uint32_t major, minor;
    void *previous, *allocate, *to_managed, *from_managed;
    int (*describe)(void *object, ForeignTensor *tensor); /* may be NULL; takes no reference, and runs no Python code */
    void *stream;
} ExchangeTable;

static struct {
    const ExchangeTable *table; /* NULL: none; borrowed from hooks.exchange, as the dtypes are */
    struct { int code, bits; NumpyDescr *descr; } elements[MAX_ELEMENTS];
    Py_ssize_t count;
} exchange;

static PyObject *requires_grad, *is_neg;

int exchange_setup(void)
{
    requires_grad = PyUnicode_InternFromString("requires_grad");
    is_neg = PyUnicode_InternFromString("is_neg");
    return requires_grad != NULL && is_neg != NULL;
}

int exchange_configure(PyObject *given)
{
    PyObject *capsule, *rows;
    exchange.table = NULL;
    exchange.count = 0;
    if (given == Py_None)
        return 0;
    if (!PyArg_ParseTuple(given, "OO!", &capsule, &PyTuple_Type, &rows))
        return -1;
    if (!PyCapsule_IsValid(capsule, "dlpack_exchange_api"))
        return 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(rows) && i < MAX_ELEMENTS; i++) {
        PyObject *descr;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(rows, i), "iiO", &exchange.elements[i].code, &exchange.elements[i].bits, &descr))
            return -1;
        exchange.elements[i].descr = (NumpyDescr *)descr;
        exchange.count = i + 1;
    }
    const ExchangeTable *table = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
    if (table->major == MAJOR && table->describe != NULL)
        exchange.table = table;
    return 0;
}

/* Whether an answer is False; -1 where what it was asked for raised what is for nobody here.  Steals the answer. */
static int is_false(PyObject *answer)
{
    if (answer == NULL) {
        if (!PyErr_ExceptionMatches(PyExc_Exception))
            return -1;
        PyErr_Clear();
        return 0;
    }
    int found = answer == Py_False;
    Py_DECREF(answer);
    return found;
}

/* Whether `view_of` may be asked: 1, 0, -1 with an exception. */
static int may_view(PyObject *object)
{
    if (exchange.table == NULL || (PyObject *)Py_TYPE(object) != hooks.direct)
        return 0;
    /* Neither is in the description: an array of such a tensor may not be written, or has other values than its memory. */
    int plain = is_false(PyObject_GetAttr(object, requires_grad));
    return plain > 0 ? is_false(PyObject_CallMethodNoArgs(object, is_neg)) : plain;
}

static int is_dense(const ForeignTensor *tensor)
{
    int64_t expected = 1;
    for (int i = 0; i < tensor->rank; i++)
        if (tensor->shape[i] == 0)
            return 1;
    for (int i = tensor->rank; tensor->strides != NULL && i-- > 0;) {
        if (tensor->shape[i] != 1 && tensor->strides[i] != expected)
            return 0;
        expected *= tensor->shape[i];
    }
    return 1;
}

/* 1, or 0 where there is no such view.  `head` is no object: it is looked at, never referenced. */
static int view_of(PyObject *object, NumpyArray *head)
{
    ForeignTensor tensor;
    if (exchange.table->describe(object, &tensor) != 0) {
        PyErr_Clear();
        return 0;
    }
    Py_ssize_t kind = 0;
    while (kind < exchange.count && (exchange.elements[kind].code != tensor.code || exchange.elements[kind].bits != tensor.bits))
        kind++;
    /* Without an address a tensor has no memory, or none yet. */
    if (kind == exchange.count || tensor.lanes != 1 || tensor.device != HOST || tensor.data == NULL)
        return 0;
    char *data = (char *)tensor.data + tensor.byte_offset;
    int flags = ARRAY_WRITEABLE | (is_dense(&tensor) ? ARRAY_C_CONTIGUOUS : 0);
    if ((uintptr_t)data % (tensor.bits / 8u) == 0)
        flags |= ARRAY_ALIGNED;
    *head = (NumpyArray){.data = data, .nd = tensor.rank, .dimensions = (Py_ssize_t *)tensor.shape,
                         .descr = exchange.elements[kind].descr, .flags = flags};
    Py_SET_TYPE((PyObject *)head, (PyTypeObject *)hooks.ndarray);
    return 1;
}
