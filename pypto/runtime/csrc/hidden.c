/* The outputs that a kernel writes and no caller passes: arrays of zeros, made for a call and returned by it. */
#include "entry.h"

int make_hidden(const Entry *e, Frame *f)
{
    PyObject **hidden = frame_hidden(e, f);
    const int64_t *symbols = frame_symbols(e, f);
    Py_ssize_t first = e->nvisible;
    for (Py_ssize_t i = 0; i < e->nhidden; i++) {
        const TensorCheck *check = &e->tensors[first + i];
        PyObject *array = NULL, *shape = PyTuple_New(check->rank);
        for (int k = 0; shape != NULL && k < check->rank; k++) {
            int64_t extent = check->dims[k] < 0 ? symbols[-1 - check->dims[k]] : check->dims[k];
            PyObject *number = PyLong_FromLongLong(extent);
            if (number == NULL)
                Py_CLEAR(shape);
            else
                PyTuple_SET_ITEM(shape, k, number);
        }
        if (shape != NULL) {
            PyObject *args[2] = {shape, (PyObject *)check->descr};
            array = PyObject_Vectorcall(hooks.zeros, args, 2, NULL);
            Py_DECREF(shape);
        }
        if (array == NULL || (PyObject *)Py_TYPE(array) != hooks.ndarray) {
            if (array != NULL)
                PyErr_SetString(PyExc_TypeError, "zeros() did not return an array");
            Py_XDECREF(array);
            while (i > 0)
                Py_DECREF(hidden[--i]);
            return -1;
        }
        hidden[i] = array;
        frame_data(f)[first + i] = as_array(array)->data;
    }
    return 0;
}

void drop_hidden(const Entry *e, Frame *f)
{
    for (Py_ssize_t i = 0; i < e->nhidden; i++)
        Py_DECREF(frame_hidden(e, f)[i]);
}
