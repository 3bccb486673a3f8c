//! System calls of a helper: an allowlist. Every other call fails with `ENOSYS`, which libraries answer by trying an
//! older call.
//!
//! Not on the list, and why: `socket`, `connect` (no network), `execve`, `fork` (no program; threads are allowed),
//! `kill`, `ptrace`, `process_vm_*` and `prlimit64` of others (no other process), `mount`, `unshare`, `setns` (no
//! namespace), `chown`, `utimensat`, `setxattr` (Landlock does not check them), and executable memory.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
};

#[cfg(target_arch = "x86_64")]
const ARCH: TargetArch = TargetArch::x86_64;
#[cfg(target_arch = "aarch64")]
const ARCH: TargetArch = TargetArch::aarch64;

/// Allowed with any arguments.
const PLAIN: &[i64] = &[
    // The socket.
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_recvfrom,
    libc::SYS_sendto,
    libc::SYS_ppoll,
    libc::SYS_close,
    libc::SYS_dup,
    // Files; Landlock decides which of them.
    libc::SYS_openat,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_lseek,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_readlinkat,
    libc::SYS_getdents64,
    libc::SYS_getcwd,
    libc::SYS_ftruncate,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_linkat,
    libc::SYS_unlinkat,
    libc::SYS_mkdirat,
    libc::SYS_umask,
    // Memory.
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_membarrier,
    // Threads and time.
    libc::SYS_futex,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_getrandom,
    libc::SYS_restart_syscall,
    libc::SYS_exit,
    libc::SYS_exit_group,
    // Process and system data.
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_getppid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_getrusage,
    libc::SYS_uname,
    libc::SYS_sysinfo,
    // Signals to itself.
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
];

/// Older forms of these calls, which only x86-64 has.
#[cfg(target_arch = "x86_64")]
const OLDER: &[i64] = &[
    libc::SYS_open,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_readlink,
    libc::SYS_rename,
    libc::SYS_link,
    libc::SYS_unlink,
    libc::SYS_mkdir,
    libc::SYS_rmdir,
    libc::SYS_poll,
    libc::SYS_time,
    libc::SYS_getrlimit,
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[i64] = &[];

/// Calls on the modes of files, answered with success and not executed. Landlock does not check them, so they would
/// reach every file of the user. The process that takes over a helper's output sets the right mode.
const PRETENDED: &[i64] = &[
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
];

const NO_SUCH_CALL: u32 = 38;
const DONE: u32 = 0;

/// Applies the filters to this process.
pub(super) fn apply_filters() -> Result<(), seccompiler::Error> {
    for program in build_filters()? {
        seccompiler::apply_filter(&program)?;
    }
    Ok(())
}

fn build_filters() -> Result<[BpfProgram; 2], seccompiler::Error> {
    let pretended = PRETENDED.iter().map(|&call| (call, Vec::new())).collect();
    let pretend = SeccompFilter::new(pretended, SeccompAction::Allow, SeccompAction::Errno(DONE), ARCH)?;
    let refuse = SeccompFilter::new(
        allowed_calls()?,
        SeccompAction::Errno(NO_SUCH_CALL),
        SeccompAction::Allow,
        ARCH,
    )?;
    // Applied last, because this filter forbids the call that applies filters.
    Ok([pretend.try_into()?, refuse.try_into()?])
}

fn allowed_calls() -> Result<BTreeMap<i64, Vec<SeccompRule>>, seccompiler::Error> {
    let plain = PLAIN.iter().chain(OLDER).chain(PRETENDED);
    let mut rules: BTreeMap<_, _> = plain.map(|&call| (call, Vec::new())).collect();
    // With `CLONE_THREAD` the call makes a thread, without it a process.
    let thread = u64::from(libc::CLONE_THREAD.cast_unsigned());
    rules.insert(libc::SYS_clone, vec![all_of(&[masked_equals(0, thread, thread)?])?]);
    // No executable memory: an attacker in the helper cannot load code, only reuse what is there.
    let code = u64::from(libc::PROT_EXEC.cast_unsigned());
    for call in [libc::SYS_mmap, libc::SYS_mprotect] {
        rules.insert(call, vec![all_of(&[masked_equals(2, code, 0)?])?]);
    }
    // Only copies and flags of handles: other `fcntl` commands, such as `F_SETOWN`, can send signals.
    let commands = [
        libc::F_DUPFD,
        libc::F_DUPFD_CLOEXEC,
        libc::F_GETFD,
        libc::F_SETFD,
        libc::F_GETFL,
    ];
    rules.insert(libc::SYS_fcntl, any_value(1, &commands)?);
    // The name of a thread.
    rules.insert(libc::SYS_prctl, any_value(0, &[libc::PR_SET_NAME])?);
    // A process id of 0 means this process.
    rules.insert(libc::SYS_prlimit64, any_value(0, &[0])?);
    // `abort` signals its own process.
    let own = rustix::process::getpid().as_raw_nonzero().get();
    rules.insert(libc::SYS_tgkill, any_value(0, &[own])?);
    Ok(rules)
}

fn all_of(conditions: &[SeccompCondition]) -> Result<SeccompRule, seccompiler::Error> {
    Ok(SeccompRule::new(conditions.to_vec())?)
}

fn masked_equals(argument: u8, mask: u64, value: u64) -> Result<SeccompCondition, seccompiler::Error> {
    let operator = SeccompCmpOp::MaskedEq(mask);
    Ok(SeccompCondition::new(
        argument,
        SeccompCmpArgLen::Dword,
        operator,
        value,
    )?)
}

/// One rule for each value of an argument.
fn any_value(argument: u8, values: &[i32]) -> Result<Vec<SeccompRule>, seccompiler::Error> {
    let rule = |&value: &i32| {
        let value = u64::from(value.cast_unsigned());
        let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value)?;
        all_of(&[condition])
    };
    values.iter().map(rule).collect()
}
