#ifndef ROCKS_ENV_H
#define ROCKS_ENV_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A rocksdb::Env whose background work runs where the program says. Files, clocks and threads of
 * StartThread() are those of rocksdb::Env::Default().
 *
 * RocksDB has four pools, and says of each how many jobs of it may run at once. The Env keeps their
 * queues, since RocksDB asks for their lengths and takes jobs back. To the program it hands turns:
 * permissions to run the pool's next job, never more at once than the pool may run.
 */
typedef struct rocks_env rocks_env;
typedef struct rocks_turn rocks_turn;

/* RocksDB's pools, with its numbers. Flushes are high, compactions low, those of the last level bottom. */
typedef enum __attribute__((enum_extensibility(closed))) rocks_pool {
    ROCKS_POOL_BOTTOM __attribute__((swift_name("bottom"))) = 0,
    ROCKS_POOL_LOW __attribute__((swift_name("low"))) = 1,
    ROCKS_POOL_HIGH __attribute__((swift_name("high"))) = 2,
    ROCKS_POOL_USER __attribute__((swift_name("user"))) = 3,
} rocks_pool;

/*
 * Where turns run. `submit` is to have rocks_turn_run() or rocks_turn_refuse() called once for `turn`,
 * on a thread of the program's choice, later or on another thread, never inside of the call: RocksDB
 * calls it with its own locks held. It must not block. False if it will call neither.
 * `release` is called once, when neither the Env nor a turn needs `context` any more; on any thread.
 */
typedef struct rocks_host {
    void *_Nullable context;
    bool (*_Nonnull submit)(void *_Nullable context, rocks_pool pool, rocks_turn *_Nonnull turn);
    void (*_Nonnull release)(void *_Nullable context);
} rocks_host;

/* NULL if there is no memory; `release` has not been called then. */
rocks_env *_Nullable rocks_env_create(rocks_host host);

/*
 * Close all databases of the Env first, as with any Env. Drops what is still queued (calling what was
 * given to Schedule() for that), and waits for jobs that run. Turns may outlive the Env; they do nothing
 * then. Not from a job of the Env.
 */
void rocks_env_destroy(rocks_env *_Nonnull env);

/* Runs the pool's next job, if there is one still. Consumes the turn. */
void rocks_turn_run(rocks_turn *_Nonnull turn);

/*
 * For a turn that will not be run, as where the scheduler was shut down: its job runs in the pool of
 * rocksdb::Env::Default(), since RocksDB waits for what it has scheduled. Consumes the turn.
 */
void rocks_turn_refuse(rocks_turn *_Nonnull turn);

/* What RocksDB calls, for tests: Schedule(), UnSchedule(), GetThreadPoolQueueLen(), and so on. */
void rocks_env_schedule(
    rocks_env *_Nonnull env, void (*_Nonnull function)(void *_Nullable), void *_Nullable argument,
    rocks_pool pool, void *_Nullable tag, void (*_Nullable unscheduled)(void *_Nullable));
int rocks_env_unschedule(rocks_env *_Nonnull env, void *_Nullable tag, rocks_pool pool);
unsigned rocks_env_queue_length(const rocks_env *_Nonnull env, rocks_pool pool);
void rocks_env_set_threads(rocks_env *_Nonnull env, int count, rocks_pool pool);
void rocks_env_raise_threads(rocks_env *_Nonnull env, int count, rocks_pool pool);
int rocks_env_threads(rocks_env *_Nonnull env, rocks_pool pool);

#ifdef __cplusplus
}
#endif

#endif
