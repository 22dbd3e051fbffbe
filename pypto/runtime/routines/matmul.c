/* Blocks and panels of products: which elements are packed, and what the inner loops are given.
 *
 * In: the calls of pypto_matmul.h.  A block of `a` and a panel of `b` are packed where their elements are converted, where
 * rows of a panel are no vectors, where their strides would fall into few sets of the cache, or where they are kept for other
 * calls; else they are read in place.
 * Invariant: each sum is formed in ascending k, whatever the blocks, the strides and the instructions.
 */
#include "pypto_matmul.h"
#include "matmul_tile.h"
#include "matmul_pack.h"

/* Whether lines that far apart fall into so few sets of a first-level cache (4 KiB to a way) that a tile's rows push each other out. */
PP_INLINE int64_t pp_mm_crowds(int64_t stride)
{
    return stride * 4 % 2048 == 0;
}

/* The sums of one panel over one block, whose rows lie side by side (`packed`) or anywhere.  `c` is written in place where its rows
 * are whole vectors, else by way of `edge`.  `less`: what to take off the sums of each row, or NULL.  The result: how many rows are done. */
#define PP_MM_PANEL(name, sum, word, tile, packed) \
    PP_INLINE int64_t name##_rows(const int rows, const int vectors, int64_t depth, const word *a, int64_t a_row, int64_t a_col, \
        const word *b, int64_t b_row, sum *c, int64_t c_row, int64_t fresh, const sum *less) \
    { \
        return tile(rows, vectors, depth, a, packed ? 1 : a_row, packed ? rows : a_col, b, b_row, c, c_row, fresh, less); \
    } \
    PP_INLINE int64_t name##_tile(int64_t rows, const int vectors, int64_t depth, const word *a, int64_t a_row, int64_t a_col, \
        const word *b, int64_t b_row, sum *c, int64_t c_row, int64_t fresh, const sum *less) \
    { \
        switch (rows) { \
        case 1: return name##_rows(1, vectors, depth, a, a_row, a_col, b, b_row, c, c_row, fresh, less); \
        case 2: return name##_rows(2, vectors, depth, a, a_row, a_col, b, b_row, c, c_row, fresh, less); \
        case 4: return name##_rows(4, vectors, depth, a, a_row, a_col, b, b_row, c, c_row, fresh, less); \
        case 8: return PP_MM_ROWS > 8 ? name##_rows(PP_MM_ROWS > 8 ? 8 : 1, vectors, depth, a, a_row, a_col, b, b_row, c, c_row, fresh, less) : 1; \
        default: return name##_rows(PP_MM_ROWS, vectors, depth, a, a_row, a_col, b, b_row, c, c_row, fresh, less); \
        } \
    } \
    static __attribute__((noinline)) int64_t name(sum *c, int64_t c_row, int64_t c_col, pp_mm_place a, const word *b, \
        int64_t b_row, int64_t rows, int64_t depth, int64_t cols, int64_t fresh, const sum *less) \
    { \
        const int64_t wide = cols > PP_MM_LANES, whole = c_col == 1 && cols == (wide ? PP_MM_COLS : PP_MM_LANES); \
        for (int64_t i = 0, n; i < rows; i += n) { \
            n = pp_mm_next(rows - i); \
            const word *const from = (const word *)a.at + i * (packed ? depth : a.line); \
            const sum *const off = less ? less + i : less; \
            sum edge[PP_MM_ROWS * PP_MM_COLS], *s = c + i * c_row; \
            int64_t s_row = c_row; \
            if (!whole) { \
                s = edge, s_row = PP_MM_COLS; \
                for (int64_t r = 0; r < n && !fresh; ++r) \
                    for (int64_t j = 0; j < PP_MM_COLS; ++j) \
                        edge[r * PP_MM_COLS + j] = j < cols ? c[(i + r) * c_row + j * c_col] : 0; \
            } \
            const int64_t done = wide ? name##_tile(n, 2, depth, from, a.line, a.step, b, b_row, s, s_row, fresh, off) \
                                      : name##_tile(n, 1, depth, from, a.line, a.step, b, b_row, s, s_row, fresh, off); \
            if (!done) \
                return i; \
            for (int64_t r = 0; r < n && !whole; ++r) \
                for (int64_t j = 0; j < cols; ++j) \
                    c[(i + r) * c_row + j * c_col] = edge[r * PP_MM_COLS + j]; \
        } \
        return rows; \
    }

/* A sum over nothing. */
#define PP_MM_NOTHING(c) \
    if (depth <= 0 && fresh) \
        for (int64_t i = 0; i < rows; ++i) \
            for (int64_t j = 0; j < cols; ++j) \
                c[i * c_row + j * c_col] = 0;

/* rows x depth times depth x cols.  `a_pack`, `b_pack`: of matmul_pack.h, for words of `per` elements.
 * `direct`: elements are words, and may be read in place.
 * `panel(c, block, panel, ...)`: the rows that are done; the others are left to `rest`. */
