/* jobs.c - see jobs.h. */
#include "request/jobs.h"

#include "core/server.h"
#include "request/worker.h"

#include <pthread.h>
#include <stdlib.h>

struct jobs {
    struct server *server;
    pthread_mutex_t lock;
    pthread_cond_t arrived;
    struct job *first, **last;
    size_t waiting;
    bool ending;
    /* first user that submitted a job; NULL if there is none yet */
    const struct user *someone;
    bool shared; /* at least two users have submitted jobs */
    size_t count;
    struct jobs_thread {
        struct jobs *jobs;
        struct session session;
        pthread_t thread;
        bool busy;
        uint64_t lane; /* lane of the running job; 0 if there is none */
        const struct user *owner;
    } threads[];
};

static bool jobs_lane_is_free(const struct jobs *jobs, uint64_t lane)
{
    for (size_t i = 0; lane && i < jobs->count; i++) {
        if (jobs->threads[i].lane == lane) {
            return false;
        }
    }
    return true;
}

/* Returns the number of threads that are running an owner's jobs. */
static size_t jobs_of(const struct jobs *jobs, const struct user *owner)
{
    size_t n = 0;
    for (size_t i = 0; i < jobs->count; i++) {
        n += jobs->threads[i].busy && jobs->threads[i].owner == owner;
    }
    return n;
}

/* Returns the queue position of the next job to run: a job whose lane is free and whose owner
 * occupies the fewest threads. If several users share the pool, an owner that already occupies all
 * threads but one is skipped. Returns NULL if there is no such job. */
static struct job **jobs_choose(struct jobs *jobs)
{
    struct job **best = NULL;
    size_t fewest = jobs->shared && jobs->count > 1 ? jobs->count - 1 : jobs->count;
    for (struct job **at = &jobs->first; *at && fewest > 0; at = &(*at)->next) {
        const size_t n = jobs_of(jobs, (*at)->owner);
        if (n < fewest && jobs_lane_is_free(jobs, (*at)->lane)) {
            best = at;
            fewest = n;
        }
    }
    return best;
}

/* Removes the next job from the queue and returns it, or returns NULL if there is none. */
static struct job *jobs_next(struct jobs *jobs)
{
    struct job **at = jobs_choose(jobs);
    struct job *job = at ? *at : NULL;
    if (job) {
        *at = job->next;
        jobs->last = *at ? jobs->last : at;
        jobs->waiting--;
    }
    return job;
}

/* Ends the thread's previous job and waits for the next one; returns NULL if the pool is
 * stopping. */
static struct job *jobs_take(struct jobs *jobs, struct jobs_thread *thread)
{
    struct job *job = NULL;
    pthread_mutex_lock(&jobs->lock);
    /* A queued job may have been waiting for the previous job's lane, or for a thread that its
     * owner may use. */
    if (thread->busy && jobs->first) {
        pthread_cond_signal(&jobs->arrived);
    }
    thread->busy = false;
    thread->lane = 0;
    while (!(job = jobs_next(jobs)) && !(jobs->ending && !jobs->first)) {
        pthread_cond_wait(&jobs->arrived, &jobs->lock);
    }
    thread->busy = job != NULL;
    thread->lane = job ? job->lane : 0;
    thread->owner = job ? job->owner : NULL;
    if (jobs->ending && !jobs->first) {
        /* Wakes the other threads so that they exit, because no jobs are left. */
        pthread_cond_broadcast(&jobs->arrived);
    }
    pthread_mutex_unlock(&jobs->lock);
    return job;
}

static bool jobs_end(struct jobs *jobs)
{
    pthread_mutex_lock(&jobs->lock);
    const bool ends = jobs->ending;
    pthread_mutex_unlock(&jobs->lock);
    return ends;
}

static void *jobs_work(void *context)
{
    struct jobs_thread *thread = context;
    struct job *job = NULL;
    while ((job = jobs_take(thread->jobs, thread)) != NULL) {
        if (job->must || !jobs_end(thread->jobs)) {
            session_begin(&thread->session);
            job->run(job, &thread->session);
            session_end(&thread->session);
        }
        if (job->worker) {
            worker_post_job(job->worker, job);
        } else {
            job->done(job);
        }
    }
    return NULL;
}

struct jobs *jobs_create(struct server *server, unsigned threads)
{
    struct jobs *jobs = calloc(1, sizeof *jobs + threads * sizeof *jobs->threads);
    if (!jobs) {
        return NULL;
    }
    jobs->server = server;
    jobs->last = &jobs->first;
    pthread_mutex_init(&jobs->lock, NULL);
    pthread_cond_init(&jobs->arrived, NULL);
    /* ensures that the new threads see the complete array */
    pthread_mutex_lock(&jobs->lock);
    for (; jobs->count < threads; jobs->count++) {
        struct jobs_thread *thread = &jobs->threads[jobs->count];
        thread->jobs = jobs;
        if (!session_init(&thread->session, server, true)) {
            break;
        }
        if (pthread_create(&thread->thread, NULL, jobs_work, thread)) {
            session_fini(&thread->session);
            break;
        }
    }
    pthread_mutex_unlock(&jobs->lock);
    if (jobs->count == 0) {
        jobs_free(jobs);
        return NULL;
    }
    return jobs;
}

void jobs_free(struct jobs *jobs)
{
    if (!jobs) {
        return;
    }
    pthread_mutex_lock(&jobs->lock);
    jobs->ending = true;
    pthread_cond_broadcast(&jobs->arrived);
    pthread_mutex_unlock(&jobs->lock);
    for (size_t i = 0; i < jobs->count; i++) {
        pthread_join(jobs->threads[i].thread, NULL);
        session_fini(&jobs->threads[i].session);
    }
    pthread_mutex_destroy(&jobs->lock);
    pthread_cond_destroy(&jobs->arrived);
    free(jobs);
}

void jobs_submit(struct jobs *jobs, struct job *job)
{
    job->next = NULL;
    pthread_mutex_lock(&jobs->lock);
    *jobs->last = job;
    jobs->last = &job->next;
    jobs->waiting++;
    jobs->someone = jobs->someone ? jobs->someone : job->owner;
    jobs->shared = jobs->shared || (job->owner && job->owner != jobs->someone);
    pthread_cond_signal(&jobs->arrived);
    pthread_mutex_unlock(&jobs->lock);
}

size_t jobs_waiting(struct jobs *jobs)
{
    pthread_mutex_lock(&jobs->lock);
    const size_t waiting = jobs->waiting;
    pthread_mutex_unlock(&jobs->lock);
    return waiting;
}
