/* (a + b) * b, and a chain of ten operations. */
#include "yardstick.h"

RUN(sum_times)
{
    const float *x = a[0], *y = a[1];
    float *o = a[2];
    const int64_t n = d[0] * d[1];
#define BODY(store) \
    for (int64_t i = 0; i < n; i += LANES) { \
        const vf v = get(y + i); \
        store(o + i, (get(x + i) + v) * v); \
    }
    BOTH(BODY, o, n)
#undef BODY
}

RUN(chain)
{
    const float *x = a[0], *y = a[1];
    float *o = a[2];
    const int64_t n = d[0] * d[1];
#define BODY(store) \
    for (int64_t i = 0; i < n; i += LANES) { \
        const vf u = get(x + i), v = get(y + i), e = exponential(u * -0.5f); \
        store(o + i, larger((e + u) / root(v * v + 1.0f) - v, all(0.25f)) * e); \
    }
    BOTH(BODY, o, n)
#undef BODY
}
