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
#include <cstdint>
#include <memory>
#include <mutex>
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

enum class half {
    receiving = OPPORTUNE_RECEIVING,
    sending = OPPORTUNE_SENDING,
    both = OPPORTUNE_BOTH
};

using timeout = std::chrono::nanoseconds;
constexpr timeout forever{-1};

namespace detail {

inline int check(int result) {
    if (result < 0) throw std::system_error(-result, std::generic_category(), opportune_last_error());
    return result;
}

inline std::int64_t check_count(std::int64_t result) {
    if (result < 0) check(static_cast<int>(result));
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

// A callable on the heap that takes a result, once, on a worker of the app.
template <typename Body>
struct answer {
    static void run(void *context, std::int64_t result) noexcept {
        std::unique_ptr<Body> own(static_cast<Body *>(context));
        const auto number = result < 0 ? static_cast<int>(-result) : 0;
        (*own)(std::error_code(number, std::generic_category()), result < 0 ? 0 : result);
    }
};

// start(completion, context) takes the callable over unless it fails.
template <typename Callable, typename Start>
void request(Callable &&body, Start start) {
    using Body = std::decay_t<Callable>;
    auto own = std::make_unique<Body>(std::forward<Callable>(body));
    check_count(start(&answer<Body>::run, own.get()));
    own.release();
}

struct release {
    void operator()(opportune_app *app) const noexcept { opportune_app_release(app); }
    void operator()(opportune_region *region) const noexcept { opportune_region_release(region); }
    void operator()(opportune_listener *listener) const noexcept { opportune_listener_close(listener); }
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
                own->self->fill(intact != 0, [&] { own->make(bytes, count); });
                own->read(static_cast<const void *>(bytes), count);
                return 0;
            },
            &mine));
    }
    bool is_purged() const { return detail::check(opportune_region_is_purged(get())) == 1; }
    opportune_region *get() const noexcept { return own_.get(); }

private:
    // A new region is intact, and of zeros: of the threads that use it first one makes the content, and the
    // others wait. What is made where it was not intact is this call's own, or nobody else's yet.
    template <typename Make>
    void fill(bool intact, Make &&make) {
        std::unique_lock<std::mutex> first(first_, std::defer_lock);
        if (intact && !made_) first.lock();
        if (intact && made_) return;
        make();
        made_ = true; // pairs with the loads above of threads that find it intact
    }

    std::unique_ptr<opportune_region, detail::release> own_;
    std::mutex first_;
    std::atomic<bool> made_{false};
};

// A descriptor of an app, which its destructor closes: what a file, a stream and datagrams have in common. It
// is destroyed before the app's owner; else it stays open as long as the scheduler exists.
//
// Each request comes in two forms: without a callable it waits, and throws; with one it returns at once, and
// the callable is called once, on a worker of the app, with a std::error_code first. The bytes and the owner
// have to last until then.
class descriptor {
public:
    descriptor(descriptor &&other) noexcept
        : app_(std::exchange(other.app_, nullptr)), number_(std::exchange(other.number_, -1)) {}
    descriptor &operator=(descriptor &&other) noexcept {
        std::swap(app_, other.app_);
        std::swap(number_, other.number_);
        return *this;
    }
    ~descriptor() {
        // Waits for nothing: a suspended app closes it once it is resumed.
        if (number_ >= 0) opportune_close(app_, number_, [](void *, std::int64_t) {}, nullptr);
    }

    // Closes it now, and says what that says; requests in progress end with -ECANCELED before.
    void close() {
        const int number = std::exchange(number_, -1);
        detail::check_count(opportune_close(app_, number, nullptr, nullptr));
    }
    // -1 where there is none: moved from, closed, or made of nothing.
    int get() const noexcept { return number_; }

protected:
    descriptor() noexcept = default;
    descriptor(opportune_app *app, std::int64_t number) noexcept
        : app_(app), number_(static_cast<int>(number)) {}

