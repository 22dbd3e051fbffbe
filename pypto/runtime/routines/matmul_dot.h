/* Products whose words hold several elements: instructions that add up two or four products at once.
 *
 * Part of matmul.c.  Invariant: the bits are those of the plain loops.  Integers wrap, so that their order is free.  Of two
 * BF16 products the upper one is added first; the instruction takes subnormals for zero, so that a panel is left to the
 * plain loops unless every element is normal and every sum a multiple of 2^-126.
 */

#if defined(__AVX512VNNI__)
PP_MM_PANEL(pp_mm_panel_i8, int32_t, int32_t, pp_mm_tile_i8, 1)

/* Four bytes; `flip`: what each is changed by. */
PP_INLINE int32_t pp_mm_bytes(const int8_t *x, int64_t step, int64_t n, uint32_t flip)
{
    uint32_t w = 0;
    _Pragma("GCC unroll 4") for (int e = 0; e < 4; ++e) w |= e < n ? (uint32_t)(uint8_t)((uint8_t)x[e * step] ^ flip) << 8 * e : 0;
    return (int32_t)w;
}
PP_INLINE int32_t pp_mm_signed(const int8_t *x, int64_t step) { return pp_mm_bytes(x, step, 4, 0); }
PP_INLINE int32_t pp_mm_signed_part(const int8_t *x, int64_t step, int64_t n) { return pp_mm_bytes(x, step, n, 0); }
PP_INLINE int32_t pp_mm_shifted(const int8_t *x, int64_t step) { return pp_mm_bytes(x, step, 4, 0x80); }
PP_INLINE int32_t pp_mm_shifted_part(const int8_t *x, int64_t step, int64_t n) { return pp_mm_bytes(x, step, n, 0x80); }

/* b is made unsigned by adding 128 to each element: 128 times the row's sum of `a` is too much, and taken off. */
PP_INLINE void pp_mm_less(int32_t *less, const int8_t *a, int64_t line, int64_t step, int64_t rows, int64_t depth)
{
    for (int64_t i = 0; i < rows; ++i) {
        int32_t total = 0;
        if (step == 1)
            for (int64_t k = 0; k < depth; ++k)
                total += a[i * line + k];
        else
            for (int64_t k = 0; k < depth; ++k)
                total += a[i * line + k * step];
        less[i] = 128 * total;
    }
}
#define PP_MM_LESS(to, a, line, step, rows, depth, words) pp_mm_less(to, a, line, step, rows, depth);
PP_MM_PACK(pp_mm_pack_a_i8, int8_t, int32_t, 4, pp_mm_signed, pp_mm_signed_part, PP_MM_LESS)
PP_MM_PACK(pp_mm_pack_b_i8, int8_t, int32_t, 4, pp_mm_shifted, pp_mm_shifted_part, PP_MM_NO_HEAD)
#define PP_MM_DOT_I8(c, c_row, c_col, a, b, b_row, rows, depth, cols, fresh, block, panel) \
    pp_mm_panel_i8(c, c_row, c_col, a, b, b_row, rows, depth, cols, fresh, block)
PP_MM_PRODUCT(pp_mm_product_i8, int32_t, int8_t, int32_t, 4, pp_mm_pack_a_i8, pp_mm_pack_b_i8, 0, PP_MM_DOT_I8, PP_MM_NO_REST)
#else
PP_INLINE int32_t pp_mm_from_i8(const int8_t *x, int64_t step) { return *x; }
PP_MM_PANEL(pp_mm_panel_i32, int32_t, int32_t, pp_mm_tile_i32, 1)
PP_MM_PACK(pp_mm_pack_i8, int8_t, int32_t, 1, pp_mm_from_i8, PP_MM_WHOLE, PP_MM_NO_HEAD)
#define PP_MM_PLAIN_I32(c, c_row, c_col, a, b, b_row, rows, depth, cols, fresh, block, panel) \
    pp_mm_panel_i32(c, c_row, c_col, a, b, b_row, rows, depth, cols, fresh, NULL)
PP_MM_PRODUCT(pp_mm_product_i8, int32_t, int8_t, int32_t, 1, pp_mm_pack_i8, pp_mm_pack_i8, 0, PP_MM_PLAIN_I32, PP_MM_NO_REST)
#endif
PP_MM_DEFINE(pp_matmul_i8, int32_t, int8_t, pp_mm_product_i8)

#if defined(__AVX512BF16__)
PP_MM_PANEL(pp_mm_panel_dot, float, int32_t, pp_mm_tile_bf16, 1)

/* The first of two elements is the upper one, which is added first.  A product of 0 and -0 changes no sum, not even -0. */
PP_INLINE int32_t pp_mm_pair(const uint16_t *x, int64_t step) { return (int32_t)((uint32_t)x[0] << 16 | x[step]); }
PP_INLINE int32_t pp_mm_one_a(const uint16_t *x, int64_t step, int64_t n) { return (int32_t)((uint32_t)*x << 16); }
PP_INLINE int32_t pp_mm_one_b(const uint16_t *x, int64_t step, int64_t n) { return (int32_t)((uint32_t)*x << 16 | 0x8000u); }

/* The least exponent of the elements that are not 0, as it is stored, or one less; 0 stands for subnormals. */
PP_INLINE int32_t pp_mm_exponent(const int32_t *words, int64_t n)
{
    uint32_t least = ~0u;
    for (int64_t i = 0; i < n; ++i) {
        const uint32_t w = (uint32_t)words[i], upper = ((w & 0x7fff0000u) << 1) - 1, lower = (w << 17) - 1;
        least = upper < least ? upper : least;
        least = lower < least ? lower : least;
    }
    return (int32_t)(least >> 24);
}
#define PP_MM_EXPONENT(to, x, line, step, lines, depth, words) *to = pp_mm_exponent(to + PP_MM_HEAD, words);
PP_MM_PACK(pp_mm_pack_a_dot, uint16_t, int32_t, 2, pp_mm_pair, pp_mm_one_a, PP_MM_EXPONENT)
PP_MM_PACK(pp_mm_pack_b_dot, uint16_t, int32_t, 2, pp_mm_pair, pp_mm_one_b, PP_MM_EXPONENT)

/* Products of 8-bit significands are multiples of 2^(ea - 134 + eb - 134). */
#define PP_MM_DOT_BF16(c, c_row, c_col, a, b, b_row, rows, depth, cols, fresh, block, panel) \
    (*block && *panel && *block + *panel >= 2 * 134 - 126 \
        ? pp_mm_panel_dot(c, c_row, c_col, a, b, b_row, rows, depth, cols, fresh, NULL) \
        : 0)
#define PP_MM_REST_BF16(c, c_row, c_col, a, a_row, a_col, b, b_row, b_col, rows, ...) \
    if (rows) \
        pp_mm_product_bf16(c, c_row, c_col, a, a_row, a_col, b, b_row, b_col, rows, __VA_ARGS__)
PP_MM_PRODUCT(pp_mm_product_dot, float, uint16_t, int32_t, 2, pp_mm_pack_a_dot, pp_mm_pack_b_dot, 0, PP_MM_DOT_BF16, PP_MM_REST_BF16)
PP_MM_DEFINE(pp_matmul_bf16, float, uint16_t, pp_mm_product_dot)
#else
PP_MM_DEFINE(pp_matmul_bf16, float, uint16_t, pp_mm_product_bf16)
#endif
