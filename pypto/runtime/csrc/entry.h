/* One kernel as the launcher sees it: the checks its plan prescribes, laid out for one pass over the arguments. */
#ifndef PYPTO_ENTRY_H
#define PYPTO_ENTRY_H

#include "launcher.h"
#include "numpy_layout.h"

enum { MAX_TYPES = 4 };

typedef struct {
    Py_ssize_t parameter;     /* index among the visible parameters, -1: hidden, made by the launcher */
    const NumpyDescr *descr;  /* the usual dtype object (borrowed from `prepared`); most arrays share it */
    int types[MAX_TYPES];     /* type numbers accepted, -1 ends them */
    int rank, required;       /* required: array flags */
    int64_t item_size;
    int64_t bytes;            /* of an array all of whose extents are static, else -1 */
    const int64_t *dims;      /* >= 0 static, -1-k symbol k */
} TensorCheck;

typedef struct {
    Py_ssize_t parameter;
    int is_float, is_static;
    int64_t low;              /* range of an integer */
    uint64_t high;
    int64_t expected;         /* the slot of a static parameter */
} ScalarCheck;

typedef struct {
    Py_ssize_t a, b;          /* indices of tensors */
    int may_be_same;
} Pair;

typedef struct {
    enum { GUARD_GLOBAL, GUARD_CELL, GUARD_CALL } kind;
    PyObject *subject, *name, *expected; /* borrowed from the entry's tuple of guards */
    uint64_t seen;                       /* the version of the dict at which a global guard held last, 0: none */
} Guard;

/* What all entries of one dispatcher have in common, so that arguments are looked at once for all. */
typedef struct {
    Py_ssize_t count; /* visible parameters */
    char *is_tensor;  /* per visible parameter */
} Signature;

typedef struct {
    PyObject_HEAD
    int64_t (*function)(pypto_call *);
    Signature signature;
    TensorCheck *tensors;     /* visible ones first */
    ScalarCheck *scalars;
    Pair *pairs;
    Guard *guards;
    int64_t *dims;            /* storage of TensorCheck.dims */
    Py_ssize_t *returns;      /* >= 0 a visible parameter, -1-k hidden tensor k */
    Py_ssize_t ntensors, nvisible, nhidden, nscalars, npairs, nguards, nsymbols, nreturns; /* nreturns -1: None */
    Py_ssize_t words;         /* of Frame.rest that a call takes */
    int64_t scratch;
    int64_t heavy_bytes;      /* of array arguments, from which on a call is a heavy one */
    int varies, calls_guards; /* varies: takes scalars, or arrays of more than one size */
    PyObject *plan, *keepalive, *guard_tuple, *token, *prepared;
} Entry;

/* The memory of one call.  Everything lives in `words`, unless a kernel has very many parameters:
 *   bound     what the caller passed, in order (borrowed; used only where keywords or defaults had to be placed)
 *   resolved  `values`, where some of them had to be made (borrowed)
 *   owned     what had to be made (strong)
 *   rest      at the disposal of one entry: data, ends, symbols, scalars, hidden arrays */
enum { FRAME_WORDS = 192 };

typedef struct {
    PyObject *const *values; /* per visible parameter what the checks look at (borrowed) */
    int64_t *memory, *rest;
    Py_ssize_t parameters, nowned, room; /* room: words at rest */
    int64_t bytes;           /* of all array arguments of the entry looked at last */
    int has_views;           /* whether values are, said by values_resolve */
    int64_t words[FRAME_WORDS];
} Frame;

static inline PyObject **frame_bound(const Frame *f) { return (PyObject **)f->memory; }
static inline PyObject **frame_resolved(const Frame *f) { return (PyObject **)f->memory + f->parameters; }
static inline PyObject **frame_owned(const Frame *f) { return (PyObject **)f->memory + 2 * f->parameters; }

/* 0, or -1 with MemoryError. */
static inline int frame_open(Frame *frame, Py_ssize_t parameters, Py_ssize_t room)
{
    frame->memory = frame->words;
    if (UNLIKELY(3 * parameters + room > FRAME_WORDS)) {
        frame->memory = PyMem_Malloc((size_t)(3 * parameters + room) * sizeof *frame->memory);
        if (frame->memory == NULL) {
            PyErr_NoMemory();
            return -1;
        }
    }
    frame->rest = frame->memory + 3 * parameters;
    frame->parameters = parameters;
    frame->room = room;
    frame->nowned = 0;
    return 0;
}

static inline void frame_disown(Frame *frame)
{
    while (UNLIKELY(frame->nowned > 0))
        Py_DECREF(frame_owned(frame)[--frame->nowned]);
}

static inline void frame_close(Frame *frame)
{
    frame_disown(frame);
    if (UNLIKELY(frame->memory != frame->words))
        PyMem_Free(frame->memory);
}

/* Of the shapes of all array arguments: one round per rank and extent. */
static inline uint64_t hash_step(uint64_t hash, int64_t value)
{
    hash = (hash ^ (uint64_t)value) * 0x9E3779B97F4A7C15u;
    return hash ^ (hash >> 29);
}

/* Frame.rest of an entry: data, ends, symbols, scalars, hidden arrays. */
static inline void **frame_data(Frame *f) { return (void **)f->rest; }
static inline uintptr_t *frame_ends(const Entry *e, Frame *f) { return (uintptr_t *)(f->rest + e->ntensors); }
static inline int64_t *frame_symbols(const Entry *e, Frame *f) { return f->rest + 2 * e->ntensors; }
static inline int64_t *frame_scalars(const Entry *e, Frame *f) { return frame_symbols(e, f) + e->nsymbols; }
static inline PyObject **frame_hidden(const Entry *e, Frame *f) { return (PyObject **)(frame_scalars(e, f) + e->nscalars); }

/* Whether a frame's values are such as an entry looks at: exact ndarrays and Python's numbers. */
SHARED int values_are_direct(const Frame *f, const Signature *signature);
/* Makes values that are not into such; 1, 0 where that cannot be done, -1 with an exception.  views: arrays may be heads of
 * some only, which are good until Python code runs, in whichever thread. */
SHARED int values_resolve(Frame *f, const Signature *signature, int views);

/* Zero-filled arrays for the hidden outputs; -1 with an exception, then none is left behind. */
SHARED int make_hidden(const Entry *entry, Frame *frame);
SHARED void drop_hidden(const Entry *entry, Frame *frame);

/* As a call finds and runs it, for those who have chosen the entry already. */
SHARED int arguments_fit(const Entry *entry, Frame *frame);
SHARED PyObject *entry_run_chosen(Entry *entry, Frame *frame, PyObject *const *args);

extern SHARED PyTypeObject *Entry_Type;

#endif
