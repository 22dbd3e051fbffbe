/* Products whose words hold several elements: instructions that add up two or four products at once.
 *
 * Part of matmul.c.  Invariant: the bits are those of the plain loops.  Integers wrap, so that their order is free.  Of two
 * BF16 products the upper one is added first; the instruction takes subnormals for zero, so that a panel is left to the
 * plain loops unless every element is normal and every sum a multiple of 2^-126.
 */

/* `b` in words of `per` elements: word (g, j) holds elements g * per ... of column j, or `pad` beyond the depth. */
#define PP_MM_WORDS(name, element, per, lane, pad) \
    PP_INLINE void name(int32_t *y, const element *b, int64_t b_row, int64_t b_col, int64_t depth, int64_t cols) \
    { \
        const int64_t words = (depth + per - 1) / per; \
        for (int64_t g = 0; g < words; ++g) { \
            const element *const line = b + g * per * b_row; \
            const int64_t held = pp_mm_least(per, depth - g * per); \
            if (b_col == 1 && cols == PP_MM_COLS && held == per) { \
                for (int64_t j = 0; j < PP_MM_COLS; ++j) { \
                    uint32_t w = 0; \
                    _Pragma("GCC unroll 4") for (int e = 0; e < per; ++e) w |= lane(line[e * b_row + j], e); \
                    y[g * PP_MM_COLS + j] = (int32_t)w; \
                } \
            } else { \
                for (int64_t j = 0; j < PP_MM_COLS; ++j) { \
                    uint32_t w = 0; \
                    for (int e = 0; e < per; ++e) \
                        w |= lane(e < held && j < cols ? line[e * b_row + j * b_col] : (element)(pad), e); \
                    y[g * PP_MM_COLS + j] = (int32_t)w; \
                } \
            } \
        } \
    }

/* Rows of `a` likewise, padded by 0. */
#define PP_MM_ROW_WORDS(name, element, per, lane) \
    PP_INLINE void name(int32_t *x, const element *a, int64_t a_row, int64_t a_col, int64_t rows, int64_t depth) \
    { \
        const int64_t words = (depth + per - 1) / per, full = depth / per; \
        for (int64_t i = 0; i < rows; ++i) { \
            const element *const line = a + i * a_row; \
            int32_t *const to = x + i * PP_MM_PITCH; \
            if (a_col == 1) { \
                for (int64_t g = 0; g < full; ++g) { \
                    uint32_t w = 0; \
                    _Pragma("GCC unroll 4") for (int e = 0; e < per; ++e) w |= lane(line[g * per + e], e); \
                    to[g] = (int32_t)w; \
                } \
            } \
            for (int64_t g = a_col == 1 ? full : 0; g < words; ++g) { \
                uint32_t w = 0; \
                for (int64_t e = 0; e < per && g * per + e < depth; ++e) \
                    w |= lane(line[(g * per + e) * a_col], e); \
                to[g] = (int32_t)w; \
            } \
        } \
    }

#if defined(__AVX512VNNI__)
PP_MM_PANEL(pp_mm_panel_i8, int32_t, int32_t, pp_mm_tile_i8)

#define PP_MM_SIGNED(x, e) ((uint32_t)(uint8_t)(x) << 8 * (e))
#define PP_MM_SHIFTED(x, e) ((uint32_t)((uint8_t)(x) ^ 0x80u) << 8 * (e)) /* 128 more, as an unsigned byte */
PP_MM_ROW_WORDS(pp_mm_words_a_i8, int8_t, 4, PP_MM_SIGNED)
PP_MM_WORDS(pp_mm_words_b_i8, int8_t, 4, PP_MM_SHIFTED, 0)

