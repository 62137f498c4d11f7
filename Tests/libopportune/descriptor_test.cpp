// What opportune.hpp adds to descriptors: files, datagrams and streams that close themselves, in both forms.
#include <opportune.hpp>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <future>
#include <string>
#include <unistd.h>

static void check(bool holds, const char *what) {
    if (holds) return;
    std::printf("%s\n", what);
    std::exit(1);
}

static int error_of(const std::system_error &error) { return error.code().value(); }

static void files(opportune::app &app, const std::string &path) {
    int number;
    {
        opportune::file made(app, path, O_CREAT | O_RDWR);
        number = made.get();
        made.write("hello ", 6);
        std::promise<std::size_t> written;
        made.write("world", 5, 6, [&](std::error_code error, std::size_t count) {
            written.set_value(error ? 0 : count);
        });
        check(written.get_future().get() == 5, "a write with a callable");
        made.sync();
        char bytes[16] = "";
        check(made.read(bytes, sizeof bytes, 0) == 11 && !std::strcmp(bytes, "hello world"), "a read");
        std::promise<std::size_t> rest;
        made.read(bytes, sizeof bytes, 11, [&](std::error_code error, std::size_t count) {
            rest.set_value(error ? 99 : count);
        });
        check(rest.get_future().get() == 0, "a read at the end, with a callable");
        opportune::file moved = std::move(made);
        check(made.get() == -1 && moved.get() == number, "moved");
        opportune::file again;
        again = std::move(moved);
        again.close();
        check(again.get() == -1 && fcntl(number, F_GETFD) == -1, "closed");
    }
    {
        opportune::file own(app, path, O_RDONLY);
        number = own.get();
    }
    // Its destructor waits for nothing: the next request of the app comes after it.
    opportune::file(app, path, O_RDONLY).close();
    for (int i = 0; i < 10000 && fcntl(number, F_GETFD) != -1; i++) usleep(1000);
    check(fcntl(number, F_GETFD) == -1, "the destructor did not close it");
    try {
        opportune::file none(app, path + "/none", O_RDONLY);
        check(false, "a file that is not there was opened");
    } catch (const std::system_error &error) { check(error_of(error) == ENOTDIR, "another error"); }
}

static void sockets(opportune::app &app) {
    using namespace std::chrono_literals;
    opportune::datagrams one(app, "127.0.0.1:0"), other(app, "127.0.0.1:0");
    one.send("ping", other.address());
    char bytes[8] = "";
    std::string sender;
    check(other.receive(bytes, sizeof bytes, sender, 10s) == 4 && sender == one.address(), "a datagram");
    other.send("too long for it", sender);
    try {
        one.receive(bytes, sizeof bytes, sender, 10s);
        check(false, "a datagram that is too long was cut");
    } catch (const std::system_error &error) {
        check(error_of(error) == EMSGSIZE && sender == other.address(), "another error");
    }
    opportune::listener listener(app, "127.0.0.1:0");
    opportune::stream client(app, "127.0.0.1:" + std::to_string(listener.port()));
    opportune::stream server = listener.accept(10s);
    std::promise<std::size_t> sent;
    client.write("abc", 3, [&](std::error_code error, std::size_t count) { sent.set_value(error ? 0 : count); });
    check(server.read(bytes, sizeof bytes, 10s) == 3 && sent.get_future().get() == 3, "a stream");
    client.shutdown();
    check(server.read(bytes, sizeof bytes, 10s) == 0, "its end");
}

int main() {
    char folder[] = "/tmp/opportune-hpp-XXXXXX";
    check(mkdtemp(folder) != nullptr, "no folder");
    const std::string path = std::string(folder) + "/file";
    {
        opportune::scheduler scheduler;
        opportune::app app(scheduler, "descriptors", opportune::band::foreground);
        files(app, path);
        sockets(app);
    }
    unlink(path.c_str());
    rmdir(folder);
}
