/* The type Dispatcher: made, filled, emptied, collected; what it does when it is called is in dispatcher.c. */
#include "dispatcher.h"

#include <structmember.h>

PyObject *vectorcall_slow(Dispatcher *d, const Arguments *a)
{
    PyObject *result = NULL, *tuple = PyTuple_New(a->nargs), *dict = PyDict_New();
    int failed = tuple == NULL || dict == NULL;
    for (Py_ssize_t i = 0; i < a->nargs && !failed; i++)
        PyTuple_SET_ITEM(tuple, i, Py_NewRef(a->args[i]));
    for (Py_ssize_t k = 0; k < a->nkeywords && !failed; k++)
        failed = PyDict_SetItem(dict, a->names[k], a->values[k]) < 0;
    if (!failed)
        result = PyObject_Vectorcall(d->slow, (PyObject *[]){tuple, dict}, 2, NULL);
    Py_XDECREF(tuple);
    Py_XDECREF(dict);
    return result;
}

static PyObject *dispatcher_add(PyObject *self, PyObject *entry)
{
    if (!Py_IS_TYPE(entry, Entry_Type))
        return PyErr_Format(PyExc_TypeError, "add() takes an Entry, not %R", entry);
    int status;
    Py_BEGIN_CRITICAL_SECTION(self);
    status = add_entry((Dispatcher *)self, (Entry *)entry);
    Py_END_CRITICAL_SECTION();
    if (status < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *dispatcher_clear_entries(PyObject *self, PyObject *Py_UNUSED(none))
{
    Py_BEGIN_CRITICAL_SECTION(self);
    drop_entries((Dispatcher *)self);
    Py_END_CRITICAL_SECTION();
    Py_RETURN_NONE;
}

static Py_ssize_t dispatcher_length(PyObject *self)
{
    Dispatcher *d = (Dispatcher *)self;
    return d->nscanned + d->nhashed;
}

static PyObject *intern_names(PyObject *names)
{
    PyObject *interned = PyTuple_New(PyTuple_GET_SIZE(names));
    for (Py_ssize_t i = 0; interned != NULL && i < PyTuple_GET_SIZE(names); i++) {
        PyObject *name = PyTuple_GET_ITEM(names, i);
        if (!PyUnicode_CheckExact(name)) {
            PyErr_SetString(PyExc_TypeError, "Dispatcher: a name is not text");
            Py_CLEAR(interned);
            break;
        }
        Py_INCREF(name);
        PyUnicode_InternInPlace(&name);
        PyTuple_SET_ITEM(interned, i, name);
    }
    return interned;
}

static PyObject *dispatcher_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *keywords[] = {"slow", "names", "defaults", "positional_only", "keyword_only", NULL};
    PyObject *slow, *names, *defaults;
    Py_ssize_t positional_only = 0, keyword_only = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO!O!|nn:Dispatcher", keywords, &slow, &PyTuple_Type, &names, &PyTuple_Type,
                                     &defaults, &positional_only, &keyword_only))
        return NULL;
    Py_ssize_t count = PyTuple_GET_SIZE(names);
    if (PyTuple_GET_SIZE(defaults) != count || positional_only < 0 || keyword_only < 0 || positional_only + keyword_only > count)
        return PyErr_Format(PyExc_ValueError, "Dispatcher: names, defaults and counts do not agree");
    if (hooks.ndarray == NULL)
        return PyErr_Format(PyExc_RuntimeError, "configure() comes first");
    Dispatcher *d = (Dispatcher *)type->tp_alloc(type, 0);
    if (d == NULL)
        return NULL;
    d->vectorcall = dispatcher_vectorcall;
    d->slow = Py_NewRef(slow);
    d->defaults = Py_NewRef(defaults);
    d->signature.count = count;
    d->positional_only = positional_only;
    d->positional = count - keyword_only;
    if ((d->names = intern_names(names)) == NULL) {
        Py_DECREF(d);
        return NULL;
    }
    return (PyObject *)d;
}

static int dispatcher_traverse(PyObject *self, visitproc visit, void *arg)
{
    Dispatcher *d = (Dispatcher *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(d->slow);
    Py_VISIT(d->names);
    Py_VISIT(d->defaults);
    for (Py_ssize_t i = 0; i < d->nscanned; i++)
        Py_VISIT(d->scanned[i]);
    for (size_t i = 0; i < d->table_size; i++)
        for (Node *node = d->table[i]; node != NULL; node = node->next)
            Py_VISIT(node->entry);
    return 0;
}

/* The slow path stays, so that a call from a finalizer finds a dispatcher without entries rather than half of one. */
static int dispatcher_clear(PyObject *self)
{
    drop_entries((Dispatcher *)self);
    return 0;
}

static void dispatcher_dealloc(PyObject *self)
{
    Dispatcher *d = (Dispatcher *)self;
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    drop_entries(d);
    Py_XDECREF(d->slow);
    Py_XDECREF(d->names);
    Py_XDECREF(d->defaults);
    PyMem_Free(d->signature.is_tensor);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyMethodDef dispatcher_methods[] = {
    {"add", dispatcher_add, METH_O, "add(entry): try this entry first from now on"},
    {"clear", dispatcher_clear_entries, METH_NOARGS, "clear(): forget all entries"},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef dispatcher_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Dispatcher, vectorcall), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot dispatcher_slots[] = {
    {Py_tp_doc, "Dispatcher(slow, names, defaults, positional_only=0, keyword_only=0): calls the entry that fits,\n"
                "or slow(args, kwargs)"},
    {Py_tp_new, dispatcher_new},
    {Py_tp_dealloc, dispatcher_dealloc},
    {Py_tp_traverse, dispatcher_traverse},
    {Py_tp_clear, dispatcher_clear},
    {Py_tp_call, PyVectorcall_Call},
    {Py_sq_length, dispatcher_length},
    {Py_tp_methods, dispatcher_methods},
    {Py_tp_members, dispatcher_members},
    {0, NULL},
};

static PyType_Spec dispatcher_spec = {
    "pypto_launcher.Dispatcher", sizeof(Dispatcher), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL, dispatcher_slots,
};

static PyObject *dispatcher_type_new(PyObject *module) { return PyType_FromModuleAndSpec(module, &dispatcher_spec, NULL); }
