//! Refuses calls that affect the rest of the machine, for the fallback, in which a run shares everything but files.
//!
//! Landlock checks neither what belongs to another process (limits, priority, processors), nor objects without a path
//! (shared memory, semaphores, queues), nor the attributes of a file.

use seccompiler::{BpfProgram, SeccompCmpOp};

use super::{Rules, build_program, build_rule, errno};

/// Number of `fchmodat2`, the same on every architecture. The crate `libc` lacks it for musl on aarch64.
const SYS_FCHMODAT2: libc::c_long = 452;

/// System V's shared memory, semaphores and queues, POSIX queues, and names for sockets (one end of a socket pair could
/// take an abstract name that another program expects).
const REFUSED: &[i64] = &[
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    libc::SYS_bind,
    libc::SYS_listen,
];

/// Modes and times. A filter sees no path, so it cannot tell the files of the run from those of the user. These calls
/// change nothing and report success, because tools that copy files (`shutil.copy`, `fs.copyFile`, `touch`) fail on an
/// error.
const MODES_AND_TIMES: &[i64] = &[
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    SYS_FCHMODAT2,
    libc::SYS_utimensat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utime,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utimes,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_futimesat,
];

/// Extended attributes. `setxattrat`, `removexattrat` and `file_setattr` have the same number on every architecture.
/// Programs expect file systems that do not support them.
const ATTRIBUTES: &[i64] = &[
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    463,
    466,
    469,
];

/// Calls whose first argument is a process id; 0 means the caller.
const OTHERS: &[i64] = &[
    libc::SYS_prlimit64,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setattr,
];

/// Calls on priorities, with the kinds that mean only the caller or its group if the second argument is 0.
const PRIORITIES: [(i64, [u64; 2]); 2] = [(libc::SYS_setpriority, [0, 1]), (libc::SYS_ioprio_set, [1, 2])];

const OWNERS: &[(i64, u8, u8)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chown, 1, 2),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_lchown, 1, 2),
    (libc::SYS_fchown, 1, 2),
    (libc::SYS_fchownat, 2, 3),
];

/// Commands to a file system, by the letter of their group: flags of files (`f`, `X`, `v`), and what Btrfs, F2FS and
/// bcachefs do with whole trees. A handle for reading is enough for them.
const FILE_SYSTEMS: [u64; 6] = [0x66, 0x58, 0x76, 0x94, 0xf5, 0xbc];

/// Applies the filters to this process and everything that it starts.
pub(super) fn apply_filters() -> Result<(), seccompiler::Error> {
    build_filters()?
        .iter()
        .try_for_each(|program| seccompiler::apply_filter(program))
}

fn any_arguments(calls: &[i64]) -> Rules {
    calls.iter().map(|&call| (call, Vec::new())).collect()
}

/// Builds the filters. If two refuse the same call, the later one decides the error.
pub(super) fn build_filters() -> Result<[BpfProgram; 5], seccompiler::Error> {
    let owners = OWNERS.iter().map(|&(call, ..)| call).collect::<Vec<_>>();
    let commands = FILE_SYSTEMS.map(|kind| build_rule(&[(1, SeccompCmpOp::MaskedEq(0xff00), kind << 8)]));
    let commands = commands.into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok([
        // Archivers that run as root set the owner that a file has already. Every file here belongs to the user, so
        // success is reported.
        build_program(any_arguments(&owners), errno::DONE)?,
        build_program(any_arguments(MODES_AND_TIMES), errno::DONE)?,
        build_program(any_arguments(ATTRIBUTES), errno::NOTSUP)?,
        build_program(vec![(libc::SYS_ioctl, commands)], errno::NOTTY)?,
        build_program(refuse_others(any_arguments(REFUSED))?, errno::PERM)?,
    ])
}

fn refuse_others(mut rules: Rules) -> Result<Rules, seccompiler::Error> {
    for &call in OTHERS {
        rules.push((call, vec![build_rule(&[(0, SeccompCmpOp::Ne, 0)])?]));
    }
    for (call, [one, group]) in PRIORITIES {
        let is_other = build_rule(&[(1, SeccompCmpOp::Ne, 0)])?;
        let is_wide = build_rule(&[(0, SeccompCmpOp::Ne, one), (0, SeccompCmpOp::Ne, group)])?;
        rules.push((call, vec![is_other, is_wide]));
    }
    let user = u64::from(rustix::process::getuid().as_raw());
    let group = u64::from(rustix::process::getgid().as_raw());
    // An id of -1 leaves it unchanged.
    let unchanged = u64::from(u32::MAX);
    for &(call, at_user, at_group) in OWNERS {
        let is_other = |at: u8, own: u64| build_rule(&[(at, SeccompCmpOp::Ne, own), (at, SeccompCmpOp::Ne, unchanged)]);
        rules.push((call, vec![is_other(at_user, user)?, is_other(at_group, group)?]));
    }
    Ok(rules)
}
