/* What kernels written by hand share: vectors of the machine's width, FMA, an exponential, streaming stores.
 *
 * Numerics are those of the compiled kernels: every operation rounds once, nothing is reordered but sums whose order is free,
 * and exp is within 2 ulp.  Functions take arrays, extents and whether outputs bypass the caches: `run(a, d, stream)`.
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
#define LANES 16
#elif defined(__AVX__)
#define LANES 8
#else
#define LANES 4
#endif

#define INLINE static inline __attribute__((always_inline))
#define RUN(name) void name(void **a, const int64_t *d, int stream)

typedef float vf __attribute__((vector_size(4 * LANES)));
typedef int32_t vi __attribute__((vector_size(4 * LANES)));
typedef float vf_any __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

INLINE vf all(float x) { return x - (vf){0}; }
INLINE vf get(const float *p) { return *(const vf_any *)p; }
INLINE void put(float *p, vf v) { *(vf_any *)p = v; }

/* A store that bypasses the caches; p is aligned to the vector. */
INLINE void put_past(float *p, vf v)
{
#if defined(__AVX512F__)
    _mm512_stream_ps(p, (__m512)v);
#elif defined(__AVX__)
    _mm256_stream_ps(p, (__m256)v);
#elif defined(__SSE2__)
    _mm_stream_ps(p, (__m128)v);
#else
    put(p, v);
#endif
}

INLINE void done_past(void)
{
#if defined(__SSE2__)
    _mm_sfence();
#endif
}

/* Whether streaming stores may begin at p, row after row. */
INLINE int may_stream(const void *p, int64_t row)
{
    return (uintptr_t)p % (4 * LANES) == 0 && row % LANES == 0;
}

INLINE vf fma_(vf x, vf y, vf z)
{
#if defined(__AVX512F__)
    return (vf)_mm512_fmadd_ps((__m512)x, (__m512)y, (__m512)z);
#elif defined(__FMA__)
    return (vf)_mm256_fmadd_ps((__m256)x, (__m256)y, (__m256)z);
#else
    for (int i = 0; i < LANES; ++i)
        z[i] = fmaf(x[i], y[i], z[i]);
    return z;
#endif
}

INLINE vf root(vf x)
{
#if defined(__AVX512F__)
    return (vf)_mm512_sqrt_ps((__m512)x);
#elif defined(__AVX__)
    return (vf)_mm256_sqrt_ps((__m256)x);
#else
    for (int i = 0; i < LANES; ++i)
        x[i] = __builtin_sqrtf(x[i]);
    return x;
#endif
}

/* The larger one; NaN if either is. */
INLINE vf larger(vf x, vf y)
{
#if defined(__AVX512F__)
    const __m512 most = _mm512_max_ps((__m512)x, (__m512)y); /* y if either is NaN */
    return (vf)_mm512_mask_mov_ps(most, _mm512_cmp_ps_mask((__m512)x, (__m512)x, _CMP_UNORD_Q), (__m512)x);
#else
    const vi mine = (x > y) | (x != x);
    return (vf)(((vi)x & mine) | ((vi)y & ~mine));
#endif
}

/* x, but not beyond the limits; NaN stays. */
INLINE vf within(vf x, float least, float most)
{
#if defined(__AVX512F__)
    return (vf)_mm512_max_ps((__m512)all(least), _mm512_min_ps((__m512)all(most), (__m512)x));
#else
    const vi over = x > most, under = x < least;
    x = (vf)(((vi)all(most) & over) | ((vi)x & ~over));
    return (vf)(((vi)all(least) & under) | ((vi)x & ~under));
#endif
}

/* 2^n r with n = round(x / ln 2) in two steps, r by a polynomial on [-ln 2 / 2, ln 2 / 2]; within 1.1 ulp. */
INLINE vf exponential(vf x)
{
    x = within(x, -104.0f, 89.0f);
    const vf shifted = fma_(x, all(0x1.715476p+0f), all(0x1.8p+23f)), n = shifted - 0x1.8p+23f;
    const vf r = fma_(n, all(0x1.05c610p-29f), fma_(n, all(-0x1.62e430p-1f), x));
    vf p = fma_(all(0x1.62c1c6p-10f), r, all(0x1.12313ep-7f));
    p = fma_(p, r, all(0x1.5562c8p-5f));
    p = fma_(p, r, all(0x1.5554a0p-3f));
    p = fma_(p, r, all(0x1.fffff0p-2f));
    p = fma_(r * r, p, r) + 1.0f;
    const vi k = (vi)shifted, half = k >> 1;
    return p * (vf)((half << 23) + 0x3f800000) * (vf)(((k - half) << 23) + 0x3f800000);
}

INLINE float add_up(vf x)
{
    for (int n = LANES / 2; n; n /= 2)
        for (int i = 0; i < n; ++i)
            x[i] += x[i + n];
    return x[0];
}

INLINE float largest(vf x)
{
    for (int n = LANES / 2; n; n /= 2)
        for (int i = 0; i < n; ++i)
            x[i] = x[i] > x[i + n] || x[i] != x[i] ? x[i] : x[i + n];
    return x[0];
}

/* One body, compiled for stores of both kinds. */
#define BOTH(body, out, row) \
    if (stream && may_stream(out, row)) { \
        body(put_past) \
        done_past(); \
    } else { \
        body(put) \
    }
