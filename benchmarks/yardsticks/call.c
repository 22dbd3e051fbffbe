/* A C extension as one would write it by hand: add(a, b, out) of three 16 x 32 float arrays, checked, added, out returned. */
#include <Python.h>

static PyObject *refused(const char *what)
{
    PyErr_SetString(PyExc_TypeError, what);
    return NULL;
}

static int is_fit(const Py_buffer *b)
{
    return b->ndim == 2 && b->shape[0] == 16 && b->shape[1] == 32 && b->format && b->format[0] == 'f' && !b->format[1];
}

static PyObject *add(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    Py_buffer x, y, o;
    (void)self;
    if (count != 3)
        return refused("add takes three arrays");
    if (PyObject_GetBuffer(args[0], &x, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT))
        return NULL;
    if (PyObject_GetBuffer(args[1], &y, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT)) {
        PyBuffer_Release(&x);
        return NULL;
    }
    if (PyObject_GetBuffer(args[2], &o, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | PyBUF_WRITABLE)) {
        PyBuffer_Release(&x);
        PyBuffer_Release(&y);
        return NULL;
    }
    const int fit = is_fit(&x) && is_fit(&y) && is_fit(&o);
    if (fit)
        for (int i = 0; i < 512; ++i)
            ((float *)o.buf)[i] = ((const float *)x.buf)[i] + ((const float *)y.buf)[i];
    PyBuffer_Release(&x);
    PyBuffer_Release(&y);
    PyBuffer_Release(&o);
    return fit ? Py_NewRef(args[2]) : refused("add takes arrays of 16 x 32 floats");
}

static PyMethodDef methods[] = {{"add", (PyCFunction)(void (*)(void))add, METH_FASTCALL, NULL}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "call", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_call(void)
{
    return PyModule_Create(&module);
}
