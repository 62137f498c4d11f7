// The Env. What may still happen when a database is closed decides how it is built:
//
// * RocksDB takes its queued jobs back by tag (UnSchedule), and waits for those that run. Turns for jobs that
//   were taken back may be queued in the scheduler for any time, in that of a suspended app for ever. So a
//   turn does not own a job: it takes the next one when it runs, or ends if there is none.
// * A job's last act is to tell the database that it has ended; the database and then the Env may be gone
//   before the job has returned here. So a turn shares the pool with the Env, and touches nothing else.
#include "rocks_env.h"

#include <rocksdb/env.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

namespace {

using rocksdb::Env;

// The program's part, released with the last pool that may still submit a turn.
struct Host {
    explicit Host(rocks_host host) : functions(host) {}
    ~Host() {
        if (owns_context) functions.release(functions.context);
    }
    Host(const Host &) = delete;
    Host &operator=(const Host &) = delete;

    rocks_host functions;
    bool owns_context = false;
};

struct Job {
    void (*function)(void *);
    void *argument;
    void *tag;
    void (*unscheduled)(void *);
};

class Pool;

}  // namespace

// Permission to run one job at a time of `pool`.
struct rocks_turn {
    std::shared_ptr<Pool> pool;
};

namespace {

class Pool : public std::enable_shared_from_this<Pool> {
  public:
    Pool(std::shared_ptr<Host> host, rocks_pool number) : host_(std::move(host)), number_(number) {}

    void Schedule(Job job) {
        int begin;
        {
            std::lock_guard<std::mutex> guard(lock_);
            queue_.push_back(job);
            begin = TurnsToBegin();
        }
        Begin(begin);
    }

    int UnSchedule(void *tag) {
        std::vector<Job> taken;
        {
            std::lock_guard<std::mutex> guard(lock_);
            std::deque<Job> kept;
            for (const Job &job : queue_) {
                if (job.tag == tag) taken.push_back(job);
                else kept.push_back(job);
            }
            queue_.swap(kept);
        }
        Drop(taken);
        return static_cast<int>(taken.size());
    }

    unsigned QueueLength() const {
        std::lock_guard<std::mutex> guard(lock_);
        return static_cast<unsigned>(queue_.size());
    }

    int Limit() const {
        std::lock_guard<std::mutex> guard(lock_);
        return limit_;
    }

    void SetLimit(int limit, bool may_reduce) {
        int begin;
        {
            std::lock_guard<std::mutex> guard(lock_);
            limit_ = may_reduce ? std::max(0, limit) : std::max(limit_, limit);
            begin = TurnsToBegin();
        }
        Begin(begin);
    }

    // Drops what is queued, and waits for what runs.
    void Close() {
        std::vector<Job> dropped;
        {
            std::lock_guard<std::mutex> guard(lock_);
            dropped.assign(queue_.begin(), queue_.end());
            queue_.clear();
        }
        Drop(dropped);
        std::unique_lock<std::mutex> guard(lock_);
        ended_.wait(guard, [this] { return running_ == 0; });
    }

    // A turn runs one job and asks for another turn, so that the scheduler decides anew who is next.
    void Run(std::unique_ptr<rocks_turn> turn) {
        Job job;
        {
            std::lock_guard<std::mutex> guard(lock_);
            if (!MayGoOn()) return;
            job = queue_.front();
            queue_.pop_front();
            ++running_;
        }
        job.function(job.argument);
        {
            std::lock_guard<std::mutex> guard(lock_);
            if (--running_ == 0) ended_.notify_all();
            if (!MayGoOn()) return;
        }
        Submit(std::move(turn));
    }

    void Refuse(std::unique_ptr<rocks_turn> turn) {
        Env *other = Env::Default();
        const auto priority = static_cast<Env::Priority>(number_);
        other->IncBackgroundThreadsIfNeeded(std::max(1, Limit()), priority);
        other->Schedule(
            [](void *turn) { rocks_turn_run(static_cast<rocks_turn *>(turn)); }, turn.release(), priority);
    }

  private:
    // How many turns are to begin, counted as begun; with the lock held. There are as many turns as jobs that
    // run or are queued, up to the limit.
    int TurnsToBegin() {
        const int wanted = std::min<long>(limit_, running_ + static_cast<long>(queue_.size()));
        const int more = std::max(0, wanted - turns_);
        turns_ += more;
        return more;
    }

    // Whether a turn that holds no job has one to run; else it has ended. With the lock held.
    bool MayGoOn() {
        if (!queue_.empty() && turns_ <= limit_) return true;
        --turns_;
        return false;
    }

    void Begin(int turns) {
        for (; turns > 0; --turns) Submit(std::unique_ptr<rocks_turn>(new rocks_turn{shared_from_this()}));
    }

