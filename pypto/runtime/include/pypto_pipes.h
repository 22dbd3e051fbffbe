/* Functions of a kernel's two cores that run side by side, and the pipes between them.
 *
 * A group has runners (the cube core's function, and the vector core's once for each lane) and channels (one direction of one
 * pipe: for each lane a ring of slots).  Runners take turns: each goes on until it waits for a tile or for a free slot, in the order
 * in which they were added.  A slot is taken from the push until the free.  Views come as the pointer of element
 * (0, 0) and two strides in elements.  What can fail returns PP_FINE, or a number for the message.
 */
#ifndef PYPTO_PIPES_H
#define PYPTO_PIPES_H

#include "pypto_kernel.h"
#include "pypto_turns.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#define PP_NO_MEMORY (-1)
#define PP_LEFT_OVER(channel) (-2 - (channel))

/* A tile on its way: what is valid of it, its physical extents, its element type, and how the lanes share it. */
typedef struct {
    int64_t rows, cols, height, width, type, split;
} pp_parcel;

typedef struct {
    unsigned char *data;
    pp_parcel *parcels;
    int64_t pushed, popped, freed;
} pp_queue;

typedef struct {
    int64_t key, slots, slot_bytes; /* key: twice the pipe's id, plus 1 from vector to cube */
    pp_queue queues[2];
} pp_channel;

typedef struct pp_group pp_group;
typedef struct pp_runner pp_runner;

struct pp_runner {
    pypto_call *call;
    int64_t (*work)(pp_runner *side);
    const void *arguments;
    int64_t block, blocks, scratch, lane;
    bool cube;
    /* From here on set by the group. */
    pp_group *group;
    unsigned char *mem;
    bool (*ready)(pp_runner *side, pp_channel *channel); /* NULL while it waits for nothing */
    pp_channel *channel;
    pp_actor actor;
    int64_t failed;
    jmp_buf away;
};

struct pp_group {
    pp_runner *runners;
    int64_t count;
    pp_channel *channels;
    int64_t channel_count, lanes;
    /* From here on set by the group. */
    pp_stage stage;
    bool stuck;
    int64_t left;
};

/* -- turns -- */

static __attribute__((unused)) void pp_runner_main(void *given)
{
    pp_runner *const me = given;
    if (setjmp(me->away) == 0) {
        me->failed = me->work(me);
    }
}

/* Called by a runner: PP_FINE when it is so, or the channel's slots if nobody can go on. */
static __attribute__((unused)) int64_t pp_wait(pp_runner *me, bool (*ready)(pp_runner *, pp_channel *), pp_channel *channel)
{
    while (!ready(me, channel)) {
        me->ready = ready;
        me->channel = channel;
        pp_pause(&me->actor);
        if (me->actor.stopped) {
            longjmp(me->away, 1);
        }
        if (me->group->stuck) {
            return channel->slots;
        }
    }
    me->ready = NULL;
    return PP_FINE;
}

static __attribute__((unused)) bool pp_is_able(pp_runner *r)
{
    return !r->actor.ended && (r->ready == NULL || r->ready(r, r->channel));
}

static __attribute__((unused)) bool pp_group_open(pp_group *g)
{
    bool fine = true;
    for (int64_t i = 0; i < g->channel_count; ++i) {
        pp_channel *const c = &g->channels[i];
        for (int64_t lane = 0; lane < g->lanes; ++lane) {
            c->queues[lane].data = malloc((size_t)(c->slots * c->slot_bytes));
            c->queues[lane].parcels = malloc((size_t)c->slots * sizeof(pp_parcel));
            fine = fine && c->queues[lane].data != NULL && c->queues[lane].parcels != NULL;
        }
    }
    for (int64_t i = 0; i < g->count; ++i) {
        pp_runner *const r = &g->runners[i];
        void *memory = NULL;
        r->group = g;
        fine = fine && posix_memalign(&memory, 64, (size_t)r->scratch + 64) == 0;
        r->mem = memory;
        pp_actor_open(&r->actor, &g->stage, pp_runner_main, r);
    }
    return fine;
}

