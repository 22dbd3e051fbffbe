/* A product of matrices of one kind of elements; included once for each, with
 *
 * NAME, ELEMENT (of the operands), WORD (packed: PER elements), SUM (of the result), VECTOR (of SUM),
 * PUT_A(w, x, i), PUT_B(w, x, i): word w with x as its element i, MAC(sum, a, b), SHIFT: times the sum of a row of a is taken off.
 * Blocks as in Goto and van de Geijn, "Anatomy of high-performance matrix multiplication", 2008: panels of b stay in the
 * first-level cache, blocks of a in the second; a tile of sums stays in registers; ascending k.
 */
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define MY(what) JOIN(NAME, what)

static void MY(_pack_a)(WORD *to, const ELEMENT *a, int64_t stride, int64_t rows, int64_t depth)
{
    const int64_t words = (depth + PER - 1) / PER;
    for (int64_t i = 0; i < rows; i += TALL, to += TALL * words)
        for (int64_t r = 0; r < TALL; ++r)
            for (int64_t g = 0; g < words; ++g) {
                WORD w = 0;
                for (int64_t e = 0; e < PER; ++e)
                    if (i + r < rows && g * PER + e < depth)
                        w = PUT_A(w, a[(i + r) * stride + g * PER + e], e);
                to[g * TALL + r] = w;
            }
}

static void MY(_pack_b)(WORD *to, const ELEMENT *b, int64_t stride, int64_t depth, int64_t cols)
{
    const int64_t words = (depth + PER - 1) / PER;
    for (int64_t j = 0; j < cols; j += WIDE, to += WIDE * words)
        for (int64_t g = 0; g < words; ++g) {
            if (j + WIDE <= cols && (g + 1) * PER <= depth) {
                for (int64_t c = 0; c < WIDE; ++c) {
                    WORD w = 0;
                    for (int64_t e = 0; e < PER; ++e)
                        w = PUT_B(w, b[(g * PER + e) * stride + j + c], e);
                    to[g * WIDE + c] = w;
                }
                continue;
            }
            for (int64_t c = 0; c < WIDE; ++c) {
                WORD w = 0;
                for (int64_t e = 0; e < PER; ++e)
                    if (j + c < cols && g * PER + e < depth)
                        w = PUT_B(w, b[(g * PER + e) * stride + j + c], e);
                to[g * WIDE + c] = w;
            }
        }
}

/* TALL x WIDE sums; `less`: what is taken off each row. */
static void MY(_tile)(SUM *c, int64_t stride, const WORD *a, const WORD *b, int64_t words, int fresh, const SUM *less)
{
    VECTOR s[TALL][2];
#pragma GCC unroll 16
    for (int r = 0; r < TALL; ++r)
#pragma GCC unroll 2
        for (int h = 0; h < 2; ++h)
            if (fresh)
                s[r][h] = (VECTOR){0} - (SUM)(less ? less[r] : 0);
            else {
                memcpy(&s[r][h], c + r * stride + h * LANES, sizeof(VECTOR));
                s[r][h] -= (SUM)(less ? less[r] : 0);
            }
    for (int64_t g = 0; g < words; ++g, a += TALL, b += WIDE) {
        VECTOR x, y;
        memcpy(&x, b, sizeof x);
        memcpy(&y, b + LANES, sizeof y);
#pragma GCC unroll 16
        for (int r = 0; r < TALL; ++r) {
            s[r][0] = MAC(s[r][0], a[r], x);
            s[r][1] = MAC(s[r][1], a[r], y);
        }
    }
#pragma GCC unroll 16
    for (int r = 0; r < TALL; ++r)
#pragma GCC unroll 2
        for (int h = 0; h < 2; ++h)
            memcpy(c + r * stride + h * LANES, &s[r][h], sizeof(VECTOR));
}

/* c = a b; with a bias, max(a b + bias, 0). */
static void MY(_product)(SUM *c, const ELEMENT *a, const ELEMENT *b, int64_t m, int64_t n, int64_t k, const SUM *bias)
{
    const int64_t deep = DEEP * PER;
    WORD *const pa = aligned_alloc(64, HIGH * DEEP * sizeof(WORD));
    WORD *const pb = aligned_alloc(64, (size_t)(DEEP * (n + WIDE - 1) / WIDE * WIDE) * sizeof(WORD) + 64 * DEEP);
    SUM less[HIGH];
    for (int64_t k0 = 0; k0 < k; k0 += deep) {
        const int64_t kn = k - k0 < deep ? k - k0 : deep, words = (kn + PER - 1) / PER;
        MY(_pack_b)(pb, b + k0 * n, n, kn, n);
        for (int64_t i0 = 0; i0 < m; i0 += HIGH) {
            const int64_t in = m - i0 < HIGH ? m - i0 : HIGH;
            MY(_pack_a)(pa, a + i0 * k + k0, k, in, kn);
            for (int64_t i = 0; i < in && SHIFT; ++i) {
                SUM t = 0;
                for (int64_t e = 0; e < kn; ++e)
                    t += (SUM)a[(i0 + i) * k + k0 + e];
                less[i] = (SUM)SHIFT * t;
            }
            for (int64_t j = 0; j < n; j += WIDE)
                for (int64_t i = 0; i < in; i += TALL) {
                    SUM edge[TALL * WIDE], off[TALL] = {0}, *to = c + (i0 + i) * n + j;
                    const int64_t h = in - i < TALL ? in - i : TALL, w = n - j < WIDE ? n - j : WIDE;
                    const int whole = h == TALL && w == WIDE;
                    for (int64_t r = 0; r < h && SHIFT; ++r)
                        off[r] = less[i + r];
                    if (!whole)
                        for (int64_t r = 0; r < TALL; ++r)
                            for (int64_t x = 0; x < WIDE; ++x)
                                edge[r * WIDE + x] = k0 && r < h && x < w ? to[r * n + x] : 0;
                    MY(_tile)(whole ? to : edge, whole ? n : WIDE, pa + i * words, pb + j * words, words, whole && !k0, SHIFT ? off : 0);
                    for (int64_t r = 0; r < h && !whole; ++r)
                        memcpy(to + r * n, edge + r * WIDE, (size_t)w * sizeof(SUM));
                    for (int64_t r = 0; r < h && bias && k0 + kn == k; ++r)
                        for (int64_t x = 0; x < w; ++x) {
                            const SUM y = to[r * n + x] + bias[j + x];
                            to[r * n + x] = y > 0 ? y : 0;
                        }
                }
        }
    }
    free(pa);
    free(pb);
}

#undef MY
#undef NAME
#undef ELEMENT
#undef WORD
#undef SUM
#undef VECTOR
#undef PER
#undef SHIFT
#undef PUT_A
#undef PUT_B
#undef MAC
