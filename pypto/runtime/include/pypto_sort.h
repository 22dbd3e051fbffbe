/* Sorting into runs of (value, index) pairs, and merging runs.
 *
 * A pair of binary32 is two elements, the value and the bits of its index; of binary16 four, the value, 0, and the lower
 * and upper half of the index.  Order is descending, NaN before all numbers.  Views come as the pointer of element (0, 0)
 * and two strides in elements.  A routine returns PP_FINE, or a number of columns that is no whole number of blocks.
 */
#ifndef PYPTO_SORT_H
#define PYPTO_SORT_H

#include "pypto_kernel.h"

#define PP_SORT_BLOCK 32

/* Strictly before in the order; NaNs equal each other, and so do both zeros. */
PP_INLINE bool pp_is_before(float a, float b)
{
    return (a == a) != (b == b) ? a != a : a > b;
}

PP_INLINE float pp_key_f32(float x)
{
    return x;
}

PP_INLINE float pp_key_f16(uint16_t x)
{
    return pp_f16_to_f32(x);
}

PP_INLINE void pp_pair_f32(float *at, int64_t step, float value, uint32_t index)
{
    at[0] = value;
    at[step] = pp_bits_u32_f32(index);
}

PP_INLINE void pp_pair_f16(uint16_t *at, int64_t step, uint16_t value, uint32_t index)
{
    at[0] = value;
    at[step] = 0;
    at[2 * step] = (uint16_t)index;
    at[3 * step] = (uint16_t)(index >> 16);
}

/* A sorted list: its first pair, the elements from one to the next, and how many are left. */
#define PP_SORTING(name, type, width) \
    typedef struct { \
        const type *at; \
        int64_t left; \
    } pp_list_##name; \
    /* Each block of 32 values, by insertion: the lower index first among equals. */ \
    static __attribute__((unused)) int64_t pp_sort32_##name( \
        type *dst, int64_t dr, int64_t dc, const type *src, int64_t sr, int64_t sc, const uint32_t *idx, int64_t ir, int64_t ic, \
        int64_t rows, int64_t cols) \
    { \
        if (rows > 0 && cols % PP_SORT_BLOCK) { \
            return cols; \
        } \
        for (int64_t r = 0; r < rows; ++r) { \
            for (int64_t first = 0; first < cols; first += PP_SORT_BLOCK) { \
                type value[PP_SORT_BLOCK]; \
                uint32_t index[PP_SORT_BLOCK]; \
                for (int64_t n = 0; n < PP_SORT_BLOCK; ++n) { \
                    type v = src[r * sr + (first + n) * sc]; \
                    uint32_t i = idx[r * ir + (first + n) * ic]; \
                    int64_t k = n; \
                    for (; k > 0; --k) { \
                        float a = pp_key_##name(v), b = pp_key_##name(value[k - 1]); \
                        if (!(pp_is_before(a, b) || (!pp_is_before(b, a) && i < index[k - 1]))) { \
                            break; \
                        } \
                        value[k] = value[k - 1], index[k] = index[k - 1]; \
                    } \
                    value[k] = v, index[k] = i; \
                } \
                for (int64_t n = 0; n < PP_SORT_BLOCK; ++n) { \
                    pp_pair_##name(dst + r * dr + (first + n) * width * dc, dc, value[n], index[n]); \
                } \
            } \
        } \
        return PP_FINE; \
    } \
    /* Lists whose elements lie `step` apart into `dst`; with `until_one_ends` the rest is 0. */ \
    static __attribute__((unused)) void pp_merge_##name( \
        type *dst, int64_t dc, pp_list_##name *lists, int64_t count, const int64_t *steps, bool until_one_ends) \
    { \
        int64_t total = 0; \
        bool open = true; \
        for (int64_t k = 0; k < count; ++k) { \
            total += lists[k].left; \
        } \
        for (int64_t n = 0; n < total; ++n) { \
            int64_t best = -1; \
            for (int64_t k = 0; k < count; ++k) { \
                if (lists[k].left == 0) { \
                    open = open && !until_one_ends; \
                } else if (best < 0 || pp_is_before(pp_key_##name(*lists[k].at), pp_key_##name(*lists[best].at))) { \
                    best = k; \
                } \
            } \
            for (int64_t e = 0; e < width; ++e) { \
                dst[(n * width + e) * dc] = open ? lists[best].at[e * steps[best]] : 0; \
            } \
            if (open) { \
                lists[best].at += width * steps[best]; \
                --lists[best].left; \
            } \
        } \
    } \
    /* Runs of `length` elements, four at a time. */ \
    static __attribute__((unused)) int64_t pp_merge_runs_##name( \
        type *dst, int64_t dr, int64_t dc, const type *src, int64_t sr, int64_t sc, int64_t rows, int64_t cols, int64_t length) \
    { \
        if (rows > 0 && cols % width) { \
            return cols; \
        } \
        for (int64_t r = 0; r < rows; ++r) { \
            for (int64_t first = 0; first < cols; first += 4 * length) { \
                pp_list_##name lists[4]; \
                int64_t steps[4], count = 0; \
                for (int64_t at = first; count < 4 && at < cols; at += length, ++count) { \
                    lists[count].at = src + r * sr + at * sc; \
                    lists[count].left = (cols - at < length ? cols - at : length) / width; \
                    steps[count] = sc; \
                } \
                pp_merge_##name(dst + r * dr + first * dc, dc, lists, count, steps, false); \
            } \
        } \
        return PP_FINE; \
    } \
    /* The first `count` of four lists with as many columns each. */ \
    static __attribute__((unused)) int64_t pp_merge_lists_##name( \
        type *dst, int64_t dr, int64_t dc, const type *s0, int64_t r0, int64_t c0, const type *s1, int64_t r1, int64_t c1, \
        const type *s2, int64_t r2, int64_t c2, const type *s3, int64_t r3, int64_t c3, int64_t rows, int64_t n0, int64_t n1, \
        int64_t n2, int64_t n3, int64_t count, int64_t until_one_ends) \
    { \
        const type *const first[4] = {s0, s1, s2, s3}; \
        const int64_t pitch[4] = {r0, r1, r2, r3}, steps[4] = {c0, c1, c2, c3}, cols[4] = {n0, n1, n2, n3}; \
        for (int64_t k = 0; k < (rows > 0 ? count : 0); ++k) { \
            if (cols[k] % width) { \
                return cols[k]; \
            } \
        } \
        for (int64_t r = 0; r < rows; ++r) { \
            pp_list_##name lists[4]; \
            for (int64_t k = 0; k < count; ++k) { \
                lists[k].at = first[k] + r * pitch[k]; \
                lists[k].left = cols[k] / width; \
            } \
            pp_merge_##name(dst + r * dr, dc, lists, count, steps, until_one_ends != 0); \
        } \
        return PP_FINE; \
    }

PP_SORTING(f32, float, 2)
PP_SORTING(f16, uint16_t, 4)

#endif
