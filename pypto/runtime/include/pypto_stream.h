/* Stores that bypass the caches, a line at a time.
 *
 * They pay for tensors that no cache holds: the lines are not read before they are written, and nothing else is driven out.
 * Every store is right in either form.  `pp_past_end` comes after the last one of a thread, before anybody else may read.
 */
#ifndef PYPTO_STREAM_H
#define PYPTO_STREAM_H

#include "pypto_kernel.h"

enum { PP_LINE = 64, PP_LONG_ROW = 1024 };

/* Bytes from which on a tensor counts as more than the caches hold. */
#ifndef PP_LARGE
#define PP_LARGE 0x1p24
#endif

#if defined(__x86_64__) && defined(__SSE2__)
#define PP_HAS_PAST 1
#else
#define PP_HAS_PAST 0
#endif

PP_INLINE bool pp_is_large(double bytes)
{
    return PP_HAS_PAST && bytes >= PP_LARGE;
}

PP_INLINE bool pp_is_line(const void *at)
{
    return (uintptr_t)at % PP_LINE == 0;
}

/* Elements of a row in front of its first line; -1 if the row is better stored as usual: the parts of lines at the ends of a
 * short row cost more than is gained. */
PP_INLINE int64_t pp_before_lines(bool past, const void *row, int64_t count, int64_t size)
{
    int64_t before = (int64_t)(-(uintptr_t)row % PP_LINE), bytes = count * size;
    bool whole = before == 0 && bytes % PP_LINE == 0;
    return past && (whole || bytes >= PP_LONG_ROW) ? before / size : -1;
}

PP_INLINE void pp_store_bytes(void *to, const void *from, int64_t bytes)
{
    __builtin_memcpy(to, from, (uint64_t)bytes);
}

#if PP_HAS_PAST
#if defined(__AVX512F__)
typedef long long pp_past __attribute__((vector_size(64), may_alias));
#elif defined(__AVX__)
typedef long long pp_past __attribute__((vector_size(32), may_alias));
#else
typedef long long pp_past __attribute__((vector_size(16), may_alias));
#endif

/* Whole lines; both addresses are those of lines. */
PP_INLINE void pp_store_lines(void *to, const void *from, int64_t bytes)
{
    for (int64_t i = 0; i < bytes / (int64_t)sizeof(pp_past); ++i) {
        pp_past *const at = (pp_past *)to + i, value = ((const pp_past *)from)[i];
#if defined(__clang__)
        __builtin_nontemporal_store(value, at);
#elif defined(__AVX512F__)
        __builtin_ia32_movntdq512(at, value);
#elif defined(__AVX__)
        __builtin_ia32_movntdq256(at, value);
#else
        __builtin_ia32_movntdq(at, value);
#endif
    }
}

PP_INLINE void pp_past_end(bool past)
{
    if (past) {
        __builtin_ia32_sfence();
    }
}
#else
PP_INLINE void pp_store_lines(void *to, const void *from, int64_t bytes)
{
    pp_store_bytes(to, from, bytes);
}

PP_INLINE void pp_past_end(bool past)
{
    (void)past;
}
#endif

/* Asks for the lines of a row, the first ones of a long one. */
PP_INLINE void pp_fetch(const void *row, int64_t bytes)
{
    for (int64_t i = 0; i < (bytes < PP_LONG_ROW ? bytes : PP_LONG_ROW); i += PP_LINE) {
        __builtin_prefetch((const unsigned char *)row + i);
    }
}

/* Bytes of a row, which bypass the caches where that makes sense. */
PP_INLINE void pp_copy(void *to, const void *from, int64_t bytes, bool past)
{
    const int64_t before = pp_before_lines(past, to, bytes, 1), lines = before < 0 ? 0 : (bytes - before) / PP_LINE * PP_LINE;
    const int64_t first = before < 0 ? bytes : before;
    __builtin_memcpy(to, from, (uint64_t)first);
    for (int64_t i = first; i < first + lines; i += PP_LINE) {
        unsigned char line[PP_LINE] __attribute__((aligned(PP_LINE)));
        __builtin_memcpy(line, (const unsigned char *)from + i, PP_LINE);
        pp_store_lines((unsigned char *)to + i, line, PP_LINE);
    }
    if (first + lines < bytes) {
        pp_store_bytes((unsigned char *)to + first + lines, (const unsigned char *)from + first + lines, bytes - first - lines);
    }
}

#endif
