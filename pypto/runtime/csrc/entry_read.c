/* From the tuples of Python to the checks of an entry.  Runs once per kernel; says no to whatever it does not expect. */
#include "entry.h"

#include <string.h>

/* Memory for `count` items, never NULL for 0, zeroed; NULL with MemoryError. */
static void *items(Py_ssize_t count, size_t size)
{
    void *memory = PyMem_Calloc(count > 0 ? (size_t)count : 1, size);
    return memory != NULL ? memory : PyErr_NoMemory();
}

static int bad(const char *what)
{
    PyErr_Format(PyExc_TypeError, "Entry: %s is not what prepare() promises", what);
    return -1;
}

static int read_types(TensorCheck *check, PyObject *types)
{
    Py_ssize_t count = PyTuple_GET_SIZE(types);
    if (count < 1 || count > MAX_TYPES)
        return bad("a tuple of type numbers");
    for (Py_ssize_t i = 0; i < MAX_TYPES; i++)
        check->types[i] = i < count ? (int)PyLong_AsLong(PyTuple_GET_ITEM(types, i)) : -1;
    return PyErr_Occurred() ? -1 : 0;
}

static int read_dims(Entry *e, TensorCheck *check, int64_t *dims, PyObject *extents)
{
    check->rank = (int)PyTuple_GET_SIZE(extents);
    check->dims = dims;
    check->bytes = check->item_size;
    for (int i = 0; i < check->rank; i++) {
        dims[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(extents, i));
        if (PyErr_Occurred())
            return -1;
        if (dims[i] < -e->nsymbols)
            return bad("an extent");
        /* A product that does not fit belongs to an array that cannot exist. */
        if (dims[i] < 0 || check->bytes < 0 || __builtin_mul_overflow(check->bytes, dims[i], &check->bytes))
            check->bytes = -1;
    }
    e->varies |= check->bytes < 0;
    return 0;
}

static int read_tensors(Entry *e, PyObject *rows)
{
    Py_ssize_t count = PyTuple_GET_SIZE(rows), total = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *row = PyTuple_GET_ITEM(rows, i);
        if (!PyTuple_Check(row) || PyTuple_GET_SIZE(row) != 6 || !PyTuple_Check(PyTuple_GET_ITEM(row, 5)))
            return bad("a tensor");
        total += PyTuple_GET_SIZE(PyTuple_GET_ITEM(row, 5));
    }
    e->tensors = items(count, sizeof *e->tensors);
    e->dims = items(total, sizeof *e->dims);
    if (e->tensors == NULL || e->dims == NULL)
        return -1;
    e->ntensors = count;
    int64_t *dims = e->dims;
    for (Py_ssize_t i = 0; i < count; i++) {
        TensorCheck *check = &e->tensors[i];
        PyObject *types, *extents, *descr;
        long long item_size;
        int writes;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(rows, i), "npLOO!O!", &check->parameter, &writes, &item_size, &descr,
                              &PyTuple_Type, &types, &PyTuple_Type, &extents))
            return -1;
        check->descr = (const NumpyDescr *)descr;
        check->item_size = item_size;
        check->required = ARRAY_C_CONTIGUOUS | ARRAY_ALIGNED | (writes ? ARRAY_WRITEABLE : 0);
        if (check->parameter >= e->signature.count || (check->parameter >= 0 && e->nhidden > 0))
            return bad("the order of tensors");
        if (read_types(check, types) < 0 || read_dims(e, check, dims, extents) < 0)
            return -1;
        dims += check->rank;
        if (check->parameter < 0)
            e->nhidden++;
        else
            e->signature.is_tensor[check->parameter] = 1;
    }
    e->nvisible = e->ntensors - e->nhidden;
    return 0;
}

static int read_scalars(Entry *e, PyObject *rows)
{
    Py_ssize_t count = PyTuple_GET_SIZE(rows);
    if ((e->scalars = items(count, sizeof *e->scalars)) == NULL)
        return -1;
    e->nscalars = count;
    for (Py_ssize_t i = 0; i < count; i++) {
        ScalarCheck *check = &e->scalars[i];
        PyObject *expected, *row = PyTuple_GET_ITEM(rows, i);
        long long low;
        unsigned long long high;
        if (!PyTuple_Check(row) || !PyArg_ParseTuple(row, "npLKO", &check->parameter, &check->is_float, &low, &high, &expected))
            return PyErr_Occurred() ? -1 : bad("a scalar");
        check->low = low;
        check->high = high;
        check->is_static = expected != Py_None;
        if (check->is_static && (check->expected = PyLong_AsLongLong(expected)) == -1 && PyErr_Occurred())
            return -1;
        if (check->parameter < 0 || check->parameter >= e->signature.count)
            return bad("the index of a scalar");
    }
    return 0;
}

