//! System calls of a run: an allowlist, and rules about their arguments.
//!
//! The numbers are the kernel's for the two architectures that the filter supports; on any other there is no sandbox.

mod allowed;
mod shared;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, sock_filter,
};

use super::Sandbox;

#[cfg(target_arch = "x86_64")]
mod number {
    use super::TargetArch;

    pub(super) const ARCH: TargetArch = TargetArch::x86_64;
    pub(super) const CLONE: i64 = 56;
    pub(super) const IOCTL: i64 = 16;
    pub(super) const PERSONALITY: i64 = 135;
    pub(super) const SOCKET: i64 = 41;
    pub(super) const SOCKET_PAIR: i64 = 53;
    /// In the order of `super::REFUSED_NAMES`.
    pub(super) const REFUSED: &[i64] = &[
        272, 308, 101, 310, 311, 312, 250, 248, 249, 321, 298, 165, 166, 155, 161, 167, 168, 179, 163, 169, 246, 320,
        175, 313, 176, 323, 304, 103, 300, 164, 227, 159, 305, 153, // Only here: iopl, ioperm, nfsservctl.
        172, 173, 180,
    ];
}

#[cfg(target_arch = "aarch64")]
mod number {
    use super::TargetArch;

    pub(super) const ARCH: TargetArch = TargetArch::aarch64;
    pub(super) const CLONE: i64 = 220;
    pub(super) const IOCTL: i64 = 29;
    pub(super) const PERSONALITY: i64 = 92;
    pub(super) const SOCKET: i64 = 198;
    pub(super) const SOCKET_PAIR: i64 = 199;
    pub(super) const REFUSED: &[i64] = &[
        97, 268, 117, 270, 271, 272, 219, 217, 218, 280, 241, 40, 39, 41, 51, 224, 225, 60, 89, 142, 104, 294, 105,
        273, 106, 282, 265, 116, 262, 170, 112, 171, 266, 58,
    ];
}

/// Names for the numbers of an architecture, in the same order.
#[cfg(test)]
const REFUSED_NAMES: &[&str] = &[
    "unshare",
    "setns",
    "ptrace",
    "process_vm_readv",
    "process_vm_writev",
    "kcmp",
    "keyctl",
    "add_key",
    "request_key",
    "bpf",
    "perf_event_open",
    "mount",
    "umount2",
    "pivot_root",
    "chroot",
    "swapon",
    "swapoff",
    "quotactl",
    "acct",
    "reboot",
    "kexec_load",
    "kexec_file_load",
    "init_module",
    "finit_module",
    "delete_module",
    "userfaultfd",
    "open_by_handle_at",
    "syslog",
    "fanotify_init",
    "settimeofday",
    "clock_settime",
    "adjtimex",
    "clock_adjtime",
    "vhangup",
];

/// Numbers that all architectures share: io_uring (425 to 427), the newer mount calls (428 to 433, 442, 467),
/// `pidfd_getfd` (438), `process_madvise` (440), `quotactl_fd` (443).
const REFUSED_EVERYWHERE: [i64; 14] = [425, 426, 427, 428, 429, 430, 431, 432, 433, 438, 440, 442, 443, 467];

/// `clone` with a flag for a new mount, cgroup, host name, IPC, user, process or network namespace.
const NAMESPACE_FLAGS: [u64; 7] = [
    0x0002_0000,
    0x0200_0000,
    0x0400_0000,
    0x0800_0000,
    0x1000_0000,
    0x2000_0000,
    0x4000_0000,
];

/// Leases of files (`F_SETLEASE`) and delegations of folders (`F_SETDELEG`, since Linux 6.19). Both need only a handle
/// for reading, and make every writer wait 45 seconds each time.
const LEASE_COMMANDS: [u64; 2] = [1024, 1040];

/// Commands that write into a terminal's input: `TIOCSTI`, and `TIOCLINUX` for the console.
const TERMINAL_COMMANDS: [u64; 2] = [0x5412, 0x541c];

const UNIX: u64 = 1;
const INET: u64 = 2;
const INET6: u64 = 10;
const NETLINK: u64 = 16;

/// Kinds of sockets whose peer cannot change after they are connected.
const STREAM: u64 = 1;
const SEQUENCED: u64 = 5;

/// Non-blocking, closed at the start of a program, and both.
const SOCKET_FLAGS: [u64; 3] = [0o4000, 0o2_000_000, 0o2_004_000];

