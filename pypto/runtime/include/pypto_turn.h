/* Rectangles whose rows become columns, by blocks that are turned in registers.
 *
 * Element (r, c) of dst is element (c, r) of src; both hold their rows without gaps, `dr` and `sr` elements apart, and share
 * no byte.  Blocks are square; what is left at the borders is moved element by element.
 */
#ifndef PYPTO_TURN_H
#define PYPTO_TURN_H

#include "pypto_stream.h"

/* Lists of `f(0, d, n) .. f(n - 1, d, n)`. */
#define PP_LIST_4(f, d, n) f(0, d, n), f(1, d, n), f(2, d, n), f(3, d, n)
#define PP_LIST_8(f, d, n) PP_LIST_4(f, d, n), f(4, d, n), f(5, d, n), f(6, d, n), f(7, d, n)
#define PP_LIST_16(f, d, n) \
    PP_LIST_8(f, d, n), f(8, d, n), f(9, d, n), f(10, d, n), f(11, d, n), f(12, d, n), f(13, d, n), f(14, d, n), f(15, d, n)

/* Of two rows a and b, `d` apart: what stays in the first and comes into it, and the same of the second one.  Clang checks
 * the numbers of a block too large for `d` too, though that is never turned: they are brought into the range. */
#define PP_UPPER(k, d, n) (((k) & (d) ? (n) + (k) - (d) : (k)) & (2 * (n) - 1))
#define PP_LOWER(k, d, n) (((k) & (d) ? (n) + (k) : (k) + (d)) & (2 * (n) - 1))

#if defined(__clang__)
#define PP_PICK(vector, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define PP_PICK(vector, a, b, ...) __builtin_shuffle(a, b, (vector){__VA_ARGS__})
#endif

/* The bit `d` of the row's number and of the column's change places. */
#define PP_TURN_BIT(d, n, vector) \
    for (int i = 0; i < n; ++i) { \
        if (d < n && !(i & d)) { \
            const vector a = v[i], b = v[i + d]; \
            v[i] = PP_PICK(vector, a, b, PP_LIST_##n(PP_UPPER, d, n)); \
            v[i + d] = PP_PICK(vector, a, b, PP_LIST_##n(PP_LOWER, d, n)); \
        } \
    }

#define PP_UNROLL_BLOCK _Pragma("GCC unroll 16")

/* `pp_turn_block_...`: a block, in place.  `pp_turn_...`: a rectangle; past the caches, all columns of a block's rows come one after
 * the other, else all rows, as they lie in src. */
#define PP_TURN(bits, n) \
    enum { PP_TURNED_##bits = n }; \
    typedef uint##bits##_t pp_turned_##bits __attribute__((vector_size(n * bits / 8))); \
    typedef uint##bits##_t pp_unaligned_##bits __attribute__((vector_size(n * bits / 8), aligned(bits / 8), may_alias)); \
    PP_INLINE void pp_turn_block_##bits(pp_turned_##bits *v) \
    { \
        PP_UNROLL_BLOCK PP_TURN_BIT(8, n, pp_turned_##bits) \
        PP_UNROLL_BLOCK PP_TURN_BIT(4, n, pp_turned_##bits) \
        PP_UNROLL_BLOCK PP_TURN_BIT(2, n, pp_turned_##bits) \
        PP_UNROLL_BLOCK PP_TURN_BIT(1, n, pp_turned_##bits) \
    } \
    static __attribute__((noinline, unused)) void pp_turn_##bits( \
        void *out, int64_t dr, const void *in, int64_t sr, int64_t rows, int64_t cols, bool past) \
    { \
        uint##bits##_t *const dst = (uint##bits##_t *)out; \
        const uint##bits##_t *const src = (const uint##bits##_t *)in; \
        const bool lines = past && n * bits / 8 == PP_LINE && pp_is_line(dst) && dr % n == 0; \
        const int64_t down = rows / n, across = cols / n, outer = lines ? down : across, inner = lines ? across : down; \
        for (int64_t x = 0; x < outer; ++x) { \
            for (int64_t y = 0; y < inner; ++y) { \
                const int64_t r = (lines ? x : y) * n, c = (lines ? y : x) * n; \
                pp_turned_##bits v[n]; \
                PP_UNROLL_BLOCK \
                for (int i = 0; i < n; ++i) { \
                    v[i] = *(const pp_unaligned_##bits *)(src + (c + i) * sr + r); \
                } \
                pp_turn_block_##bits(v); \
                if (lines) { \
                    PP_UNROLL_BLOCK \
                    for (int i = 0; i < n; ++i) { \
                        pp_store_lines(dst + (r + i) * dr + c, &v[i], sizeof v[i]); \
                    } \
                } else { \
                    PP_UNROLL_BLOCK \
                    for (int i = 0; i < n; ++i) { \
                        *(pp_unaligned_##bits *)(dst + (r + i) * dr + c) = v[i]; \
                    } \
                } \
            } \
        } \
        for (int64_t r = 0; r < rows; ++r) { \
            for (int64_t c = r < down * n ? across * n : 0; c < cols; ++c) { \
                dst[r * dr + c] = src[c * sr + r]; \
            } \
        } \
    }

PP_TURN(8, 16)
#if defined(__AVX512F__)
PP_TURN(16, 16)
PP_TURN(32, 16)
PP_TURN(64, 8)
#else
PP_TURN(16, 8)
PP_TURN(32, 8)
PP_TURN(64, 4)
#endif

#endif
