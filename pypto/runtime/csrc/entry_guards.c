/* Guards: does a global, a cell, or whatever a function answers, still hold what an entry was compiled for?
 *
 * In: one guard.  Out: 1, 0, or -1 with an exception.  A global costs one look at the version of its dict while nothing
 * in that dict changes.
 */
#include "entry.h"

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

int guards_setup(void)
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

static NOINLINE int global_is_same(Guard *guard)
{
    uint64_t version = dict_version(guard->subject);
    PyObject *now = PyDict_GetItemWithError(guard->subject, guard->name);
    if (now == NULL && PyErr_Occurred())
        return -1;
    int holds = guard->expected == (now != NULL ? now : hooks.missing);
    guard->seen = holds ? version : 0;
    return holds;
}

static NOINLINE int other_guard_holds(Guard *guard)
{
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

static INLINE int guard_holds(Guard *guard)
{
    if (UNLIKELY(guard->kind != GUARD_GLOBAL))
        return other_guard_holds(guard);
    uint64_t version = dict_version(guard->subject);
    return LIKELY(version != 0 && version == guard->seen) ? 1 : global_is_same(guard);
}
