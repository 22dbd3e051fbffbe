/* Kernels that do nothing of use but show how they were called. */
#include <string.h>
#include <time.h>
#include "pypto_abi.h"

/* y[i] = x[i] * s + n */
int64_t affine(pypto_call *c)
{
    const float *x = c->data[0];
    float *y = c->data[1];
    double s;
    memcpy(&s, &c->scalars[0], 8);
    for (int64_t i = 0; i < c->dims[0]; i++)
        y[i] = x[i] * (float)s + (float)c->scalars[1];
    return 0;
}

/* y[0] += 1 */
int64_t count(pypto_call *c) { ((float *)c->data[c->scalars ? 1 : 0])[0] += 1; return 0; }

/* What came: dims, scalars, arena. */
int64_t echo(pypto_call *c)
{
    int64_t *y = c->data[0];
    for (int i = 0; i < 4; i++)
        y[i] = c->scalars[i];
    y[4] = (intptr_t)c->arena->base % 64;
    y[5] = c->arena->size;
    y[6] = c->fault[0] | c->fault[1] | c->fault[2] | c->fault[3];
    y[7] = (intptr_t)c->arena->base;
    memset(c->arena->base, 7, (size_t)c->arena->size);
    return 0;
}

int64_t twice(pypto_call *c)
{
    const float *x = c->data[0];
    float *h = c->data[1];
    for (int64_t i = 0; i < c->dims[0]; i++)
        h[i] += 2 * x[i];
    return 0;
}

int64_t fails(pypto_call *c)
{
    for (int i = 0; i < 4; i++)
        c->fault[i] = -10 * (i + 1);
    return c->scalars[0];
}

/* Rounding mode, subnormals, and every flag raised. */
int64_t floats(pypto_call *c)
{
    int64_t *y = c->data[0];
    volatile float tiny = 1e-40f, one = 1, zero = 0, big = 3e38f, small = 1e-20f, r = 0;
    y[0] = one + small == one && -one - small == -one && one + small * 1e13f > one;
    y[1] = tiny * one != 0;
    r = one / zero;
    r = zero / zero;
    r = big * big;
    r = one / 3;
    y[2] = r < one;
    return 0;
}

int64_t allocates(pypto_call *c)
{
    int64_t *y = c->data[0], size = c->scalars[0];
    pypto_arena *a = c->arena;
    y[5] = a->mark(a);
    unsigned char *first = a->alloc(a, size);
    y[0] = first != 0;
    if (!first)
        return 0;
    y[1] = (intptr_t)first % 64;
    memset(first, 1, (size_t)size);
    for (int i = 0; i < 50; i++) {
        int64_t mark = a->mark(a);
        unsigned char *p = a->alloc(a, size), *q = a->alloc(a, 3 * size + i);
        if (!p || !q || (intptr_t)q % 64)
            return 0;
        memset(p, 2, (size_t)size);
        memset(q, 3, (size_t)(3 * size + i));
        y[2] += p[size ? size - 1 : 0] == 2 || size == 0;
        a->release(a, mark);
    }
    y[3] = a->alloc(a, -1) == 0 && a->alloc(a, INT64_MAX) == 0 && a->alloc(a, 0) != 0;
    for (int64_t i = 0; i < size; i++)
        y[4] += first[i] != 1;
    return 0;
}

/* Waits for another thread to write; 1 if none does. */
int64_t waits(pypto_call *c)
{
    volatile int32_t *flag = c->data[0];
    struct timespec nap = {0, 1000000};
    flag[0] = 1;
    for (int i = 0; i < 10000; i++) {
        if (flag[1])
            return 0;
        nanosleep(&nap, 0);
    }
    return 1;
}

#ifdef __x86_64__
unsigned get_mxcsr(void) { return __builtin_ia32_stmxcsr(); }
void set_mxcsr(unsigned v) { __builtin_ia32_ldmxcsr(v); }
#endif
