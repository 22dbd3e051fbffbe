/* Entry: do these arguments fit this kernel, and if so, the call.
 *
 * Invariant: what `entry_match` accepts is what pypto.runtime.validate accepts; the address of every argument is taken
 * after the last Python code that could have moved it.  The kernel runs with its arguments referenced by the caller.
 */
#include "entry.h"

#include "float_state.h"

#include <string.h>
#include <structmember.h>

/* Frame.rest of an entry: data, ends, symbols, scalars, hidden arrays. */
static void **frame_data(Frame *f) { return (void **)f->rest; }
static uintptr_t *frame_ends(const Entry *e, Frame *f) { return (uintptr_t *)(f->rest + e->ntensors); }
static int64_t *frame_symbols(const Entry *e, Frame *f) { return f->rest + 2 * e->ntensors; }
static int64_t *frame_scalars(const Entry *e, Frame *f) { return frame_symbols(e, f) + e->nsymbols; }
static PyObject **frame_hidden(const Entry *e, Frame *f) { return (PyObject **)(frame_scalars(e, f) + e->nscalars); }

/* The array of a foreign tensor by its own method; NULL without an exception where that has none to give. */
static PyObject *array_of(PyObject *arg)
{
    PyObject *found = PyObject_CallMethodNoArgs(arg, hooks.numpy);
    if (found == NULL && PyErr_ExceptionMatches(PyExc_Exception))
        PyErr_Clear();
    return found;
}

/* The slow half of values_resolve: 1, 0 where Python finds nothing usable, -1 with an exception. */
static int resolve_foreign(Frame *f, Py_ssize_t i, int is_tensor, PyObject *arg)
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
    f->values[i] = f->owned[f->nowned++] = found;
    return 1;
}

static int values_resolve(Frame *f, const Signature *signature, PyObject *const *args)
{
    for (Py_ssize_t i = 0; i < signature->count; i++) {
        PyObject *arg = args[i];
        int is_tensor = signature->is_tensor[i];
        if (LIKELY(is_tensor ? (PyObject *)Py_TYPE(arg) == hooks.ndarray : PyFloat_Check(arg) || PyLong_Check(arg))) {
            f->values[i] = arg;
        } else {
            int found = resolve_foreign(f, i, is_tensor, arg);
            if (found <= 0)
                return found;
        }
    }
    return 1;
}

static int type_fits(const TensorCheck *check, const NumpyDescr *descr)
{
    if (is_swapped(descr))
        return 0;
    for (int i = 0; i < MAX_TYPES && check->types[i] >= 0; i++)
        if (descr->type_num == check->types[i])
            return 1;
    return 0;
}

/* The number of bytes, or -1 where the array does not fit. */
static inline int64_t tensor_fits(const TensorCheck *check, const NumpyArray *array, int64_t *symbols)
{
    if (array->nd != check->rank || (array->flags & check->required) != check->required)
        return -1;
    if (UNLIKELY(array->descr != check->descr) && !type_fits(check, array->descr))
        return -1;
    if (LIKELY(check->bytes >= 0)) {
        for (int i = 0; i < check->rank; i++)
            if (array->dimensions[i] != check->dims[i])
                return -1;
        return check->bytes;
    }
    int64_t bytes = check->item_size;
    for (int i = 0; i < check->rank; i++) {
        int64_t extent = array->dimensions[i], want = check->dims[i];
        if (want < 0) {
            int64_t *symbol = &symbols[-1 - want];
            if (*symbol < 0)
                *symbol = extent;
            want = *symbol;
        }
        if (extent != want)
            return -1;
        bytes *= extent;
    }
    return bytes;
}

static int scalar_fits(const ScalarCheck *check, PyObject *value, int64_t *slot)
{
    if (check->is_float) {
        double number = PyFloat_Check(value) ? PyFloat_AS_DOUBLE(value) : PyLong_AsDouble(value);
        if (UNLIKELY(number == -1.0) && PyErr_Occurred()) {
            PyErr_Clear();
            return 0;
        }
        memcpy(slot, &number, sizeof number);
        double expected;
        memcpy(&expected, &check->expected, sizeof expected);
        /* Every NaN is one value here. */
        return !check->is_static || *slot == check->expected || (number != number && expected != expected);
    }
    if (!PyLong_Check(value))
        return 0;
    int overflow;
    long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (overflow > 0 && check->high > (uint64_t)INT64_MAX) {
        unsigned long long large = PyLong_AsUnsignedLongLong(value);
        if (large == (unsigned long long)-1 && PyErr_Occurred()) {
            PyErr_Clear();
            return 0;
        }
        number = (long long)large;
    } else if (overflow != 0 || number < check->low || (number > 0 && (uint64_t)number > check->high)) {
        return 0;
    }
    *slot = number;
    return !check->is_static || number == check->expected;
}

