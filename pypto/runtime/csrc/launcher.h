/* What the parts of the launcher share: hooks into Python, the arena, the dispatcher's face.
 *
 * The launcher calls kernels from Python at the price of an ordinary C extension call.  It reads numpy's structures
 * itself (numpy_layout.h), decides whether the arguments are what a kernel was built for (entry.c), finds the kernel
 * (dispatcher.c) and jumps.  Whatever does not fit goes to Python, which finds the words.
 * Three translation units, which are compiled at the same time: calls.c is what every call runs, so that the compiler
 * sees a whole call; made.c what some run; launcher.c is not worth much of the compiler's time.
 */
#ifndef PYPTO_LAUNCHER_H
#define PYPTO_LAUNCHER_H

/* Without the assertions in Python's own inline functions. */
#ifndef NDEBUG
#define NDEBUG
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "pypto_abi.h"

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
/* What a call seldom needs stays out of the way of what every call does, and what every call does is one function. */
#define NOINLINE __attribute__((noinline))
#define INLINE inline __attribute__((always_inline))

/* Of one unit, known to the others, and to nobody else. */
#define SHARED __attribute__((visibility("hidden")))

/* Before 3.13 there is no build without the global lock, and nothing to enter. */
#ifndef Py_BEGIN_CRITICAL_SECTION
#define Py_BEGIN_CRITICAL_SECTION(object) {
#define Py_END_CRITICAL_SECTION() }
#endif

/* Set by configure(); NULL until then. */
typedef struct {
    PyObject *ndarray;     /* numpy.ndarray */
    PyObject *adapt;       /* adapt(object) -> ndarray over the same memory, or None */
    PyObject *direct;      /* a class whose instances' numpy() is what adapt gives, wherever it succeeds; None: no such class */
    PyObject *numpy;       /* "numpy" */
    PyObject *exchange;    /* of the same class: (its table of C functions by DLPack, ((code, bits, dtype), ...)), or None */
    PyObject *plain;       /* plain(object) -> bool, int or float, or None */
    PyObject *prepare;     /* prepare(plan) -> the tuple that entry.c reads */
    PyObject *zeros;       /* numpy.zeros */
    PyObject *reject;      /* reject(plan, args): raises what is wrong with them */
    PyObject *fault;       /* fault(keepalive, site, values): raises what the kernel reported */
    PyObject *threads;     /* threads() -> how many a heavy call may use, its own included; asked before the first */
    PyObject *missing;     /* stands for a default, global or cell that is not there */
    PyObject *context_var; /* whose value an entry's token must be; None: no entry asks */
} Hooks;

extern SHARED Hooks hooks;

/* Once per process, before anything else; 0 where there is no memory. */
SHARED int arena_setup(void);
SHARED int team_setup(void);
SHARED int exchange_setup(void);
/* Finds out whether dicts carry versions that change with their content; -1 with an exception. */
SHARED int guards_setup(void);

/* From hooks.exchange; -1 with an exception. */
SHARED int exchange_configure(PyObject *given);
/* The number of threads is asked for again. */
SHARED void team_configure(void);

/* Whether the number of threads is known; with the interpreter's lock held. */
SHARED int team_ready(void);
/* What a heavy call's kernel shares its work by. */
SHARED int64_t team_run(pypto_call *call, int64_t most, pypto_share share, void *context);

#endif
