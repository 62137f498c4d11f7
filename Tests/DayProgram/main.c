// A program that does to a host of programs what programs do; see HostDay.swift.
//
//     DayProgram COUNTER TRAITS END_MS SEED
//
// COUNTER is a file whose first eight bytes all processes of an app count in: it stands still while nothing
// of them executes. TRAITS are letters: f forks, d leaves orphans, x execs itself, g changes process group,
// s session, m takes memory and gives it back, t, h and i ignore SIGTERM, SIGHUP and SIGINT, l ends with
// children left, S is a tree under a leader of a session. END_MS is the moment of its end, in milliseconds
// since the machine's start; 0: it stays.

#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static _Atomic uint64_t *counter;
static const char *file;
static const char *traits;
static int64_t end;
static uint64_t seed;
static int depth;
static int children;
static char *memory;
static size_t memory_size;

static int has(char trait) { return strchr(traits, trait) != NULL; }

static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_BOOTTIME, &time);
    return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

static unsigned below(unsigned limit) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(seed >> 33) % limit;
}

static void exec_itself(void) {
    char end_text[32], seed_text[32];
    snprintf(end_text, sizeof end_text, "%lld", (long long)end);
    snprintf(seed_text, sizeof seed_text, "%llu", (unsigned long long)seed);
    // What is deeper than the first has another name, by which it knows that.
    char *name = depth > 0 ? "DayProgram-child" : "DayProgram";
    char *words[] = {name, (char *)file, (char *)traits, end_text, seed_text, NULL};
    execv("/proc/self/exe", words);
    _exit(1);
}

// A child that stays for so long at most; returns in the child as well, with 1.
static int child(unsigned longest) {
    uint64_t other = seed ^ ((uint64_t)below(1u << 30) << 20);
    pid_t pid = fork();
    if (pid != 0) {
        if (pid > 0) children++;
        return 0;
    }
    seed = other;
    depth++;
    children = 0;
    end = now() + 20 + below(longest);
    if (has('g') && below(2)) setpgid(0, 0);
    if (has('s') && below(3) == 0) setsid();
    return 1;
}

static void orphan(unsigned longest) {
    pid_t pid = fork();
    if (pid > 0) waitpid(pid, NULL, 0);
    if (pid != 0) return;
    if (child(longest)) {
        if (has('x') && below(2)) exec_itself();
        return;
    }
    _exit(0);
}

static void take_or_give_memory(void) {
    if (memory) {
        munmap(memory, memory_size);
        memory = NULL;
        return;
    }
    memory_size = (size_t)(1 + below(4)) << 20;
    memory = mmap(NULL, memory_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        memory = NULL;
        return;
    }
    memset(memory, 1, memory_size);
}

static void finish(void) {
    // The app goes on without its first process.
    for (int i = 0; depth == 0 && has('l') && i < 2; i++) {
        if (child(600)) return;
    }
    _exit(0);
}

static void act(void) {
    if (depth > 1) return;
    unsigned what = below(depth == 0 ? 16 : 120);
    if (what < 3) {
        if (has('f') && children < 3 && child(300) && has('x') && below(3) == 0) exec_itself();
    } else if (what == 3) {
        if (has('d') && depth == 0) orphan(400);
    } else if (what < 6) {
        if (has('m')) take_or_give_memory();
    } else if (what == 6) {
        if (has('x') && depth == 0 && below(4) == 0) exec_itself();
    }
}

int main(int count, char **words) {
    if (count != 5) return 2;
    file = words[1];
    traits = words[2];
    end = atoll(words[3]);
    seed = strtoull(words[4], NULL, 10);
    depth = strcmp(words[0], "DayProgram-child") == 0;
    if (has('t')) signal(SIGTERM, SIG_IGN);
    if (has('h')) signal(SIGHUP, SIG_IGN);
    if (has('i')) signal(SIGINT, SIG_IGN);
    // A tree whose first process waits for one that leads a session.
    if (has('S') && depth == 0 && getsid(0) != getpid()) {
        pid_t pid = fork();
        if (pid > 0) {
            while (waitpid(pid, NULL, 0) < 0) {
            }
            return 0;
        }
        if (pid == 0) setsid();
    }
    int descriptor = open(file, O_RDWR | O_CLOEXEC);
    if (descriptor < 0) return 3;
    counter = mmap(NULL, sizeof *counter, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    close(descriptor);
    if (counter == MAP_FAILED) return 3;
    for (;;) {
        *counter += 1;
        if (end > 0 && now() >= end) finish();
        while (children > 0 && waitpid(-1, NULL, WNOHANG) > 0) children--;
        act();
        struct timespec time = {0, (5 + (long)below(20)) * 1000000};
        nanosleep(&time, NULL);
    }
}
