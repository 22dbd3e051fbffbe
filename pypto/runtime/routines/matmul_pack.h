/* Operands as panels: lines side by side, word by word, as the inner loops read them.
 *
 * A line is a row of `a` or a column of `b`; a word is one element, converted, or as many as one instruction multiplies.
 * Invariant: a panel depends on the elements alone; one that is kept is the same as one made anew.
 */
#ifndef PYPTO_MATMUL_PACK_H
#define PYPTO_MATMUL_PACK_H

#include <stddef.h>

#include "matmul_tile.h"
#include "pypto_packs.h"
#include "pypto_turn.h"

#define PP_MM_DEPTH 256                 /* of a block, in words: a panel fills a first-level cache */
#define PP_MM_BLOCK (10 * PP_MM_ROWS)   /* rows of a block, at most */
#define PP_MM_HEAD 144                  /* words in front of a block or panel, for what is known of it: one for each row at least */
#define PP_MM_TURN PP_TURNED_32         /* lines that are turned at once */
#define PP_MM_SETS 2                    /* of so many lines, in a panel, at most */

_Static_assert(PP_MM_BLOCK <= PP_MM_HEAD && PP_MM_ROWS <= PP_MM_SETS * PP_MM_TURN && PP_MM_COLS <= PP_MM_SETS * PP_MM_TURN, "sizes");

enum { PP_MM_LEFT, PP_MM_RIGHT };

/* Where the rows of a part of `a` lie, and how far apart; panels have strides of their own. */
typedef struct {
    const void *at;
    int64_t line, step;
} pp_mm_place;

PP_INLINE int64_t pp_mm_least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Asks for a line that is read soon; lines far apart are not foreseen by the machine. Any address will do. */
PP_INLINE void pp_mm_ahead(const void *line, int64_t bytes)
{
    for (int64_t n = 0; n < bytes; n += 64)
        __builtin_prefetch((const char *)line + n);
}

/* How many rows the next tile takes of those left: few sizes, so that the code stays small, and no tile of one row if that can be. */
PP_INLINE int64_t pp_mm_next(int64_t left)
{
    if (left >= PP_MM_ROWS && left != PP_MM_ROWS + 2)
        return PP_MM_ROWS;
    return left >= 8 && PP_MM_ROWS > 8 ? 8 : left >= 4 ? 4 : left >= 2 ? 2 : 1;
}

/* -- what is kept ------------------------------------------------------------------------------------------------ */

PP_INLINE int64_t pp_mm_is_part(const pp_packed_part *a, const pp_packed_part *b)
{
    return a->at == b->at && a->line == b->line && a->step == b->step && a->lines == b->lines && a->depth == b->depth && a->form == b->form;
}

