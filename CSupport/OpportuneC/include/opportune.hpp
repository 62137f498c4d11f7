// opportune.h for C++17: owners that release in their destructors, callables in the place of function and
// context, std::system_error in the place of error numbers. Header only.
//
//     opportune::scheduler scheduler;
//     opportune::app ui(scheduler, "ui", opportune::band::foreground);
//     ui.submit([&] { answer(query); });
//     ui.wait();
//
// Threads, blocking and errors are those of the C call of the same name; owners themselves are moved and
// destroyed by one thread at a time. An exception that leaves a job ends the program (std::terminate).
#ifndef OPPORTUNE_LIBRARY_HPP
#define OPPORTUNE_LIBRARY_HPP

#ifdef OPPORTUNE_CORE_HPP
#error "opportune.hpp and opportune-core.hpp name the same things: one of them in a source file"
#endif
#define OPPORTUNE_CORE_HPP

#include "opportune.h"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>

namespace opportune {
// Not the names of opportune-core.hpp to the linker: one program may have both, in two source files.
inline namespace library {

enum class band {
    background = OPPORTUNE_BACKGROUND,
    foreground = OPPORTUNE_FOREGROUND,
    real_time = OPPORTUNE_REAL_TIME
};
enum class priority {
    lowest = OPPORTUNE_PRIORITY_LOWEST,
    low = OPPORTUNE_PRIORITY_LOW,
    normal = OPPORTUNE_PRIORITY_NORMAL,
    high = OPPORTUNE_PRIORITY_HIGH,
    highest = OPPORTUNE_PRIORITY_HIGHEST
};
enum class activity {
    active = OPPORTUNE_ACTIVE,
    suspending = OPPORTUNE_SUSPENDING,
    suspended = OPPORTUNE_SUSPENDED
};

using timeout = std::chrono::nanoseconds;
constexpr timeout forever{-1};

namespace detail {

inline int check(int result) {
    if (result < 0) throw std::system_error(-result, std::generic_category(), opportune_last_error());
    return result;
}

// A time-out is an answer and no error.
inline bool waited(int result) {
    if (result == -ETIMEDOUT) return false;
    check(result);
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
void hand_over(Callable &&body, Submit submit) {
    using Body = std::decay_t<Callable>;
    static_assert(std::is_invocable_v<Body &>, "a job is called without arguments");
    auto own = std::make_unique<Body>(std::forward<Callable>(body));
    check(submit(&job<Body>::run, &job<Body>::drop, own.get()));
    own.release();
}

struct release {
    void operator()(opportune_app *app) const noexcept { opportune_app_release(app); }
    void operator()(opportune_region *region) const noexcept { opportune_region_release(region); }
    void operator()(opportune_strand *strand) const noexcept { opportune_strand_release(strand); }
    // -EDEADLK, from one of its own jobs, leaks it rather than to wait for itself.
    void operator()(opportune_scheduler *scheduler) const noexcept {
        opportune_scheduler_destroy(scheduler, -1);
    }
};

}  // namespace detail

// The defaults, to be changed and given to a scheduler.
inline opportune_settings default_settings() {
    opportune_settings settings;
    detail::check(opportune_settings_init(&settings, sizeof settings));
    return settings;
}

// Its destructor runs what is queued, and cancels the jobs of suspended apps: their callables are destroyed
// without having been called.
class scheduler {
public:
    scheduler() : scheduler(default_settings()) {}
    explicit scheduler(const opportune_settings &settings) {
        opportune_scheduler *made = nullptr;
        detail::check(opportune_scheduler_create(&settings, &made));
        own_.reset(made);
    }

    // False where the time was over first.
    bool wait(timeout limit = forever) {
        return detail::waited(opportune_scheduler_wait(get(), limit.count()));
    }
    int width() const { return detail::check(opportune_scheduler_width(get())); }
    opportune_scheduler_statistics statistics() const {
        opportune_scheduler_statistics figures;
        detail::check(opportune_scheduler_read_statistics(get(), &figures, sizeof figures, -1));
        return figures;
    }
    opportune_scheduler *get() const noexcept { return own_.get(); }

private:
    std::unique_ptr<opportune_scheduler, detail::release> own_;
};

class app {
public:
    app(const opportune::scheduler &scheduler, const std::string &name, opportune::band band) {
        opportune_app *made = nullptr;
        detail::check(opportune_app_create(scheduler.get(), name.c_str(), static_cast<int>(band), &made));
        own_.reset(made);
    }

    template <typename Callable>
    void submit(Callable &&body, opportune::priority priority = opportune::priority::normal) {
        detail::hand_over(std::forward<Callable>(body),
                          [&](opportune_function run, opportune_function drop, void *context) {
                              return opportune_submit_with(get(), static_cast<int>(priority), run, drop,
                                                           context);
                          });
    }

    void set_band(opportune::band band) {
        detail::check(opportune_app_set_band(get(), static_cast<int>(band)));
    }
    opportune::band band() const {
        return static_cast<opportune::band>(detail::check(opportune_app_band(get())));
    }
    void suspend() { detail::check(opportune_app_suspend(get())); }
    void resume() { detail::check(opportune_app_resume(get())); }
    opportune::activity activity() const {
        return static_cast<opportune::activity>(detail::check(opportune_app_activity(get())));
    }
    bool wait(timeout limit = forever) { return detail::waited(opportune_app_wait(get(), limit.count())); }
    bool wait_suspended(timeout limit = forever) {
        return detail::waited(opportune_app_wait_suspended(get(), limit.count()));
    }
    bool terminate(timeout limit = forever) {
        return detail::waited(opportune_app_terminate(get(), limit.count()));
    }
    opportune_app_statistics statistics() const {
        opportune_app_statistics figures;
        detail::check(opportune_app_read_statistics(get(), &figures, sizeof figures));
        return figures;
    }
    opportune_app *get() const noexcept { return own_.get(); }

private:
    std::unique_ptr<opportune_app, detail::release> own_;
};

class strand {
public:
    explicit strand(const opportune::app &app, const std::string &name = "",
                    opportune::priority priority = opportune::priority::normal) {
        opportune_strand *made = nullptr;
        detail::check(opportune_strand_create(app.get(), name.c_str(), static_cast<int>(priority),
                                              OPPORTUNE_NO_CEILING, &made));
        own_.reset(made);
    }
    // Its jobs never run below the band `ceiling`.
    strand(const opportune::app &app, const std::string &name, opportune::priority priority,
           opportune::band ceiling) {
        opportune_strand *made = nullptr;
        detail::check(opportune_strand_create(app.get(), name.c_str(), static_cast<int>(priority),
                                              static_cast<int>(ceiling), &made));
        own_.reset(made);
    }

    template <typename Callable>
    void submit(Callable &&body) {
        detail::hand_over(std::forward<Callable>(body),
                          [&](opportune_function run, opportune_function drop, void *context) {
                              return opportune_strand_submit_with(get(), run, drop, context);
                          });
    }
    bool is_current() const { return detail::check(opportune_strand_is_current(get())) == 1; }
    opportune_strand *get() const noexcept { return own_.get(); }

private:
    std::unique_ptr<opportune_strand, detail::release> own_;
};

// Memory whose content can be made again.
class region {
public:
    region(const opportune::app &app, std::size_t bytes) {
        opportune_region *made = nullptr;
        detail::check(opportune_region_create(app.get(), bytes, &made));
        own_.reset(made);
    }

    // Calls make(bytes, count) where the content was taken, or was never made, and then read(bytes, count).
    // An exception that leaves either ends the program.
    template <typename Make, typename Read>
    void use(Make &&make, Read &&read) {
        struct both {
            region *self;
            Make &make;
            Read &read;
        } mine{this, make, read};
        detail::check(opportune_region_use(
            get(),
            [](void *context, void *bytes, std::size_t count, int intact) noexcept -> int {
                both *own = static_cast<both *>(context);
                if (!intact || !own->self->made_) own->make(bytes, count);
                own->self->made_ = true;
                own->read(static_cast<const void *>(bytes), count);
                return 0;
            },
            &mine));
    }
    bool is_purged() const { return detail::check(opportune_region_is_purged(get())) == 1; }
    opportune_region *get() const noexcept { return own_.get(); }

private:
    std::unique_ptr<opportune_region, detail::release> own_;
    std::atomic<bool> made_{false};
};

}  // namespace library
}  // namespace opportune

#endif
