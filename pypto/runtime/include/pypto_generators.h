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

#endif
