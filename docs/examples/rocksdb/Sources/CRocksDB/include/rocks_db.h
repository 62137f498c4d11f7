#ifndef ROCKS_DB_H
#define ROCKS_DB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rocks_env.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A database: as much of rocksdb::DB as the program needs. RocksDB's own C interface cannot be given an Env. */
typedef struct rocks_db rocks_db;

typedef struct rocks_options {
    const char *_Nonnull path;
    rocks_env *_Nullable env;         /* NULL: rocksdb::Env::Default(), with RocksDB's own threads */
    size_t block_cache_bytes;
    size_t write_buffer_bytes;        /* of one memtable, and of the files that compaction writes */
    int background_jobs;              /* RocksDB's max_background_jobs */
    uint64_t rate_limit;              /* bytes a second that background may write at most, tuned below; 0: any */
    bool lowers_background;           /* the default Env's low and bottom pools: nice 19, idle I/O class */
    bool direct_reads;                /* O_DIRECT, of reads and of what background reads and writes */
    bool loads;                       /* no compaction; write_buffer_bytes does not count */
} rocks_options;

/* What statistics count since the database was opened. */
typedef struct rocks_counts {
    uint64_t compaction_read, compaction_written, flushed;  /* bytes */
    uint64_t stall_us;                                      /* that writers were held up for compaction */
    uint64_t pending_compaction;                            /* bytes, an estimate by RocksDB */
    bool is_compacting;                                     /* something runs, or is due */
} rocks_counts;

/*
 * Where a function fails it returns NULL, false or a negative number, and says why in `error`, to be
 * given to free(). All may be called by any thread, and block: for a device, for RocksDB's locks, and
 * writes for compaction.
 */
rocks_db *_Nullable rocks_open(rocks_options options, char *_Nullable *_Nonnull error);

/* Waits for background work. Not while another call is inside of the database. The Env stays. */
bool rocks_close(rocks_db *_Nonnull db, char *_Nullable *_Nonnull error);

/* The value's count, of which at most `capacity` bytes are copied; -1 where there is none, -2 on failure. */
ptrdiff_t rocks_get(
    rocks_db *_Nonnull db, const void *_Nonnull key, size_t key_count, void *_Nonnull value, size_t capacity,
    char *_Nullable *_Nonnull error);

/* Writes `count` pairs as one, all keys and all values of one size. */
bool rocks_write(
    rocks_db *_Nonnull db, const void *_Nonnull keys, size_t key_count, const void *_Nonnull values,
    size_t value_count, size_t count, char *_Nullable *_Nonnull error);

/* Compacts everything into one sorted run, and waits for it. */
bool rocks_compact_all(rocks_db *_Nonnull db, char *_Nullable *_Nonnull error);

/* A copy as a database of its own, which shares the files by hard links. `path` must not exist yet. */
bool rocks_checkpoint(rocks_db *_Nonnull db, const char *_Nonnull path, char *_Nullable *_Nonnull error);

rocks_counts rocks_count(rocks_db *_Nonnull db);

#ifdef __cplusplus
}
#endif

#endif
