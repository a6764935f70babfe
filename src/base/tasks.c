#include "base/tasks.h"

#include <pthread.h>

struct tasks {
    bool (*task)(void *context, size_t i, unsigned thread);
    void *context;
    size_t count;
    size_t next; /* atomic */
    bool failed; /* atomic */
};

struct tasks_thread {
    struct tasks *tasks;
    unsigned number;
    pthread_t handle;
};

static void *tasks_work(void *argument)
{
    struct tasks_thread *me = argument;
    struct tasks *all = me->tasks;
    while (!__atomic_load_n(&all->failed, __ATOMIC_RELAXED)) {
        size_t i = __atomic_fetch_add(&all->next, 1, __ATOMIC_RELAXED);
        if (i >= all->count) {
            break;
        }
        if (!all->task(all->context, i, me->number)) {
            __atomic_store_n(&all->failed, true, __ATOMIC_RELAXED);
        }
    }
    return NULL;
}

bool bgi_tasks_run(unsigned threads, size_t tasks,
                   bool (*task)(void *context, size_t i, unsigned thread),
                   void *context)
{
    struct tasks all = { .task = task, .context = context, .count = tasks };
    struct tasks_thread thread[BGI_THREADS_MAX];
    unsigned started = 1;
    threads = threads < BGI_THREADS_MAX ? threads : BGI_THREADS_MAX;
    threads = threads < tasks ? threads : (unsigned)tasks;
    thread[0] = (struct tasks_thread){ .tasks = &all, .number = 0 };
    for (; started < threads; started++) {
        struct tasks_thread *t = &thread[started];
        *t = (struct tasks_thread){ .tasks = &all, .number = started };
        if (pthread_create(&t->handle, NULL, tasks_work, t) != 0) {
            break;
        }
    }
    (void)tasks_work(&thread[0]);
    for (unsigned i = 1; i < started; i++) {
        (void)pthread_join(thread[i].handle, NULL);
    }
    return !all.failed;
}