static __attribute__((unused)) int64_t pp_group_steps(pp_group *g)
{
    for (;;) {
        bool going = false, moved = false;
        for (int64_t i = 0; i < g->count; ++i) {
            pp_runner *const r = &g->runners[i];
            if (pp_is_able(r)) {
                if (!pp_turn(&r->actor)) {
                    return PP_NO_MEMORY;
                }
                moved = true;
            }
            if (r->failed) {
                return r->failed;
            }
            going = going || !r->actor.ended;
        }
        if (!going) {
            return 0;
        }
        g->stuck = !moved;
        for (int64_t i = 0; !moved && i < g->count; ++i) {
            pp_runner *const r = &g->runners[i];
            if (!r->actor.ended) { /* the first that waits says so */
                pp_turn(&r->actor);
                return r->failed;
            }
        }
    }
}

/* 0 when all have come to their ends and every tile was popped; else the first failure, or one of the numbers above. */
static __attribute__((unused)) int64_t pp_group_run(pp_group *g)
{
    pp_stage_open(&g->stage);
    int64_t failed = pp_group_open(g) ? pp_group_steps(g) : PP_NO_MEMORY;
    for (int64_t i = 0; i < g->count; ++i) {
        pp_runner *const r = &g->runners[i];
        pp_actor_close(&r->actor);
        free(r->mem);
    }
    for (int64_t i = 0; i < g->channel_count; ++i) {
        for (int64_t lane = 0; lane < g->lanes; ++lane) {
            pp_queue *const q = &g->channels[i].queues[lane];
            if (!failed && q->pushed > q->popped) {
                failed = PP_LEFT_OVER(i);
                g->left = q->pushed - q->popped;
            }
            free(q->data);
            free(q->parcels);
        }
    }
    pp_stage_close(&g->stage);
    return failed;
}

/* -- transfers -- */

PP_INLINE int64_t pp_lane_of(const unsigned char *side)
{
    return ((const pp_runner *)side)->lane;
}

static __attribute__((unused)) pp_channel *pp_channel_of(pp_runner *me, int64_t key)
{
    for (int64_t i = 0; i < me->group->channel_count; ++i) {
        if (me->group->channels[i].key == key) {
            return &me->group->channels[i];
        }
    }
    abort(); /* every pipe that is used is open: the program was judged */
}

/* The lanes whose queues a runner works on. */
PP_INLINE int64_t pp_first_lane(const pp_runner *me)
{
    return me->cube ? 0 : me->lane;
}

PP_INLINE int64_t pp_last_lane(const pp_runner *me)
{
    return me->cube ? me->group->lanes - 1 : me->lane;
}

static __attribute__((unused)) bool pp_has_room(pp_runner *me, pp_channel *c)
{
    bool all = true;
    for (int64_t lane = pp_first_lane(me); lane <= pp_last_lane(me); ++lane) {
        all = all && c->queues[lane].pushed - c->queues[lane].freed < c->slots;
    }
    return all;
}

static __attribute__((unused)) bool pp_has_tile(pp_runner *me, pp_channel *c)
{
    bool all = true;
    for (int64_t lane = pp_first_lane(me); lane <= pp_last_lane(me); ++lane) {
        all = all && c->queues[lane].pushed > c->queues[lane].popped;
    }
    return all;
}

static __attribute__((unused)) int64_t pp_push_wait(unsigned char *side, int64_t key)
{
    pp_runner *const me = (pp_runner *)side;
    return pp_wait(me, pp_has_room, pp_channel_of(me, key));
}

static __attribute__((unused)) int64_t pp_pop_wait(unsigned char *side, int64_t key)
{
    pp_runner *const me = (pp_runner *)side;
    return pp_wait(me, pp_has_tile, pp_channel_of(me, key));
}

static __attribute__((unused)) void pp_copy_elements(
    unsigned char *dst, int64_t dr, int64_t dc, const unsigned char *src, int64_t sr, int64_t sc, int64_t rows, int64_t cols, int64_t size)
{
    for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < cols; ++c) {
            memcpy(dst + (r * dr + c * dc) * size, src + (r * sr + c * sc) * size, (size_t)size);
        }
    }
}

PP_INLINE int64_t pp_part_of(int64_t valid, int64_t first, int64_t most)
{
    const int64_t rest = valid - first;
    return rest < 0 ? 0 : rest < most ? rest : most;
}

