/* Helpers of generated kernels: exact scalar rules, half conversions, faults.
 *
 * No other header is needed than <stdint.h> and <stdbool.h>.  Everything is branch-free where it runs per element, so
 * that loops over it vectorize.  Units are compiled with -fwrapv (integers wrap) and -ffp-contract=off.
 */
#ifndef PYPTO_KERNEL_H
#define PYPTO_KERNEL_H

#include <stdbool.h>
#include <stdint.h>

#include "pypto_abi.h"

/* What routines that can fail return when they did not; every other value is shown in the message. */
#define PP_FINE INT64_MIN

#define PP_INLINE static inline __attribute__((always_inline, unused))

/* How often a loop turns, and where the part of one share of its trips begins; a step of 0 has been refused. */
PP_INLINE int64_t pp_trips(int64_t start, int64_t stop, int64_t step)
{
    if (step > 0)
        return start < stop ? (int64_t)(((uint64_t)stop - (uint64_t)start - 1) / (uint64_t)step) + 1 : 0;
    return start > stop ? (int64_t)(((uint64_t)start - (uint64_t)stop - 1) / (0 - (uint64_t)step)) + 1 : 0;
}

PP_INLINE int64_t pp_part(int64_t trips, int64_t share, int64_t shares)
{
    return trips / shares * share + trips % shares * share / shares;
}

/* All shares of a job, by as many threads as the caller grants. */
PP_INLINE int64_t pp_shared(pypto_call *call, int64_t most, pypto_share share, void *given)
{
    return call->parallel ? call->parallel(call, most, share, given) : share(call, given, 0, 1);
}

/* The iterations of the loop that follows touch the same element or different ones, never each other's. */
#if defined(__clang__)
#define PP_LANES _Pragma("clang loop vectorize(assume_safety)")
#else
#define PP_LANES _Pragma("GCC ivdep")
#endif

/* The four vectors of a strip of 64 lanes, one after the other. */
#define PP_UNROLL_STRIP _Pragma("GCC unroll 4")

/* -- bits ------------------------------------------------------------------------------------------------------ */

#define PP_BITS(from_name, from, to_name, to) \
    PP_INLINE to pp_bits_##from_name##_##to_name(from x) \
    { \
        to y; \
        __builtin_memcpy(&y, &x, sizeof y); \
        return y; \
    }
PP_BITS(f32, float, i32, int32_t)
PP_BITS(f32, float, u32, uint32_t)
PP_BITS(i32, int32_t, f32, float)
PP_BITS(u32, uint32_t, f32, float)
PP_BITS(f64, double, i64, int64_t)
PP_BITS(f64, double, u64, uint64_t)
PP_BITS(i64, int64_t, f64, double)
PP_BITS(u64, uint64_t, f64, double)

/* -- half types: bits in a uint16_t ---------------------------------------------------------------------------- */

/* The exponent and fraction, moved into place, are the value times 2^-112; infinities and NaNs are put back. */
PP_INLINE float pp_f16_to_f32(uint16_t h)
{
    uint32_t m = (uint32_t)(h & 0x7fff) << 13;
    uint32_t finite = pp_bits_f32_u32(pp_bits_u32_f32(m) * 0x1p112f);
    uint32_t u = (h & 0x7c00) == 0x7c00 ? m | 0x7f800000u : finite;
    return pp_bits_u32_f32(u | (uint32_t)(h & 0x8000) << 16);
}

/* Nearest even.  Below 2^-14 the addition of 0.5 rounds at 2^-24, the smallest half; above, the carry does. */
PP_INLINE uint16_t pp_f32_to_f16(float x)
{
    uint32_t u = pp_bits_f32_u32(x), a = u & 0x7fffffffu;
    uint32_t small = pp_bits_f32_u32(pp_bits_u32_f32(a < 0x38800000u ? a : 0) + 0.5f) - 0x3f000000u;
    uint32_t normal = (a + 0xfffu + ((a >> 13) & 1) - 0x38000000u) >> 13;
    uint32_t h = a < 0x38800000u ? small : normal;
    h = a >= 0x477ff000u ? 0x7c00u : h;
    h = a > 0x7f800000u ? 0x7e00u : h;
    return (uint16_t)(h | (u >> 16 & 0x8000u));
}

PP_INLINE float pp_bf16_to_f32(uint16_t h)
{
    return pp_bits_u32_f32((uint32_t)h << 16);
}

PP_INLINE uint16_t pp_f32_to_bf16(float x)
{
    uint32_t u = pp_bits_f32_u32(x);
    uint32_t r = (u + 0x7fffu + ((u >> 16) & 1)) >> 16;
    return (uint16_t)((u & 0x7fffffffu) > 0x7f800000u ? ((u >> 16) & 0x8000u) | 0x7fc0u : r);
}

PP_INLINE float pp_round_f16(float x)
{
    return pp_f16_to_f32(pp_f32_to_f16(x));
}

PP_INLINE float pp_round_bf16(float x)
{
    return pp_bf16_to_f32(pp_f32_to_bf16(x));
}