static int read_pairs(Entry *e, PyObject *rows)
{
    Py_ssize_t count = PyTuple_GET_SIZE(rows);
    if ((e->pairs = items(count, sizeof *e->pairs)) == NULL)
        return -1;
    e->npairs = count;
    for (Py_ssize_t i = 0; i < count; i++) {
        Pair *pair = &e->pairs[i];
        PyObject *row = PyTuple_GET_ITEM(rows, i);
        if (!PyTuple_Check(row) || !PyArg_ParseTuple(row, "nnp", &pair->a, &pair->b, &pair->may_be_same))
            return PyErr_Occurred() ? -1 : bad("a pair");
        if (pair->a < 0 || pair->b < 0 || pair->a >= e->nvisible || pair->b >= e->nvisible)
            return bad("a pair of tensors");
    }
    return 0;
}

static int read_returns(Entry *e, PyObject *returns)
{
    e->nreturns = -1;
    if (returns == Py_None)
        return 0;
    if (!PyTuple_Check(returns))
        return bad("what is returned");
    Py_ssize_t count = PyTuple_GET_SIZE(returns);
    if ((e->returns = items(count, sizeof *e->returns)) == NULL)
        return -1;
    for (Py_ssize_t i = 0; i < count; i++) {
        Py_ssize_t index = PyLong_AsSsize_t(PyTuple_GET_ITEM(returns, i));
        if (PyErr_Occurred())
            return -1;
        if (index >= e->signature.count || index < -e->nhidden)
            return bad("what is returned");
        e->returns[i] = index;
    }
    e->nreturns = count;
    return 0;
}

static int read_guard(Guard *guard, PyObject *row)
{
    Py_ssize_t size = PyTuple_Check(row) ? PyTuple_GET_SIZE(row) : 0;
    const char *kind = size > 0 && PyUnicode_Check(PyTuple_GET_ITEM(row, 0)) ? PyUnicode_AsUTF8(PyTuple_GET_ITEM(row, 0)) : "";
    if (kind == NULL)
        return -1;
    PyObject *subject = size > 1 ? PyTuple_GET_ITEM(row, 1) : NULL;
    guard->subject = subject;
    guard->name = size > 2 ? PyTuple_GET_ITEM(row, 2) : NULL;
    guard->expected = size > 2 ? PyTuple_GET_ITEM(row, size - 1) : NULL;
    if (strcmp(kind, "global") == 0 && size == 4 && PyDict_CheckExact(subject) && PyUnicode_CheckExact(guard->name))
        guard->kind = GUARD_GLOBAL;
    else if (strcmp(kind, "cell") == 0 && size == 3 && PyCell_Check(subject))
        guard->kind = GUARD_CELL;
    else if (strcmp(kind, "call") == 0 && size == 2 && PyCallable_Check(subject))
        guard->kind = GUARD_CALL;
    else
        return bad("a guard");
    return 0;
}

static int read_guards(Entry *e)
{
    Py_ssize_t count = PyTuple_GET_SIZE(e->guard_tuple);
    if ((e->guards = items(count, sizeof *e->guards)) == NULL)
        return -1;
    e->nguards = count;
    for (Py_ssize_t i = 0; i < count; i++) {
        if (read_guard(&e->guards[i], PyTuple_GET_ITEM(e->guard_tuple, i)) < 0)
            return -1;
        e->calls_guards |= e->guards[i].kind == GUARD_CALL;
    }
    return 0;
}

static int entry_read(Entry *e)
{
    PyObject *tensors, *scalars, *pairs, *returns;
    long long scratch, heavy_bytes;
    int heavy;
    if (!PyTuple_Check(e->prepared))
        return bad("the prepared plan");
    if (!PyArg_ParseTuple(e->prepared, "nnO!O!O!OLpL", &e->signature.count, &e->nsymbols, &PyTuple_Type, &tensors, &PyTuple_Type,
                          &scalars, &PyTuple_Type, &pairs, &returns, &scratch, &heavy, &heavy_bytes))
        return -1;
    e->scratch = scratch;
    e->heavy_bytes = heavy ? 0 : heavy_bytes;
    if (e->signature.count < 0 || e->nsymbols < 0 || scratch < 0)
        return bad("a count");
    if ((e->signature.is_tensor = items(e->signature.count, 1)) == NULL)
        return -1;
    if (read_tensors(e, tensors) < 0 || read_scalars(e, scalars) < 0 || read_pairs(e, pairs) < 0 || read_returns(e, returns) < 0)
        return -1;
    if (e->nvisible + e->nscalars != e->signature.count)
        return bad("the number of parameters");
    e->varies |= e->nsymbols > 0 || e->nscalars > 0;
    e->words = 2 * e->ntensors + e->nsymbols + e->nscalars + e->nhidden;
    return read_guards(e);
}

static void entry_free_checks(Entry *e)
{
    PyMem_Free(e->signature.is_tensor);
    PyMem_Free(e->tensors);
    PyMem_Free(e->scalars);
    PyMem_Free(e->pairs);
    PyMem_Free(e->guards);
    PyMem_Free(e->dims);
    PyMem_Free(e->returns);
}
