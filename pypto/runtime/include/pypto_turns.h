/* Pieces of work that run side by side, one at a time: who has the turn goes on until it pauses or ends.
 *
 * In: what each does.  Out: whether it paused or ended.  Each has a thread of its own, from its first turn on.  Invariant: nothing
 * depends on how threads are scheduled.
 */
#ifndef PYPTO_TURNS_H
#define PYPTO_TURNS_H

#include <pthread.h>
#include <stdbool.h>

typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t back;
} pp_stage;

typedef struct {
    pp_stage *stage;
    void (*act)(void *owner);
    void *owner;
    bool begun, going, ended, stopped;
    pthread_t thread;
    pthread_cond_t go;
} pp_actor;

static __attribute__((unused)) void pp_stage_open(pp_stage *s)
{
    pthread_mutex_init(&s->lock, 0);
    pthread_cond_init(&s->back, 0);
}

static __attribute__((unused)) void pp_stage_close(pp_stage *s)
{
    pthread_cond_destroy(&s->back);
    pthread_mutex_destroy(&s->lock);
}

static __attribute__((unused)) void pp_actor_open(pp_actor *a, pp_stage *stage, void (*act)(void *owner), void *owner)
{
    *a = (pp_actor){.stage = stage, .act = act, .owner = owner};
    pthread_cond_init(&a->go, 0);
}

/* Called by the work itself; `stopped` says afterwards whether it is to end. */
static __attribute__((unused)) void pp_pause(pp_actor *a)
{
    pthread_mutex_lock(&a->stage->lock);
    a->going = false;
    pthread_cond_signal(&a->stage->back);
    while (!a->going) {
        pthread_cond_wait(&a->go, &a->stage->lock);
    }
    pthread_mutex_unlock(&a->stage->lock);
}

static __attribute__((unused)) void *pp_actor_main(void *given)
{
    pp_actor *const a = given;
    a->act(a->owner);
    pthread_mutex_lock(&a->stage->lock);
    a->going = false;
    a->ended = true;
    pthread_cond_signal(&a->stage->back);
    pthread_mutex_unlock(&a->stage->lock);
    return 0;
}

/* Lets it go on until it pauses or ends; false where there is no thread for it. */
static __attribute__((unused)) bool pp_turn(pp_actor *a)
{
    pthread_mutex_lock(&a->stage->lock);
    a->going = true;
    if (a->begun) {
        pthread_cond_signal(&a->go);
    } else if (pthread_create(&a->thread, 0, pp_actor_main, a) == 0) {
        a->begun = true;
    } else {
        a->going = false;
        pthread_mutex_unlock(&a->stage->lock);
        return false;
    }
    while (a->going) {
        pthread_cond_wait(&a->stage->back, &a->stage->lock);
    }
    pthread_mutex_unlock(&a->stage->lock);
    return true;
}

/* It ends where it paused, and its thread with it. */
static __attribute__((unused)) void pp_actor_close(pp_actor *a)
{
    if (a->begun && !a->ended) {
        a->stopped = true;
        pp_turn(a);
    }
    if (a->begun) {
        pthread_join(a->thread, 0);
    }
    pthread_cond_destroy(&a->go);
}

#endif