#define PP_MM_PRODUCT(name, sum, element, word, per, a_pack, b_pack, direct, panel, rest) \
    static void name(sum *c, int64_t c_row, int64_t c_col, const element *a, int64_t a_row, int64_t a_col, const element *b, \
        int64_t b_row, int64_t b_col, int64_t rows, int64_t depth, int64_t cols, int64_t fresh, pp_packs *a_kept, pp_packs *b_kept) \
    { \
        word x[PP_MM_HEAD + PP_MM_BLOCK * PP_MM_DEPTH + PP_MM_TURN], y[PP_MM_HEAD + PP_MM_DEPTH * PP_MM_COLS + PP_MM_TURN]; \
        const int64_t a_lies = direct && !a_kept && (a_row == 1 || (a_col == 1 && !pp_mm_crowds(a_row))); \
        const int64_t b_lies = direct && !b_kept && b_col == 1 && !pp_mm_crowds(b_row); \
        for (int64_t k0 = 0; k0 < depth; k0 += per * PP_MM_DEPTH) { \
            const int64_t kn = pp_mm_least(per * PP_MM_DEPTH, depth - k0), words = (kn + per - 1) / per, first = fresh && k0 == 0; \
            for (int64_t i0 = 0; i0 < rows; i0 += PP_MM_BLOCK) { \
                const int64_t in = pp_mm_least(PP_MM_BLOCK, rows - i0); \
                const element *const a0 = a + i0 * a_row + k0 * a_col; \
                const word *const block = a_lies ? NULL : a_pack(a_kept, x, PP_MM_LEFT, a0, a_row, a_col, in, kn); \
                const pp_mm_place left = a_lies ? (pp_mm_place){a0, a_row, a_col} : (pp_mm_place){block + PP_MM_HEAD, 0, 0}; \
                for (int64_t j0 = 0; j0 < cols; j0 += PP_MM_COLS) { \
                    const int64_t jn = pp_mm_least(PP_MM_COLS, cols - j0); \
                    const element *const b0 = b + k0 * b_row + j0 * b_col; \
                    sum *const c0 = c + i0 * c_row + j0 * c_col; \
                    const int64_t lies = b_lies && (jn == PP_MM_COLS || jn == PP_MM_LANES); \
                    const word *const right = lies ? NULL : b_pack(b_kept, y, PP_MM_RIGHT, b0, b_col, b_row, jn, kn); \
                    const int64_t done = panel(c0, c_row, c_col, left, lies ? (const word *)(const void *)b0 : right + PP_MM_HEAD, \
                        lies ? b_row : PP_MM_COLS, in, words, jn, first, block, right); \
                    rest(c0 + done * c_row, c_row, c_col, a0 + done * a_row, a_row, a_col, b0, b_row, b_col, in - done, kn, jn, \
                        first, NULL, NULL); \
                } \
            } \
        } \
    }
#define PP_MM_NO_REST(...) (void)done
#define PP_MM_SAME c, c_row, c_col, a, a_row, a_col, b, b_row, b_col, rows, depth, cols, fresh, a_kept, b_kept
#define PP_MM_DEFINE(name, sum, element, product) \
    PP_MATMUL(name, sum, element) \
    { \
        PP_MM_NOTHING(c) \
        product(PP_MM_SAME); \
    }

/* -- words are elements ------------------------------------------------------------------------------------------ */

PP_MM_PANEL(pp_mm_panel_f32, float, float, pp_mm_tile_f32, 1)
PP_MM_PANEL(pp_mm_lying_f32, float, float, pp_mm_tile_f32, 0)
#define PP_MM_PLAIN(c, c_row, c_col, a, b, b_row, rows, depth, cols, fresh, block, panel) \
    pp_mm_panel_f32(c, c_row, c_col, a, b, b_row, rows, depth, cols, fresh, NULL)
#define PP_MM_DIRECT(c, c_row, c_col, a, b, b_row, rows, depth, cols, fresh, block, panel) \
    (block ? pp_mm_panel_f32 : pp_mm_lying_f32)(c, c_row, c_col, a, b, b_row, rows, depth, cols, fresh, NULL)

PP_INLINE float pp_mm_from_f32(const float *x, int64_t step) { return *x; }
PP_INLINE float pp_mm_from_f16(const uint16_t *x, int64_t step) { return pp_f16_to_f32(*x); }
PP_INLINE float pp_mm_from_bf16(const uint16_t *x, int64_t step) { return pp_bf16_to_f32(*x); }

PP_MM_PACK(pp_mm_pack_f32, float, float, 1, pp_mm_from_f32, PP_MM_WHOLE, PP_MM_NO_HEAD)
PP_MM_PRODUCT(pp_mm_product_f32, float, float, float, 1, pp_mm_pack_f32, pp_mm_pack_f32, 1, PP_MM_DIRECT, PP_MM_NO_REST)
PP_MM_DEFINE(pp_matmul_f32, float, float, pp_mm_product_f32)

PP_MM_PACK(pp_mm_pack_f16, uint16_t, float, 1, pp_mm_from_f16, PP_MM_WHOLE, PP_MM_NO_HEAD)
PP_MM_PRODUCT(pp_mm_product_f16, float, uint16_t, float, 1, pp_mm_pack_f16, pp_mm_pack_f16, 0, PP_MM_PLAIN, PP_MM_NO_REST)
PP_MM_DEFINE(pp_matmul_f16, float, uint16_t, pp_mm_product_f16)

PP_MM_PACK(pp_mm_pack_bf16, uint16_t, float, 1, pp_mm_from_bf16, PP_MM_WHOLE, PP_MM_NO_HEAD)
PP_MM_PRODUCT(pp_mm_product_bf16, float, uint16_t, float, 1, pp_mm_pack_bf16, pp_mm_pack_bf16, 0, PP_MM_PLAIN, PP_MM_NO_REST)

#include "matmul_dot.h"
