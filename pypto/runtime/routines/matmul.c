/* Blocks and panels of products: which elements are packed, and what the inner loops are given.
 *
 * In: the calls of pypto_matmul.h.  A block of `a` and a panel of `b` are packed where their elements are converted, where
 * rows of a panel are no vectors, or where their strides would fall into few sets of the cache; else they are read in place.
 * Invariant: each sum is formed in ascending k, whatever the blocks, the strides and the instructions.
 */
#include "pypto_matmul.h"
#include "matmul_tile.h"

#define PP_MM_DEPTH 256                 /* of a block, in words: a panel is half of a first-level cache */
#define PP_MM_BLOCK (10 * PP_MM_ROWS)   /* rows of a packed block, at most */
#define PP_MM_PITCH (PP_MM_DEPTH + 16)  /* of its rows, which are to lie in different sets of the cache */

PP_INLINE int64_t pp_mm_least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Whether lines that far apart fall into so few sets of a first-level cache (4 KiB to a way) that a tile's rows push each other out. */
PP_INLINE int64_t pp_mm_crowds(int64_t stride)
{
    return stride * 4 % 2048 == 0;
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

/* The sums of one panel over one block.  `c` is written in place where its rows are whole vectors, else by way of `edge`. */
#define PP_MM_PANEL(name, sum, word, tile) \
    PP_INLINE int64_t name##_tile(int64_t rows, const int vectors, int64_t depth, const word *a, int64_t a_row, int64_t a_col, \
        const word *b, int64_t b_row, sum *c, int64_t c_row, int64_t fresh, const sum *less) \
    { \
        switch (rows) { \
        case 1: return tile(1, vectors, depth, a, a_row, a_col, b, b_row, c, c_row, fresh, less); \
        case 2: return tile(2, vectors, depth, a, a_row, a_col, b, b_row, c, c_row, fresh, less); \
        case 4: return tile(4, vectors, depth, a, a_row, a_col, b, b_row, c, c_row, fresh, less); \
        case 8: return PP_MM_ROWS > 8 ? tile(PP_MM_ROWS > 8 ? 8 : 1, vectors, depth, a, a_row, a_col, b, b_row, c, c_row, fresh, less) : 1; \
        default: return tile(PP_MM_ROWS, vectors, depth, a, a_row, a_col, b, b_row, c, c_row, fresh, less); \
        } \
    } \
    static __attribute__((noinline)) int64_t name(sum *c, int64_t c_row, int64_t c_col, const word *a, int64_t a_row, int64_t a_col, \
        const word *b, int64_t b_row, int64_t rows, int64_t depth, int64_t cols, int64_t fresh, const sum *less) \
    { \
        const int64_t wide = cols > PP_MM_LANES, whole = c_col == 1 && cols == (wide ? PP_MM_COLS : PP_MM_LANES); \
        for (int64_t i = 0, n; i < rows; i += n) { \
            n = pp_mm_next(rows - i); \
            sum edge[PP_MM_ROWS * PP_MM_COLS], *s = c + i * c_row; \
            int64_t s_row = c_row; \
            if (!whole) { \
                s = edge, s_row = PP_MM_COLS; \
                for (int64_t r = 0; r < n && !fresh; ++r) \
                    for (int64_t j = 0; j < PP_MM_COLS; ++j) \
                        edge[r * PP_MM_COLS + j] = j < cols ? c[(i + r) * c_row + j * c_col] : 0; \
            } \
            const int64_t done = wide \
                ? name##_tile(n, 2, depth, a + i * a_row, a_row, a_col, b, b_row, s, s_row, fresh, less ? less + i : less) \
                : name##_tile(n, 1, depth, a + i * a_row, a_row, a_col, b, b_row, s, s_row, fresh, less ? less + i : less); \
            if (!done) \
                return i; \
            for (int64_t r = 0; r < n && !whole; ++r) \
                for (int64_t j = 0; j < cols; ++j) \
                    c[(i + r) * c_row + j * c_col] = edge[r * PP_MM_COLS + j]; \
        } \
        return rows; \
    }
PP_MM_PANEL(pp_mm_panel_f32, float, float, pp_mm_tile_f32)

/* -- operands whose words are elements --------------------------------------------------------------------------- */

PP_INLINE float pp_mm_from_f32(float x) { return x; }
PP_INLINE float pp_mm_from_f16(uint16_t x) { return pp_f16_to_f32(x); }
PP_INLINE float pp_mm_from_bf16(uint16_t x) { return pp_bf16_to_f32(x); }

