/* Tiles made out of numbers: element (r, c) of `dst` lies at `dst[r * row + c * col]`, in `rows` rows of `cols` elements. */
#ifndef PYPTO_GENERATORS_H
#define PYPTO_GENERATORS_H

#include "pypto_kernel.h"

/* Every row: start, start + step, start + 2 * step, ...; integers wrap. */
#define PP_SEQUENCE(name, type) \
    static inline __attribute__((unused)) void pp_sequence_##name( \
        type *dst, int64_t row, int64_t col, int64_t rows, int64_t cols, int64_t start, int64_t step) \
    { \
        for (int64_t r = 0; r < rows; ++r) { \
            for (int64_t c = 0; c < cols; ++c) { \
                dst[r * row + c * col] = (type)((uint64_t)start + (uint64_t)step * (uint64_t)c); \
            } \
        } \
    }
PP_SEQUENCE(int16, int16_t)
PP_SEQUENCE(int32, int32_t)
PP_SEQUENCE(uint16, uint16_t)
PP_SEQUENCE(uint32, uint32_t)

/* One where c <= r + diagonal (`upper` 0) or c >= r + diagonal (`upper` 1), else zero. */
#define PP_TRIANGLE(name, type, one) \
    static inline __attribute__((unused)) void pp_triangle_##name( \
        type *dst, int64_t row, int64_t col, int64_t rows, int64_t cols, int64_t diagonal, int64_t upper) \
    { \
        for (int64_t r = 0; r < rows; ++r) { \
            int64_t at = r + diagonal; \
            for (int64_t c = 0; c < cols; ++c) { \
                dst[r * row + c * col] = (type)((upper ? c >= at : c <= at) ? one : 0); \
            } \
        } \
    }
PP_TRIANGLE(fp32, float, 1)
PP_TRIANGLE(fp16, uint16_t, 0x3c00)
PP_TRIANGLE(bf16, uint16_t, 0x3f80)
PP_TRIANGLE(int8, int8_t, 1)
PP_TRIANGLE(int16, int16_t, 1)
PP_TRIANGLE(int32, int32_t, 1)
PP_TRIANGLE(uint8, uint8_t, 1)
PP_TRIANGLE(uint16, uint16_t, 1)
PP_TRIANGLE(uint32, uint32_t, 1)

/* One ChaCha block: `words` from the state, by rounds of columns and of diagonals in turn. */
static inline __attribute__((unused)) void pp_chacha(uint32_t words[16], const uint32_t state[16], int64_t rounds)
{
    for (int i = 0; i < 16; ++i) {
        words[i] = state[i];
    }
    for (int64_t r = 0; r < rounds; ++r) {
        for (int i = 0; i < 4; ++i) {
            int step = (int)(r & 1);
            uint32_t *a = words + i, *b = words + 4 + (i + step) % 4, *c = words + 8 + (i + 2 * step) % 4,
                     *d = words + 12 + (i + 3 * step) % 4;
            *a += *b, *d ^= *a, *d = *d << 16 | *d >> 16;
            *c += *d, *b ^= *c, *b = *b << 12 | *b >> 20;
            *a += *b, *d ^= *a, *d = *d << 8 | *d >> 24;
            *c += *d, *b ^= *c, *b = *b << 7 | *b >> 25;
        }
    }
    for (int i = 0; i < 16; ++i) {
        words[i] += state[i];
    }
}

/* Element (r, c) is word e % 16 of block e / 16, e being r * width + c; the counter has 128 bits. */
#define PP_RANDOM(name, type) \
    static inline __attribute__((unused)) void pp_random_##name( \
        type *dst, int64_t row, int64_t col, int64_t rows, int64_t cols, int64_t width, int64_t rounds, int64_t key0, int64_t key1, \
        int64_t counter0, int64_t counter1, int64_t counter2, int64_t counter3) \
    { \
        uint32_t state[16] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574, (uint32_t)key0, (uint32_t)key1}, words[16]; \
        const uint32_t counter[4] = {(uint32_t)counter0, (uint32_t)counter1, (uint32_t)counter2, (uint32_t)counter3}; \
        int64_t have = -1; \
        for (int64_t r = 0; r < rows; ++r) { \
            for (int64_t c = 0; c < cols; ++c) { \
                int64_t e = r * width + c; \
                if (e / 16 != have) { \
                    have = e / 16; \
                    uint64_t sum = (uint64_t)have; \
                    for (int i = 0; i < 4; ++i) { \
                        sum += counter[i]; \
                        state[12 + i] = (uint32_t)sum; \
                        sum >>= 32; \
                    } \
                    pp_chacha(words, state, rounds); \
                } \
                dst[r * row + c * col] = (type)words[e % 16]; \
            } \
        } \
    }
PP_RANDOM(int32, int32_t)
PP_RANDOM(uint32, uint32_t)

#endif
