/* The module pypto_launcher: configuration, its self-test, and what hardly a call runs.
 *
 * configure() gives the launcher what it needs of Python; self_test() proves that numpy's objects look as declared in
 * numpy_layout.h; only then may arrays be read.  One configuration per process: the module is not for sub-interpreters.
 */
#include "arena.c"
#include "team.c"
#include "entry_read.c"
#include "entry_type.c"
#include "entries_add.c"
#include "dispatcher_type.c"
#include "instances_install.c"

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
    team_configure();
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
