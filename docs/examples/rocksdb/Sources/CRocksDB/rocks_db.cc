#include "rocks_db.h"

#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/rate_limiter.h>
#include <rocksdb/statistics.h>
#include <rocksdb/table.h>
#include <rocksdb/utilities/checkpoint.h>
#include <rocksdb/write_batch.h>
#include <string.h>

#include <algorithm>
#include <memory>
#include <string>

struct rocks_db {
    std::unique_ptr<rocksdb::DB> db;
    std::shared_ptr<rocksdb::Statistics> statistics;
};

namespace {

using rocksdb::Env;
using rocksdb::Slice;
using rocksdb::Status;

bool Say(const Status &status, char **error) {
    if (status.ok()) return true;
    *error = strdup(status.ToString().c_str());
    return false;
}

rocksdb::Options MakeOptions(const rocks_options &wanted) {
    rocksdb::Options options;
    options.create_if_missing = true;
    if (wanted.env != nullptr) options.env = reinterpret_cast<Env *>(wanted.env);
    options.max_background_jobs = wanted.background_jobs;
    options.statistics = rocksdb::CreateDBStatistics();
    options.statistics->set_stats_level(rocksdb::StatsLevel::kExceptDetailedTimers);
    rocksdb::BlockBasedTableOptions table;
    table.block_cache = rocksdb::NewLRUCache(wanted.block_cache_bytes);
    options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));

    if (wanted.loads) {
        options.PrepareForBulkLoad();
        return options;
    }
    // RocksDB's defaults, 64 MiB, 64 MiB and 256 MiB, in the same proportion.
    options.write_buffer_size = wanted.write_buffer_bytes;
    options.target_file_size_base = wanted.write_buffer_bytes;
    options.max_bytes_for_level_base = 4 * wanted.write_buffer_bytes;
    if (wanted.direct_reads) {
        options.use_direct_reads = true;
        options.use_direct_io_for_flush_and_compaction = true;
    }
    if (wanted.rate_limit != 0) {
        const int64_t refill_us = 100 * 1000;
        const int32_t fairness = 10;
        options.rate_limiter.reset(rocksdb::NewGenericRateLimiter(
            static_cast<int64_t>(wanted.rate_limit), refill_us, fairness, rocksdb::RateLimiter::Mode::kWritesOnly,
            /*auto_tuned=*/true));
        // The guide's companion to a rate limiter: written back as it is written, and not all at once.
        options.bytes_per_sync = 1 << 20;
        options.wal_bytes_per_sync = 1 << 20;
    }
    if (wanted.lowers_background) {
        for (const auto pool : {Env::Priority::BOTTOM, Env::Priority::LOW}) {
            options.env->LowerThreadPoolCPUPriority(pool, rocksdb::CpuPriority::kLow);
            options.env->LowerThreadPoolIOPriority(pool);
        }
    }
    return options;
}

uint64_t Property(rocksdb::DB *db, const std::string &name) {
    uint64_t value = 0;
    return db->GetIntProperty(name, &value) ? value : 0;
}

}  // namespace

extern "C" {

rocks_db *rocks_open(rocks_options wanted, char **error) {
    const rocksdb::Options options = MakeOptions(wanted);
    rocksdb::DB *db = nullptr;
    if (!Say(rocksdb::DB::Open(options, wanted.path, &db), error)) return nullptr;
    return new rocks_db{std::unique_ptr<rocksdb::DB>(db), options.statistics};
}

bool rocks_close(rocks_db *db, char **error) {
    const std::unique_ptr<rocks_db> owned(db);
    return Say(owned->db->Close(), error);
}

ptrdiff_t rocks_get(
    rocks_db *db, const void *key, size_t key_count, void *value, size_t capacity, char **error) {
    rocksdb::PinnableSlice found;
    const Slice wanted(static_cast<const char *>(key), key_count);
    const Status status = db->db->Get(rocksdb::ReadOptions(), db->db->DefaultColumnFamily(), wanted, &found);
    if (status.IsNotFound()) return -1;
    if (!Say(status, error)) return -2;
    memcpy(value, found.data(), std::min(capacity, found.size()));
    return static_cast<ptrdiff_t>(found.size());
}

bool rocks_write(
    rocks_db *db, const void *keys, size_t key_count, const void *values, size_t value_count, size_t count,
    char **error) {
    rocksdb::WriteBatch batch;
    const char *key = static_cast<const char *>(keys);
    const char *value = static_cast<const char *>(values);
    for (; count > 0; --count, key += key_count, value += value_count) {
        const Status status = batch.Put(Slice(key, key_count), Slice(value, value_count));
        if (!Say(status, error)) return false;
    }
    return Say(db->db->Write(rocksdb::WriteOptions(), &batch), error);
}

bool rocks_compact_all(rocks_db *db, char **error) {
    rocksdb::CompactRangeOptions options;
    return Say(db->db->CompactRange(options, nullptr, nullptr), error);
}

bool rocks_checkpoint(rocks_db *db, const char *path, char **error) {
    rocksdb::Checkpoint *made = nullptr;
    if (!Say(rocksdb::Checkpoint::Create(db->db.get(), &made), error)) return false;
    const std::unique_ptr<rocksdb::Checkpoint> checkpoint(made);
    return Say(checkpoint->CreateCheckpoint(path), error);
}

rocks_counts rocks_count(rocks_db *db) {
    using Properties = rocksdb::DB::Properties;
    const auto &statistics = db->statistics;
    rocks_counts counts = {};
    counts.compaction_read = statistics->getTickerCount(rocksdb::COMPACT_READ_BYTES);
    counts.compaction_written = statistics->getTickerCount(rocksdb::COMPACT_WRITE_BYTES);
    counts.flushed = statistics->getTickerCount(rocksdb::FLUSH_WRITE_BYTES);
    counts.stall_us = statistics->getTickerCount(rocksdb::STALL_MICROS);
    counts.pending_compaction = Property(db->db.get(), Properties::kEstimatePendingCompactionBytes);
    counts.is_compacting = Property(db->db.get(), Properties::kNumRunningCompactions) != 0 ||
        Property(db->db.get(), Properties::kCompactionPending) != 0 ||
        Property(db->db.get(), Properties::kMemTableFlushPending) != 0;
    return counts;
}

}  // extern "C"
