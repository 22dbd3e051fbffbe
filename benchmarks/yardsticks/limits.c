/* What the machine can do at best: memory bandwidth, multiplications and additions, dot products. */
#include "yardstick.h"

/* a[0] = a[1], bypassing the caches; d: how many floats. */
RUN(copy)
{
    const float *x = a[1];
    float *o = a[0];
#define BODY(store) \
    for (int64_t i = 0; i < d[0]; i += LANES) \
        store(o + i, get(x + i));
    BOTH(BODY, o, d[0])
#undef BODY
}

/* a[0] = a[1] + 3 a[2]. */
RUN(triad)
{
    const float *x = a[1], *y = a[2];
    float *o = a[0];
#define BODY(store) \
    for (int64_t i = 0; i < d[0]; i += LANES) \
        store(o + i, fma_(all(3), get(y + i), get(x + i)));
    BOTH(BODY, o, d[0])
#undef BODY
}

/* The sum of a[1], into a[0]. */
RUN(sum)
{
    const float *x = a[1];
    vf s[8] = {{0}};
    (void)stream;
    for (int64_t i = 0; i + 8 * LANES <= d[0]; i += 8 * LANES)
        for (int w = 0; w < 8; ++w)
            s[w] += get(x + i + w * LANES);
    for (int w = 1; w < 8; ++w)
        s[0] += s[w];
    *(float *)a[0] = add_up(s[0]);
}

/* d[0] rounds of 24 independent instructions; a[0] keeps the results alive. */
#define ROUNDS(vector, start, step) \
    vector s[24]; \
    const vector x = start; \
    (void)stream; \
    _Pragma("GCC unroll 24") for (int i = 0; i < 24; ++i) s[i] = x; \
    for (int64_t n = 0; n < d[0]; ++n) { \
        _Pragma("GCC unroll 24") for (int i = 0; i < 24; ++i) { \
            s[i] = step; \
            __asm__ volatile("" : KEPT(s[i])); \
        } \
    } \
    _Pragma("GCC unroll 24") for (int i = 1; i < 24; ++i) s[0] += s[i]; \
    memcpy(a[0], &s[0], 4);
#if defined(__x86_64__)
#define KEPT(x) "+x"(x)
#if defined(__AVX512F__)
#undef KEPT
#define KEPT(x) "+v"(x)
#endif
#elif defined(__aarch64__)
#define KEPT(x) "+w"(x)
#endif

/* Operations of one round of each kind; 0 where there is no such instruction. */
const int64_t operations[3] = {
    24 * 2 * LANES,
#if defined(__AVX512BF16__)
    24 * 4 * LANES,
#else
    0,
#endif
#if defined(__AVX512VNNI__)
    24 * 8 * LANES,
#else
    0,
#endif
};

RUN(peak_f32)
{
    ROUNDS(vf, all(1e-3f), fma_(x, x, s[i]))
}

RUN(peak_bf16)
{
#if defined(__AVX512BF16__)
    ROUNDS(vf, all(1e-3f), (vf)_mm512_dpbf16_ps((__m512)s[i], (__m512bh)x, (__m512bh)x))
#else
    (void)a, (void)d, (void)stream;
#endif
}

RUN(peak_i8)
{
#if defined(__AVX512VNNI__)
    ROUNDS(vi, (vi){0}, (vi)_mm512_dpbusd_epi32((__m512i)s[i], (__m512i)x, (__m512i)x))
#else
    (void)a, (void)d, (void)stream;
#endif
}