/// Applies the filters to this process and everything that it starts.
pub(super) fn apply_filters(sandbox: Sandbox) -> Result<(), seccompiler::Error> {
    // If two filters refuse a call, the kernel returns the error of the one applied last.
    seccompiler::apply_filter(&other_numbers())?;
    seccompiler::apply_filter(&build_allowlist()?)?;
    seccompiler::apply_filter(&build_program(limit_families(sandbox)?, errno::AFNOSUPPORT)?)?;
    if sandbox != Sandbox::Namespaces {
        shared::apply_filters()?;
    }
    seccompiler::apply_filter(&build_program(refused_calls()?, errno::PERM)?)?;
    Ok(())
}

mod errno {
    pub(super) const DONE: u32 = 0;
    pub(super) const PERM: u32 = 1;
    pub(super) const NOTTY: u32 = 25;
    pub(super) const NOSYS: u32 = 38;
    pub(super) const NOTSUP: u32 = 95;
    pub(super) const AFNOSUPPORT: u32 = 97;
}

type Rules = Vec<(i64, Vec<SeccompRule>)>;

fn build_program(rules: Rules, errno: u32) -> Result<BpfProgram, seccompiler::Error> {
    let rules: BTreeMap<_, _> = rules.into_iter().collect();
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(errno), number::ARCH)?;
    Ok(filter.try_into()?)
}

/// Builds the allowlist. If a later filter refuses a call too, its error number counts.
fn build_allowlist() -> Result<BpfProgram, seccompiler::Error> {
    let calls = allowed::CALLS.iter().chain(allowed::OLDER).chain(allowed::NEWER);
    let rules = calls.map(|&call| (call, Vec::new())).collect();
    let missing = SeccompAction::Errno(errno::NOSYS);
    let filter = SeccompFilter::new(rules, missing, SeccompAction::Allow, number::ARCH)?;
    Ok(filter.try_into()?)
}

/// Applies the allowlist to this thread and what it starts. A call that is not on the list waits until the holder of
/// the handle answers it.
#[expect(unsafe_code, reason = "no safe crate has the call")]
pub(super) fn install_listener() -> io::Result<OwnedFd> {
    // `SECCOMP_RET_ERRNO` and `SECCOMP_RET_USER_NOTIF`: the compiled filter is the same but for this result.
    const REFUSE: u32 = 0x0005_0000 | errno::NOSYS;
    const ASK: u32 = 0x7fc0_0000;
    let mut program = build_allowlist().map_err(io::Error::other)?;
    for step in program.iter_mut().filter(|step| step.k == REFUSE) {
        step.k = ASK;
    }
    rustix::thread::set_no_new_privs(true)?;
    let program = libc::sock_fprog {
        len: u16::try_from(program.len()).map_err(io::Error::other)?,
        filter: program.as_mut_ptr().cast(),
    };
    // SAFETY: the program lives until the call returns, and the kernel checks it.
    super::calls::own_handle(unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_NEW_LISTENER,
            &raw const program,
        )
    })
}

/// Refuses what only an administrator may do, with the error that any other user gets, and some calls by their
/// arguments.
fn refused_calls() -> Result<Rules, seccompiler::Error> {
    let always = number::REFUSED
        .iter()
        .chain(&REFUSED_EVERYWHERE)
        .map(|&call| (call, Vec::new()));
    let mut rules = always.collect::<Rules>();
    let clone = NAMESPACE_FLAGS.map(|flag| build_rule(&[(0, SeccompCmpOp::MaskedEq(flag), flag)]));
    rules.push((number::CLONE, clone.into_iter().collect::<Result<_, _>>()?));
    let ioctl = TERMINAL_COMMANDS.map(|command| build_rule(&[(1, SeccompCmpOp::Eq, command)]));
    rules.push((number::IOCTL, ioctl.into_iter().collect::<Result<_, _>>()?));
    let fcntl = LEASE_COMMANDS.map(|command| build_rule(&[(1, SeccompCmpOp::Eq, command)]));
    rules.push((libc::SYS_fcntl, fcntl.into_iter().collect::<Result<_, _>>()?));
    // To query the personality (-1) or to set the default one (0) changes nothing.
    let personality = build_rule(&[(0, SeccompCmpOp::Ne, 0), (0, SeccompCmpOp::Ne, 0xffff_ffff)])?;
    rules.push((number::PERSONALITY, vec![personality]));
    Ok(rules)
}