/* A binary32 that rounds to a narrower float as the integer would: bits shifted out are kept as a sticky last bit. */
PP_INLINE float pp_sticky_f32(int64_t x)
{
    uint64_t m = x < 0 ? 0 - (uint64_t)x : (uint64_t)x;
    int shift = m >> 24 ? 40 - __builtin_clzll(m) : 0;
    uint64_t kept = m >> shift;
    kept |= (kept << shift) != m;
    float f = (float)kept * pp_bits_u32_f32((uint32_t)(shift + 127) << 23);
    return x < 0 ? -f : f;
}

/* Above the signed range: half of it, its lost bit sticky, twice. */
PP_INLINE float pp_sticky_u64_f32(uint64_t x)
{
    return x >> 63 ? 2.0f * pp_sticky_f32((int64_t)(x >> 1 | (x & 1))) : pp_sticky_f32((int64_t)x);
}

PP_INLINE float pp_round_f16_u64(uint64_t x)
{
    return pp_round_f16(pp_sticky_u64_f32(x));
}

PP_INLINE float pp_round_bf16_u64(uint64_t x)
{
    return pp_round_bf16(pp_sticky_u64_f32(x));
}

PP_INLINE float pp_round_f16_i64(int64_t x)
{
    return pp_round_f16(pp_sticky_f32(x));
}

PP_INLINE float pp_round_bf16_i64(int64_t x)
{
    return pp_round_bf16(pp_sticky_f32(x));
}

/* Scalar parameters arrive as doubles.  Rounding to odd in binary32 keeps the second rounding the only one. */
PP_INLINE float pp_odd_f32(double x)
{
    float f = (float)x;
    double back = (double)f;
    int32_t u = pp_bits_f32_i32(f);
    if (back == x || x != x || f - f != 0) {
        return f;
    }
    bool away = (back < 0 ? -back : back) > (x < 0 ? -x : x);
    return pp_bits_i32_f32((away ? u - 1 : u) | 1);
}

/* -- integers -------------------------------------------------------------------------------------------------- */

/* Quotients: by zero 0, MIN / -1 is MIN; remainders: by zero 0, of MIN by -1 0.  Floor forms follow Python. */
#define PP_SIGNED(name, type) \
    PP_INLINE type pp_truncdiv_##name(type a, type b) \
    { \
        type d = b == 0 || b == -1 ? 1 : b; \
        type q = (type)(a / d); \
        return b == 0 ? 0 : b == -1 ? (type)(0 - a) : q; \
    } \
    PP_INLINE type pp_floordiv_##name(type a, type b) \
    { \
        type d = b == 0 || b == -1 ? 1 : b; \
        type q = (type)(a / d), r = (type)(a - q * d); \
        q = (type)(q - (r != 0 && (r < 0) != (d < 0))); \
        return b == 0 ? 0 : b == -1 ? (type)(0 - a) : q; \
    } \
    PP_INLINE type pp_floormod_##name(type a, type b) \
    { \
        type d = b == 0 || b == -1 ? 1 : b; \
        type r = (type)(a % d); \
        return (type)(r != 0 && (r < 0) != (d < 0) ? r + d : r); \
    } \
    PP_INLINE type pp_abs_##name(type a) \
    { \
        return (type)(a < 0 ? 0 - a : a); \
    }
#define PP_UNSIGNED(name, type) \
    PP_INLINE type pp_truncdiv_##name(type a, type b) \
    { \
        return b == 0 ? 0 : (type)(a / (b == 0 ? 1 : b)); \
    } \
    PP_INLINE type pp_floordiv_##name(type a, type b) \
    { \
        return pp_truncdiv_##name(a, b); \
    } \
    PP_INLINE type pp_floormod_##name(type a, type b) \
    { \
        return b == 0 ? 0 : (type)(a % (b == 0 ? 1 : b)); \
    } \
    PP_INLINE type pp_abs_##name(type a) \
    { \
        return a; \
    }
#define PP_MINMAX(name, type) \
    PP_INLINE type pp_min_##name(type a, type b) \
    { \
        return a < b ? a : b; \
    } \
    PP_INLINE type pp_max_##name(type a, type b) \
    { \
        return a > b ? a : b; \
    }
/* Amounts outside 0..width-1 shift everything out: 0, or the sign bits. */
#define PP_SHIFTS(name, type, unsigned_type, width, signs) \
    PP_INLINE type pp_shl_##name(type a, type n) \
    { \
        bool in = (unsigned_type)n < width; \
        return (type)(in ? (unsigned_type)((unsigned_type)a << (in ? n : 0)) : 0); \
    } \
    PP_INLINE type pp_shr_##name(type a, type n) \
    { \
        bool in = (unsigned_type)n < width; \
        return (type)(in ? a >> (in ? n : 0) : (type)-(type)(a >> (width - 1) & signs)); \
    }
