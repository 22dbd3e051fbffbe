/* Blocks of one launch that wait for each other.
 *
 * In: what each block does, and its arguments.  Out: 0, or the fault of the first block that failed.  Each block has scratch memory
 * of its own.  They take turns: a block goes on until it waits or ends, then the next does, in ascending order, and when all of
 * them wait, they go on as they came.
 */
#ifndef PYPTO_MEET_H
#define PYPTO_MEET_H

#include <stdlib.h>

#include "pypto_kernel.h"
#include "pypto_turns.h"

struct pp_meeting;

typedef struct pp_party {
    pp_actor actor;
    struct pp_meeting *meeting;
    unsigned char *mem;
    int64_t block, failed, site; /* `site`: where it waits */
} pp_party;

typedef int64_t pp_block(pypto_call *call, unsigned char *mem, int64_t block, int64_t blocks, pp_party *party, const void *arguments);

typedef struct pp_meeting {
    pypto_call *call;
    pp_block *run;
    const void *arguments;
    int64_t blocks;
    pp_stage stage;
} pp_meeting;

/* Waits for all others; not 0 where they will never come. */
static int64_t __attribute__((unused)) pp_meet(pp_party *p, int64_t site)
{
    if (p->meeting->blocks == 1) {
        return 0;
    }
    p->site = site;
    pp_pause(&p->actor);
    return p->actor.stopped;
}

static void __attribute__((unused)) pp_attend(void *given)
{
    pp_party *const p = given;
    const pp_meeting *const m = p->meeting;
    p->failed = m->run(m->call, p->mem, p->block, m->blocks, p, m->arguments);
}

static int64_t __attribute__((unused)) pp_rounds(pp_meeting *m, pp_party *all, int64_t memory_site)
{
    for (;;) {
        int64_t waiting = 0, gone = -1, place = 0;
        for (int64_t i = 0; i < m->blocks; ++i) {
            if (!pp_turn(&all[i].actor)) {
                return pp_fault(m->call, memory_site, m->blocks, 0, 0);
            }
            if (!all[i].actor.ended) {
                place = waiting++ ? place : all[i].site;
            } else if (all[i].failed) {
                return all[i].failed;
            } else {
                gone = gone < 0 ? i : gone;
            }
        }
        if (!waiting) {
            return 0;
        }
        if (gone >= 0) {
            return pp_fault(m->call, place, gone, waiting, 0);
        }
    }
}

/* `scratch`: bytes that each block needs; the first has `mem`. */
static int64_t __attribute__((noinline, unused)) pp_together(
    pypto_call *call, unsigned char *mem, int64_t blocks, int64_t scratch, pp_block *run, const void *arguments, int64_t memory_site)
{
    pp_meeting m = {.call = call, .run = run, .arguments = arguments, .blocks = blocks};
    if (blocks == 1) {
        pp_party alone = {.meeting = &m};
        return run(call, mem, 0, 1, &alone, arguments);
    }
    int64_t each = (scratch + 63) & ~INT64_C(63), failed = 0;
    pp_party *all = calloc((size_t)blocks, sizeof *all);
    unsigned char *space = each <= INT64_MAX / blocks - 64 ? malloc((size_t)(each * (blocks - 1) + 64)) : 0;
    if (!all || !space) {
        free(all);
        free(space);
        return pp_fault(call, memory_site, blocks, 0, 0);
    }
    unsigned char *first = space + (-(uintptr_t)space & 63);
    pp_stage_open(&m.stage);
    for (int64_t i = 0; i < blocks; ++i) {
        pp_actor_open(&all[i].actor, &m.stage, pp_attend, &all[i]);
        all[i].meeting = &m;
        all[i].mem = i ? first + (i - 1) * each : mem;
        all[i].block = i;
    }
    failed = pp_rounds(&m, all, memory_site);
    for (int64_t i = 0; i < blocks; ++i) {
        pp_actor_close(&all[i].actor);
    }
    pp_stage_close(&m.stage);
    free(space);
    free(all);
    return failed;
}

#endif
