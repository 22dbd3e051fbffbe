/* The float environment around a kernel: round to nearest, subnormals kept, exceptions masked inside; outside, control
 * and status exactly as the caller had them.
 */
#ifndef PYPTO_FLOAT_STATE_H
#define PYPTO_FLOAT_STATE_H

#if defined(__x86_64__)

typedef unsigned FloatState;
enum { MXCSR_DEFAULT = 0x1F80, MXCSR_STATUS = 0x3F };

static inline FloatState float_enter(void)
{
    unsigned state = __builtin_ia32_stmxcsr();
    /* Writing the register costs more than a look at it; status bits that are already set disturb no kernel. */
    if ((state & ~(unsigned)MXCSR_STATUS) != MXCSR_DEFAULT)
        __builtin_ia32_ldmxcsr(MXCSR_DEFAULT);
    return state;
}

/* Without asking whether anything changed: that would cost more. */
static inline void float_leave(FloatState state) { __builtin_ia32_ldmxcsr(state); }

#elif defined(__aarch64__)

#include <stdint.h>

typedef struct { uint64_t control, status; } FloatState;

static inline FloatState float_enter(void)
{
    FloatState state;
    __asm__ volatile("mrs %0, fpcr" : "=r"(state.control) : : "memory");
    __asm__ volatile("mrs %0, fpsr" : "=r"(state.status) : : "memory");
    if (state.control != 0)
        __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)0) : "memory");
    return state;
}

static inline void float_leave(FloatState state)
{
    if (state.control != 0)
        __asm__ volatile("msr fpcr, %0" : : "r"(state.control) : "memory");
    __asm__ volatile("msr fpsr, %0" : : "r"(state.status) : "memory");
}

#else

#include <fenv.h>

typedef fenv_t FloatState;

static inline FloatState float_enter(void)
{
    fenv_t state;
    fegetenv(&state);
    fesetenv(FE_DFL_ENV);
    return state;
}

static inline void float_leave(FloatState state) { fesetenv(&state); }

#endif

#endif
