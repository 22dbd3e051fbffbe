/* Instances of Python classes that are called by way of the dispatcher that each keeps in a slot. */
#ifndef PYPTO_INSTANCES_H
#define PYPTO_INSTANCES_H

#include "dispatcher.h"

#include <structmember.h>

/* Classes made callable, and where their instances keep the dispatcher and the address of their entry point.  A handful
 * at most. */
enum { MAX_CLASSES = 16 };
typedef struct { PyTypeObject *type; Py_ssize_t slot, entry_point; } Installed;
extern SHARED Installed installed[MAX_CLASSES];
extern SHARED int ninstalled;

/* A call of an instance whose entry point is known: as the interpreter makes it, without a tuple and a dict around it. */
SHARED PyObject *instance_vectorcall(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *keywords);
/* tp_call of an installed class: of its instances' first calls, and of those by way of __call__. */
SHARED PyObject *instance_call(PyObject *self, PyObject *args, PyObject *kwargs);
/* By the method of the class. */
SHARED PyObject *instance_call_slow(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *keywords);

/* The index of a class, -1 where it was not installed. */
static inline int index_of_class(PyTypeObject *type)
{
    for (int i = 0; i < ninstalled; i++)
        if (LIKELY(installed[i].type == type))
            return i;
    for (int i = 0; i < ninstalled; i++)
        if (PyType_IsSubtype(type, installed[i].type))
            return i;
    return -1;
}

/* A new reference to what an instance's slot holds, or NULL: held, because the slot may change while a kernel runs. */
static inline PyObject *slot_value(PyObject *self, Py_ssize_t slot)
{
#ifdef Py_GIL_DISABLED
    PyMemberDef member = {"", T_OBJECT_EX, slot, 0, NULL};
    PyObject *value = PyMember_GetOne((const char *)self, &member);
    if (value == NULL)
        PyErr_Clear();
    return value;
#else
    return Py_XNewRef(*(PyObject **)((char *)self + slot));
#endif
}

static inline vectorcallfunc *entry_point(PyObject *self, int index)
{
    return (vectorcallfunc *)((char *)self + installed[index].entry_point);
}

#endif
