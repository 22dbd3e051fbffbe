/* The call of an instance: its dispatcher's. */
#include "instances.h"

Installed installed[MAX_CLASSES];
int ninstalled;

PyObject *instance_vectorcall(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *keywords)
{
    int index = index_of_class(Py_TYPE(self));
    if (UNLIKELY(Py_TYPE(self)->tp_call != instance_call)) {
        /* Somebody gave the class another __call__: before 3.12 the interpreter asks for the entry point all the same. */
        *entry_point(self, index) = NULL;
        return PyObject_Vectorcall(self, args, nargsf, keywords);
    }
    PyObject *dispatcher = slot_value(self, installed[index].slot), *result;
    if (LIKELY(dispatcher != NULL && Py_IS_TYPE(dispatcher, Dispatcher_Type)))
        result = vectorcall((Dispatcher *)dispatcher, args, nargsf, keywords, 0);
    else
        result = instance_call_slow(self, args, nargsf, keywords);
    Py_XDECREF(dispatcher);
    return result;
}
