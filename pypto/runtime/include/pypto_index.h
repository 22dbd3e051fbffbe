/* Reading and writing by index.
 *
 * Views come as the pointer of element (0, 0) and two strides in elements.  A routine that meets an index that leads to
 * nothing returns it, and has written nothing of a tensor then; else it returns PP_FINE.  Indices of a rectangle are
 * taken in row-major order, so that of several writes to one element the last one stays.
 */
#ifndef PYPTO_INDEX_H
#define PYPTO_INDEX_H

#include "pypto_stream.h"

enum { PP_AHEAD = 8 }; /* rows that are asked for before they are copied */

enum { PP_OOB_FAULT, PP_OOB_CLAMP, PP_OOB_WRAP, PP_OOB_ZERO };

/* Out of range for `count` things, or in range and not valid: the index.  Signed indices below 0 are out of range. */
PP_INLINE bool pp_is_out(int64_t v, int64_t count)
{
    return v < 0 || v >= count;
}

/* The index as `oob` has it, -1 for an element that is 0, -2 for a fault.  It counts as an unsigned number of 32 bits. */
PP_INLINE int64_t pp_oob(int32_t v, int64_t count, int64_t oob)
{
    int64_t u = (int64_t)(uint32_t)v;
    if (oob == PP_OOB_FAULT) {
        return pp_is_out(v, count) ? -2 : v;
    }
    if (u < count) {
        return u;
    }
    return oob == PP_OOB_ZERO ? -1 : count == 0 ? -2 : oob == PP_OOB_CLAMP ? count - 1 : u % count;
}

/* Whether the first column of a list of row numbers stays below `limit`; the first that does not. */
static __attribute__((unused)) int64_t pp_rows_within(
    const void *out, int64_t dr, int64_t dc, const int32_t *list, int64_t lr, int64_t lc, int64_t rows, int64_t limit)
{
    (void)out, (void)dr, (void)dc, (void)lc;
    for (int64_t r = 0; r < rows; ++r) {
        if (pp_is_out(list[r * lr], limit)) {
            return list[r * lr];
        }
    }
    return PP_FINE;
}

/* type: of the elements, by size; index: of the index. */
#define PP_BY_INDEX(bits, type, iname, index) \
    /* Elements counted over all of src; beyond it 0. */ \
    static __attribute__((unused)) int64_t pp_gather_##bits##_##iname( \
        void *out, int64_t dr, int64_t dc, const void *in, int64_t sr, int64_t sc, const index *idx, int64_t ir, int64_t ic, \
        int64_t rows, int64_t cols, int64_t height, int64_t width, int64_t vrows, int64_t vcols) \
    { \
        type *dst = (type *)out; \
        const type *src = (const type *)in; \
        bool dense = sc == 1 && sr == width && vcols == width && vrows == height; \
        for (int64_t r = 0; r < rows; ++r) { \
            for (int64_t c = 0; c < cols; ++c) { \
                int64_t v = idx[r * ir + c * ic], y, x; \
                if (pp_is_out(v, height * width)) { \
                    dst[r * dr + c * dc] = 0; \
                    continue; \
                } \
                if (dense) { \
                    dst[r * dr + c * dc] = src[v]; \
                    continue; \
                } \
                y = v / width, x = v % width; \
                if (y >= vrows || x >= vcols) { \
                    return v; \
                } \
                dst[r * dr + c * dc] = src[y * sr + x * sc]; \
            } \
        } \
        return PP_FINE; \
    } \
    /* Elements along axis `dim` of three: rows of src come in groups, `group` for each leading index. */ \
    static __attribute__((unused)) int64_t pp_gather_axis_##bits##_##iname( \
        void *out, int64_t dr, int64_t dc, const void *in, int64_t sr, int64_t sc, const index *idx, int64_t ir, int64_t ic, \
        int64_t rows, int64_t cols, int64_t dim, int64_t depth, int64_t group, int64_t igroup, int64_t width, int64_t vrows, \
        int64_t vcols) \
    { \
        type *dst = (type *)out; \
        const type *src = (const type *)in; \
        int64_t extent = dim == 0 ? depth : dim == 1 ? group : width; \
        for (int64_t r = 0; r < rows; ++r) { \
            int64_t plane = r / igroup, line = r % igroup; \
            for (int64_t c = 0; c < cols; ++c) { \
                int64_t v = idx[r * ir + c * ic]; \
                int64_t y = (dim == 0 ? v : plane) * group + (dim == 1 ? v : line), x = dim == 2 ? v : c; \
                if (pp_is_out(v, extent) || y >= vrows || x >= vcols) { \
                    return v; \
                } \
                dst[r * dr + c * dc] = src[y * sr + x * sc]; \
            } \
        } \
        return PP_FINE; \
    } \
    /* Elements of dst counted over all of it, or along its rows. */ \
    static __attribute__((unused)) int64_t pp_scatter_##bits##_##iname( \
        void *out, int64_t dr, int64_t dc, const void *in, int64_t sr, int64_t sc, const index *idx, int64_t ir, int64_t ic, \
        int64_t rows, int64_t cols, int64_t height, int64_t width, int64_t along) \
    { \
        type *dst = (type *)out; \
        const type *src = (const type *)in; \
        for (int64_t r = 0; r < rows; ++r) { \
            for (int64_t c = 0; c < cols; ++c) { \
                int64_t v = idx[r * ir + c * ic]; \
                if (pp_is_out(v, along ? width : height * width)) { \
                    return v; \
                } \
            } \
        } \
        for (int64_t r = 0; r < rows; ++r) { \
            for (int64_t c = 0; c < cols; ++c) { \
                int64_t v = idx[r * ir + c * ic]; \
                int64_t at = along ? r * dr + v * dc : dc == 1 && dr == width ? v : v / width * dr + v % width * dc; \
                dst[at] = src[r * sr + c * sc]; \
            } \
        } \
        return PP_FINE; \
    }

