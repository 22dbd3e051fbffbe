/* The part of a thread's scratch memory that every call looks at. */
#ifndef PYPTO_ARENA_H
#define PYPTO_ARENA_H

#include "launcher.h"

typedef struct Block Block;
typedef struct {
    pypto_arena api; /* first: a kernel's pointer is ours */
    Block *top, *spare;
} Arena;

extern SHARED _Thread_local Arena *arena_own;
SHARED pypto_arena *arena_make(int64_t scratch);
SHARED void arena_release(pypto_arena *arena, int64_t mark);

/* This thread's arena with at least `scratch` bytes at its base; NULL where they cannot be had. */
static inline pypto_arena *arena_of_thread(int64_t scratch)
{
    Arena *arena = arena_own;
    return LIKELY(arena != NULL && arena->api.size >= scratch) ? &arena->api : arena_make(scratch);
}

/* Gives back what the call allocated. */
static inline void arena_end_call(pypto_arena *arena)
{
    if (UNLIKELY(((Arena *)arena)->top != NULL))
        arena_release(arena, 0);
}

#endif
