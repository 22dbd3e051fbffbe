/* Runs a kernel for calls that come on standard input, where there is no Python: on an emulated processor.
 *
 * In, for each call: four counts of 8 bytes (tensors, extents, scalars, bytes of scratch memory), extents, scalars, and for each
 * tensor its size and its bytes.  Out: the result of the kernel, and the bytes of all tensors.
 */
#include <stdio.h>
#include <stdlib.h>

#include "pypto_abi.h"

enum { MOST = 64, SHARES = 3 };

static void *aligned(int64_t bytes)
{
    return bytes < 0 ? NULL : aligned_alloc(64, ((size_t)bytes + 64) / 64 * 64);
}

static void *take(pypto_arena *arena, int64_t bytes)
{
    (void)arena;
    return aligned(bytes);
}

static int64_t mark(pypto_arena *arena)
{
    (void)arena;
    return 0;
}

static void release(pypto_arena *arena, int64_t at)
{
    (void)arena, (void)at;
}

static pypto_arena arena_of(int64_t bytes)
{
    return (pypto_arena){aligned(bytes), bytes, take, mark, release};
}

/* All shares, each as a thread would have it, the last one first. */
static int64_t in_shares(pypto_call *call, int64_t most, pypto_share share, void *context)
{
    const int64_t shares = most < SHARES ? most : SHARES;
    int64_t failed = 0;
    for (int64_t i = shares - 1; i >= 0; --i) {
        pypto_arena own = arena_of(call->arena->size);
        pypto_call mine = *call;
        mine.arena = &own, mine.parallel = NULL;
        const int64_t status = share(&mine, context, i, shares);
        failed = status ? status : failed;
    }
    return failed;
}

static void read_all(void *to, int64_t bytes)
{
    if (bytes && fread(to, (size_t)bytes, 1, stdin) != 1)
        exit(2);
}

int main(void)
{
    int64_t counts[4];
    while (fread(counts, sizeof counts, 1, stdin) == 1) {
        int64_t dims[MOST], scalars[MOST], sizes[MOST];
        void *data[MOST];
        if (counts[0] > MOST || counts[1] > MOST || counts[2] > MOST)
            return 3;
        read_all(dims, 8 * counts[1]);
        read_all(scalars, 8 * counts[2]);
        for (int64_t i = 0; i < counts[0]; ++i) {
            read_all(sizes + i, 8);
            data[i] = aligned(sizes[i]);
            read_all(data[i], sizes[i]);
        }
        pypto_arena arena = arena_of(counts[3]);
        pypto_call call = {data, dims, scalars, &arena, {0}, in_shares};
        const int64_t status = pypto_entry(&call);
        fwrite(&status, 8, 1, stdout);
        for (int64_t i = 0; i < counts[0]; ++i)
            fwrite(data[i], 1, (size_t)sizes[i], stdout);
    }
    return 0;
}
