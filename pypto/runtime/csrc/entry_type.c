/* The type Entry: made of a plan and an address, called without a dispatcher, collected. */
#include "entry.h"

#include <string.h>
#include <structmember.h>

static PyObject *entry_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"plan", "address", "keepalive", "guards", "context_token", NULL};
    PyObject *plan, *address, *keepalive, *guards = NULL, *token = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO!O|O!O:Entry", names, &plan, &PyLong_Type, &address, &keepalive,
                                     &PyTuple_Type, &guards, &token))
        return NULL;
    if (hooks.ndarray == NULL)
        return PyErr_Format(PyExc_RuntimeError, "configure() comes first");
    size_t function = PyLong_AsSize_t(address);
    if (PyErr_Occurred())
        return NULL;
    if (function == 0)
        return PyErr_Format(PyExc_ValueError, "Entry: no address");
    Entry *e = (Entry *)type->tp_alloc(type, 0);
    if (e == NULL)
        return NULL;
    memcpy(&e->function, &function, sizeof function);
    e->plan = Py_NewRef(plan);
    e->keepalive = Py_NewRef(keepalive);
    e->token = Py_NewRef(token);
    e->guard_tuple = guards != NULL ? Py_NewRef(guards) : PyTuple_New(0);
    e->prepared = PyObject_CallOneArg(hooks.prepare, plan);
    if (e->guard_tuple == NULL || e->prepared == NULL || entry_read(e) < 0) {
        Py_DECREF(e);
        return NULL;
    }
    return (PyObject *)e;
}

static int entry_traverse(PyObject *self, visitproc visit, void *arg)
{
    Entry *e = (Entry *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(e->plan);
    Py_VISIT(e->keepalive);
    Py_VISIT(e->guard_tuple);
    Py_VISIT(e->token);
    Py_VISIT(e->prepared);
    return 0;
}

/* No tp_clear: an entry is immutable, so that a cycle through it is broken elsewhere, and a call in progress is safe. */
static void entry_dealloc(PyObject *self)
{
    Entry *e = (Entry *)self;
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    entry_free_checks(e);
    Py_XDECREF(e->plan);
    Py_XDECREF(e->keepalive);
    Py_XDECREF(e->guard_tuple);
    Py_XDECREF(e->token);
    Py_XDECREF(e->prepared);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *entry_call(PyObject *self, PyObject *args)
{
    Entry *e = (Entry *)self;
    if (!PyTuple_Check(args) || PyTuple_GET_SIZE(args) != e->signature.count)
        return PyErr_Format(PyExc_TypeError, "call() takes a tuple of %zd bound arguments", e->signature.count);
    PyObject *const *values = ((PyTupleObject *)args)->ob_item;
    Frame frame;
    if (frame_open(&frame, e->signature.count, e->words) < 0)
        return NULL;
    frame.values = values;
    PyObject *result = NULL;
    int fits = values_resolve(&frame, &e->signature, 0);
    if (fits > 0)
        fits = arguments_fit(e, &frame);
    if (fits > 0) {
        result = entry_run_chosen(e, &frame, values);
    } else if (fits == 0) {
        PyObject *answer = PyObject_CallFunctionObjArgs(hooks.reject, e->plan, args, NULL);
        if (answer != NULL) {
            Py_DECREF(answer);
            PyErr_SetString(PyExc_SystemError, "reject() did not raise");
        }
    }
    frame_close(&frame);
    return result;
}

static PyMethodDef entry_methods[] = {
    {"call", entry_call, METH_O, "call(args): run with bound arguments, whatever the guards say; raises where they do not fit"},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef entry_members[] = {
    {"plan", T_OBJECT, offsetof(Entry, plan), READONLY, NULL},
    {"keepalive", T_OBJECT, offsetof(Entry, keepalive), READONLY, NULL},
    {"guards", T_OBJECT, offsetof(Entry, guard_tuple), READONLY, NULL},
    {"context_token", T_OBJECT, offsetof(Entry, token), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot entry_slots[] = {
    {Py_tp_doc, "Entry(plan, address, keepalive, guards=(), context_token=None): a kernel ready to call"},
    {Py_tp_new, entry_new},
    {Py_tp_dealloc, entry_dealloc},
    {Py_tp_traverse, entry_traverse},
    {Py_tp_methods, entry_methods},
    {Py_tp_members, entry_members},
    {0, NULL},
};

static PyType_Spec entry_spec = {
    "pypto_launcher.Entry", sizeof(Entry), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, entry_slots,
};

static PyObject *entry_type_new(PyObject *module) { return PyType_FromModuleAndSpec(module, &entry_spec, NULL); }
