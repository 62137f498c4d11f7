// A search in the foreground beside an indexer in the background, in C++17, without Swift:
//     c++ -std=c++17 -o search search.cpp $(pkg-config --cflags --libs opportune)
#include <opportune.hpp>

#include <atomic>
#include <cstring>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

int main() {
    constexpr unsigned documents = 500, queries = 100;
    std::atomic<unsigned> indexed{0}, dropped{0};
    std::vector<std::string> answers;  // guarded by the strand
    bool refused = false;
    std::size_t made = 0, sum = 0;
    std::string reply;
    {
        opportune::scheduler scheduler;
        opportune::app ui(scheduler, "ui", opportune::band::foreground);
        opportune::app indexer(scheduler, "indexer", opportune::band::background);
        opportune::strand collect(ui, "answers", opportune::priority::high, opportune::band::foreground);

        for (unsigned i = 0; i < documents; i++)
            indexer.submit([&indexed, text = std::string(1000, 'x')] {
                if (text.find('y') == text.npos) indexed++;
            });
        for (unsigned i = 0; i < queries; i++)
            ui.submit([&, i, copy = std::make_unique<std::string>("answer")] {
                collect.submit([&answers, line = *copy + std::to_string(i)] { answers.push_back(line); });
            });
        ui.wait();
        scheduler.wait();

        // Who asks by a socket is answered on a worker of the app.
        opportune::listener listener(ui, "127.0.0.1:0");
        listener.accept([](std::error_code error, opportune::stream asker) {
            char query[64];
            if (!error) asker.write("found " + std::string(query, asker.read(query, sizeof query)));
        });
        opportune::stream asking(ui, "localhost", listener.port());
        asking.write("a word");
        asking.shutdown();
        char part[64];
        while (std::size_t count = asking.read(part, sizeof part)) reply.append(part, count);

        // What can be made again may be taken from an app that is not in front.
        opportune::region cache(indexer, 100000);
        auto make = [&](void *bytes, std::size_t count) { std::memset(bytes, 7, count), made++; };
        auto read = [&](const void *bytes, std::size_t count) {
            sum += count * *static_cast<const char *>(bytes);
        };
        cache.use(make, read);
        opportune_app_purge(indexer.get());  // as where memory is short
        cache.use(make, read);

        // What a suspended app has not begun as it is terminated is destroyed and not run.
        indexer.suspend();
        auto last = std::shared_ptr<void>(nullptr, [&](void *) { dropped++; });
        indexer.submit([kept = std::move(last)] {});
        indexer.terminate();
        try {
            indexer.submit([] {});
        } catch (const std::system_error &error) {
            refused = error.code().value() == ESHUTDOWN;
        }
    }
    std::cout << answers.size() << " answers, " << indexed << " documents indexed, " << dropped
              << " dropped\n";
    return answers.size() == queries && indexed == documents && dropped == 1 && refused && made == 2 &&
                   sum == 1400000 && reply == "found a word"
               ? 0 : 1;
}
