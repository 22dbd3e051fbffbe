/* The threads that share the blocks and trips of heavy calls.
 *
 * In: a job, which is a function over shares 0 .. n-1.  Out: 0, or what the first share in order that failed reported.
 * One job at a time: a call that finds the team at work, or is itself part of its work, does its own shares alone, so that
 * there are never more threads than were asked for.  Threads start with the first job and end with the process; a forked
 * child begins without any.  Results never depend on who does which share.
 */
#include "arena.h"
#include "float_state.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

enum { MAX_THREADS = 256, SHARES_EACH = 4 };

typedef struct {
    const pypto_call *call;
    pypto_share share;
    void *context;
    int64_t shares;
    atomic_llong next;      /* the first share that nobody has taken */
    atomic_llong failed;    /* the lowest share that failed, or `shares` */
    int64_t status;         /* what it returned, and its fault: under the lock */
    int64_t fault[4];
} Job;

static struct {
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    Job *job;
    uint64_t number; /* of the job */
    int asked;       /* threads that a job may use, the caller's included; 0: nobody has said */
    int started, active;
    atomic_int busy;
} team = {.lock = PTHREAD_MUTEX_INITIALIZER, .work = PTHREAD_COND_INITIALIZER, .done = PTHREAD_COND_INITIALIZER, };

static void take_shares(Job *job, pypto_arena *arena)
{
    for (;;) {
        int64_t share = atomic_fetch_add_explicit(&job->next, 1, memory_order_relaxed);
        /* Shares behind one that failed are not worth the time; those before it decide what is reported. */
        if (share >= job->shares || share > atomic_load_explicit(&job->failed, memory_order_relaxed))
            return;
        pypto_call own = *job->call;
        own.arena = arena;
        own.parallel = NULL;
        int64_t status = job->share(&own, job->context, share, job->shares);
        if (LIKELY(status == 0))
            continue;
        pthread_mutex_lock(&team.lock);
        if (share < atomic_load(&job->failed)) {
            atomic_store(&job->failed, share);
            job->status = status;
            memcpy(job->fault, own.fault, sizeof job->fault);
        }
        pthread_mutex_unlock(&team.lock);
    }
}

static void *member(void *first)
{
    uint64_t seen = *(uint64_t *)first;
    free(first);
    pthread_mutex_lock(&team.lock);
    for (;;) {
        while (team.number == seen || team.job == NULL) {
            seen = team.number;
            pthread_cond_wait(&team.work, &team.lock);
        }
        seen = team.number;
        Job *job = team.job;
        team.active++;
        pthread_mutex_unlock(&team.lock);
        /* Without memory of its own a thread leaves the work to the others. */
        pypto_arena *arena = arena_of_thread(job->call->arena->size);
        if (arena != NULL) {
            FloatState state = float_enter();
            take_shares(job, arena);
            float_leave(state);
            arena_end_call(arena);
        }
        pthread_mutex_lock(&team.lock);
        if (--team.active == 0)
            pthread_cond_signal(&team.done);
    }
    return NULL;
}

/* As many threads as a job may use; fewer where the system has no more.  Under the lock. */
static void team_start(void)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the threads of the interpreter */
    while (team.started < team.asked - 1) {
        pthread_t thread;
        uint64_t *seen = malloc(sizeof *seen);
        if (seen == NULL)
            break;
        *seen = team.number;
        if (pthread_create(&thread, NULL, member, seen) != 0) {
            free(seen);
            team.asked = team.started + 1;
            break;
        }
        pthread_detach(thread);
        team.started++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

int64_t team_run(pypto_call *call, int64_t most, pypto_share share, void *context)
{
    int idle = 0;
    int64_t shares = (int64_t)team.asked * SHARES_EACH;
    shares = shares < most ? shares : most;
    if (shares < 2 || !atomic_compare_exchange_strong(&team.busy, &idle, 1))
        return share(call, context, 0, 1);
    Job job = {.call = call, .share = share, .context = context, .shares = shares};
    atomic_init(&job.next, 0);
    atomic_init(&job.failed, shares);
    pthread_mutex_lock(&team.lock);
    team_start();
    team.job = &job;
    team.number++;
    pthread_cond_broadcast(&team.work);
    pthread_mutex_unlock(&team.lock);
    take_shares(&job, call->arena);
    pthread_mutex_lock(&team.lock);
    team.job = NULL; /* who has not begun by now does not begin */
    while (team.active > 0)
        pthread_cond_wait(&team.done, &team.lock);
    pthread_mutex_unlock(&team.lock);
    atomic_store(&team.busy, 0);
    memcpy(call->fault, job.fault, sizeof job.fault);
    return job.status;
}

static void team_in_child(void)
{
    pthread_mutex_init(&team.lock, NULL);
    pthread_cond_init(&team.work, NULL);
    pthread_cond_init(&team.done, NULL);
    team.job = NULL;
    team.started = team.active = 0;
    atomic_store(&team.busy, 0);
}

int team_setup(void) { return pthread_atfork(NULL, NULL, team_in_child) == 0; }

void team_configure(void) { team.asked = 0; }

int team_ready(void)
{
    if (LIKELY(team.asked > 0))
        return 1;
    PyObject *answer = PyObject_CallNoArgs(hooks.threads);
    long threads = answer != NULL ? PyLong_AsLong(answer) : -1;
    Py_XDECREF(answer);
    if (PyErr_Occurred())
        return 0;
    team.asked = threads < 1 ? 1 : threads > MAX_THREADS ? MAX_THREADS : (int)threads;
    return 1;
}