PP_SHIFTS(i8, int8_t, uint8_t, 8, 1)
PP_SHIFTS(i16, int16_t, uint16_t, 16, 1)
PP_SHIFTS(i32, int32_t, uint32_t, 32, 1)
PP_SHIFTS(i64, int64_t, uint64_t, 64, 1)
PP_SHIFTS(u8, uint8_t, uint8_t, 8, 0)
PP_SHIFTS(u16, uint16_t, uint16_t, 16, 0)
PP_SHIFTS(u32, uint32_t, uint32_t, 32, 0)
PP_SHIFTS(u64, uint64_t, uint64_t, 64, 0)
PP_SIGNED(i8, int8_t)
PP_SIGNED(i16, int16_t)
PP_SIGNED(i32, int32_t)
PP_SIGNED(i64, int64_t)
PP_UNSIGNED(u8, uint8_t)
PP_UNSIGNED(u16, uint16_t)
PP_UNSIGNED(u32, uint32_t)
PP_UNSIGNED(u64, uint64_t)
PP_MINMAX(i8, int8_t)
PP_MINMAX(i16, int16_t)
PP_MINMAX(i32, int32_t)
PP_MINMAX(i64, int64_t)
PP_MINMAX(u8, uint8_t)
PP_MINMAX(u16, uint16_t)
PP_MINMAX(u32, uint32_t)
PP_MINMAX(u64, uint64_t)

/* -- remainders of floats ---------------------------------------------------------------------------------------- */

/* C's fmod, exact, for any two numbers: the mantissa of x, 40 bits of the exponents' difference at a time. */
PP_INLINE float pp_fmod_f32(float x, float y)
{
    uint32_t u = pp_bits_f32_u32(x), a = u & 0x7fffffffu, b = pp_bits_f32_u32(y) & 0x7fffffffu;
    if (b == 0 || a >= 0x7f800000u || b > 0x7f800000u) {
        return __builtin_nanf("");
    }
    if (a < b) {
        return x;
    }
    uint32_t e = b >> 23 ? b >> 23 : 1, n = (a >> 23 ? a >> 23 : 1) - e;
    uint64_t m = b >> 23 ? (b & 0x7fffffu) | 0x800000u : b, r = a >> 23 ? (a & 0x7fffffu) | 0x800000u : a;
    r %= m;
    while (n > 0 && r != 0) {
        uint32_t step = n < 40 ? n : 40;
        r = (r << step) % m;
        n -= step;
    }
    if (r == 0) {
        return pp_bits_u32_f32(u & 0x80000000u);
    }
    /* As far up as a normal number goes; what stays below the hidden bit is subnormal. */
    uint32_t up = (uint32_t)__builtin_clz((uint32_t)r) - 8;
    up = up < e - 1 ? up : e - 1;
    return pp_bits_u32_f32((u & 0x80000000u) | (((e - up - 1) << 23) + ((uint32_t)r << up)));
}

/* -- scalar floats --------------------------------------------------------------------------------------------- */

/* NaN in either operand gives NaN. */
PP_INLINE float pp_min_f32(float a, float b)
{
    return ((a < b) | (a != a)) ? a : b;
}

PP_INLINE float pp_max_f32(float a, float b)
{
    return ((a > b) | (a != a)) ? a : b;
}

PP_INLINE float pp_abs_f32(float a)
{
    return __builtin_fabsf(a);
}

/* Truncate, saturate, NaN to 0.  Of the number and back, GCC makes a truncation, whose result keeps the sign of -0.5. */
#define PP_SATURATE(name, type, low, high, limit) \
    PP_INLINE type pp_sat_##name(float x) \
    { \
        type n = x != x ? 0 : x >= limit ? high : x <= (float)low ? low : (type)x; \
        __asm__("" : "+r"(n)); \
        return n; \
    }
PP_SATURATE(i8, int8_t, INT8_MIN, INT8_MAX, 0x1p7f)
PP_SATURATE(i16, int16_t, INT16_MIN, INT16_MAX, 0x1p15f)
PP_SATURATE(i32, int32_t, INT32_MIN, INT32_MAX, 0x1p31f)
PP_SATURATE(i64, int64_t, INT64_MIN, INT64_MAX, 0x1p63f)
PP_SATURATE(u8, uint8_t, 0, UINT8_MAX, 0x1p8f)
PP_SATURATE(u16, uint16_t, 0, UINT16_MAX, 0x1p16f)
PP_SATURATE(u32, uint32_t, 0, UINT32_MAX, 0x1p32f)
PP_SATURATE(u64, uint64_t, 0, UINT64_MAX, 0x1p64f)

/* Bytes of a tensor, extent by extent; more than any memory has for a negative extent or a product that overflows. */
PP_INLINE int64_t pp_bytes(int64_t bytes, int64_t extent)
{
    return extent < 0 || __builtin_mul_overflow(bytes, extent, &bytes) ? INT64_MAX : bytes;
}

/* -- faults ---------------------------------------------------------------------------------------------------- */

/* Leaves the values for the message; the result of the kernel is 1 + the index of the site. */
static int64_t __attribute__((noinline, cold, unused)) pp_fault(pypto_call *call, int64_t site, int64_t a, int64_t b, int64_t c)
{
#if defined(__x86_64__)
    __builtin_ia32_sfence(); /* for stores past the caches, which the end of the kernel would wait for */
#endif
    call->fault[0] = a;
    call->fault[1] = b;
    call->fault[2] = c;
    return site + 1;
}

#endif
