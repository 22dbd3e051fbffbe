/* The module pypto_launcher: configuration, its self-test, and making a Python class callable at the speed of C.
 *
 * configure() gives the launcher what it needs of Python; self_test() proves that numpy's objects look as declared in
 * numpy_layout.h; only then may arrays be read.  One configuration per process: the module is not for sub-interpreters.
 */
#include "arena.c"
#include "team.c"
#include "entry_guards.c"
#include "exchange.c"
#include "values.c"
#include "entry.c"
#include "entry_read.c"
#include "entries.c"
#include "dispatcher.c"

#include <stddef.h>

static const struct { const char *name; size_t offset; } hook_table[] = {
    {"ndarray", offsetof(Hooks, ndarray)}, {"adapt", offsetof(Hooks, adapt)},     {"plain", offsetof(Hooks, plain)},
    {"prepare", offsetof(Hooks, prepare)}, {"zeros", offsetof(Hooks, zeros)},     {"reject", offsetof(Hooks, reject)},
    {"fault", offsetof(Hooks, fault)},     {"missing", offsetof(Hooks, missing)}, {"threads", offsetof(Hooks, threads)},
    {"context_var", offsetof(Hooks, context_var)}, {"direct", offsetof(Hooks, direct)}, {"numpy", offsetof(Hooks, numpy)},
    {"exchange", offsetof(Hooks, exchange)},
};
enum { HOOKS = sizeof hook_table / sizeof hook_table[0] };

static PyObject **hook(size_t i) { return (PyObject **)((char *)&hooks + hook_table[i].offset); }

static PyObject *configure(PyObject *Py_UNUSED(module), PyObject *args, PyObject *kwargs)
{
    if (PyTuple_GET_SIZE(args) != 0)
        return PyErr_Format(PyExc_TypeError, "configure() takes keywords only");
    Py_ssize_t known = 0;
    for (size_t i = 0; i < HOOKS; i++) {
        PyObject *given = kwargs != NULL ? PyDict_GetItemString(kwargs, hook_table[i].name) : NULL;
        if (given == NULL)
            given = *hook(i);
        else
            known++;
        if (given == NULL)
            return PyErr_Format(PyExc_TypeError, "configure() needs %s", hook_table[i].name);
        if (hook(i) == &hooks.context_var && given != Py_None && !PyContextVar_CheckExact(given))
            return PyErr_Format(PyExc_TypeError, "configure(): context_var is a ContextVar or None");
        if (hook(i) == &hooks.exchange && given != Py_None && (!PyTuple_Check(given) || PyTuple_GET_SIZE(given) != 2))
            return PyErr_Format(PyExc_TypeError, "configure(): exchange is a pair or None");
    }
    if (kwargs != NULL && known != PyDict_GET_SIZE(kwargs))
        return PyErr_Format(PyExc_TypeError, "configure() got a keyword it does not know");
    for (size_t i = 0; i < HOOKS; i++) {
        PyObject *old = *hook(i), *given = kwargs != NULL ? PyDict_GetItemString(kwargs, hook_table[i].name) : NULL;
        if (given != NULL) {
            *hook(i) = Py_NewRef(given);
            Py_XDECREF(old);
        }
    }
    team.asked = 0;
    if (exchange_configure(hooks.exchange) < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* Does one array look as numpy describes it?  What comes first proves that what follows may be read. */
static int probe_agrees(PyObject *object, PyObject *address, PyObject *shape, PyObject *descr, int type_num, int swapped,
                        int flags)
{
    const NumpyArray *array = as_array(object);
    Py_ssize_t rank = PyTuple_GET_SIZE(shape);
    if (Py_TYPE(object)->tp_basicsize < (Py_ssize_t)sizeof(NumpyArray) || array->data != PyLong_AsVoidPtr(address) ||
        array->nd != rank || array->descr != (const NumpyDescr *)descr)
        return 0;
    for (Py_ssize_t i = 0; i < rank; i++)
        if (array->dimensions[i] != PyLong_AsSsize_t(PyTuple_GET_ITEM(shape, i)))
            return 0;
    return array->descr->type_num == type_num && is_swapped(array->descr) == swapped &&
           (array->flags & (ARRAY_C_CONTIGUOUS | ARRAY_ALIGNED | ARRAY_WRITEABLE)) == flags;
}

static PyObject *self_test(PyObject *Py_UNUSED(module), PyObject *probes)
{
    if (!PyList_Check(probes))
        return PyErr_Format(PyExc_TypeError, "self_test() takes a list of probes");
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(probes); i++) {
        PyObject *array, *address, *shape, *descr;
        int type_num, swapped, contiguous, aligned, writeable;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(probes, i), "OO!O!Oipppp", &array, &PyLong_Type, &address, &PyTuple_Type, &shape,
                              &descr, &type_num, &swapped, &contiguous, &aligned, &writeable))
            return NULL;
        int flags = (contiguous ? ARRAY_C_CONTIGUOUS : 0) | (aligned ? ARRAY_ALIGNED : 0) | (writeable ? ARRAY_WRITEABLE : 0);
        int agrees = probe_agrees(array, address, shape, descr, type_num, swapped, flags);
        if (PyErr_Occurred())
            return NULL;
        if (!agrees)
            Py_RETURN_FALSE;
    }
    Py_RETURN_TRUE;
}