static __attribute__((unused)) void pp_push(
    unsigned char *side, const void *src, int64_t sr, int64_t sc, int64_t key, int64_t size, int64_t type, int64_t rows, int64_t cols,
    int64_t height, int64_t width, int64_t split)
{
    pp_runner *const me = (pp_runner *)side;
    pp_channel *const c = pp_channel_of(me, key);
    for (int64_t lane = pp_first_lane(me); lane <= pp_last_lane(me); ++lane) {
        pp_queue *const q = &c->queues[lane];
        const int64_t at = q->pushed % c->slots;
        pp_parcel p = {rows, cols, height, width, type, split};
        int64_t first_row = 0, first_col = 0;
        if (me->cube && split == 1) {
            p.height = height / 2;
            first_row = lane * p.height;
            p.rows = pp_part_of(rows, first_row, p.height);
        } else if (me->cube && split == 2) {
            p.width = width / 2;
            first_col = lane * p.width;
            p.cols = pp_part_of(cols, first_col, p.width);
        }
        const unsigned char *const from = (const unsigned char *)src + (first_row * sr + first_col * sc) * size;
        pp_copy_elements(q->data + at * c->slot_bytes, p.cols, 1, from, sr, sc, p.rows, p.cols, size);
        q->parcels[at] = p;
        ++q->pushed;
    }
}

/* Whether the next tile has these extents, type and split. */
static __attribute__((unused)) int64_t pp_pop_match(
    unsigned char *side, int64_t key, int64_t type, int64_t height, int64_t width, int64_t split)
{
    pp_runner *const me = (pp_runner *)side;
    pp_channel *const c = pp_channel_of(me, key);
    for (int64_t lane = pp_first_lane(me); lane <= pp_last_lane(me); ++lane) {
        const pp_queue *const q = &c->queues[lane];
        const pp_parcel *const p = &q->parcels[q->popped % c->slots];
        const int64_t tall = me->cube && split == 1 ? 2 * p->height : p->height;
        const int64_t wide = me->cube && split == 2 ? 2 * p->width : p->width;
        if (p->type != type || p->split != split || tall != height || wide != width) {
            return lane;
        }
    }
    return PP_FINE;
}

/* Whether so much of the next tile is valid: else how much is, of the dimension that lacks. */
static __attribute__((unused)) int64_t pp_pop_valid(unsigned char *side, int64_t key, int64_t rows, int64_t cols, int64_t split)
{
    pp_runner *const me = (pp_runner *)side;
    pp_channel *const c = pp_channel_of(me, key);
    for (int64_t lane = pp_first_lane(me); lane <= pp_last_lane(me); ++lane) {
        const pp_queue *const q = &c->queues[lane];
        const pp_parcel *const p = &q->parcels[q->popped % c->slots];
        const int64_t tall = me->cube && split == 1 ? 2 * p->rows : p->rows;
        const int64_t wide = me->cube && split == 2 ? 2 * p->cols : p->cols;
        if (rows > tall || cols > wide) {
            return rows > tall ? tall : wide;
        }
    }
    return PP_FINE;
}

static __attribute__((unused)) void pp_pop(
    unsigned char *side, void *dst, int64_t dr, int64_t dc, int64_t key, int64_t size, int64_t rows, int64_t cols, int64_t split)
{
    pp_runner *const me = (pp_runner *)side;
    pp_channel *const c = pp_channel_of(me, key);
    for (int64_t lane = pp_first_lane(me); lane <= pp_last_lane(me); ++lane) {
        pp_queue *const q = &c->queues[lane];
        const int64_t at = q->popped++ % c->slots;
        const pp_parcel *const p = &q->parcels[at];
        int64_t first_row = 0, first_col = 0;
        if (me->cube && split == 1) {
            first_row = lane * p->height;
        } else if (me->cube && split == 2) {
            first_col = lane * p->width;
        } else if (me->cube && lane > 0) {
            continue; /* what is passed whole is the first lane's */
        }
        unsigned char *const to = (unsigned char *)dst + (first_row * dr + first_col * dc) * size;
        const int64_t tall = pp_part_of(rows, first_row, p->rows), wide = pp_part_of(cols, first_col, p->cols);
        pp_copy_elements(to, dr, dc, q->data + at * c->slot_bytes, p->cols, 1, tall, wide, size);
    }
}

static __attribute__((unused)) int64_t pp_free_slot(unsigned char *side, int64_t key)
{
    pp_runner *const me = (pp_runner *)side;
    pp_channel *const c = pp_channel_of(me, key);
    for (int64_t lane = pp_first_lane(me); lane <= pp_last_lane(me); ++lane) {
        if (c->queues[lane].freed == c->queues[lane].popped) {
            return 0;
        }
        ++c->queues[lane].freed;
    }
    return PP_FINE;
}

#endif