    static std::size_t wait(std::int64_t result) {
        return static_cast<std::size_t>(detail::check_count(result));
    }
    // start(completion, context) begins what ends with body(std::error_code, std::size_t).
    template <typename Callable, typename Start>
    static void begin(Callable &&body, Start start) {
        detail::request([body = std::decay_t<Callable>(std::forward<Callable>(body))](
                            std::error_code error, std::int64_t count) mutable {
            body(error, static_cast<std::size_t>(count));
        },
                        start);
    }
    template <typename Callable>
    using callable = std::enable_if_t<!std::is_convertible_v<Callable, timeout>>;

    opportune_app *app_ = nullptr;
    int number_ = -1;
};

// A file. An offset of -1 is the file's own position, which each request moves on.
class file : public descriptor {
public:
    file() noexcept = default;
    // The flags and the mode of open(2); always close-on-exec.
    file(const opportune::app &app, const std::string &path, int flags, unsigned mode = 0666,
         timeout limit = forever)
        : descriptor(app.get(), detail::check_count(opportune_open(app.get(), path.c_str(), flags, mode,
                                                                   limit.count(), nullptr, nullptr))) {}

    // At most `count` bytes; 0 at the end.
    std::size_t read(void *bytes, std::size_t count, std::int64_t offset = -1, timeout limit = forever) {
        return wait(opportune_read(app_, number_, bytes, count, offset, limit.count(), nullptr, nullptr));
    }
    // body(std::error_code, std::size_t)
    template <typename Callable, typename = callable<Callable>>
    void read(void *bytes, std::size_t count, std::int64_t offset, Callable &&body, timeout limit = forever) {
        begin(std::forward<Callable>(body), [&](opportune_completion completion, void *context) {
            return opportune_read(app_, number_, bytes, count, offset, limit.count(), completion, context);
        });
    }
    // All of it.
    void write(const void *bytes, std::size_t count, std::int64_t offset = -1, timeout limit = forever) {
        wait(opportune_write(app_, number_, bytes, count, offset, limit.count(), nullptr, nullptr));
    }
    // body(std::error_code, std::size_t)
    template <typename Callable, typename = callable<Callable>>
    void write(const void *bytes, std::size_t count, std::int64_t offset, Callable &&body,
               timeout limit = forever) {
        begin(std::forward<Callable>(body), [&](opportune_completion completion, void *context) {
            return opportune_write(app_, number_, bytes, count, offset, limit.count(), completion, context);
        });
    }
    // Has the device store what was written.
    void sync(timeout limit = forever) {
        wait(opportune_sync(app_, number_, limit.count(), nullptr, nullptr));
    }
};

// A connection.
class stream : public descriptor {
public:
    stream() noexcept = default;
    // Connects to a numeric address: "127.0.0.1:80", "[::1]:80", "unix:/path".
    stream(const opportune::app &app, const std::string &address, timeout limit = forever)
        : stream(app.get(), detail::check_count(opportune_connect(app.get(), address.c_str(), limit.count(),
                                                                  nullptr, nullptr))) {}
    // Connects to a port of a host, by its name or its address.
    stream(const opportune::app &app, const std::string &host, int port, timeout limit = forever)
        : stream(app.get(),
                 detail::check_count(opportune_connect_host(app.get(), host.c_str(), port, limit.count(),
                                                            nullptr, nullptr))) {}