/* Classes made callable, and where their instances keep the dispatcher and the address of their entry point.  A handful
 * at most. */
enum { MAX_CLASSES = 16 };
static struct { PyTypeObject *type; Py_ssize_t slot, entry_point; } installed[MAX_CLASSES];
static int ninstalled;

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

static vectorcallfunc *entry_point(PyObject *self, int index)
{
    return (vectorcallfunc *)((char *)self + installed[index].entry_point);
}

static NOINLINE PyObject *call_slow_method(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *keywords)
{
    PyObject *slow = PyObject_GetAttrString(self, "_call_slow");
    PyObject *result = slow != NULL ? PyObject_Vectorcall(slow, args, nargsf, keywords) : NULL;
    Py_XDECREF(slow);
    return result;
}

static PyObject *instance_call(PyObject *self, PyObject *args, PyObject *kwargs);

/* A call of an instance whose entry point is known: as the interpreter makes it, without a tuple and a dict around it. */
static PyObject *instance_vectorcall(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *keywords)
{
    int index = index_of_class(Py_TYPE(self));
    if (UNLIKELY(Py_TYPE(self)->tp_call != instance_call)) {
        /* Somebody gave the class another __call__: before 3.12 the interpreter asks for the entry point all the same. */
        *entry_point(self, index) = NULL;
        return PyObject_Vectorcall(self, args, nargsf, keywords);
    }
    PyObject *dispatcher = slot_value(self, installed[index].slot), *result;
    if (LIKELY(dispatcher != NULL && Py_IS_TYPE(dispatcher, Dispatcher_Type)))
        result = vectorcall((Dispatcher *)dispatcher, args, nargsf, keywords);
    else
        result = call_slow_method(self, args, nargsf, keywords);
    Py_XDECREF(dispatcher);
    return result;
}

/* tp_call of an installed class: of its instances' first calls, and of those by way of __call__. */
static PyObject *instance_call(PyObject *self, PyObject *args, PyObject *kwargs)
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
        result = dispatcher_tp_call(dispatcher, args, kwargs);
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

static int module_exec(PyObject *module)
{
    if (Entry_Type != NULL) {
        PyErr_SetString(PyExc_ImportError, "pypto_launcher is loaded once per process");
        return -1;
    }
    if (!arena_setup() || !team_setup() || !exchange_setup()) {
        PyErr_NoMemory();
        return -1;
    }
    if (guards_setup() < 0)
        return -1;
    Entry_Type = (PyTypeObject *)entry_type_new(module);
    Dispatcher_Type = (PyTypeObject *)dispatcher_type_new(module);
    if (Entry_Type == NULL || Dispatcher_Type == NULL)
        return -1;
    return PyModule_AddType(module, Entry_Type) < 0 || PyModule_AddType(module, Dispatcher_Type) < 0 ? -1 : 0;
}

static PyMethodDef methods[] = {
    {"configure", (PyCFunction)(void (*)(void))configure, METH_VARARGS | METH_KEYWORDS,
     "configure(**hooks): see Hooks in launcher.h"},
    {"self_test", self_test, METH_O, "self_test(probes): whether numpy's arrays look as this module assumes"},
    {"install", install, METH_VARARGS, "install(cls, slot, word): calls of instances go to the Dispatcher in `slot`, or to _call_slow; `word` is a slot to use up"},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, (void *)module_exec},
#ifdef Py_mod_multiple_interpreters
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
#ifdef Py_mod_gil
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "pypto_launcher", "Calls compiled kernels.", 0, methods, slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit_pypto_launcher(void) { return PyModuleDef_Init(&definition); }
