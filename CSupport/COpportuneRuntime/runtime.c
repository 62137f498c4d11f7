#include "opp_runtime.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>

/* A Swift function in the runtime. With one pointer as argument and a word as result, C's calling convention
 * is the same. */
extern uint64_t swift_task_getJobTaskId(const void *job) __attribute__((weak));
extern void *swift_task_getCurrent(void) __attribute__((weak));

uint64_t opp_runtime_task_id(const void *job) {
    return swift_task_getJobTaskId == NULL ? 0 : swift_task_getJobTaskId(job);
}

bool opp_runtime_has_task_ids(void) {
    return swift_task_getJobTaskId != NULL;
}

bool opp_runtime_is_in_task(void) {
    return swift_task_getCurrent == NULL || swift_task_getCurrent() != NULL;
}

uint64_t opp_runtime_current_task_id(void) {
    const void *task = swift_task_getCurrent == NULL ? NULL : swift_task_getCurrent();
    return task == NULL ? 0 : opp_runtime_task_id(task); /* a task is a job */
}

typedef __attribute__((swiftcall)) void (*enqueue_function)(void *job);
typedef __attribute__((swiftcall)) void (*enqueue_hook)(void *job, enqueue_function original);

static _Atomic(void (*)(void *)) observer;

static __attribute__((swiftcall)) void hook(void *job, enqueue_function original) {
    /* acquire: pairs with the release in opp_runtime_hook_global(); sees what the installer prepared. */
    void (*seen)(void *) = atomic_load_explicit(&observer, memory_order_acquire);
    if (seen != NULL) seen(job);
    original(job);
}

static enqueue_hook *find_hook(void) {
    return (enqueue_hook *)dlsym(RTLD_DEFAULT, "swift_task_enqueueGlobal_hook");
}

bool opp_runtime_has_global_hook(void) {
    return find_hook() != NULL;
}

bool opp_runtime_hook_global(void (*seen)(void *)) {
    enqueue_hook *place = find_hook();
    if (place == NULL) return false;
    atomic_store_explicit(&observer, seen, memory_order_release); /* release: see hook() */
    *place = hook;
    return true;
}
