/* Products of matrices of FP32, FP16, BF16 and INT8; FMA, or the processor's dot products where it has them. */
#include "yardstick.h"

#define TALL (LANES == 16 ? 12 : 6) /* a tile of sums, in registers */
#define WIDE (2 * LANES)
#define HIGH (TALL * 20)
#define DEEP 192 /* words; a panel of b is three quarters of a first-level cache */

#define ONE(w, x, e) (x)
#define FMA(s, x, y) fma_(all(x), y, s)
#define HALF(w, x, e) ((w) | (int32_t)((uint32_t)(x) << (16 * (e))))
#define QUARTER(w, x, e) ((w) | (int32_t)((uint32_t)(uint8_t)(x) << (8 * (e))))
#define QUARTER_UP(w, x, e) QUARTER(w, (uint8_t)(x) ^ 0x80u, e)

#define NAME f32
#define ELEMENT float
#define WORD float
#define SUM float
#define VECTOR vf
#define PER 1
#define SHIFT 0
#define PUT_A ONE
#define PUT_B ONE
#define MAC FMA
#include "gemm.h"

RUN(product_f32)
{
    (void)stream;
    f32_product(a[2], a[0], a[1], d[0], d[1], d[2], 0);
}

RUN(linear)
{
    (void)stream;
    f32_product(a[3], a[0], a[1], d[0], d[1], d[2], a[2]);
}

/* Elements as FP32, all at once: they are read many times. */
static float *widened(const uint16_t *x, int64_t n, int is_f16)
{
    float *const y = aligned_alloc(64, (size_t)n * 4);
    for (int64_t i = 0; i < n; i += 16) {
#if defined(__AVX512F__)
        const __m256i h = _mm256_loadu_si256((const void *)(x + i));
        _mm512_store_ps(y + i, is_f16 ? _mm512_cvtph_ps(h) : _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16)));
#else
        for (int64_t l = i; l < i + 16; ++l) {
            const uint32_t bits = (uint32_t)x[l] << 16;
            if (is_f16) {
                _Float16 half;
                memcpy(&half, x + l, 2);
                y[l] = half;
            } else
                memcpy(y + l, &bits, 4);
        }
#endif
    }
    return y;
}

static void by_floats(void **a, const int64_t *d, int is_f16)
{
    float *const x = widened(a[0], d[0] * d[2], is_f16), *const y = widened(a[1], d[2] * d[1], is_f16);
    f32_product(a[2], x, y, d[0], d[1], d[2], 0);
    free(x);
    free(y);
}

RUN(product_f16)
{
    (void)stream;
    by_floats(a, d, 1);
}

#if defined(__AVX512BF16__)
#define NAME bf16
#define ELEMENT uint16_t
#define WORD int32_t
#define SUM float
#define VECTOR vf
#define PER 2
#define SHIFT 0
#define PUT_A HALF
#define PUT_B HALF
#define MAC(s, x, y) (vf)_mm512_dpbf16_ps((__m512)(s), (__m512bh)_mm512_set1_epi32(x), (__m512bh)(y))
#include "gemm.h"
#endif

RUN(product_bf16)
{
    (void)stream;
#if defined(__AVX512BF16__)
    bf16_product(a[2], a[0], a[1], d[0], d[1], d[2], 0);
#else
    by_floats(a, d, 0);
#endif
}

/* The instruction multiplies unsigned by signed bytes: b is raised by 128, and 128 times the sum of a row of a taken off. */
#define NAME i8
#define ELEMENT int8_t
#define WORD int32_t
#define SUM int32_t
#define VECTOR vi
#if defined(__AVX512VNNI__)
#define PER 4
#define SHIFT 128
#define PUT_A QUARTER
#define PUT_B QUARTER_UP
#define MAC(s, x, y) (vi)_mm512_dpbusd_epi32((__m512i)(s), (__m512i)(y), _mm512_set1_epi32(x))
#else
#define PER 1
#define SHIFT 0
#define PUT_A ONE
#define PUT_B ONE
#define MAC(s, x, y) ((s) + (x) * (y))
#endif
#include "gemm.h"

RUN(product_i8)
{
    (void)stream;
    i8_product(a[2], a[0], a[1], d[0], d[1], d[2], 0);
}