/// Restricts the kinds of sockets. In a network namespace of its own a run may use those that stay inside. Where the
/// run shares the machine's network, it gets no sockets but pairs.
///
/// Pairs are then limited to connected streams: a datagram socket can name a destination for each message, and so reach
/// every socket of the machine that has a path.
///
/// Of netlink only the protocol that lists devices and addresses (0) is allowed, through which libraries find the
/// loopback device; without rights it changes nothing.
fn limit_families(sandbox: Sandbox) -> Result<Rules, seccompiler::Error> {
    let rules = match sandbox {
        Sandbox::Namespaces => {
            let kinds = [UNIX, INET, INET6, NETLINK].map(|family| (0, SeccompCmpOp::Ne, family));
            vec![
                build_rule(&kinds)?,
                build_rule(&[(0, SeccompCmpOp::Eq, NETLINK), (2, SeccompCmpOp::Ne, 0)])?,
            ]
        }
        Sandbox::Landlock | Sandbox::None => Vec::new(),
    };
    let mut pairs = vec![build_rule(&[(0, SeccompCmpOp::Ne, UNIX)])?];
    if sandbox != Sandbox::Namespaces {
        let streams = [STREAM, SEQUENCED].map(|kind| (1, SeccompCmpOp::Ne, kind));
        let flagged = SOCKET_FLAGS
            .iter()
            .flat_map(|flags| [STREAM | flags, SEQUENCED | flags]);
        let flagged = flagged.map(|kind| (1, SeccompCmpOp::Ne, kind));
        pairs.push(build_rule(&streams.into_iter().chain(flagged).collect::<Vec<_>>())?);
    }
    Ok(vec![(number::SOCKET, rules), (number::SOCKET_PAIR, pairs)])
}

/// Builds a rule from conditions that must all hold. Arguments of these calls have 32 bits; the kernel ignores the
/// rest.
fn build_rule(conditions: &[(u8, SeccompCmpOp, u64)]) -> Result<SeccompRule, seccompiler::Error> {
    let condition = |(argument, operator, value): &(u8, SeccompCmpOp, u64)| {
        SeccompCondition::new(*argument, SeccompCmpArgLen::Dword, operator.clone(), *value)
    };
    let conditions = conditions.iter().map(condition).collect::<Result<Vec<_>, _>>()?;
    Ok(SeccompRule::new(conditions)?)
}

/// Refuses the x32 calls, a second set of numbers for the same calls that some x86-64 kernels accept: they would bypass
/// every rule above. A call of another architecture ends the process, which each generated filter checks.
fn other_numbers() -> BpfProgram {
    const LOAD: u16 = 0x20;
    const JUMP_IF_GREATER_OR_EQUAL: u16 = 0x35;
    const RETURN: u16 = 0x06;
    const ALLOW: u32 = 0x7fff_0000;
    const ERRNO: u32 = 0x0005_0000;
    const SECOND_SET: u32 = 0x4000_0000;
    let step = |code, jt, jf, k| sock_filter { code, jt, jf, k };
    vec![
        step(LOAD, 0, 0, 0),
        step(JUMP_IF_GREATER_OR_EQUAL, 0, 1, SECOND_SET),
        step(RETURN, 0, 0, ERRNO | errno::NOSYS),
        step(RETURN, 0, 0, ALLOW),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_a_name_and_stands_once() {
        assert!(number::REFUSED.len() >= REFUSED_NAMES.len());
        let mut all = number::REFUSED.iter().chain(&REFUSED_EVERYWHERE).collect::<Vec<_>>();
        all.sort_unstable();
        let count = all.len();
        all.dedup();
        assert_eq!(all.len(), count);
    }

    #[test]
    fn the_list_holds_no_call_that_is_refused_and_none_twice() {
        let listed = || allowed::CALLS.iter().chain(allowed::OLDER).chain(allowed::NEWER);
        assert_eq!(
            listed().collect::<std::collections::BTreeSet<_>>().len(),
            listed().count()
        );
        let refused = number::REFUSED.iter().chain(&REFUSED_EVERYWHERE);
        let both: Vec<_> = refused.filter(|call| listed().any(|listed| listed == *call)).collect();
        assert!(both.is_empty(), "{both:?}");
    }

    #[test]
    fn the_filters_compile() {
        for sandbox in [Sandbox::Namespaces, Sandbox::Landlock] {
            assert!(build_program(limit_families(sandbox).expect("they are valid"), errno::AFNOSUPPORT).is_ok());
        }
        assert!(build_program(refused_calls().expect("they are valid"), errno::PERM).is_ok());
        assert!(build_allowlist().is_ok());
        assert!(shared::build_filters().is_ok());
    }
}
