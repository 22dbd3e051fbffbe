/* Dispatcher: binds arguments, finds the entry that they fit (entries.c), runs it; whatever fits none goes to `slow`. */
#include "dispatcher.h"

static inline PyObject *const *names_of(const Dispatcher *d) { return ((PyTupleObject *)d->names)->ob_item; }

static Py_ssize_t index_of(const Dispatcher *d, PyObject *keyword)
{
    PyObject *const *names = names_of(d);
    for (Py_ssize_t i = d->positional_only; i < d->signature.count; i++)
        if (names[i] == keyword)
            return i;
    /* Equal text need not be one object, and a dict of keywords may hold anything. */
    for (Py_ssize_t i = d->positional_only; i < d->signature.count && PyUnicode_Check(keyword); i++)
        if (PyUnicode_Compare(names[i], keyword) == 0)
            return i;
    return -1;
}

/* Arguments, keywords and defaults, placed in the frame; NULL where Python would have a complaint to make. */
static NOINLINE PyObject *const *bind(const Dispatcher *d, Frame *f, const Arguments *a)
{
    PyObject **bound = frame_bound(f);
    if (a->nargs > d->positional)
        return NULL;
    for (Py_ssize_t i = 0; i < d->signature.count; i++)
        bound[i] = i < a->nargs ? a->args[i] : NULL;
    for (Py_ssize_t k = 0; k < a->nkeywords; k++) {
        Py_ssize_t i = index_of(d, a->names[k]);
        if (i < 0 || bound[i] != NULL)
            return NULL;
        bound[i] = a->values[k];
    }
    for (Py_ssize_t i = 0; i < d->signature.count; i++) {
        if (bound[i] == NULL)
            bound[i] = PyTuple_GET_ITEM(d->defaults, i);
        if (bound[i] == hooks.missing)
            return NULL;
    }
    return bound;
}

/* Whether the values lie one behind the other in the order of the parameters, each once: then nothing need be placed. */
static inline int is_in_order(const Dispatcher *d, const Arguments *a)
{
    if (a->nargs + a->nkeywords != d->signature.count || a->nargs > d->positional)
        return 0;
    if (LIKELY(a->nkeywords == 0))
        return 1;
    if (a->values != a->args + a->nargs || a->nargs < d->positional_only)
        return 0;
    PyObject *const *names = names_of(d) + a->nargs;
    for (Py_ssize_t k = 0; k < a->nkeywords; k++)
        if (names[k] != a->names[k])
            return 0;
    return 1;
}

/* 1 with a result or an exception, 0 where the call is for the slow path.  apart: without code of its own for what others
 * have, which is slower. */
static INLINE int dispatch(Dispatcher *d, const Arguments *a, PyObject **result, int apart)
{
    *result = NULL;
    if (UNLIKELY(d->nscanned + d->nhashed == 0))
        return 0;
    Frame frame;
    if (frame_open(&frame, d->signature.count, d->room) < 0)
        return 1;
    PyObject *const *bound = a->args;
    int fits = 0;
    Entry *entry = NULL;
    if (UNLIKELY(!is_in_order(d, a)))
        bound = bind(d, &frame, a);
    frame.values = bound;
    if (LIKELY(bound != NULL))
        fits = apart ? find_apart(d, &frame, &entry) : find(d, &frame, &entry);
    if (LIKELY(fits > 0)) {
        *result = apart ? entry_run_chosen(entry, &frame, bound) : entry_run(entry, &frame, bound);
        Py_DECREF(entry);
    }
    frame_close(&frame);
    return fits != 0;
}

static INLINE PyObject *vectorcall(Dispatcher *d, PyObject *const *args, size_t nargsf, PyObject *keywords, int apart)
{
    Py_ssize_t nargs = PyVectorcall_NARGS(nargsf);
    PyObject *const *names = keywords != NULL ? ((PyTupleObject *)keywords)->ob_item : NULL;
    Arguments a = {args, names, args + nargs, nargs, keywords != NULL ? PyTuple_GET_SIZE(keywords) : 0};
    PyObject *result;
    return LIKELY(dispatch(d, &a, &result, apart)) ? result : vectorcall_slow(d, &a);
}

PyObject *dispatcher_vectorcall(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *keywords)
{
    return vectorcall((Dispatcher *)self, args, nargsf, keywords, 1);
}
