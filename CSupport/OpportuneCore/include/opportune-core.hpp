// opportune-core.h for C++17: owners that release in their destructors, callables in the place of function
// and context, std::system_error in the place of error numbers. Header only.
//
//     opportune::scheduler scheduler;
//     opportune::app ui(scheduler, "ui", opportune::band::foreground);
//     ui.submit([&] { answer(query); });
//     ui.wait();
//
// Threads, blocking and errors are those of the C call of the same name; owners themselves are moved and
// destroyed by one thread at a time. An exception that leaves a job ends the program (std::terminate).
#ifndef OPPORTUNE_CORE_HPP
#define OPPORTUNE_CORE_HPP

#include "opportune-core.h"

#include <cerrno>
#include <chrono>
#include <memory>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>

namespace opportune {

enum class band { background = OPPC_BACKGROUND, foreground = OPPC_FOREGROUND };
enum class priority { high = OPPC_PRIORITY_HIGH, normal = OPPC_PRIORITY_NORMAL, low = OPPC_PRIORITY_LOW };

namespace detail {

inline void check(int result, const char *what) {
    if (result < 0) throw std::system_error(-result, std::generic_category(), what);
}

// A time-out is an answer and no error.
inline bool waited(int result, const char *what) {
    if (result == -ETIMEDOUT) return false;
    check(result, what);
    return true;
}

// A callable on the heap, which ends with its run or its cancellation.
template <typename Body>
struct job {
    static void run(void *context) noexcept {
        std::unique_ptr<Body> own(static_cast<Body *>(context));
        (*own)();
    }
    static void drop(void *context) noexcept { delete static_cast<Body *>(context); }
};

// submit(run, cancelled, context) takes the callable over unless it fails.
template <typename Callable, typename Submit>
void hand_over(Callable &&body, Submit submit, const char *what) {
    using Body = std::decay_t<Callable>;
    static_assert(std::is_invocable_v<Body &>, "a job is called without arguments");
    auto own = std::make_unique<Body>(std::forward<Callable>(body));
    check(submit(&job<Body>::run, &job<Body>::drop, own.get()), what);
    own.release();
}

struct release {
    void operator()(oppc_app *app) const noexcept { oppc_app_release(app); }
    void operator()(oppc_strand *strand) const noexcept { oppc_strand_release(strand); }
    // -EDEADLK, from one of its own jobs, leaks it rather than to wait for itself.
    void operator()(oppc_scheduler *scheduler) const noexcept { oppc_scheduler_destroy(scheduler); }
};

}  // namespace detail

using timeout = std::chrono::nanoseconds;
constexpr timeout forever{-1};

// Its destructor waits for the jobs that run, and cancels those that have not begun: their callables are
// destroyed without having been called.
class scheduler {
public:
    scheduler() : scheduler(oppc_options{sizeof(oppc_options), 0, 0, 0, 0, 0, 0, nullptr}) {}
    explicit scheduler(const oppc_options &options) {
        oppc_scheduler *made = nullptr;
        detail::check(oppc_scheduler_create(&options, &made), "oppc_scheduler_create");
        own_.reset(made);
    }

    // False where the time was over first.
    bool wait(timeout limit = forever) {
        return detail::waited(oppc_scheduler_wait(get(), limit.count()), "oppc_scheduler_wait");
    }
    oppc_pool_statistics statistics(band which) const {
        oppc_pool_statistics figures;
        detail::check(oppc_pool_read_statistics(get(), static_cast<int>(which), &figures, sizeof figures),
                      "oppc_pool_read_statistics");
        return figures;
    }
    oppc_scheduler *get() const noexcept { return own_.get(); }

private:
    std::unique_ptr<oppc_scheduler, detail::release> own_;
};

class app {
public:
    app(const opportune::scheduler &scheduler, const std::string &name, opportune::band band) {
        oppc_app *made = nullptr;
        detail::check(oppc_app_create(scheduler.get(), name.c_str(), static_cast<int>(band), &made),
                      "oppc_app_create");
        own_.reset(made);
    }

    template <typename Callable>
    void submit(Callable &&body, opportune::priority priority = opportune::priority::normal) {
        detail::hand_over(
            std::forward<Callable>(body),
            [&](oppc_function run, oppc_function drop, void *context) {
                return oppc_submit_with(get(), static_cast<int>(priority), run, drop, context);
            },
            "oppc_submit_with");
    }

    void set_band(opportune::band band) {
        detail::check(oppc_app_set_band(get(), static_cast<int>(band)), "oppc_app_set_band");
    }
    void suspend() { detail::check(oppc_app_suspend(get()), "oppc_app_suspend"); }
    void resume() { detail::check(oppc_app_resume(get()), "oppc_app_resume"); }
    bool is_suspended() const noexcept { return oppc_app_is_suspended(get()); }
    bool wait(timeout limit = forever) {
        return detail::waited(oppc_app_wait(get(), limit.count()), "oppc_app_wait");
    }
    bool wait_quiet(timeout limit = forever) {
        return detail::waited(oppc_app_wait_quiet(get(), limit.count()), "oppc_app_wait_quiet");
    }
    oppc_app_statistics statistics() const {
        oppc_app_statistics figures;
        detail::check(oppc_app_read_statistics(get(), &figures, sizeof figures), "oppc_app_read_statistics");
        return figures;
    }
    std::string name() const { return oppc_app_name(get()); }
    oppc_app *get() const noexcept { return own_.get(); }

private:
    std::unique_ptr<oppc_app, detail::release> own_;
};

class strand {
public:
    explicit strand(const opportune::app &app, opportune::priority priority = opportune::priority::normal) {
        oppc_strand *made = nullptr;
        detail::check(oppc_strand_create(app.get(), static_cast<int>(priority), &made), "oppc_strand_create");
        own_.reset(made);
    }

    template <typename Callable>
    void submit(Callable &&body) {
        detail::hand_over(
            std::forward<Callable>(body),
            [&](oppc_function run, oppc_function drop, void *context) {
                return oppc_strand_submit_with(get(), run, drop, context);
            },
            "oppc_strand_submit_with");
    }

    bool is_current() const noexcept { return oppc_strand_is_current(get()); }
    oppc_strand *get() const noexcept { return own_.get(); }

private:
    std::unique_ptr<oppc_strand, detail::release> own_;
};

}  // namespace opportune

#endif
