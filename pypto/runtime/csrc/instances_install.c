/* Making a Python class callable, and what is seldom needed of its instances. */
#include "instances.h"

PyObject *instance_call_slow(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *keywords)
{
    PyObject *slow = PyObject_GetAttrString(self, "_call_slow");
    PyObject *result = slow != NULL ? PyObject_Vectorcall(slow, args, nargsf, keywords) : NULL;
    Py_XDECREF(slow);
    return result;
}

PyObject *instance_call(PyObject *self, PyObject *args, PyObject *kwargs)
{
    int index = index_of_class(Py_TYPE(self));
    if (UNLIKELY(index < 0))
        return PyErr_Format(PyExc_TypeError, "%R was not installed", Py_TYPE(self));
    *entry_point(self, index) = instance_vectorcall;
    PyObject *dispatcher = slot_value(self, installed[index].slot), *result = NULL;
    if (UNLIKELY(dispatcher == NULL || !Py_IS_TYPE(dispatcher, Dispatcher_Type))) {
        PyObject *slow = PyObject_GetAttrString(self, "_call_slow");
        if (slow != NULL)
            result = PyObject_Call(slow, args, kwargs);
        Py_XDECREF(slow);
    } else {
        result = PyVectorcall_Call(dispatcher, args, kwargs);
    }
    Py_XDECREF(dispatcher);
    return result;
}

/* A wrapper descriptor for __call__ around `instance_call`, as a class defined in C has it: when it is set on a class,
 * the interpreter recognizes it and puts the C function straight into tp_call, without a lookup per call. */
static PyObject *call_descriptor(PyTypeObject *type)
{
    PyObject *model = PyObject_GetAttrString((PyObject *)&PyFunction_Type, "__call__"), *made = NULL;
    if (model != NULL && Py_IS_TYPE(model, &PyWrapperDescr_Type))
        made = PyDescr_NewWrapper(type, ((PyWrapperDescrObject *)model)->d_base, (void *)instance_call);
    else if (model != NULL)
        PyErr_SetString(PyExc_RuntimeError, "this Python has no slot wrapper for __call__");
    Py_XDECREF(model);
    return made;
}

static PyMemberDef *slot_named(PyTypeObject *type, PyObject *name)
{
    PyObject *member = PyObject_GetAttr((PyObject *)type, name);
    PyMemberDef *slot = NULL;
    if (member != NULL && Py_IS_TYPE(member, &PyMemberDescr_Type))
        slot = ((PyMemberDescrObject *)member)->d_member; /* part of the class, which is kept */
    if (slot != NULL && slot->type != T_OBJECT_EX)
        slot = NULL;
    if (member != NULL && slot == NULL)
        PyErr_Format(PyExc_TypeError, "install(): %R is no slot of %R", name, type);
    Py_XDECREF(member);
    return slot;
}

/* Makes a word of a slot that nothing was ever put in: neither object nor NULL for those that look through instances.
 * The interpreter takes a class for one with entry points if it says where they are; an instance without one is called
 * the ordinary way. */
static void make_entry_points(PyTypeObject *type, PyMemberDef *slot)
{
    slot->type = T_PYSSIZET;
    slot->flags |= READONLY;
    type->tp_vectorcall_offset = slot->offset;
    type->tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL;
    PyType_Modified(type);
}

static PyObject *install(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyTypeObject *type;
    PyObject *name, *word;
    if (!PyArg_ParseTuple(args, "O!UU:install", &PyType_Type, &type, &name, &word))
        return NULL;
    PyMemberDef *slot = slot_named(type, name), *entry_slot = slot != NULL ? slot_named(type, word) : NULL;
    if (entry_slot == NULL)
        return NULL;
    if (ninstalled == MAX_CLASSES)
        return PyErr_Format(PyExc_RuntimeError, "install(): too many classes");
    PyObject *descriptor = call_descriptor(type);
    if (descriptor == NULL)
        return NULL;
    int status = PyObject_SetAttrString((PyObject *)type, "__call__", descriptor);
    Py_DECREF(descriptor);
    if (status < 0)
        return NULL;
    installed[ninstalled].type = (PyTypeObject *)Py_NewRef(type);
    installed[ninstalled].slot = slot->offset;
    installed[ninstalled++].entry_point = entry_slot->offset;
    make_entry_points(type, entry_slot);
    Py_RETURN_NONE;
}
