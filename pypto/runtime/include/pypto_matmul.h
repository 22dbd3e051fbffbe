/* Products of matrices: c[i, j] = sum over k of a[i, k] * b[k, j], in ascending k, by fused multiply-add (integers wrap).
 *
 * Every function has the same form: pointers to element (0, 0) with strides in elements, the extents, and `fresh`: the
 * sums start at 0, or else at what c holds.  Last, for a and for b, what keeps packed operands (pypto_packs.h), or NULL.
 * They are compiled once for a machine, from ../routines/matmul.c, and linked into the kernels that call them.
 */
#ifndef PYPTO_MATMUL_H
#define PYPTO_MATMUL_H

#include <stdint.h>

typedef struct pp_packs pp_packs;

#define PP_MATMUL(name, sum, element) \
    __attribute__((visibility("hidden"))) void name(sum *c, int64_t c_row, int64_t c_col, const element *a, int64_t a_row, \
        int64_t a_col, const element *b, int64_t b_row, int64_t b_col, int64_t rows, int64_t depth, int64_t cols, int64_t fresh, \
        pp_packs *a_kept, pp_packs *b_kept)

PP_MATMUL(pp_matmul_f32, float, float);
PP_MATMUL(pp_matmul_f16, float, uint16_t);
PP_MATMUL(pp_matmul_bf16, float, uint16_t);
PP_MATMUL(pp_matmul_i8, int32_t, int8_t);

#endif
