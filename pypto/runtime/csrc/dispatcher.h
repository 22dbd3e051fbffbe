/* One Python function's kernels, called through one object. */
#ifndef PYPTO_DISPATCHER_H
#define PYPTO_DISPATCHER_H

#include "entry.h"

enum { SCANNED = 8 }; /* entries that are tried in turn */

typedef struct Node Node;
struct Node {
    Node *next;
    uint64_t hash;
    Entry *entry;
};

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *slow, *names, *defaults;
    Py_ssize_t positional_only, positional; /* parameters that take no keyword; that take a position */
    Signature signature;                    /* is_tensor: NULL until the first entry */
    Entry **scanned;
    Node **table;                           /* NULL or table_size, a power of 2, chains */
    Py_ssize_t nscanned, scanned_capacity, nhashed;
    size_t table_size;
    Py_ssize_t room;                        /* words that any entry needs of a frame */
    int calls_guards;                       /* whether an entry has guards that are Python code */
    uint64_t version;                       /* changes with the order or the set of entries */
} Dispatcher;

/* What a caller passed, whichever way it came. */
typedef struct {
    PyObject *const *args, *const *names, *const *values; /* values: of the keywords called names */
    Py_ssize_t nargs, nkeywords;
} Arguments;

/* Of what fits no entry. */
SHARED PyObject *vectorcall_slow(Dispatcher *d, const Arguments *arguments);

extern SHARED PyTypeObject *Dispatcher_Type;
SHARED PyObject *dispatcher_vectorcall(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *keywords);

#endif
