/* Attention with an online softmax: 64 queries at a time over blocks of 64 keys, everything in the first-level cache. */
#include "yardstick.h"

#define SIDE 64 /* of a block, and the width of a head */
#define VECTORS (SIDE / LANES)
#define TALL (LANES == 16 ? 4 : 2)

/* c = shrink * c + a b, blocks of SIDE x SIDE; from nothing without `shrink`. */
INLINE void block_product(float *c, const float *a, const float *b, const float *shrink)
{
    for (int i = 0; i < SIDE; i += TALL) {
        vf s[TALL][VECTORS];
#pragma GCC unroll 16
        for (int r = 0; r < TALL; ++r)
#pragma GCC unroll 16
            for (int v = 0; v < VECTORS; ++v)
                s[r][v] = shrink ? get(c + (i + r) * SIDE + v * LANES) * shrink[i + r] : all(0);
        for (int k = 0; k < SIDE; ++k)
#pragma GCC unroll 16
            for (int v = 0; v < VECTORS; ++v) {
                const vf y = get(b + k * SIDE + v * LANES);
#pragma GCC unroll 16
                for (int r = 0; r < TALL; ++r)
                    s[r][v] = fma_(all(a[(i + r) * SIDE + k]), y, s[r][v]);
            }
#pragma GCC unroll 16
        for (int r = 0; r < TALL; ++r)
#pragma GCC unroll 16
            for (int v = 0; v < VECTORS; ++v)
                put(c + (i + r) * SIDE + v * LANES, s[r][v]);
    }
}

/* Rows of scores become weights; the running maximum and sum of each row follow. */
INLINE void soften(float *s, float *top, float *total, float *shrink)
{
    for (int r = 0; r < SIDE; ++r, s += SIDE) {
        vf w[VECTORS], most = all(-INFINITY), sum = all(0);
        for (int v = 0; v < VECTORS; ++v) {
            w[v] = get(s + v * LANES) * 0.125f;
            most = larger(most, w[v]);
        }
        const float m = largest(most), higher = top[r] > m || top[r] != top[r] ? top[r] : m;
        shrink[r] = exponential(all(top[r] - higher))[0];
        top[r] = higher;
        for (int v = 0; v < VECTORS; ++v) {
            w[v] = exponential(w[v] - higher);
            put(s + v * LANES, w[v]);
            sum += w[v];
        }
        total[r] = total[r] * shrink[r] + add_up(sum);
    }
}

/* q, k, v, out: rows of SIDE, heads of `length` rows one below the other. */
RUN(attention)
{
    const float *q = a[0], *k = a[1], *v = a[2];
    float *out = a[3];
    const int64_t rows = d[0], length = d[2];
    float *const keys = aligned_alloc(64, (size_t)(length * SIDE) * 4); /* of a head, each block transposed */
    static _Thread_local float scores[SIDE * SIDE], top[SIDE], total[SIDE], shrink[SIDE];
    (void)stream;
    for (int64_t head = 0; head < rows; head += length) {
        for (int64_t j = 0; j < length; j += SIDE)
            for (int64_t i = 0; i < SIDE; ++i)
                for (int64_t c = 0; c < SIDE; ++c)
                    keys[j * SIDE + c * SIDE + i] = k[(head + j + i) * SIDE + c];
        for (int64_t i = head; i < head + length; i += SIDE) {
            float *const o = out + i * SIDE;
            for (int r = 0; r < SIDE; ++r)
                top[r] = -1e30f, total[r] = 0;
            memset(o, 0, SIDE * SIDE * 4);
            for (int64_t j = 0; j < length; j += SIDE) {
                block_product(scores, q + i * SIDE, keys + j * SIDE, 0);
                soften(scores, top, total, shrink);
                block_product(o, scores, v + (head + j) * SIDE, shrink);
            }
            for (int r = 0; r < SIDE; ++r)
                for (int c = 0; c < SIDE; c += LANES)
                    put(o + r * SIDE + c, get(o + r * SIDE + c) / total[r]);
        }
    }
    free(keys);
}
