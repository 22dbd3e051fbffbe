/* The inner loops of products: a few rows times one or two vectors of columns, their sums in registers.
 *
 * In: rows of `a` by any strides, a panel of `b` by rows of whole vectors, sums by rows.  Splitting the depth does not
 * change a result: sums are kept in their own type between calls.
 */
#ifndef PYPTO_MATMUL_TILE_H
#define PYPTO_MATMUL_TILE_H

#include "pypto_kernel.h"

/* Lanes of a vector, and the most rows whose sums (two vectors each) fit the registers beside a row of the panel. */
#if defined(__AVX512F__)
#define PP_MM_LANES 16
#define PP_MM_ROWS 14
#elif defined(__AVX__)
#define PP_MM_LANES 8
#define PP_MM_ROWS 6
#else
#define PP_MM_LANES 4
#if defined(__aarch64__)
#define PP_MM_ROWS 14
#else
#define PP_MM_ROWS 6
#endif
#endif
#define PP_MM_COLS (2 * PP_MM_LANES)

#define PP_MM_VECTOR(name, element) \
    typedef element name __attribute__((vector_size(4 * PP_MM_LANES))); \
    typedef element name##_at __attribute__((vector_size(4 * PP_MM_LANES), aligned(4), may_alias));
PP_MM_VECTOR(pp_vf, float)
PP_MM_VECTOR(pp_vi, int32_t)

/* One rounding for each lane.  Written lane by lane, since no vector type has a fused operation in C; compilers make one
 * instruction of it. */
PP_INLINE pp_vf pp_mm_step_f32(float x, pp_vf y, pp_vf z)
{
    pp_vf r;
    for (int i = 0; i < PP_MM_LANES; ++i)
        r[i] = __builtin_fmaf(x, y[i], z[i]);
    return r;
}

PP_INLINE pp_vi pp_mm_step_i32(int32_t x, pp_vi y, pp_vi z)
{
    return x * y + z;
}

#define PP_MM_EACH_ROW _Pragma("GCC unroll 16") for (int i = 0; i < rows; ++i)
#define PP_MM_EACH _Pragma("GCC unroll 2") for (int j = 0; j < vectors; ++j)

/* `rows` and `vectors` are constants where this is called: all inner loops unroll.  `less`: what to take off the sums of
 * each row, or NULL.  `held`: whether the sums that are there may be gone on with; returns 0, having done nothing, if not. */
#define PP_MM_TILE(name, sum, sums, word, words, step, held) \
    PP_INLINE int64_t name(const int rows, const int vectors, int64_t depth, const word *a, int64_t a_row, int64_t a_col, \
        const word *b, int64_t b_row, sum *c, int64_t c_row, int64_t fresh, const sum *less) \
    { \
        sums s[PP_MM_ROWS][2]; \
        if (fresh) { \
            PP_MM_EACH_ROW PP_MM_EACH s[i][j] = (sums){0}; \
        } else { \
            PP_MM_EACH_ROW PP_MM_EACH s[i][j] = *(const sums##_at *)(c + i * c_row + j * PP_MM_LANES); \
            if (!held(rows, vectors, s)) \
                return 0; \
        } \
        if (less) { \
            PP_MM_EACH_ROW PP_MM_EACH s[i][j] -= less[i]; \
        } \
        for (int64_t k = 0; k < depth; ++k) { \
            words y[2]; \
            PP_MM_EACH y[j] = *(const words##_at *)(b + k * b_row + j * PP_MM_LANES); \
            PP_MM_EACH_ROW \
            { \
                const word x = a[i * a_row + k * a_col]; \
                PP_MM_EACH s[i][j] = step(x, y[j], s[i][j]); \
            } \
        } \
        PP_MM_EACH_ROW PP_MM_EACH *(sums##_at *)(c + i * c_row + j * PP_MM_LANES) = s[i][j]; \
        return 1; \
    }

#define PP_MM_ANY(rows, vectors, s) 1
PP_MM_TILE(pp_mm_tile_f32, float, pp_vf, float, pp_vf, pp_mm_step_f32, PP_MM_ANY)

#if defined(__AVX512VNNI__)
/* Four products of a signed byte with an unsigned one, added up; integers wrap. */
PP_INLINE pp_vi pp_mm_step_i8(int32_t x, pp_vi y, pp_vi z)
{
    const pp_vi signed_bytes = x - (pp_vi){0};
    __asm__("vpdpbusd %2, %1, %0" : "+v"(z) : "v"(y), "v"(signed_bytes));
    return z;
}
PP_MM_TILE(pp_mm_tile_i8, int32_t, pp_vi, int32_t, pp_vi, pp_mm_step_i8, PP_MM_ANY)
#else
PP_MM_TILE(pp_mm_tile_i32, int32_t, pp_vi, int32_t, pp_vi, pp_mm_step_i32, PP_MM_ANY)
#endif

#if defined(__AVX512BF16__)
/* Two fused steps: the upper halves of the words first, then the lower ones, each rounded; subnormals count as zero. */
PP_INLINE pp_vf pp_mm_step_bf16(int32_t x, pp_vi y, pp_vf z)
{
    const pp_vi pair = x - (pp_vi){0};
    __asm__("vdpbf16ps %2, %1, %0" : "+v"(z) : "v"(y), "v"(pair));
    return z;
}

/* Sums of products that are multiples of 2^-126 stay such multiples, if what they start at is one: 0, or at least 2^-103. */
PP_INLINE int64_t pp_mm_coarse(const int rows, const int vectors, pp_vf (*s)[2])
{
    typedef uint32_t unsigned_lanes __attribute__((vector_size(4 * PP_MM_LANES)));
    unsigned_lanes fine = {0};
    PP_MM_EACH_ROW PP_MM_EACH
    {
        const unsigned_lanes bits = (unsigned_lanes)s[i][j] << 1;
        fine |= (unsigned_lanes)(bits - 1 < (24u << 24) - 1);
    }
    uint32_t any = 0;
    for (int l = 0; l < PP_MM_LANES; ++l)
        any |= fine[l];
    return !any;
}
PP_MM_TILE(pp_mm_tile_bf16, float, pp_vf, int32_t, pp_vi, pp_mm_step_bf16, pp_mm_coarse)
#endif

#endif
