/* Operands of products in the form that inner loops read, kept while a launch lasts.
 *
 * In: memory that nobody writes while the launch lasts.  Threads share what is kept: whoever comes first makes it, and who
 * finds it in the making makes one of its own.  Where there is no room, everybody does: results never depend on it.
 */
#ifndef PYPTO_PACKS_H
#define PYPTO_PACKS_H

#include "pypto_kernel.h"
#include "pypto_matmul.h"

enum { PP_PACK_FREE, PP_PACK_BEGUN, PP_PACK_MADE };

/* A part of an operand: `lines` rows of a left one or columns of a right one, `depth` elements of each. */
typedef struct {
    const void *at;
    int64_t line, step, lines, depth; /* elements between lines, and between the elements of one */
    const void *form; /* which operand of which product: the same bytes may be elements of several types */
} pp_packed_part;

/* The part's packed form, once `state` says that it is made. */
typedef struct {
    pp_packed_part part;
    void *made;
    int64_t state;
} pp_pack;

struct pp_packs {
    pp_pack *list; /* a hash table of `count` places, a power of 2; NULL: nothing is kept */
    int64_t count;
    unsigned char *memory;
    int64_t size, used;
};

#define PP_PACKS_LEAST 0x1p14 /* elements from which on keeping pays */
#define PP_PACKS_MOST 0x1p23  /* elements that are kept at most: with their places, less than a block that the arena keeps */

/* `elements`: of all tensors that operands are taken from.  The arena takes the memory back. */
PP_INLINE pp_packs pp_packs_begin(pypto_call *call, double elements)
{
    pp_packs packs = {0};
    if (elements >= PP_PACKS_LEAST) {
        const int64_t held = (int64_t)(elements < PP_PACKS_MOST ? elements : PP_PACKS_MOST);
        int64_t count = 64;
        while (count < held / 1024)
            count *= 2;
        packs.size = 6 * held + (1 << 16); /* words of four bytes, and half as much for lines that are added and for heads */
        packs.list = (pp_pack *)call->arena->alloc(call->arena, count * (int64_t)sizeof(pp_pack) + packs.size);
        if (packs.list) {
            packs.count = count;
            packs.memory = (unsigned char *)(packs.list + count);
            __builtin_memset(packs.list, 0, (uint64_t)count * sizeof(pp_pack));
        }
    }
    return packs;
}

#endif
