/* Rows that are reduced and scaled; a row stays in the first-level cache in between. */
#include "yardstick.h"

#define WAYS 4 /* sums that are formed side by side, so that none waits for itself */
#define STEP (WAYS * LANES)

RUN(softmax)
{
    const float *x = a[0];
    float *o = a[1];
    const int64_t rows = d[0], width = d[1];
    float *const e = aligned_alloc(64, (size_t)(width * 4 + 63) / 64 * 64);
#define BODY(store) \
    for (int64_t r = 0; r < rows; ++r, x += width, o += width) { \
        vf top[WAYS], sum[WAYS]; \
        for (int w = 0; w < WAYS; ++w) \
            top[w] = all(-INFINITY), sum[w] = all(0); \
        for (int64_t c = 0; c < width; c += STEP) \
            for (int w = 0; w < WAYS; ++w) \
                top[w] = larger(top[w], get(x + c + w * LANES)); \
        const vf m = all(largest(larger(larger(top[0], top[1]), larger(top[2], top[3])))); \
        for (int64_t c = 0; c < width; c += STEP) \
            for (int w = 0; w < WAYS; ++w) { \
                const vf v = exponential(get(x + c + w * LANES) - m); \
                put(e + c + w * LANES, v); \
                sum[w] += v; \
            } \
        const vf total = all(add_up((sum[0] + sum[1]) + (sum[2] + sum[3]))); \
        for (int64_t c = 0; c < width; c += LANES) \
            store(o + c, get(e + c) / total); \
    }
    BOTH(BODY, o, width)
#undef BODY
    free(e);
}

/* The sum of f(v) over a row. */
#define SUM_OF(result, x, f) \
    vf result##_[WAYS] = {{0}}; \
    for (int64_t c = 0; c < width; c += STEP) \
        for (int w = 0; w < WAYS; ++w) { \
            const vf v = get(x + c + w * LANES); \
            result##_[w] += f; \
        } \
    const float result = add_up((result##_[0] + result##_[1]) + (result##_[2] + result##_[3]));

RUN(rms_norm)
{
    const float *x = a[0], *gain = a[1];
    float *o = a[2];
    const int64_t rows = d[0], width = d[1];
#define BODY(store) \
    for (int64_t r = 0; r < rows; ++r, x += width, o += width) { \
        SUM_OF(squares, x, v * v) \
        const vf scale = all(1.0f / sqrtf(squares * (1.0f / (float)width) + 1e-5f)); \
        for (int64_t c = 0; c < width; c += LANES) \
            store(o + c, get(x + c) * scale * get(gain + c)); \
    }
    BOTH(BODY, o, width)
#undef BODY
}

RUN(layer_norm)
{
    const float *x = a[0], *gain = a[1], *shift = a[2];
    float *o = a[3];
    const int64_t rows = d[0], width = d[1];
#define BODY(store) \
    for (int64_t r = 0; r < rows; ++r, x += width, o += width) { \
        SUM_OF(sum, x, v) \
        const vf mean = all(sum * (1.0f / (float)width)); \
        SUM_OF(squares, x, (v - mean) * (v - mean)) \
        const vf scale = all(1.0f / sqrtf(squares * (1.0f / (float)width) + 1e-5f)); \
        for (int64_t c = 0; c < width; c += LANES) \
            store(o + c, (get(x + c) - mean) * scale * get(gain + c) + get(shift + c)); \
    }
    BOTH(BODY, o, width)
#undef BODY
}
