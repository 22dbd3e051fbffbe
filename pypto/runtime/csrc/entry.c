/* Entry: do these arguments fit this kernel, and if so, the call.
 *
 * Invariant: what `entry_match` accepts is what pypto.runtime.validate accepts; the address of every argument is taken
 * after the last Python code that could have moved it.  The kernel runs with its arguments referenced by the caller.
 */
#include "entry.h"

#include "arena.h"
#include "float_state.h"

#include <string.h>

static int type_fits(const TensorCheck *check, const NumpyDescr *descr)
{
    if (is_swapped(descr))
        return 0;
    for (int i = 0; i < MAX_TYPES && check->types[i] >= 0; i++)
        if (descr->type_num == check->types[i])
            return 1;
    return 0;
}

/* The number of bytes of an array, some of whose extents are symbols; -1 where it does not fit. */
static NOINLINE int64_t symbols_fit(const TensorCheck *check, const NumpyArray *array, int64_t *symbols)
{
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

/* Matrices, as most arrays are, without a loop. */
static INLINE int extents_fit(const Py_ssize_t *extents, const int64_t *dims, int rank)
{
    if (LIKELY(rank == 2))
        return ((extents[0] ^ dims[0]) | (extents[1] ^ dims[1])) == 0;
    for (int i = 0; i < rank; i++)
        if (extents[i] != dims[i])
            return 0;
    return 1;
}

/* The number of bytes, or -1 where the array does not fit.  varies: some extents may be symbols. */
static INLINE int64_t tensor_fits(const TensorCheck *check, const NumpyArray *array, int64_t *symbols, int varies)
{
    if (UNLIKELY(array->nd != check->rank || (check->required & ~array->flags) != 0))
        return -1;
    if (UNLIKELY(array->descr != check->descr) && !type_fits(check, array->descr))
        return -1;
    if (varies && check->bytes < 0)
        return symbols_fit(check, array, symbols);
    return LIKELY(extents_fit(array->dimensions, check->dims, check->rank)) ? check->bytes : -1;
}

static NOINLINE int scalar_fits(const ScalarCheck *check, PyObject *value, int64_t *slot)
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

/* Whether two arrays that share addresses may: an empty one meets nothing. */
static NOINLINE int may_overlap(const Entry *e, Frame *f, const Pair *pair)
{
    void *const *data = frame_data(f);
    const uintptr_t *ends = frame_ends(e, f);
    if (ends[pair->a] == (uintptr_t)data[pair->a] || ends[pair->b] == (uintptr_t)data[pair->b])
        return 1;
    return pair->may_be_same && same_array(as_array(f->values[e->tensors[pair->a].parameter]),
                                           as_array(f->values[e->tensors[pair->b].parameter]));
}

static INLINE int memory_fits(const Entry *e, Frame *f)
{
    void *const *data = frame_data(f);
    const uintptr_t *ends = frame_ends(e, f);
    for (const Pair *pair = e->pairs, *last = pair + e->npairs; pair < last; pair++) {
        /* Dense arrays are intervals. */
        if (LIKELY((uintptr_t)data[pair->a] >= ends[pair->b] || (uintptr_t)data[pair->b] >= ends[pair->a]))
            continue;
        if (!may_overlap(e, f, pair))
            return 0;
    }
    return 1;
}

/* varies: as the entry's own, but known when this is compiled. */
static INLINE int all_fit(const Entry *e, Frame *f, int varies)
{
    /* Copies, because for all the compiler knows a store to `data` changes what they are copies of. */
    PyObject *const *values = f->values, *ndarray = hooks.ndarray;
    int64_t *symbols = frame_symbols(e, f), *scalars = frame_scalars(e, f), total = 0;
    void **data = frame_data(f);
    uintptr_t *ends = frame_ends(e, f);
    for (Py_ssize_t i = 0; varies && i < e->nsymbols; i++)
        symbols[i] = -1;
    const TensorCheck *check = e->tensors, *last = check + e->nvisible;
    for (Py_ssize_t i = 0; check < last; i++, check++) {
        PyObject *value = values[check->parameter];
        if (UNLIKELY((PyObject *)Py_TYPE(value) != ndarray))
            return 0;
        char *start = as_array(value)->data;
        int64_t bytes = tensor_fits(check, as_array(value), symbols, varies);
        if (UNLIKELY(bytes < 0))
            return 0;
        data[i] = start;
        ends[i] = (uintptr_t)start + (uintptr_t)bytes;
        total += bytes;
    }
    f->bytes = total;
    for (Py_ssize_t i = 0; varies && i < e->nscalars; i++)
        if (!scalar_fits(&e->scalars[i], values[e->scalars[i].parameter], &scalars[i]))
            return 0;
    return memory_fits(e, f);
}

static NOINLINE int varying_fit(const Entry *e, Frame *f) { return all_fit(e, f, 1); }
NOINLINE int arguments_fit(const Entry *e, Frame *f) { return e->varies ? varying_fit(e, f) : all_fit(e, f, 0); }

/* 1, 0 where the values do not fit, as those that are not direct never do, -1 with an exception. */
static INLINE int entry_match(Entry *e, Frame *f, PyObject *token)
{
    if (UNLIKELY(e->token != token) || !arguments_fit(e, f))
        return 0;
    for (Guard *guard = e->guards, *last = guard + e->nguards; guard < last; guard++) {
        int holds = guard_holds(guard);
        if (UNLIKELY(holds <= 0))
            return holds;
    }
    /* Python code has run: the arrays may have moved. */
    return LIKELY(!e->calls_guards) || arguments_fit(e, f);
}

static inline PyObject *returned_array(const Entry *e, Frame *f, PyObject *const *args, Py_ssize_t i)
{
    Py_ssize_t index = e->returns[i];
    return Py_NewRef(index >= 0 ? args[index] : frame_hidden(e, f)[-1 - index]);
}

static INLINE PyObject *returned(const Entry *e, Frame *f, PyObject *const *args)
{
    if (LIKELY(e->nreturns == 1))
        return returned_array(e, f, args, 0);
    if (e->nreturns < 0)
        Py_RETURN_NONE;
    PyObject *tuple = PyTuple_New(e->nreturns);
    for (Py_ssize_t i = 0; i < e->nreturns && tuple != NULL; i++)
        PyTuple_SET_ITEM(tuple, i, returned_array(e, f, args, i));
    return tuple;
}

static NOINLINE PyObject *report(const Entry *e, int64_t site, const int64_t *v)
{
    PyObject *answer = PyObject_CallFunction(hooks.fault, "OL(LLLL)", e->keepalive, (long long)site, (long long)v[0],
                                             (long long)v[1], (long long)v[2], (long long)v[3]);
    if (answer != NULL) {
        Py_DECREF(answer);
        PyErr_SetString(PyExc_SystemError, "fault() did not raise");
    }
    return NULL;
}

static INLINE int64_t run_kernel(const Entry *e, pypto_call *call)
{
    FloatState state = float_enter();
    int64_t status = e->function(call);
    float_leave(state);
    arena_end_call(call->arena);
    return status;
}

/* Without the interpreter's lock, and with other threads' help; 0 with an exception. */
static NOINLINE int run_heavy(const Entry *e, pypto_call *call, int64_t *status)
{
    if (UNLIKELY(!team_ready()))
        return 0;
    call->parallel = team_run;
    PyThreadState *thread = PyEval_SaveThread();
    *status = run_kernel(e, call);
    PyEval_RestoreThread(thread);
    return 1;
}

/* Calls the kernel on what a match left in the frame; `args` are the caller's own objects. */
static INLINE PyObject *entry_run(Entry *e, Frame *f, PyObject *const *args)
{
    if (UNLIKELY(e->nhidden > 0) && make_hidden(e, f) < 0)
        return NULL;
    pypto_call call = {frame_data(f), frame_symbols(e, f), frame_scalars(e, f), arena_of_thread(e->scratch), {0, 0, 0, 0}, NULL};
    int64_t status = 0;
    int ran = 1;
    if (UNLIKELY(call.arena == NULL))
        call.fault[0] = e->scratch;
    else if (UNLIKELY(f->bytes >= e->heavy_bytes))
        ran = run_heavy(e, &call, &status);
    else
        status = run_kernel(e, &call);
    PyObject *result = NULL;
    if (LIKELY(ran))
        result = LIKELY(status == 0 && call.arena != NULL) ? returned(e, f, args) : report(e, status - 1, call.fault);
    if (UNLIKELY(e->nhidden > 0))
        drop_hidden(e, f);
    return result;
}

PyObject *entry_run_chosen(Entry *e, Frame *f, PyObject *const *args) { return entry_run(e, f, args); }