#define PP_BY_ROW(bits, type) \
    PP_BY_INDEX(bits, type, i32, int32_t) \
    PP_BY_INDEX(bits, type, i16, int16_t) \
    /* Elements of a tensor. */ \
    static __attribute__((unused)) int64_t pp_mgather_elem_##bits( \
        void *out, int64_t dr, int64_t dc, const void *in, int64_t sr, int64_t sc, const int32_t *idx, int64_t ir, int64_t ic, \
        int64_t rows, int64_t cols, int64_t height, int64_t width, int64_t oob) \
    { \
        type *dst = (type *)out; \
        const type *src = (const type *)in; \
        bool dense = sc == 1 && sr == width; \
        for (int64_t r = 0; r < rows; ++r) { \
            for (int64_t c = 0; c < cols; ++c) { \
                int64_t v = pp_oob(idx[r * ir + c * ic], height * width, oob); \
                if (v == -2) { \
                    return idx[r * ir + c * ic]; \
                } \
                dst[r * dr + c * dc] = v < 0 ? 0 : dense ? src[v] : src[v / width * sr + v % width * sc]; \
            } \
        } \
        return PP_FINE; \
    } \
    /* Rows of a tensor, one for each element of the index, which is `across` elements wide. */ \
    static __attribute__((unused)) int64_t pp_mgather_row_##bits( \
        void *out, int64_t dr, int64_t dc, const void *in, int64_t sr, int64_t sc, const int32_t *idx, int64_t ir, int64_t ic, \
        int64_t rows, int64_t cols, int64_t height, int64_t across, int64_t oob, bool past) \
    { \
        type *dst = (type *)out; \
        const type *src = (const type *)in; \
        const bool dense = dc == 1 && sc == 1; \
        rows = cols > 0 ? rows : 0; \
        for (int64_t r = 0; r < rows; ++r) { \
            int32_t given = idx[r / across * ir + r % across * ic]; \
            if (pp_oob(given, height, oob) == -2) { \
                return given; \
            } \
        } \
        for (int64_t r = 0; r < rows; ++r) { \
            int64_t v = pp_oob(idx[r / across * ir + r % across * ic], height, oob); \
            if (dense && r + PP_AHEAD < rows) { \
                int64_t x = r + PP_AHEAD, next = pp_oob(idx[x / across * ir + x % across * ic], height, oob); \
                pp_fetch(src + (next < 0 ? 0 : next) * sr, cols * (int64_t)sizeof(type)); \
            } \
            if (dense && v >= 0) { \
                pp_copy(dst + r * dr, src + v * sr, cols * (int64_t)sizeof(type), past); \
                continue; \
            } \
            for (int64_t c = 0; c < cols; ++c) { \
                dst[r * dr + c * dc] = v < 0 ? 0 : src[v * sr + c * sc]; \
            } \
        } \
        return PP_FINE; \
    } \
    /* Blocks of 32 bytes of src by their offsets in bytes. */ \
    static __attribute__((unused)) int64_t pp_gather_blocks_##bits( \
        void *out, int64_t dr, int64_t dc, const void *in, int64_t sr, int64_t sc, const uint32_t *idx, int64_t ir, int64_t ic, \
        int64_t rows, int64_t cols, int64_t height, int64_t width, int64_t vrows, int64_t vcols) \
    { \
        type *dst = (type *)out; \
        const type *src = (const type *)in; \
        const int64_t size = (int64_t)sizeof(type), count = 32 / size; \
        for (int64_t r = 0; r < rows; ++r) { \
            for (int64_t b = 0; b < cols; ++b) { \
                int64_t v = idx[r * ir + b * ic], y = v / size / width, x = v / size % width; \
                if (v % 32 || v >= height * width * size || y >= vrows || x + count > vcols) { \
                    return v; \
                } \
                for (int64_t c = 0; c < count; ++c) { \
                    dst[r * dr + (b * count + c) * dc] = src[y * sr + (x + c) * sc]; \
                } \
            } \
        } \
        return PP_FINE; \
    }

