/* One Python function's kernels, called through one object. */
#ifndef PYPTO_DISPATCHER_H
#define PYPTO_DISPATCHER_H

#include "entry.h"

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

/* 1 and a new reference to the entry that the values in the frame fit, 0 where none does, -1 with an exception. */
static INLINE int find(Dispatcher *d, Frame *frame, Entry **found);
/* -1 with an exception; the new entry is tried first. */
static int add_entry(Dispatcher *d, Entry *entry);
static void drop_entries(Dispatcher *d);

#endif
