/* Blocks of one launch that wait for each other.
 *
 * In: what each block does, and its arguments.  Out: 0, or the fault of the first block that failed.  Each block has a thread and
 * scratch memory of its own, but only one has the turn: a block goes on until it waits or ends, then the next does, in
 * ascending order, and when all of them wait, they go on as they came.  So nothing depends on how threads are scheduled.
 */
#ifndef PYPTO_MEET_H
#define PYPTO_MEET_H

#include <pthread.h>
#include <stdlib.h>

#include "pypto_kernel.h"

enum { PP_NEW, PP_GOING, PP_WAITING, PP_ENDED };

struct pp_meeting;

typedef struct pp_party {
    struct pp_meeting *meeting;
    unsigned char *mem;
    int64_t block, failed, site; /* `site`: where it waits */
    int state;
    bool abandoned;
    pthread_t thread;
    pthread_cond_t go;
} pp_party;

typedef int64_t pp_block(pypto_call *call, unsigned char *mem, int64_t block, int64_t blocks, pp_party *party, const void *arguments);

typedef struct pp_meeting {
    pypto_call *call;
    pp_block *run;
    const void *arguments;
    int64_t blocks;
    pthread_mutex_t lock;
    pthread_cond_t back;
} pp_meeting;

/* Waits for all others; not 0 where they will never come. */
static int64_t __attribute__((unused)) pp_meet(pp_party *p, int64_t site)
{
    pp_meeting *m = p->meeting;
    if (m->blocks == 1) {
        return 0;
    }
    pthread_mutex_lock(&m->lock);
    p->site = site;
    p->state = PP_WAITING;
    pthread_cond_signal(&m->back);
    while (p->state == PP_WAITING) {
        pthread_cond_wait(&p->go, &m->lock);
    }
    pthread_mutex_unlock(&m->lock);
    return p->abandoned;
}

static void *__attribute__((unused)) pp_attend(void *given)
{
    pp_party *p = given;
    pp_meeting *m = p->meeting;
    int64_t failed = m->run(m->call, p->mem, p->block, m->blocks, p, m->arguments);
    pthread_mutex_lock(&m->lock);
    p->failed = failed;
    p->state = PP_ENDED;
    pthread_cond_signal(&m->back);
    pthread_mutex_unlock(&m->lock);
    return 0;
}

/* Lets a block go on until it waits or ends; false where there is no thread for it. */
static bool __attribute__((unused)) pp_turn(pp_meeting *m, pp_party *p)
{
    pthread_mutex_lock(&m->lock);
    bool begins = p->state == PP_NEW;
    p->state = PP_GOING;
    if (begins && pthread_create(&p->thread, 0, pp_attend, p)) {
        p->state = PP_NEW;
        pthread_mutex_unlock(&m->lock);
        return false;
    }
    if (!begins) {
        pthread_cond_signal(&p->go);
    }
    while (p->state == PP_GOING) {
        pthread_cond_wait(&m->back, &m->lock);
    }
    pthread_mutex_unlock(&m->lock);
    return true;
}

static int64_t __attribute__((unused)) pp_rounds(pp_meeting *m, pp_party *all, int64_t memory_site)
{
    for (;;) {
        int64_t waiting = 0, gone = -1, place = 0;
        for (int64_t i = 0; i < m->blocks; ++i) {
            if (!pp_turn(m, &all[i])) {
                return pp_fault(m->call, memory_site, m->blocks, 0, 0);
            }
            if (all[i].state == PP_WAITING) {
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
    pthread_mutex_init(&m.lock, 0);
    pthread_cond_init(&m.back, 0);
    for (int64_t i = 0; i < blocks; ++i) {
        all[i].meeting = &m;
        all[i].mem = i ? first + (i - 1) * each : mem;
        all[i].block = i;
        pthread_cond_init(&all[i].go, 0);
    }
    failed = pp_rounds(&m, all, memory_site);
    for (int64_t i = 0; i < blocks; ++i) {
        if (all[i].state == PP_WAITING) {
            all[i].abandoned = true;
            pp_turn(&m, &all[i]);
        }
        if (all[i].state == PP_ENDED) {
            pthread_join(all[i].thread, 0);
        }
        pthread_cond_destroy(&all[i].go);
    }
    pthread_cond_destroy(&m.back);
    pthread_mutex_destroy(&m.lock);
    free(space);
    free(all);
    return failed;
}

#endif