/* Exactly the same array: the plan says for which pairs that is safe.  Equal dtypes, because only such pairs may be. */
static int same_array(const NumpyArray *a, const NumpyArray *b)
{
    return a->data == b->data && a->nd == b->nd &&
           memcmp(a->dimensions, b->dimensions, (size_t)a->nd * sizeof *a->dimensions) == 0;
}

static int memory_fits(const Entry *e, Frame *f)
{
    void *const *data = frame_data(f);
    const uintptr_t *ends = frame_ends(e, f);
    for (Py_ssize_t i = 0; i < e->npairs; i++) {
        const Pair *pair = &e->pairs[i];
        /* Dense arrays are intervals; one without elements ends at 0 and meets nothing. */
        if (LIKELY((uintptr_t)data[pair->a] >= ends[pair->b] || (uintptr_t)data[pair->b] >= ends[pair->a]))
            continue;
        if (!pair->may_be_same || !same_array(as_array(f->values[e->tensors[pair->a].parameter]),
                                              as_array(f->values[e->tensors[pair->b].parameter])))
            return 0;
    }
    return 1;
}

static int arguments_fit(const Entry *e, Frame *f)
{
    void **data = frame_data(f);
    uintptr_t *ends = frame_ends(e, f);
    int64_t *symbols = frame_symbols(e, f), *scalars = frame_scalars(e, f);
    for (Py_ssize_t i = 0; i < e->nsymbols; i++)
        symbols[i] = -1;
    f->bytes = 0;
    for (Py_ssize_t i = 0; i < e->ntensors - e->nhidden; i++) {
        const NumpyArray *array = as_array(f->values[e->tensors[i].parameter]);
        int64_t bytes = tensor_fits(&e->tensors[i], array, symbols);
        if (bytes < 0)
            return 0;
        data[i] = array->data;
        ends[i] = bytes == 0 ? 0 : (uintptr_t)array->data + (uintptr_t)bytes;
        f->bytes += bytes;
    }
    for (Py_ssize_t i = 0; i < e->nscalars; i++)
        if (!scalar_fits(&e->scalars[i], f->values[e->scalars[i].parameter], &scalars[i]))
            return 0;
    return memory_fits(e, f);
}

static int versions_work;

/* A number that changes with every change to the dict, 0 where this Python keeps none.  No other field of a dict is read. */
static inline uint64_t dict_version(PyObject *dict)
{
#if PY_VERSION_HEX < 0x030E0000 && !defined(Py_GIL_DISABLED)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    return versions_work ? ((PyDictObject *)dict)->ma_version_tag : 0;
#pragma GCC diagnostic pop
#else
    (void)dict;
    return 0;
#endif
}

static int guards_setup(void)
{
    PyObject *dict = PyDict_New(), *key = PyUnicode_InternFromString("k");
    int failed = dict == NULL || key == NULL;
    versions_work = 1;
    uint64_t last = failed ? 0 : dict_version(dict);
    for (int step = 0; step < 4 && !failed; step++) {
        failed = (step < 3 ? PyDict_SetItem(dict, key, step % 2 ? Py_True : Py_False) : PyDict_DelItem(dict, key)) < 0;
        uint64_t version = dict_version(dict);
        versions_work &= version != last && version != 0;
        last = version;
    }
    Py_XDECREF(dict);
    Py_XDECREF(key);
    return failed ? -1 : 0;
}

static int global_holds(Guard *guard)
{
    uint64_t version = dict_version(guard->subject);
    if (LIKELY(version != 0 && version == guard->seen))
        return 1;
    PyObject *now = PyDict_GetItemWithError(guard->subject, guard->name);
    if (now == NULL && PyErr_Occurred())
        return -1;
    int holds = guard->expected == (now != NULL ? now : hooks.missing);
    guard->seen = holds ? version : 0;
    return holds;
}

static int guard_holds(Guard *guard)
{
    if (LIKELY(guard->kind == GUARD_GLOBAL))
        return global_holds(guard);
    if (guard->kind == GUARD_CELL) {
        /* Only compared, never followed: that another thread may replace it meanwhile does no harm. */
        PyObject *now = ((PyCellObject *)guard->subject)->ob_ref;
        return guard->expected == (now != NULL ? now : hooks.missing);
    }
    PyObject *answer = PyObject_CallNoArgs(guard->subject);
    int holds = answer == NULL ? -1 : PyObject_IsTrue(answer);
    Py_XDECREF(answer);
    return holds;
}

