/* From what a caller passed to what entries look at: exact ndarrays, views of foreign tensors, Python's numbers.
 *
 * In: a frame whose values are the caller's.  Out: the same frame; what had to be made is owned by it.
 */
#include "entry.h"

/* The array of a foreign tensor by its own method; NULL without an exception where that has none to give. */
static PyObject *array_of(PyObject *arg)
{
    PyObject *found = PyObject_CallMethodNoArgs(arg, hooks.numpy);
    if (found == NULL && PyErr_ExceptionMatches(PyExc_Exception))
        PyErr_Clear();
    /* Memory of the array's own is none of the tensor's: numpy made it up for a tensor that has none. */
    if (found != NULL && (PyObject *)Py_TYPE(found) == hooks.ndarray && as_array(found)->flags & ARRAY_OWNS_DATA)
        Py_CLEAR(found);
    return found;
}

/* What the checks look at in place of `arg`: 1, 0 where Python finds nothing usable, -1 with an exception. */
static int resolve_foreign(Frame *f, int is_tensor, PyObject *arg, PyObject **value)
{
    PyObject *found = is_tensor && (PyObject *)Py_TYPE(arg) == hooks.direct ? array_of(arg) : NULL;
    if (found == NULL && !PyErr_Occurred())
        found = PyObject_CallOneArg(is_tensor ? hooks.adapt : hooks.plain, arg);
    if (found == NULL)
        return -1;
    int usable = is_tensor ? (PyObject *)Py_TYPE(found) == hooks.ndarray : PyFloat_Check(found) || PyLong_Check(found);
    if (!usable) {
        Py_DECREF(found);
        return 0;
    }
    *value = frame_owned(f)[f->nowned++] = found;
    return 1;
}

static inline int is_direct(const Signature *signature, Py_ssize_t i, PyObject *arg)
{
    return signature->is_tensor[i] ? (PyObject *)Py_TYPE(arg) == hooks.ndarray : PyFloat_Check(arg) || PyLong_Check(arg);
}

int values_are_direct(const Frame *f, const Signature *signature)
{
    for (Py_ssize_t i = 0; i < signature->count; i++)
        if (!is_direct(signature, i, f->values[i]))
            return 0;
    return 1;
}

/* Fills the places of `resolved` that are still NULL, all of them, or none where one cannot be viewed. */
static int view_rest(Frame *f, const Signature *signature, PyObject *const *given, Py_ssize_t count)
{
    PyObject **resolved = frame_resolved(f), *memory = PyBytes_FromStringAndSize(NULL, count * (Py_ssize_t)sizeof(NumpyArray));
    NumpyArray *heads = memory != NULL ? (NumpyArray *)PyBytes_AS_STRING(memory) : NULL;
    Py_ssize_t made = 0;
    for (Py_ssize_t i = 0; memory != NULL && i < signature->count; i++)
        if (resolved[i] == NULL && view_of(given[i], &heads[made]))
            resolved[i] = (PyObject *)&heads[made++];
    if (made == count) {
        f->has_views = 1;
        frame_owned(f)[f->nowned++] = memory;
        return 1;
    }
    for (Py_ssize_t i = 0; made > 0 && i < signature->count; i++)
        for (Py_ssize_t k = 0; k < made; k++)
            if (resolved[i] == (PyObject *)&heads[k])
                resolved[i] = NULL;
    PyErr_Clear();
    Py_XDECREF(memory);
    return 0;
}

int values_resolve(Frame *f, const Signature *signature, int views)
{
    PyObject *const *given = f->values;
    PyObject **resolved = frame_resolved(f);
    Py_ssize_t waiting = 0;
    f->values = resolved;
    f->has_views = 0;
    for (Py_ssize_t i = 0; i < signature->count; i++) {
        int is_tensor = signature->is_tensor[i], found = is_direct(signature, i, given[i]);
        resolved[i] = found ? given[i] : NULL;
        if (found)
            continue;
        int waits = views && is_tensor ? may_view(given[i]) : 0;
        found = waits == 0 ? resolve_foreign(f, is_tensor, given[i], &resolved[i]) : waits;
        if (found <= 0)
            return found;
        waiting += waits;
    }
    /* Views last: Python code could move what they show. */
    if (waiting == 0 || view_rest(f, signature, given, waiting))
        return 1;
    for (Py_ssize_t i = 0; i < signature->count; i++) {
        int found = resolved[i] != NULL ? 1 : resolve_foreign(f, signature->is_tensor[i], given[i], &resolved[i]);
        if (found <= 0)
            return found;
    }
    return 1;
}
