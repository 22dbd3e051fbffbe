/* Data that is moved: transposed, sliced, put side by side, gathered. */
#include "yardstick.h"

#if defined(__AVX512F__)
/* 16 x 16: pairs of rows are merged at distances of 1, 2, 4 and 8. */
INLINE void turn(vf *r)
{
    vf t[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; i += 2) {
        t[i] = (vf)_mm512_unpacklo_ps((__m512)r[i], (__m512)r[i + 1]);
        t[i + 1] = (vf)_mm512_unpackhi_ps((__m512)r[i], (__m512)r[i + 1]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 16; i += 4)
#pragma GCC unroll 2
        for (int j = 0; j < 2; ++j) {
            r[i + 2 * j] = (vf)_mm512_unpacklo_pd((__m512d)t[i + j], (__m512d)t[i + j + 2]);
            r[i + 2 * j + 1] = (vf)_mm512_unpackhi_pd((__m512d)t[i + j], (__m512d)t[i + j + 2]);
        }
#pragma GCC unroll 2
    for (int i = 0; i < 16; i += 8)
#pragma GCC unroll 4
        for (int j = 0; j < 4; ++j) {
            t[i + j] = (vf)_mm512_shuffle_f32x4((__m512)r[i + j], (__m512)r[i + j + 4], 0x88);
            t[i + j + 4] = (vf)_mm512_shuffle_f32x4((__m512)r[i + j], (__m512)r[i + j + 4], 0xdd);
        }
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) {
        r[j] = (vf)_mm512_shuffle_f32x4((__m512)t[j], (__m512)t[j + 8], 0x88);
        r[j + 8] = (vf)_mm512_shuffle_f32x4((__m512)t[j], (__m512)t[j + 8], 0xdd);
    }
}
#else
INLINE void turn(vf *r)
{
    for (int i = 0; i < LANES; ++i)
        for (int j = 0; j < i; ++j) {
            const float x = r[i][j];
            r[i][j] = r[j][i];
            r[j][i] = x;
        }
}
#endif

RUN(transpose)
{
    const float *x = a[0];
    float *o = a[1];
    const int64_t n = d[0], m = d[1], band = 256;
#define BODY(store) \
    for (int64_t i0 = 0; i0 < n; i0 += band) \
        for (int64_t j = 0; j < m; j += LANES) \
            for (int64_t i = i0; i < i0 + band && i < n; i += LANES) { \
                vf r[LANES]; \
                for (int l = 0; l < LANES; ++l) \
                    r[l] = get(x + (i + l) * m + j); \
                turn(r); \
                for (int l = 0; l < LANES; ++l) \
                    store(o + (j + l) * n + i, r[l]); \
            }
    BOTH(BODY, o, n)
#undef BODY
}

#define COPY_ROW(store, to, from, count) \
    for (int64_t c = 0; c < (count); c += LANES) \
        store((to) + c, get((from) + c));

/* d: rows, columns of x, columns taken, the first one. */
RUN(columns)
{
    const float *x = (const float *)a[0] + d[3];
    float *o = a[1];
#define BODY(store) \
    for (int64_t i = 0; i < d[0]; ++i) \
        COPY_ROW(store, o + i * d[2], x + i * d[1], d[2])
    BOTH(BODY, o, d[2])
#undef BODY
}

RUN(side_by_side)
{
    const float *x = a[0], *y = a[1];
    float *o = a[2];
    const int64_t m = d[1];
#define BODY(store) \
    for (int64_t i = 0; i < d[0]; ++i) { \
        COPY_ROW(store, o + 2 * i * m, x + i * m, m) \
        COPY_ROW(store, o + (2 * i + 1) * m, y + i * m, m) \
    }
    BOTH(BODY, o, m)
#undef BODY
}

/* d: rows picked, columns. */
RUN(rows_by_number)
{
    const float *x = a[0];
    const int32_t *index = a[1];
    float *o = a[2];
    const int64_t n = d[0], width = d[1];
#define BODY(store) \
    for (int64_t i = 0; i < n; ++i) { \
        if (i + 8 < n) \
            for (int64_t c = 0; c < width; c += 16) \
                __builtin_prefetch(x + index[i + 8] * width + c); \
        COPY_ROW(store, o + i * width, x + index[i] * width, width) \
    }
    BOTH(BODY, o, width)
#undef BODY
}
