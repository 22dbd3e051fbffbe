/* Products of matrices: c[i, j] = sum over k of a[i, k] * b[k, j], in ascending k, by fused multiply-add (integers wrap).
 *
 * Operands are packed into blocks of 32-bit elements, so that halves and bytes are converted once per block and any
 * strides will do; the inner loops hold PP_MM_ROWS x PP_MM_COLS sums in registers.  Splitting K does not change a result:
 * sums are kept in c, in their own type, between blocks.
 */
#ifndef PYPTO_MATMUL_H
#define PYPTO_MATMUL_H

#include "pypto_kernel.h"

#define PP_MM_ROWS 6
#define PP_MM_COLS 16
#define PP_MM_DEPTH 256 /* of a block along k: 16 KiB of b */
#define PP_MM_BLOCK 96  /* rows of a block of a: a multiple of PP_MM_ROWS */

PP_INLINE float pp_mm_from_f32(float x) { return x; }
PP_INLINE float pp_mm_from_f16(uint16_t x) { return pp_f16_to_f32(x); }
PP_INLINE float pp_mm_from_bf16(uint16_t x) { return pp_bf16_to_f32(x); }
PP_INLINE int32_t pp_mm_from_i8(int8_t x) { return x; }

/* `rows` x PP_MM_COLS sums over one block: `a` by rows of PP_MM_DEPTH, `b` by rows of PP_MM_COLS, `c` by rows of `pitch`.
 * Written as loops of constant length that unroll and vectorize, so that the sums are vectors in registers. */
#define PP_MM_TILE(name, sum, step) \
    PP_INLINE void name(const int rows, int64_t depth, const sum *a, const sum *b, sum *c, int64_t pitch) \
    { \
        sum s[PP_MM_ROWS][PP_MM_COLS]; \
        _Pragma("GCC unroll 8") for (int i = 0; i < rows; ++i) for (int j = 0; j < PP_MM_COLS; ++j) s[i][j] = c[i * pitch + j]; \
        for (int64_t k = 0; k < depth; ++k) { \
            _Pragma("GCC unroll 8") for (int i = 0; i < rows; ++i) \
            { \
                const sum x = a[i * PP_MM_DEPTH + k]; \
                for (int j = 0; j < PP_MM_COLS; ++j) \
                    s[i][j] = step(x, b[k * PP_MM_COLS + j], s[i][j]); \
            } \
        } \
        _Pragma("GCC unroll 8") for (int i = 0; i < rows; ++i) for (int j = 0; j < PP_MM_COLS; ++j) c[i * pitch + j] = s[i][j]; \
    }
#define PP_MM_FMA(x, y, z) __builtin_fmaf(x, y, z)
#define PP_MM_WRAP(x, y, z) ((x) * (y) + (z))
PP_MM_TILE(pp_mm_tile_f32, float, PP_MM_FMA)
PP_MM_TILE(pp_mm_tile_i32, int32_t, PP_MM_WRAP)

PP_INLINE int64_t pp_mm_least(int64_t a, int64_t b) { return a < b ? a : b; }