    // What has come, at most `count` bytes; 0 where the peer has ended its side.
    std::size_t read(void *bytes, std::size_t count, timeout limit = forever) {
        return wait(opportune_receive(app_, number_, bytes, count, limit.count(), nullptr, nullptr));
    }
    // body(std::error_code, std::size_t)
    template <typename Callable, typename = callable<Callable>>
    void read(void *bytes, std::size_t count, Callable &&body, timeout limit = forever) {
        begin(std::forward<Callable>(body), [&](opportune_completion completion, void *context) {
            return opportune_receive(app_, number_, bytes, count, limit.count(), completion, context);
        });
    }
    // All of it. One write at a time.
    void write(const void *bytes, std::size_t count, timeout limit = forever) {
        wait(opportune_send(app_, number_, bytes, count, limit.count(), nullptr, nullptr));
    }
    void write(const std::string &text, timeout limit = forever) {
        write(text.data(), text.size(), limit);
    }
    // body(std::error_code, std::size_t)
    template <typename Callable, typename = callable<Callable>>
    void write(const void *bytes, std::size_t count, Callable &&body, timeout limit = forever) {
        begin(std::forward<Callable>(body), [&](opportune_completion completion, void *context) {
            return opportune_send(app_, number_, bytes, count, limit.count(), completion, context);
        });
    }
    void shutdown(half which = half::sending, timeout limit = forever) {
        wait(opportune_shutdown(app_, number_, static_cast<int>(which), limit.count(), nullptr, nullptr));
    }

private:
    friend class listener;
    stream(opportune_app *app, std::int64_t socket) noexcept : descriptor(app, socket) {}
};

// A datagram socket, bound to an address; port 0 is a free one.
class datagrams : public descriptor {
public:
    datagrams() noexcept = default;
    datagrams(const opportune::app &app, const std::string &address, bool reuses_port = false)
        : descriptor(app.get(),
                     detail::check(opportune_datagram_socket(app.get(), address.c_str(), reuses_port))) {}

    // To which it is bound: "127.0.0.1:4040".
    std::string address() const {
        char text[OPPORTUNE_ADDRESS_SIZE];
        detail::check(opportune_socket_address(app_, number_, text));
        return text;
    }
    // One datagram.
    void send(const void *bytes, std::size_t count, const std::string &to, timeout limit = forever) {
        wait(opportune_send_to(app_, number_, bytes, count, to.c_str(), limit.count(), nullptr, nullptr));
    }
    void send(const std::string &text, const std::string &to, timeout limit = forever) {
        send(text.data(), text.size(), to, limit);
    }
    // One datagram, and in `sender` who sent it, "" where it has no address. A longer one throws EMSGSIZE.
    std::size_t receive(void *bytes, std::size_t count, std::string &sender, timeout limit = forever) {
        char text[OPPORTUNE_ADDRESS_SIZE] = "";
        const std::int64_t result =
            opportune_receive_from(app_, number_, bytes, count, text, limit.count(), nullptr, nullptr);
        sender = text;
        return wait(result);
    }
};

// Listens for connections of an app. Port 0 is a free one.
class listener {
public:
    listener(const opportune::app &app, const std::string &address, int backlog = 128) : app_(app.get()) {
        opportune_listener *made = nullptr;
        detail::check(opportune_listen(app_, address.c_str(), backlog, &made));
        own_.reset(made);
    }

    int port() const { return detail::check(opportune_listener_port(get())); }
    stream accept(timeout limit = forever) {
        return stream(app_, detail::check_count(opportune_accept(get(), limit.count(), nullptr, nullptr)));
    }
    // body(std::error_code, opportune::stream), once, on a worker of the app; after an error without a stream.
    template <typename Callable, typename = std::enable_if_t<!std::is_convertible_v<Callable, timeout>>>
    void accept(Callable &&body, timeout limit = forever) {
        detail::request([body = std::decay_t<Callable>(std::forward<Callable>(body)), app = app_](
                            std::error_code error, std::int64_t socket) mutable {
            body(error, error ? stream() : stream(app, socket));
        },
                        [&](opportune_completion completion, void *context) {
                            return opportune_accept(get(), limit.count(), completion, context);
                        });
    }
    opportune_listener *get() const noexcept { return own_.get(); }

private:
    opportune_app *app_;
    std::unique_ptr<opportune_listener, detail::release> own_;
};

}  // namespace library
}  // namespace opportune

#endif
