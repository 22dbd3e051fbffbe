/* One thread's scratch memory: a base block of the planned size, and chained blocks for sizes only a run knows.
 *
 * Invariant: the base never shrinks, so that a warm call allocates nothing; it lives until its thread ends.  Chained
 * blocks end with the call, but for one of moderate size that is kept for the next.  A kernel never re-enters, hence
 * one arena per thread is enough; a forked child owns the arena of the thread that forked.
 */
#include "arena.h"

#include <pthread.h>
#include <stdlib.h>

enum { ALIGNMENT = 64, FIRST_BLOCK = 1 << 16, KEEP_BLOCK = 1 << 26 };

struct Block {
    Block *below;
    int64_t start;    /* bytes allocated in the blocks below */
    int64_t used, capacity;
    /* 64-byte aligned memory follows, ALIGNMENT bytes after the head */
};

_Thread_local Arena *arena_own;
static pthread_key_t at_thread_end;

static void *aligned(int64_t bytes)
{
    void *memory;
    return posix_memalign(&memory, ALIGNMENT, (size_t)bytes) == 0 ? memory : NULL;
}

static int push_block(Arena *arena, int64_t bytes)
{
    Block *below = arena->top, *block = arena->spare;
    if (block != NULL && block->capacity >= bytes) {
        arena->spare = NULL;
    } else {
        /* Each block at least doubles the last, so that many small requests make few blocks. */
        int64_t capacity = below != NULL ? 2 * below->capacity : FIRST_BLOCK;
        if (capacity < bytes)
            capacity = bytes;
        block = aligned(ALIGNMENT + capacity);
        if (block == NULL && capacity > bytes)
            block = aligned(ALIGNMENT + (capacity = bytes));
        if (block == NULL)
            return 0;
        block->capacity = capacity;
    }
    block->below = below;
    block->start = below != NULL ? below->start + below->used : 0;
    block->used = 0;
    arena->top = block;
    return 1;
}

static void *arena_alloc(pypto_arena *api, int64_t bytes)
{
    Arena *arena = (Arena *)api;
    if (bytes < 0 || bytes > PY_SSIZE_T_MAX / 4)
        return NULL;
    /* At least one unit each: distinct requests give distinct addresses. */
    bytes = bytes == 0 ? ALIGNMENT : (bytes + ALIGNMENT - 1) & ~(int64_t)(ALIGNMENT - 1);
    Block *top = arena->top;
    if (top == NULL || top->capacity - top->used < bytes) {
        if (!push_block(arena, bytes))
            return NULL;
        top = arena->top;
    }
    void *memory = (unsigned char *)top + ALIGNMENT + top->used;
    top->used += bytes;
    return memory;
}

static int64_t arena_mark(pypto_arena *api)
{
    Block *top = ((Arena *)api)->top;
    return top == NULL ? 0 : top->start + top->used;
}

void arena_release(pypto_arena *api, int64_t mark)
{
    Arena *arena = (Arena *)api;
    while (arena->top != NULL && arena->top->start >= mark) {
        Block *block = arena->top;
        arena->top = block->below;
        if (block->capacity <= KEEP_BLOCK && (arena->spare == NULL || arena->spare->capacity < block->capacity)) {
            free(arena->spare);
            arena->spare = block;
        } else {
            free(block);
        }
    }
    if (arena->top != NULL && arena->top->start + arena->top->used > mark)
        arena->top->used = mark - arena->top->start;
}

static void arena_free(void *memory)
{
    Arena *arena = memory;
    arena_release(&arena->api, 0);
    free(arena->spare);
    free(arena->api.base);
    free(arena);
    arena_own = NULL;
}

int arena_setup(void) { return pthread_key_create(&at_thread_end, arena_free) == 0; }

static Arena *arena_new(void)
{
    Arena *arena = calloc(1, sizeof *arena);
    if (arena == NULL)
        return NULL;
    arena->api.alloc = arena_alloc;
    arena->api.mark = arena_mark;
    arena->api.release = arena_release;
    if (pthread_setspecific(at_thread_end, arena) != 0) {
        free(arena);
        return NULL;
    }
    return arena_own = arena;
}

static int arena_grow(Arena *arena, int64_t scratch)
{
    /* The old contents mean nothing to the next kernel; freeing first keeps the peak low. */
    free(arena->api.base);
    arena->api.size = 0;
    arena->api.base = scratch > PY_SSIZE_T_MAX / 2 ? NULL : aligned(scratch);
    if (arena->api.base == NULL)
        return 0;
    arena->api.size = scratch;
    return 1;
}

pypto_arena *arena_make(int64_t scratch)
{
    Arena *arena = arena_own;
    if (arena == NULL && (arena = arena_new()) == NULL)
        return NULL;
    return arena->api.size >= scratch || arena_grow(arena, scratch) ? &arena->api : NULL;
}
