/* What the parts of the launcher share: hooks into Python, the arena, the dispatcher's face.
 *
 * The launcher calls kernels from Python at the price of an ordinary C extension call.  It reads numpy's structures
 * itself (numpy_layout.h), decides whether the arguments are what a kernel was built for (entry.c), finds the kernel
 * (dispatcher.c) and jumps.  Whatever does not fit goes to Python, which finds the words.
 * All of it is one translation unit, launcher.c: the compiler sees a whole call, and reads Python.h once.
 */
#ifndef PYPTO_LAUNCHER_H
#define PYPTO_LAUNCHER_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "pypto_abi.h"

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
/* What a call seldom needs stays out of the way of what every call does, and what every call does is one function. */
#define NOINLINE __attribute__((noinline))
#define INLINE inline __attribute__((always_inline))

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

static Hooks hooks;

/* This thread's arena with at least `scratch` bytes at its base; NULL where they cannot be had. */
static pypto_arena *arena_of_thread(int64_t scratch);
/* Gives back what the call allocated. */
static void arena_end_call(pypto_arena *arena);
static int arena_setup(void);

static PyTypeObject *Dispatcher_Type;
static PyObject *dispatcher_type_new(PyObject *module);
/* A call the way tp_call has it; `kwargs` may be NULL. */
static PyObject *dispatcher_tp_call(PyObject *self, PyObject *args, PyObject *kwargs);

#endif
