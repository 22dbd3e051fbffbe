/* The border between a compiled kernel and whoever calls it.
 *
 * In: one call record.  Out: 0, or 1 + the index of the launch plan's site that failed.  Invariant: a kernel knows
 * nothing of Python and keeps nothing of the record after it returns.  Fields are only ever appended, so that a kernel
 * built against an older copy of this file stays callable.
 */
#ifndef PYPTO_ABI_H
#define PYPTO_ABI_H

#include <stdint.h>

typedef struct pypto_arena pypto_arena;

/* One thread's scratch memory. */
struct pypto_arena {
    unsigned char *base; /* 64-byte aligned; at least the plan's scratch_bytes; contents undefined at entry */
    int64_t size;        /* bytes at base */
    /* Memory whose size only the run knows: 64-byte aligned, contents undefined, valid until released or until the
     * call returns.  NULL where there is none, and for a negative size; never NULL for 0. */
    void *(*alloc)(pypto_arena *arena, int64_t bytes);
    int64_t (*mark)(pypto_arena *arena);                /* the present state of alloc */
    void (*release)(pypto_arena *arena, int64_t mark);  /* gives back all that was allocated since that mark */
};

typedef struct pypto_call pypto_call;

/* One share of a job: 0, or 1 + the index of the site that failed. */
typedef int64_t (*pypto_share)(pypto_call *call, void *context, int64_t share, int64_t shares);

struct pypto_call {
    void *const *data;      /* a pointer per tensor parameter, in parameter order (hidden outputs last) */
    const int64_t *dims;    /* a value per symbol of the plan */
    const int64_t *scalars; /* 8 bytes per scalar parameter, static ones too: integers as int64 (unsigned ones as
                             * their bits), BOOL as 0 or 1, floats as the bits of a double, not yet rounded to the
                             * parameter's type */
    pypto_arena *arena;     /* never NULL */
    int64_t fault[4];       /* zero at entry; the values that explain a non-zero result */
    /* Calls `share` for every share, of which there are at most `most`, on as many threads as there are, each with a call
     * record and an arena of its own; the result is that of the first share that failed.  NULL: not worth it, or no threads. */
    int64_t (*parallel)(pypto_call *call, int64_t most, pypto_share share, void *context);
};

/* The layout that callers write, whatever flags this is compiled with. */
_Static_assert(sizeof(void *) == 8 && sizeof(pypto_arena) == 40 && sizeof(pypto_call) == 72, "flags that change the ABI");

__attribute__((visibility("default"))) int64_t pypto_entry(pypto_call *call);

#endif