/* Columns that compare with *value, the first `most` of each row: their numbers plus `offset`, and how many they are. */
#define PP_COMPARING(name, type, lane, read) \
    PP_INLINE bool pp_hits_##name(lane a, lane b, int64_t mode) \
    { \
        return mode == 0 ? a == b : mode == 1 ? a != b : mode == 2 ? a < b : mode == 3 ? a <= b : mode == 4 ? a > b : a >= b; \
    } \
    static __attribute__((unused)) void pp_compare_columns_##name( \
        int32_t *dst, int64_t dr, int64_t dc, const type *src, int64_t sr, int64_t sc, const type *value, int64_t kr, int64_t kc, \
        int64_t rows, int64_t cols, int64_t mode, int64_t most, int64_t offset) \
    { \
        (void)kr, (void)kc; \
        for (int64_t r = 0; r < rows; ++r) { \
            int64_t n = 0; \
            for (int64_t c = 0; c < cols && n < most; ++c) { \
                if (pp_hits_##name(read(src[r * sr + c * sc]), read(*value), mode)) { \
                    dst[r * dr + n++ * dc] = (int32_t)(c + offset); \
                } \
            } \
            for (; n < most; ++n) { \
                dst[r * dr + n * dc] = 0; \
            } \
        } \
    } \
    static __attribute__((unused)) void pp_compare_counts_##name( \
        void *out, int64_t dr, int64_t dc, const type *src, int64_t sr, int64_t sc, const type *value, int64_t kr, int64_t kc, \
        int64_t rows, int64_t cols, int64_t mode, int64_t most) \
    { \
        uint32_t *dst = (uint32_t *)out; \
        (void)dr, (void)kr, (void)kc; \
        for (int64_t r = 0; r < rows; ++r) { \
            int64_t n = 0; \
            for (int64_t c = 0; c < cols && n < most; ++c) { \
                n += pp_hits_##name(read(src[r * sr + c * sc]), read(*value), mode); \
            } \
            dst[r * dc] = (uint32_t)n; \
        } \
    }

#define PP_AS_IT_IS(x) (x)

PP_COMPARING(fp32, float, float, PP_AS_IT_IS)
PP_COMPARING(fp16, uint16_t, float, pp_f16_to_f32)
PP_COMPARING(int32, int32_t, int32_t, PP_AS_IT_IS)
PP_COMPARING(int16, int16_t, int16_t, PP_AS_IT_IS)
PP_COMPARING(uint16, uint16_t, uint16_t, PP_AS_IT_IS)

PP_BY_ROW(8, uint8_t)
PP_BY_ROW(16, uint16_t)
PP_BY_ROW(32, uint32_t)
PP_BY_ROW(64, uint64_t)

#endif
