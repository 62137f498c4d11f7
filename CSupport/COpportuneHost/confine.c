/* What the host can do without. */
#include "opp_host.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define OWN_ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define OWN_ARCHITECTURE AUDIT_ARCH_AARCH64
#endif

#ifdef OWN_ARCHITECTURE
/* Those after Linux 5.6 are of one number everywhere, and headers may be older. */
enum { quotactl_fd = 443 };

static const uint32_t denied[] = {
    /* Another program, and other processes' memory; process_vm_readv brings pages in. */
    SYS_execve, SYS_execveat, SYS_ptrace, SYS_process_vm_writev, SYS_pidfd_getfd, SYS_kcmp,
    /* Another user. */
    SYS_setuid, SYS_setgid, SYS_setreuid, SYS_setregid, SYS_setresuid, SYS_setresgid, SYS_setgroups,
    SYS_setfsuid, SYS_setfsgid, SYS_capset,
    /* Another view of the file system, or of the machine. */
    SYS_mount, SYS_umount2, SYS_pivot_root, SYS_chroot, SYS_unshare, SYS_setns, SYS_open_tree, SYS_move_mount,
    SYS_fsopen, SYS_fsconfig, SYS_fsmount, SYS_fspick, SYS_mount_setattr, SYS_open_by_handle_at, SYS_mknodat,
    SYS_quotactl, quotactl_fd, SYS_swapon, SYS_swapoff, SYS_acct, SYS_fanotify_init,
    /* The kernel, the machine, its clock and name. */
    SYS_init_module, SYS_finit_module, SYS_delete_module, SYS_kexec_load, SYS_reboot, SYS_syslog,
    SYS_settimeofday, SYS_clock_settime, SYS_clock_adjtime, SYS_adjtimex, SYS_sethostname, SYS_setdomainname,
    SYS_vhangup, SYS_personality,
    /* Where its errors were found. */
    SYS_perf_event_open, SYS_userfaultfd, SYS_keyctl, SYS_add_key, SYS_request_key, SYS_io_uring_setup,
    SYS_io_uring_enter, SYS_io_uring_register,
#ifdef SYS_kexec_file_load
    SYS_kexec_file_load,
#endif
#if defined(__x86_64__)
    SYS_mknod, SYS_ioperm, SYS_iopl, SYS_modify_ldt,
#endif
};
enum { denied_count = sizeof denied / sizeof denied[0] };

static int filter(void) {
    struct sock_filter code[denied_count + 8];
    uint16_t count = 0;
    code[count++] =
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
    code[count++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, OWN_ARCHITECTURE, 1, 0);
    code[count++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
    code[count++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
#if defined(__x86_64__)
    /* The same calls by other numbers, of the x32 interface. */
    code[count++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, denied_count + 1, 0);
#endif
    for (uint8_t index = 0; index < denied_count; index++) {
        uint8_t away = (uint8_t)(denied_count - index);
        code[count++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, denied[index], away, 0);
    }
    code[count++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    code[count++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
    struct sock_fprog program = {.len = count, .filter = code};
    long status = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
    return status == 0 ? 0 : status < 0 ? -errno : -EBUSY;
}
#else
static int filter(void) {
    return -ENOSYS;
}
#endif

/* Files of its user's programs, their processes, their classes and limits. */
static const uint8_t kept[] = {
    CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER, CAP_KILL, CAP_NET_ADMIN, CAP_SYS_ADMIN,
    CAP_SYS_NICE, CAP_SYS_PTRACE, CAP_SYS_RESOURCE, CAP_BPF,
};

static int drop_capabilities(void) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3];
    if (syscall(SYS_capget, &header, sets) != 0) return -errno;
    uint32_t masks[_LINUX_CAPABILITY_U32S_3] = {0};
    for (size_t index = 0; index < sizeof kept; index++) {
        /* What CAP_BPF was made of, in Linux 5.8. */
        bool has_bpf = (sets[CAP_BPF / 32].permitted & CAP_TO_MASK(CAP_BPF)) != 0;
        if (kept[index] == CAP_SYS_ADMIN && has_bpf) continue;
        masks[kept[index] / 32] |= CAP_TO_MASK(kept[index]);
    }
    for (size_t index = 0; index < _LINUX_CAPABILITY_U32S_3; index++) {
        sets[index].permitted &= masks[index];
        sets[index].effective &= masks[index];
        sets[index].inheritable &= masks[index];
    }
    return syscall(SYS_capset, &header, sets) != 0 ? -errno : 0;
}

int opp_host_confine(void) {
    int first = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ? -errno : 0;
    int error = drop_capabilities();
    if (first == 0) first = error;
    error = filter();
    return first != 0 ? first : error;
}

int opp_host_is_confined(void) {
    return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1
        && prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == SECCOMP_MODE_FILTER;
}

int opp_host_filter_lack(void) {
#ifdef OWN_ARCHITECTURE
    uint32_t action = SECCOMP_RET_ERRNO;
    return syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) != 0 ? -errno : 0;
#else
    return -ENOSYS;
#endif
}