/* b is made unsigned by adding 128 to each element: 128 times the row's sum of `a` is too much, and taken off. */
PP_MATMUL(pp_matmul_i8, int32_t, int8_t)
{
    int32_t x[PP_MM_BLOCK * PP_MM_PITCH], y[PP_MM_DEPTH * PP_MM_COLS], less[PP_MM_BLOCK];
    PP_MM_NOTHING(c)
    for (int64_t k0 = 0; k0 < depth; k0 += 4 * PP_MM_DEPTH) {
        const int64_t kn = pp_mm_least(4 * PP_MM_DEPTH, depth - k0), words = (kn + 3) / 4, first = fresh && k0 == 0;
        for (int64_t i0 = 0; i0 < rows; i0 += PP_MM_BLOCK) {
            const int64_t in = pp_mm_least(PP_MM_BLOCK, rows - i0);
            pp_mm_words_a_i8(x, a + i0 * a_row + k0 * a_col, a_row, a_col, in, kn);
            for (int64_t i = 0; i < in; ++i) {
                const int8_t *const bytes = (const int8_t *)(x + i * PP_MM_PITCH);
                int32_t total = 0;
                for (int64_t k = 0; k < 4 * words; ++k)
                    total += bytes[k];
                less[i] = 128 * total;
            }
            for (int64_t j0 = 0; j0 < cols; j0 += PP_MM_COLS) {
                const int64_t jn = pp_mm_least(PP_MM_COLS, cols - j0);
                pp_mm_words_b_i8(y, b + k0 * b_row + j0 * b_col, b_row, b_col, kn, jn);
                pp_mm_panel_i8(c + i0 * c_row + j0 * c_col, c_row, c_col, x, PP_MM_PITCH, 1, y, PP_MM_COLS, in, words, jn, first, less);
            }
        }
    }
}
#else
PP_INLINE int32_t pp_mm_from_i8(int8_t x) { return x; }
PP_MM_PANEL(pp_mm_panel_i32, int32_t, int32_t, pp_mm_tile_i32)
PP_MM_PACK(pp_mm_pack_i8, int32_t, int8_t, pp_mm_from_i8)
PP_MM_PRODUCT(pp_mm_product_i8, int32_t, int8_t, pp_mm_pack_i8, pp_mm_panel_i32, 0)
PP_MATMUL(pp_matmul_i8, int32_t, int8_t)
{
    PP_MM_NOTHING(c)
    pp_mm_product_i8(PP_MM_SAME);
}
#endif

#if defined(__AVX512BF16__)
PP_MM_PANEL(pp_mm_panel_dot, float, int32_t, pp_mm_tile_bf16)

/* The first of two elements is the upper one, which is added first.  A product of 0 and -0 changes no sum, not even -0. */
#define PP_MM_HALF(x, e) ((uint32_t)(x) << (16 - 16 * (e)))
PP_MM_ROW_WORDS(pp_mm_words_a_bf16, uint16_t, 2, PP_MM_HALF)
PP_MM_WORDS(pp_mm_words_b_bf16, uint16_t, 2, PP_MM_HALF, 0x8000)

/* The least exponent of the elements that are not 0, as it is stored, or one less; 0 stands for subnormals. */
PP_INLINE uint32_t pp_mm_exponent(uint32_t least, const int32_t *words, int64_t n)
{
    for (int64_t i = 0; i < n; ++i) {
        const uint32_t w = (uint32_t)words[i], upper = ((w & 0x7fff0000u) << 1) - 1, lower = (w << 17) - 1;
        least = upper < least ? upper : least;
        least = lower < least ? lower : least;
    }
    return least;
}

PP_MATMUL(pp_matmul_bf16, float, uint16_t)
{
    int32_t x[PP_MM_BLOCK * PP_MM_PITCH], y[PP_MM_DEPTH * PP_MM_COLS];
    PP_MM_NOTHING(c)
    for (int64_t k0 = 0; k0 < depth; k0 += 2 * PP_MM_DEPTH) {
        const int64_t kn = pp_mm_least(2 * PP_MM_DEPTH, depth - k0), words = (kn + 1) / 2, first = fresh && k0 == 0;
        for (int64_t i0 = 0; i0 < rows; i0 += PP_MM_BLOCK) {
            const int64_t in = pp_mm_least(PP_MM_BLOCK, rows - i0);
            const uint16_t *const a0 = a + i0 * a_row + k0 * a_col;
            pp_mm_words_a_bf16(x, a0, a_row, a_col, in, kn);
            uint32_t low_a = ~0u;
            for (int64_t i = 0; i < in; ++i)
                low_a = pp_mm_exponent(low_a, x + i * PP_MM_PITCH, words);
            for (int64_t j0 = 0; j0 < cols; j0 += PP_MM_COLS) {
                const int64_t jn = pp_mm_least(PP_MM_COLS, cols - j0);
                const uint16_t *const b0 = b + k0 * b_row + j0 * b_col;
                pp_mm_words_b_bf16(y, b0, b_row, b_col, kn, jn);
                const uint32_t low_b = pp_mm_exponent(~0u, y, words * PP_MM_COLS), ea = low_a >> 24, eb = low_b >> 24;
                float *const c0 = c + i0 * c_row + j0 * c_col;
                int64_t done = 0;
                /* Products of 8-bit significands are multiples of 2^(ea - 134 + eb - 134). */
                if (ea && eb && ea + eb >= 2 * 134 - 126)
                    done = pp_mm_panel_dot(c0, c_row, c_col, x, PP_MM_PITCH, 1, y, PP_MM_COLS, in, words, jn, first, 0);
                if (done < in)
                    pp_mm_product_bf16(c0 + done * c_row, c_row, c_col, a0 + done * a_row, a_row, a_col, b0, b_row, b_col,
                        in - done, kn, jn, first);
            }
        }
    }
}
#else
PP_MATMUL(pp_matmul_bf16, float, uint16_t)
{
    PP_MM_NOTHING(c)
    pp_mm_product_bf16(PP_MM_SAME);
}
#endif