/* Where a part of an operand is kept; NULL: nowhere.  `make`: its place, if it is still to be made. */
static __attribute__((noinline)) void *pp_mm_kept(pp_packs *packs, const pp_packed_part *part, int64_t bytes, pp_pack **make)
{
    uint64_t at = (uint64_t)(uintptr_t)part->at * 0x9e3779b97f4a7c15u;
    at ^= at >> 32;
    for (int tries = 0; tries < 8; ++tries, ++at) {
        pp_pack *const p = packs->list + (at & (uint64_t)(packs->count - 1));
        int64_t state = __atomic_load_n(&p->state, __ATOMIC_ACQUIRE);
        if (state == PP_PACK_MADE && pp_mm_is_part(&p->part, part))
            return p->made;
        if (state != PP_PACK_FREE)
            continue;
        const int64_t size = (bytes + 63) / 64 * 64;
        if (__atomic_load_n(&packs->used, __ATOMIC_RELAXED) + size > packs->size)
            return NULL;
        if (!__atomic_compare_exchange_n(&p->state, &state, PP_PACK_BEGUN, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            return NULL;
        const int64_t used = __atomic_fetch_add(&packs->used, size, __ATOMIC_RELAXED);
        if (used + size > packs->size)
            return NULL;
        p->part = *part;
        p->made = packs->memory + used;
        *make = p;
        return p->made;
    }
    return NULL;
}

PP_INLINE void pp_mm_made(pp_pack *made)
{
    if (made)
        __atomic_store_n(&made->state, PP_PACK_MADE, __ATOMIC_RELEASE);
}

/* -- lines side by side ------------------------------------------------------------------------------------------ */

/* A block of so many lines, the last one again for those that are missing, turned. */
PP_INLINE void pp_mm_lines(pp_turned_32 *v, const int32_t *from, int64_t pitch, int64_t lines)
{
    PP_UNROLL_BLOCK
    for (int i = 0; i < PP_MM_TURN; ++i)
        v[i] = *(const pp_unaligned_32 *)(from + pp_mm_least(i, lines - 1) * pitch);
    pp_turn_block_32(v);
}

/* Lines of words, `pitch` apart, next to each other: to[k * width + l] = from[l * pitch + k].  What a store writes beyond the width
 * the next one writes again; behind the last one there is room. */
static __attribute__((noinline)) void pp_mm_turn(void *out, int64_t width, const void *in, int64_t pitch, int64_t lines, int64_t depth)
{
    typedef int32_t __attribute__((may_alias)) word;
    word *const to = (word *)out;
    const word *const from = (const word *)in;
    int64_t k = 0;
    for (; k + PP_MM_TURN <= depth; k += PP_MM_TURN) {
        pp_turned_32 first[PP_MM_TURN], second[PP_MM_TURN];
        pp_mm_lines(first, from + k, pitch, lines);
        if (lines <= PP_MM_TURN) {
            PP_UNROLL_BLOCK
            for (int i = 0; i < PP_MM_TURN; ++i)
                *(pp_unaligned_32 *)(to + (k + i) * width) = first[i];
            continue;
        }
        pp_mm_lines(second, from + PP_MM_TURN * pitch + k, pitch, lines - PP_MM_TURN);
        PP_UNROLL_BLOCK
        for (int i = 0; i < PP_MM_TURN; ++i) {
            *(pp_unaligned_32 *)(to + (k + i) * width) = first[i];
            *(pp_unaligned_32 *)(to + (k + i) * width + PP_MM_TURN) = second[i];
        }
    }
    for (; k < depth; ++k)
        for (int64_t l = 0; l < lines; ++l)
            to[k * width + l] = from[l * pitch + k];
}

/* Panels of one kind of operand.  `name##_lines`: a panel of `width` lines, of which there are `lines`.  `word_of(x, step)`: the word
 * of `per` elements, `step` apart; `part_of(x, step, n)`: that of only n.  `head(...)`: what is known of a panel, in front of it.
 * The inner loop runs along the operand's unit stride. */
#define PP_MM_PACK(name, element, word, per, word_of, part_of, head) \
    PP_INLINE void name##_lines(word *to, int64_t width, const element *from, int64_t line, int64_t step, int64_t lines, int64_t depth) \
    { \
        const int64_t full = depth / per, words = (depth + per - 1) / per; \
        if (step == 1 && lines > 1) { \
            word edge[PP_MM_SETS * PP_MM_TURN * PP_MM_DEPTH]; \
            const void *in = from; \
            if (sizeof(element) < sizeof(word)) { \
                for (int64_t l = 0; l < lines; ++l) { \
                    for (int64_t g = 0; g < full; ++g) \
                        edge[l * PP_MM_DEPTH + g] = word_of(from + l * line + g * per, 1); \
                    if (full < words) \
                        edge[l * PP_MM_DEPTH + full] = part_of(from + l * line + full * per, 1, depth - full * per); \
                } \
                in = edge; \
            } \
            pp_mm_turn(to, width, in, sizeof(element) < sizeof(word) ? PP_MM_DEPTH : line, lines, words); \
        } else { \
            for (int64_t g = 0; g < full; ++g) { \
                for (int64_t e = 0; e < per && line == 1; ++e) \
                    pp_mm_ahead(from + (g * per + e + 16) * step, lines * (int64_t)sizeof *from); \
                if (line == 1 && lines == PP_MM_COLS) { \
                    for (int64_t l = 0; l < PP_MM_COLS; ++l) \
                        to[g * width + l] = word_of(from + g * per * step + l, step); \
                } else { \
                    for (int64_t l = 0; l < lines; ++l) \
                        to[g * width + l] = word_of(from + g * per * step + l * line, step); \
                } \
            } \
            for (int64_t l = 0; l < lines && full < words; ++l) \
                to[full * width + l] = part_of(from + full * per * step + l * line, step, depth - full * per); \
        } \
        for (int64_t g = 0; g < words && lines < width; ++g) \
            for (int64_t l = lines; l < width; ++l) \
                to[g * width + l] = 0; \
    } \
    /* Rows of `a`, group by group as tiles take them, or columns of `b`; in `to`, or where they are kept. */ \
    static const word *name(pp_packs *kept, word *to, int64_t kind, const element *from, int64_t line, int64_t step, int64_t lines, \
        int64_t depth) \
    { \
        const int64_t words = (depth + per - 1) / per, room = (kind == PP_MM_LEFT ? lines : PP_MM_COLS) * words; \
        static const char forms[2] = {PP_MM_LEFT, PP_MM_RIGHT}; \
        pp_pack *make = NULL; \
        if (kept && kept->list) { \
            const pp_packed_part part = {from, line, step, lines, depth, forms + kind}; \
            word *const found = (word *)pp_mm_kept(kept, &part, (PP_MM_HEAD + room + PP_MM_TURN) * 4, &make); \
            if (found && !make) \
                return found; \
            to = found ? found : to; \
        } \
        for (int64_t i = 0, n; i < lines; i += n) { \
            n = kind == PP_MM_LEFT ? pp_mm_next(lines - i) : PP_MM_COLS; \
            name##_lines(to + PP_MM_HEAD + i * words, n, from + i * line, line, step, pp_mm_least(n, lines - i), depth); \
        } \
        head(to, from, line, step, lines, depth, room) \
        pp_mm_made(make); \
        return to; \
    }

#define PP_MM_WHOLE(x, step, n) 0 /* words of one element have no parts */
#define PP_MM_NO_HEAD(...)

#endif