/* The sums of one panel of columns over one block; what is not a whole tile goes by way of `edge`. */
#define PP_MM_PANEL(name, sum, tile) \
    static void name(sum *c, int64_t c_row, int64_t c_col, const sum *a, const sum *b, int64_t rows, int64_t depth, int64_t cols) \
    { \
        int64_t i = 0; \
        if (c_col == 1 && cols == PP_MM_COLS) \
            for (; i + PP_MM_ROWS <= rows; i += PP_MM_ROWS) \
                tile(PP_MM_ROWS, depth, a + i * PP_MM_DEPTH, b, c + i * c_row, c_row); \
        sum edge[PP_MM_ROWS * PP_MM_COLS]; \
        for (; i < rows; i += PP_MM_ROWS) { \
            const int64_t n = pp_mm_least(PP_MM_ROWS, rows - i); \
            __builtin_memset(edge, 0, sizeof edge); \
            for (int64_t r = 0; r < n; ++r) \
                for (int64_t j = 0; j < cols; ++j) \
                    edge[r * PP_MM_COLS + j] = c[(i + r) * c_row + j * c_col]; \
            switch (n) { \
            case 1: tile(1, depth, a + i * PP_MM_DEPTH, b, edge, PP_MM_COLS); break; \
            case 2: tile(2, depth, a + i * PP_MM_DEPTH, b, edge, PP_MM_COLS); break; \
            case 3: tile(3, depth, a + i * PP_MM_DEPTH, b, edge, PP_MM_COLS); break; \
            case 4: tile(4, depth, a + i * PP_MM_DEPTH, b, edge, PP_MM_COLS); break; \
            case 5: tile(5, depth, a + i * PP_MM_DEPTH, b, edge, PP_MM_COLS); break; \
            default: tile(PP_MM_ROWS, depth, a + i * PP_MM_DEPTH, b, edge, PP_MM_COLS); \
            } \
            for (int64_t r = 0; r < n; ++r) \
                for (int64_t j = 0; j < cols; ++j) \
                    c[(i + r) * c_row + j * c_col] = edge[r * PP_MM_COLS + j]; \
        } \
    }
PP_MM_PANEL(pp_mm_panel_f32, float, pp_mm_tile_f32)
PP_MM_PANEL(pp_mm_panel_i32, int32_t, pp_mm_tile_i32)

/* rows x depth times depth x cols; `fresh`: the sums start at 0, else at what c holds. */
#define PP_MM(name, sum, element, from, panel) \
    __attribute__((unused)) static void name(sum *c, int64_t c_row, int64_t c_col, const element *a, int64_t a_row, \
        int64_t a_col, const element *b, int64_t b_row, int64_t b_col, int64_t rows, int64_t depth, int64_t cols, int64_t fresh) \
    { \
        sum x[PP_MM_BLOCK * PP_MM_DEPTH], y[PP_MM_DEPTH * PP_MM_COLS]; \
        if (fresh) \
            for (int64_t i = 0; i < rows; ++i) \
                for (int64_t j = 0; j < cols; ++j) \
                    c[i * c_row + j * c_col] = 0; \
        for (int64_t k0 = 0; k0 < depth; k0 += PP_MM_DEPTH) { \
            const int64_t kn = pp_mm_least(PP_MM_DEPTH, depth - k0); \
            for (int64_t i0 = 0; i0 < rows; i0 += PP_MM_BLOCK) { \
                const int64_t in = pp_mm_least(PP_MM_BLOCK, rows - i0); \
                for (int64_t i = 0; i < in; ++i) \
                    for (int64_t k = 0; k < kn; ++k) \
                        x[i * PP_MM_DEPTH + k] = from(a[(i0 + i) * a_row + (k0 + k) * a_col]); \
                for (int64_t j0 = 0; j0 < cols; j0 += PP_MM_COLS) { \
                    const int64_t jn = pp_mm_least(PP_MM_COLS, cols - j0); \
                    for (int64_t k = 0; k < kn; ++k) { \
                        for (int64_t j = 0; j < jn; ++j) \
                            y[k * PP_MM_COLS + j] = from(b[(k0 + k) * b_row + (j0 + j) * b_col]); \
                        for (int64_t j = jn; j < PP_MM_COLS; ++j) \
                            y[k * PP_MM_COLS + j] = 0; \
                    } \
                    panel(c + i0 * c_row + j0 * c_col, c_row, c_col, x, y, in, kn, jn); \
                } \
            } \
        } \
    }
PP_MM(pp_matmul_f32, float, float, pp_mm_from_f32, pp_mm_panel_f32)
PP_MM(pp_matmul_f16, float, uint16_t, pp_mm_from_f16, pp_mm_panel_f32)
PP_MM(pp_matmul_bf16, float, uint16_t, pp_mm_from_bf16, pp_mm_panel_f32)
PP_MM(pp_matmul_i8, int32_t, int8_t, pp_mm_from_i8, pp_mm_panel_i32)

#endif
