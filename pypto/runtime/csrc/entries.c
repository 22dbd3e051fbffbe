/* The entries of a dispatcher: finding the one that fits; entries_add.c has the rest.
 *
 * A few entries are tried in turn, the one used last first.  Beyond that, entries of fixed shapes move to a hash
 * table over shapes, so that a function called with hundreds of shapes still finds its kernel at once.
 * Invariant: an entry is held while it is tried, and nothing read before Python code ran is used after it.
 */
#include "dispatcher.h"

#include <string.h>

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

static NOINLINE int find_direct_apart(Dispatcher *d, Frame *f, Entry **found) { return find_direct(d, f, found); }

static NOINLINE int find_foreign(Dispatcher *d, Frame *f, Entry **found)
{
    if (values_are_direct(f, &d->signature))
        return 0;
    PyObject *const *given = f->values;
    int fits = values_resolve(f, &d->signature, !d->calls_guards);
    if (fits > 0)
        fits = find_direct_apart(d, f, found);
    if (fits <= 0 || !f->has_views || f->bytes < (*found)->heavy_bytes)
        return fits;
    /* Other threads run meanwhile: unlike a view, an array holds the memory. */
    Py_CLEAR(*found);
    frame_disown(f);
    f->values = given;
    fits = values_resolve(f, &d->signature, 0);
    return fits > 0 ? find_direct_apart(d, f, found) : fits;
}

/* 1 and a new reference to the entry that the values in the frame fit, 0 where none does, -1 with an exception. */
static INLINE int find(Dispatcher *d, Frame *f, Entry **found)
{
    int fits = find_direct(d, f, found);
    return UNLIKELY(fits == 0) ? find_foreign(d, f, found) : fits;
}

static NOINLINE int find_apart(Dispatcher *d, Frame *f, Entry **found)
{
    int fits = find_direct_apart(d, f, found);
    return fits == 0 ? find_foreign(d, f, found) : fits;
}
