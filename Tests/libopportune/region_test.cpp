// What opportune.hpp adds to a region: its content is made once, whichever threads are the first to use it.
#include <opportune.hpp>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <thread>

int main() {
    opportune::scheduler scheduler;
    opportune::app app(scheduler, "cache", opportune::band::foreground);
    for (int round = 0; round < 1000; round++) {
        opportune::region region(app, 4096);
        std::atomic<int> ready{0}, made{0}, wrong{0};
        auto use = [&] {
            // Both at once.
            ready++;
            while (ready < 2) {}
            region.use(
                [&](void *bytes, std::size_t count) {
                    made++;
                    std::memset(bytes, 1, count);
                },
                [&](const void *bytes, std::size_t count) {
                    const char *own = static_cast<const char *>(bytes);
                    if (own[0] != 1 || own[count - 1] != 1) wrong++;
                });
        };
        std::thread first(use), second(use);
        first.join();
        second.join();
        if (made != 1 || wrong != 0) {
            std::printf("round %d: made %d times, %d wrong\n", round, made.load(), wrong.load());
            return 1;
        }
    }
}