static int entry_match(Entry *e, Frame *f, PyObject *token)
{
    if (e->token != token || !arguments_fit(e, f))
        return 0;
    for (Py_ssize_t i = 0; i < e->nguards; i++) {
        int holds = guard_holds(&e->guards[i]);
        if (UNLIKELY(holds <= 0))
            return holds;
    }
    /* Python code has run: the arrays may have moved. */
    return !e->calls_guards || arguments_fit(e, f);
}

static int entry_is_static(const Entry *e, uint64_t *shape_hash)
{
    uint64_t hash = 0;
    for (Py_ssize_t i = 0; i < e->ntensors - e->nhidden; i++) {
        const TensorCheck *check = &e->tensors[i];
        hash = hash_step(hash, check->rank);
        for (int k = 0; k < check->rank; k++) {
            if (check->dims[k] < 0)
                return 0;
            hash = hash_step(hash, check->dims[k]);
        }
    }
    *shape_hash = hash;
    return 1;
}

/* Zero-filled arrays for the hidden outputs; -1 with an exception, then none is left behind. */
static int make_hidden(const Entry *e, Frame *f)
{
    PyObject **hidden = frame_hidden(e, f);
    const int64_t *symbols = frame_symbols(e, f);
    Py_ssize_t first = e->ntensors - e->nhidden;
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

static PyObject *returned(const Entry *e, Frame *f, PyObject *const *args)
{
    if (e->nreturns < 0)
        Py_RETURN_NONE;
    PyObject *tuple = e->nreturns == 1 ? NULL : PyTuple_New(e->nreturns);
    for (Py_ssize_t i = 0; i < e->nreturns; i++) {
        Py_ssize_t index = e->returns[i];
        PyObject *array = index >= 0 ? args[index] : frame_hidden(e, f)[-1 - index];
        Py_INCREF(array);
        if (e->nreturns == 1)
            return array;
        if (tuple == NULL) {
            Py_DECREF(array);
            return NULL;
        }
        PyTuple_SET_ITEM(tuple, i, array);
    }
    return tuple;
}

static PyObject *report(const Entry *e, int64_t site, const int64_t *v)
{
    PyObject *answer = PyObject_CallFunction(hooks.fault, "OL(LLLL)", e->keepalive, (long long)site, (long long)v[0],
                                             (long long)v[1], (long long)v[2], (long long)v[3]);
    if (answer != NULL) {
        Py_DECREF(answer);
        PyErr_SetString(PyExc_SystemError, "fault() did not raise");
    }
    return NULL;
}

static int64_t run_kernel(const Entry *e, pypto_call *call)
{
    FloatState state = float_enter();
    int64_t status = e->function(call);
    float_leave(state);
    arena_end_call(call->arena);
    return status;
}

static PyObject *drop_hidden(const Entry *e, Frame *f)
{
    for (Py_ssize_t i = 0; UNLIKELY(i < e->nhidden); i++)
        Py_DECREF(frame_hidden(e, f)[i]);
    return NULL;
}

static PyObject *entry_run(Entry *e, Frame *f, PyObject *const *args)
{
    if (UNLIKELY(e->nhidden > 0) && make_hidden(e, f) < 0)
        return NULL;
    pypto_call call = {frame_data(f), frame_symbols(e, f), frame_scalars(e, f), arena_of_thread(e->scratch), {0, 0, 0, 0}, NULL};
    int64_t status = 0;
    if (UNLIKELY(call.arena == NULL)) {
        call.fault[0] = e->scratch;
    } else if (e->heavy || f->bytes >= e->heavy_bytes) {
        if (UNLIKELY(!team_ready()))
            return drop_hidden(e, f);
        call.parallel = team_run;
        PyThreadState *thread = PyEval_SaveThread();
        status = run_kernel(e, &call);
        PyEval_RestoreThread(thread);
    } else {
        status = run_kernel(e, &call);
    }
    PyObject *result = LIKELY(status == 0 && call.arena != NULL) ? returned(e, f, args) : report(e, status - 1, call.fault);
    drop_hidden(e, f);
    return result;
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
    PyObject *result = NULL;
    int fits = values_resolve(&frame, &e->signature, values);
    if (fits > 0)
        fits = arguments_fit(e, &frame);
    if (fits > 0) {
        result = entry_run(e, &frame, values);
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
