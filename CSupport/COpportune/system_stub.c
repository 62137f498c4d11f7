#include "opp_system.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
struct sattr { uint32_t size, policy; uint64_t flags; int32_t nice; uint32_t prio; uint64_t runtime, deadline, period; };
int opp_thread_set_sched(int32_t tid, const opp_sched_params *p) {
    struct sattr a; memset(&a, 0, sizeof a); a.size = sizeof a;
    switch (p->policy) { case OPP_CLASS_NORMAL: a.policy = 0; a.nice = p->nice; a.runtime = p->slice_ns; break;
    case OPP_CLASS_BATCH: a.policy = 3; a.nice = p->nice; a.runtime = p->slice_ns; break; case OPP_CLASS_IDLE: a.policy = 5; break;
    case OPP_CLASS_RR: a.policy = 2; a.prio = p->rt_priority; a.flags = 1; break; }
    return syscall(SYS_sched_setattr, tid, &a, 0) == 0 ? 0 : -errno;
}
struct start { char name[16]; void (*body)(void *); void *ctx; };
static void *go(void *x) { struct start s = *(struct start *)x; free(x); pthread_setname_np(pthread_self(), s.name); s.body(s.ctx); return NULL; }
int opp_thread_start(const char *name, size_t stack, void (*body)(void *), void *ctx) {
    struct start *s = malloc(sizeof *s); snprintf(s->name, 16, "%s", name); s->body = body; s->ctx = ctx;
    sigset_t all, old; sigfillset(&all); pthread_sigmask(SIG_SETMASK, &all, &old);
    pthread_attr_t at; pthread_attr_init(&at); pthread_attr_setstacksize(&at, stack < 262144 ? 262144 : stack); pthread_attr_setdetachstate(&at, PTHREAD_CREATE_DETACHED);
    pthread_t t; int r = pthread_create(&t, &at, go, s); pthread_sigmask(SIG_SETMASK, &old, NULL); pthread_attr_destroy(&at); if (r) free(s); return -r; }
int opp_thread_set_timer_slack(uint64_t ns) { return prctl(PR_SET_TIMERSLACK, ns, 0, 0, 0) ? -errno : 0; }
struct opp_thread_meter { clockid_t clock; int fd; int statfd; int statusfd; };
opp_thread_meter *opp_thread_meter_create(void) { opp_thread_meter *m = malloc(sizeof *m); pthread_getcpuclockid(pthread_self(), &m->clock); char b[80]; int t = opp_thread_id();
    snprintf(b, 80, "/proc/self/task/%d/schedstat", t); m->fd = open(b, O_RDONLY | O_CLOEXEC); snprintf(b, 80, "/proc/self/task/%d/stat", t); m->statfd = open(b, O_RDONLY | O_CLOEXEC);
    snprintf(b, 80, "/proc/self/task/%d/status", t); m->statusfd = open(b, O_RDONLY | O_CLOEXEC); return m; }
void opp_thread_meter_destroy(opp_thread_meter *m) { if (!m) return; close(m->fd); close(m->statfd); close(m->statusfd); free(m); }
int opp_thread_meter_cpu(const opp_thread_meter *m, uint64_t *c) { struct timespec t; if (clock_gettime(m->clock, &t)) return -errno; *c = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec; return 0; }
int opp_thread_meter_read(const opp_thread_meter *m, opp_thread_usage *u) { int r = opp_thread_meter_cpu(m, &u->cpu_ns); if (r) return r; char b[100]; ssize_t n = pread(m->fd, b, 99, 0); if (n > 0) { b[n] = 0; unsigned long long x, y; sscanf(b, "%llu %llu", &x, &y); u->wait_ns = y; u->wait_known = 1; } return 0; }
int opp_thread_meter_is_blocked(const opp_thread_meter *m) { char b[200]; ssize_t n = pread(m->statfd, b, 199, 0); if (n <= 0) return -1; b[n] = 0; char *p = strrchr(b, ')'); return p && (p[2] == 'S' || p[2] == 'D'); }
int64_t opp_thread_meter_voluntary_switches(const opp_thread_meter *m) { char b[4096]; ssize_t n = pread(m->statusfd, b, 4095, 0); if (n <= 0) return -1; b[n] = 0; char *p = strstr(b, "\nvoluntary_ctxt_switches:"); return p ? atoll(p + 25) : -1; }
int opp_topology_read(opp_topology *t) { memset(t, 0, sizeof *t); cpu_set_t s; sched_getaffinity(0, sizeof s, &s); for (int i = 0; i < CPU_SETSIZE; i++) if (CPU_ISSET(i, &s)) t->cpu[t->cpu_count++] = (uint16_t)i; t->node_count = 1; return 0; }
uint32_t opp_topology_width(const opp_topology *t) { return t->cpu_count; }
int32_t opp_topology_current(const opp_topology *t) { (void)t; return sched_getcpu(); }
int opp_system_probe_run(opp_system_probe *p) { memset(p, 0, sizeof *p); p->can_raise_nice = p->can_leave_idle = p->can_use_rr = geteuid() == 0; p->can_set_slice = 1; return 0; }
