/* The entries of a dispatcher: finding the one that fits, adding, dropping.
 *
 * A few entries are tried in turn, the one used last first.  Beyond SCANNED, entries of fixed shapes move to a hash
 * table over shapes, so that a function called with hundreds of shapes still finds its kernel at once.
 * Invariant: an entry is held while it is tried, and nothing read before Python code ran is used after it.
 */
#include "dispatcher.h"

#include <string.h>

enum { SCANNED = 8 };

static uint64_t hash_of_shapes(const Dispatcher *d, const Frame *f)
{
    uint64_t hash = 0;
    for (Py_ssize_t i = 0; i < d->signature.count; i++) {
        if (!d->signature.is_tensor[i])
            continue;
        const NumpyArray *array = as_array(f->values[i]);
        hash = hash_step(hash, array->nd);
        for (int k = 0; k < array->nd; k++)
            hash = hash_step(hash, array->dimensions[k]);
    }
    return hash;
}

/* 1 with a new reference in `found`, 0, or -1.  A guard may have changed anything at all meanwhile: see `version`. */
static INLINE int try_entry(Entry *e, Frame *f, PyObject *token, Entry **found)
{
    if (e->words > f->room)
        return 0;
    Py_INCREF(e);
    int fits = entry_match(e, f, token);
    if (fits > 0)
        *found = e;
    else
        Py_DECREF(e);
    return fits;
}

static NOINLINE void to_front(Dispatcher *d, Py_ssize_t i)
{
    Entry *entry = d->scanned[i];
    memmove(d->scanned + 1, d->scanned, (size_t)i * sizeof *d->scanned);
    d->scanned[0] = entry;
    d->version++;
}

static INLINE int find_scanned(Dispatcher *d, Frame *f, PyObject *token, Entry **found)
{
    for (Py_ssize_t i = 0; i < d->nscanned; i++) {
        uint64_t version = d->version;
        int fits = try_entry(d->scanned[i], f, token, found);
        if (fits < 0 || d->version != version)
            return fits;
        if (LIKELY(fits > 0)) {
            if (UNLIKELY(i > 0))
                to_front(d, i);
            return 1;
        }
    }
    return 0;
}

static NOINLINE int find_hashed(Dispatcher *d, Frame *f, PyObject *token, Entry **found)
{
    uint64_t hash = hash_of_shapes(d, f);
    Node **head = &d->table[hash & (d->table_size - 1)];
    for (Node **link = head; *link != NULL; link = &(*link)->next) {
        Node *node = *link;
        if (node->hash != hash)
            continue;
        uint64_t version = d->version;
        int fits = try_entry(node->entry, f, token, found);
        if (fits < 0 || d->version != version)
            return fits;
        if (fits > 0) {
            if (UNLIKELY(node != *head)) {
                *link = node->next;
                node->next = *head;
                *head = node;
                d->version++;
            }
            return 1;
        }
    }
    return 0;
}

static INLINE int find_direct(Dispatcher *d, Frame *f, Entry **found)
{
    PyObject *token = Py_None;
    if (hooks.context_var == Py_None)
        Py_INCREF(token);
    else if (UNLIKELY(PyContextVar_Get(hooks.context_var, Py_None, &token) < 0))
        return -1;
    int fits = 0;
    Py_BEGIN_CRITICAL_SECTION(d);
    if (UNLIKELY(d->nhashed > 0) && values_are_direct(f, &d->signature))
        fits = find_hashed(d, f, token, found);
    if (LIKELY(fits == 0))
        fits = find_scanned(d, f, token, found);
    Py_END_CRITICAL_SECTION();
    Py_DECREF(token);
    return fits;
}

static NOINLINE int find_foreign(Dispatcher *d, Frame *f, Entry **found)
{
    if (values_are_direct(f, &d->signature))
        return 0;
    PyObject *const *given = f->values;
    int fits = values_resolve(f, &d->signature, !d->calls_guards);
    if (fits > 0)
        fits = find_direct(d, f, found);
    if (fits <= 0 || !f->has_views || f->bytes < (*found)->heavy_bytes)
        return fits;
    /* Other threads run meanwhile: unlike a view, an array holds the memory. */
    Py_CLEAR(*found);
    frame_disown(f);
    f->values = given;
    fits = values_resolve(f, &d->signature, 0);
    return fits > 0 ? find_direct(d, f, found) : fits;
}

static INLINE int find(Dispatcher *d, Frame *f, Entry **found)
{
    int fits = find_direct(d, f, found);
    return UNLIKELY(fits == 0) ? find_foreign(d, f, found) : fits;
}

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
