/* The entries of a dispatcher: adding and dropping; how they are kept and found is in entries.c. */
#include "dispatcher.h"

#include <string.h>

static int grow_table(Dispatcher *d)
{
    size_t size = d->table_size > 0 ? 2 * d->table_size : 4 * SCANNED;
    Node **table = PyMem_Calloc(size, sizeof *table);
    if (table == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (size_t i = 0; i < d->table_size; i++) {
        for (Node *node = d->table[i], *next; node != NULL; node = next) {
            next = node->next;
            node->next = table[node->hash & (size - 1)];
            table[node->hash & (size - 1)] = node;
        }
    }
    PyMem_Free(d->table);
    d->table = table;
    d->table_size = size;
    return 0;
}

/* Takes over the reference to `entry` where it succeeds. */
static int add_hashed(Dispatcher *d, Entry *entry, uint64_t hash)
{
    if ((size_t)d->nhashed >= d->table_size && grow_table(d) < 0)
        return -1;
    Node *node = PyMem_Malloc(sizeof *node);
    if (node == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    Node **head = &d->table[hash & (d->table_size - 1)];
    *node = (Node){*head, hash, entry};
    *head = node;
    d->nhashed++;
    return 0;
}

static int add_scanned(Dispatcher *d, Entry *entry)
{
    if (d->nscanned == d->scanned_capacity) {
        Py_ssize_t capacity = d->scanned_capacity > 0 ? 2 * d->scanned_capacity : 4;
        Entry **scanned = PyMem_Realloc(d->scanned, (size_t)capacity * sizeof *scanned);
        if (scanned == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        d->scanned = scanned;
        d->scanned_capacity = capacity;
    }
    memmove(d->scanned + 1, d->scanned, (size_t)d->nscanned * sizeof *d->scanned);
    d->scanned[0] = entry;
    d->nscanned++;
    return 0;
}

/* 1 and the hash of the shapes that an entry takes, or 0 where it takes more than one. */
static int entry_is_static(const Entry *e, uint64_t *shape_hash)
{
    uint64_t hash = 0;
    for (Py_ssize_t i = 0; i < e->nvisible; i++) {
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

/* Moves the entries of fixed shapes from the list to the table, those used last in front. */
static int spill(Dispatcher *d)
{
    uint64_t hash;
    for (Py_ssize_t i = d->nscanned; i-- > 0;) {
        if (!entry_is_static(d->scanned[i], &hash))
            continue;
        if (add_hashed(d, d->scanned[i], hash) < 0)
            return -1;
        d->nscanned--;
        memmove(d->scanned + i, d->scanned + i + 1, (size_t)(d->nscanned - i) * sizeof *d->scanned);
    }
    return 0;
}

static int adopt_signature(Dispatcher *d, const Entry *entry)
{
    const Signature *theirs = &entry->signature;
    if (theirs->count != d->signature.count ||
        (d->signature.is_tensor != NULL && memcmp(d->signature.is_tensor, theirs->is_tensor, (size_t)theirs->count) != 0)) {
        PyErr_SetString(PyExc_ValueError, "the entry has other parameters than the dispatcher");
        return -1;
    }
    if (d->signature.is_tensor == NULL) {
        char *is_tensor = PyMem_Malloc((size_t)theirs->count + 1);
        if (is_tensor == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        memcpy(is_tensor, theirs->is_tensor, (size_t)theirs->count);
        d->signature.is_tensor = is_tensor;
    }
    return 0;
}

/* -1 with an exception; the new entry is tried first. */
static int add_entry(Dispatcher *d, Entry *entry)
{
    uint64_t hash;
    if (adopt_signature(d, entry) < 0)
        return -1;
    if (d->nscanned >= SCANNED && d->nhashed == 0 && spill(d) < 0)
        return -1;
    int hashed = d->nhashed > 0 && entry_is_static(entry, &hash);
    if ((hashed ? add_hashed(d, entry, hash) : add_scanned(d, entry)) < 0)
        return -1;
    Py_INCREF(entry);
    d->calls_guards |= entry->calls_guards;
    if (d->room < entry->words)
        d->room = entry->words;
    d->version++;
    return 0;
}

static void drop_entries(Dispatcher *d)
{
    Entry **scanned = d->scanned;
    Node **table = d->table;
    Py_ssize_t nscanned = d->nscanned;
    size_t size = d->table_size;
    d->scanned = NULL;
    d->table = NULL;
    d->nscanned = d->scanned_capacity = d->nhashed = 0;
    d->table_size = 0;
    d->version++;
    /* Only now: dropping an entry can run Python code that looks at us. */
    for (Py_ssize_t i = 0; i < nscanned; i++)
        Py_DECREF(scanned[i]);
    for (size_t i = 0; i < size; i++) {
        for (Node *node = table[i], *next; node != NULL; node = next) {
            next = node->next;
            Py_DECREF(node->entry);
            PyMem_Free(node);
        }
    }
    PyMem_Free(scanned);
    PyMem_Free(table);
}