    void Submit(std::unique_ptr<rocks_turn> turn) {
        const rocks_host &host = host_->functions;
        rocks_turn *handed = turn.release();
        if (!host.submit(host.context, number_, handed)) Refuse(std::unique_ptr<rocks_turn>(handed));
    }

    static void Drop(const std::vector<Job> &jobs) {
        for (const Job &job : jobs) {
            if (job.unscheduled != nullptr) job.unscheduled(job.argument);
        }
    }

    const std::shared_ptr<Host> host_;
    const rocks_pool number_;
    mutable std::mutex lock_;
    std::condition_variable ended_;
    std::deque<Job> queue_;
    int limit_ = 0;    // RocksDB's number of threads
    int turns_ = 0;    // handed to the host, or running a job
    int running_ = 0;  // jobs
};

class HostedEnv : public rocksdb::EnvWrapper {
  public:
    explicit HostedEnv(const std::shared_ptr<Host> &host) : EnvWrapper(Env::Default()) {
        for (size_t pool = 0; pool < pools_.size(); ++pool) {
            pools_[pool] = std::make_shared<Pool>(host, static_cast<rocks_pool>(pool));
        }
    }

    ~HostedEnv() override {
        for (auto &pool : pools_) pool->Close();
    }

    const char *Name() const override { return "HostedEnv"; }

    void Schedule(
        void (*function)(void *), void *argument, Priority pool, void *tag,
        void (*unscheduled)(void *)) override {
        pools_[pool]->Schedule({function, argument, tag, unscheduled});
    }

    int UnSchedule(void *tag, Priority pool) override { return pools_[pool]->UnSchedule(tag); }
    unsigned int GetThreadPoolQueueLen(Priority pool) const override { return pools_[pool]->QueueLength(); }
    void SetBackgroundThreads(int count, Priority pool) override { pools_[pool]->SetLimit(count, true); }
    int GetBackgroundThreads(Priority pool) override { return pools_[pool]->Limit(); }

    void IncBackgroundThreadsIfNeeded(int count, Priority pool) override {
        pools_[pool]->SetLimit(count, false);
    }

    // Threads that a compaction starts of its own are no workers of the host, which has none to reserve.
    int ReserveThreads(int, Priority) override { return 0; }
    int ReleaseThreads(int, Priority) override { return 0; }

    // The host decides how its threads are scheduled. The default Env's are not ours to lower.
    void LowerThreadPoolIOPriority(Priority) override {}
    void LowerThreadPoolCPUPriority(Priority) override {}
    rocksdb::Status LowerThreadPoolCPUPriority(Priority, rocksdb::CpuPriority) override {
        return rocksdb::Status::OK();
    }

  private:
    std::array<std::shared_ptr<Pool>, Env::Priority::TOTAL> pools_;
};

rocksdb::Env *Unwrap(const rocks_env *env) {
    return reinterpret_cast<rocksdb::Env *>(const_cast<rocks_env *>(env));
}

}  // namespace

extern "C" {

rocks_env *rocks_env_create(rocks_host functions) {
    try {
        auto host = std::make_shared<Host>(functions);
        Env *env = new HostedEnv(host);
        host->owns_context = true;
        return reinterpret_cast<rocks_env *>(env);
    } catch (const std::bad_alloc &) {
        return nullptr;
    }
}

void rocks_env_destroy(rocks_env *env) { delete Unwrap(env); }

void rocks_turn_run(rocks_turn *turn) {
    auto pool = turn->pool;
    pool->Run(std::unique_ptr<rocks_turn>(turn));
}

void rocks_turn_refuse(rocks_turn *turn) {
    auto pool = turn->pool;
    pool->Refuse(std::unique_ptr<rocks_turn>(turn));
}

void rocks_env_schedule(
    rocks_env *env, void (*function)(void *), void *argument, rocks_pool pool, void *tag,
    void (*unscheduled)(void *)) {
    Unwrap(env)->Schedule(function, argument, static_cast<Env::Priority>(pool), tag, unscheduled);
}

int rocks_env_unschedule(rocks_env *env, void *tag, rocks_pool pool) {
    return Unwrap(env)->UnSchedule(tag, static_cast<Env::Priority>(pool));
}

unsigned rocks_env_queue_length(const rocks_env *env, rocks_pool pool) {
    return Unwrap(env)->GetThreadPoolQueueLen(static_cast<Env::Priority>(pool));
}

void rocks_env_set_threads(rocks_env *env, int count, rocks_pool pool) {
    Unwrap(env)->SetBackgroundThreads(count, static_cast<Env::Priority>(pool));
}

void rocks_env_raise_threads(rocks_env *env, int count, rocks_pool pool) {
    Unwrap(env)->IncBackgroundThreadsIfNeeded(count, static_cast<Env::Priority>(pool));
}

int rocks_env_threads(rocks_env *env, rocks_pool pool) {
    return Unwrap(env)->GetBackgroundThreads(static_cast<Env::Priority>(pool));
}

}  // extern "C"