/* `x`: rows of PP_MM_PITCH words, `y`: rows of PP_MM_COLS.  The inner loop runs along the operand's unit stride. */
#define PP_MM_PACK(name, sum, element, from) \
    PP_INLINE void name##_a(sum *x, const element *a, int64_t a_row, int64_t a_col, int64_t rows, int64_t depth) \
    { \
        if (a_col == 1) { \
            for (int64_t i = 0; i < rows; ++i) { \
                pp_mm_ahead(a + (i + 8) * a_row, depth * (int64_t)sizeof *a); \
                for (int64_t k = 0; k < depth; ++k) \
                    x[i * PP_MM_PITCH + k] = from(a[i * a_row + k]); \
            } \
        } else { \
            for (int64_t k = 0; k < depth; ++k) \
                for (int64_t i = 0; i < rows; ++i) \
                    x[i * PP_MM_PITCH + k] = from(a[i * a_row + k * a_col]); \
        } \
    } \
    PP_INLINE void name##_b(sum *y, const element *b, int64_t b_row, int64_t b_col, int64_t depth, int64_t cols) \
    { \
        if (b_col == 1 && cols == PP_MM_COLS) { \
            for (int64_t k = 0; k < depth; ++k) { \
                pp_mm_ahead(b + (k + 16) * b_row, PP_MM_COLS * (int64_t)sizeof *b); \
                for (int64_t j = 0; j < PP_MM_COLS; ++j) \
                    y[k * PP_MM_COLS + j] = from(b[k * b_row + j]); \
            } \
            return; \
        } \
        for (int64_t j = 0; j < cols; ++j) \
            for (int64_t k = 0; k < depth; ++k) \
                y[k * PP_MM_COLS + j] = from(b[k * b_row + j * b_col]); \
        for (int64_t k = 0; k < depth; ++k) \
            for (int64_t j = cols; j < PP_MM_COLS; ++j) \
                y[k * PP_MM_COLS + j] = 0; \
    }

/* rows x depth times depth x cols, the operands packed as `sum`; with `direct`, in place where that is as fast. */
#define PP_MM_PRODUCT(name, sum, element, pack, panel, direct) \
    static void name(sum *c, int64_t c_row, int64_t c_col, const element *a, int64_t a_row, int64_t a_col, const element *b, \
        int64_t b_row, int64_t b_col, int64_t rows, int64_t depth, int64_t cols, int64_t fresh) \
    { \
        sum x[PP_MM_BLOCK * PP_MM_PITCH], y[PP_MM_DEPTH * PP_MM_COLS]; \
        const int64_t a_lies = direct && (a_row == 1 || (a_col == 1 && !pp_mm_crowds(a_row))); \
        const int64_t b_lies = direct && b_col == 1 && !pp_mm_crowds(b_row); \
        for (int64_t k0 = 0; k0 < depth; k0 += PP_MM_DEPTH) { \
            const int64_t kn = pp_mm_least(PP_MM_DEPTH, depth - k0), first = fresh && k0 == 0; \
            for (int64_t i0 = 0; i0 < rows; i0 += PP_MM_BLOCK) { \
                const int64_t in = pp_mm_least(PP_MM_BLOCK, rows - i0); \
                const element *const a0 = a + i0 * a_row + k0 * a_col; \
                const sum *const ax = a_lies ? (const sum *)(const void *)a0 : x; \
                if (!a_lies) \
                    pack##_a(x, a0, a_row, a_col, in, kn); \
                for (int64_t j0 = 0; j0 < cols; j0 += PP_MM_COLS) { \
                    const int64_t jn = pp_mm_least(PP_MM_COLS, cols - j0); \
                    const element *const b0 = b + k0 * b_row + j0 * b_col; \
                    const int64_t lies = b_lies && (jn == PP_MM_COLS || jn == PP_MM_LANES); \
                    if (!lies) \
                        pack##_b(y, b0, b_row, b_col, kn, jn); \
                    panel(c + i0 * c_row + j0 * c_col, c_row, c_col, ax, a_lies ? a_row : PP_MM_PITCH, a_lies ? a_col : 1, \
                        lies ? (const sum *)(const void *)b0 : y, lies ? b_row : PP_MM_COLS, in, kn, jn, first, 0); \
                } \
            } \
        } \
    }

/* A sum over nothing. */
#define PP_MM_NOTHING(c) \
    if (depth <= 0 && fresh) \
        for (int64_t i = 0; i < rows; ++i) \
            for (int64_t j = 0; j < cols; ++j) \
                c[i * c_row + j * c_col] = 0;
#define PP_MM_SAME c, c_row, c_col, a, a_row, a_col, b, b_row, b_col, rows, depth, cols, fresh

PP_MM_PACK(pp_mm_pack_f32, float, float, pp_mm_from_f32)
PP_MM_PRODUCT(pp_mm_product_f32, float, float, pp_mm_pack_f32, pp_mm_panel_f32, 1)
PP_MATMUL(pp_matmul_f32, float, float)
{
    PP_MM_NOTHING(c)
    pp_mm_product_f32(PP_MM_SAME);
}

PP_MM_PACK(pp_mm_pack_f16, float, uint16_t, pp_mm_from_f16)
PP_MM_PRODUCT(pp_mm_product_f16, float, uint16_t, pp_mm_pack_f16, pp_mm_panel_f32, 0)
PP_MATMUL(pp_matmul_f16, float, uint16_t)
{
    PP_MM_NOTHING(c)
    pp_mm_product_f16(PP_MM_SAME);
}

PP_MM_PACK(pp_mm_pack_bf16, float, uint16_t, pp_mm_from_bf16)
PP_MM_PRODUCT(pp_mm_product_bf16, float, uint16_t, pp_mm_pack_bf16, pp_mm_panel_f32, 0)

#include "matmul_dot.h"
