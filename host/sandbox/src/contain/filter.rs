//! The system calls of a run: a list of those that there are, and rules about their arguments.
//!
//! The numbers are the kernel's for the two architectures that the filter knows; on another one there is no sandbox.

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

/// Names of an architecture's numbers, in their order.
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

/// `clone` for a new mount, cgroup, host name, IPC, user, process or network namespace.
const NAMESPACE_FLAGS: [u64; 7] = [
    0x0002_0000,
    0x0200_0000,
    0x0400_0000,
    0x0800_0000,
    0x1000_0000,
    0x2000_0000,
    0x4000_0000,
];

/// Leases of files (`F_SETLEASE`) and delegations of folders (`F_SETDELEG`, since Linux 6.19): both take no more than a
/// handle for reading, and keep every writer waiting, 45 seconds each time.
const LEASE_COMMANDS: [u64; 2] = [1024, 1040];

/// Putting characters into a terminal's input (`TIOCSTI`), and the console's way to the same (`TIOCLINUX`).
const TERMINAL_COMMANDS: [u64; 2] = [0x5412, 0x541c];

const UNIX: u64 = 1;
const INET: u64 = 2;
const INET6: u64 = 10;
const NETLINK: u64 = 16;

/// Kinds of sockets whose other end is settled once and for all.
const STREAM: u64 = 1;
const SEQUENCED: u64 = 5;

/// Non-blocking, closed at the start of a program, and both.
const SOCKET_FLAGS: [u64; 3] = [0o4000, 0o2_000_000, 0o2_004_000];

/// Applies the filters to this process and everything it starts.
pub(super) fn apply(sandbox: Sandbox) -> Result<(), seccompiler::Error> {
    seccompiler::apply_filter(&other_numbers())?;
    seccompiler::apply_filter(&listed()?)?;
    seccompiler::apply_filter(&program(families(sandbox)?, errno::AFNOSUPPORT)?)?;
    if sandbox != Sandbox::Namespaces {
        shared::apply()?;
    }
    seccompiler::apply_filter(&program(refused()?, errno::PERM)?)?;
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

fn program(rules: Rules, errno: u32) -> Result<BpfProgram, seccompiler::Error> {
    let rules: BTreeMap<_, _> = rules.into_iter().collect();
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(errno), number::ARCH)?;
    Ok(filter.try_into()?)
}

/// The calls that there are. The filters that are applied later have the say about what both refuse.
fn listed() -> Result<BpfProgram, seccompiler::Error> {
    let calls = allowed::CALLS.iter().chain(allowed::OLDER).chain(allowed::NEWER);
    let rules = calls.map(|&call| (call, Vec::new())).collect();
    let missing = SeccompAction::Errno(errno::NOSYS);
    let filter = SeccompFilter::new(rules, missing, SeccompAction::Allow, number::ARCH)?;
    Ok(filter.try_into()?)
}

/// Applies the list to this thread and what it starts. Instead of being refused, each other call waits for an answer of
/// the holder of the handle.
#[expect(unsafe_code, reason = "no safe crate has the call")]
pub(super) fn listen() -> io::Result<OwnedFd> {
    const REFUSE: u32 = 0x0005_0000 | errno::NOSYS;
    const ASK: u32 = 0x7fc0_0000;
    let mut program = listed().map_err(io::Error::other)?;
    for step in program.iter_mut().filter(|step| step.k == REFUSE) {
        step.k = ASK;
    }
    rustix::thread::set_no_new_privs(true)?;
    let program = libc::sock_fprog {
        len: u16::try_from(program.len()).map_err(io::Error::other)?,
        filter: program.as_mut_ptr().cast(),
    };
    // SAFETY: the program lives until the call returns, and the kernel checks it.
    super::calls::owned(unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_NEW_LISTENER,
            &raw const program,
        )
    })
}

/// The calls that only an administrator may make: any other user is refused them in the same words. And those that are
/// refused with some arguments.
fn refused() -> Result<Rules, seccompiler::Error> {
    let always = number::REFUSED
        .iter()
        .chain(&REFUSED_EVERYWHERE)
        .map(|&call| (call, Vec::new()));
    let mut rules = always.collect::<Rules>();
    let clone = NAMESPACE_FLAGS.map(|flag| rule(&[(0, SeccompCmpOp::MaskedEq(flag), flag)]));
    rules.push((number::CLONE, clone.into_iter().collect::<Result<_, _>>()?));
    let ioctl = TERMINAL_COMMANDS.map(|command| rule(&[(1, SeccompCmpOp::Eq, command)]));
    rules.push((number::IOCTL, ioctl.into_iter().collect::<Result<_, _>>()?));
    let fcntl = LEASE_COMMANDS.map(|command| rule(&[(1, SeccompCmpOp::Eq, command)]));
    rules.push((libc::SYS_fcntl, fcntl.into_iter().collect::<Result<_, _>>()?));
    // To ask for it (-1) and to set the usual one (0) changes nothing.
    let personality = rule(&[(0, SeccompCmpOp::Ne, 0), (0, SeccompCmpOp::Ne, 0xffff_ffff)])?;
    rules.push((number::PERSONALITY, vec![personality]));
    Ok(rules)
}

/// The kinds of sockets that there are. In a network of its own a run may use what stays in it; where the machine's
/// network is the only one, it gets no socket at all but pairs.
///
/// Pairs are pairs of connected streams there: one that takes single messages can be told for each where it goes, and so
/// reaches every socket of the machine that has a path.
///
/// Of netlink only the part that lists devices and addresses (protocol 0) is there, by which libraries learn of the
/// loopback device; without rights it changes nothing.
fn families(sandbox: Sandbox) -> Result<Rules, seccompiler::Error> {
    let rules = match sandbox {
        Sandbox::Namespaces => {
            let kinds = [UNIX, INET, INET6, NETLINK].map(|family| (0, SeccompCmpOp::Ne, family));
            vec![
                rule(&kinds)?,
                rule(&[(0, SeccompCmpOp::Eq, NETLINK), (2, SeccompCmpOp::Ne, 0)])?,
            ]
        }
        Sandbox::Landlock | Sandbox::None => Vec::new(),
    };
    let mut pairs = vec![rule(&[(0, SeccompCmpOp::Ne, UNIX)])?];
    if sandbox != Sandbox::Namespaces {
        let streams = [STREAM, SEQUENCED].map(|kind| (1, SeccompCmpOp::Ne, kind));
        let flagged = SOCKET_FLAGS
            .iter()
            .flat_map(|flags| [STREAM | flags, SEQUENCED | flags]);
        let flagged = flagged.map(|kind| (1, SeccompCmpOp::Ne, kind));
        pairs.push(rule(&streams.into_iter().chain(flagged).collect::<Vec<_>>())?);
    }
    Ok(vec![(number::SOCKET, rules), (number::SOCKET_PAIR, pairs)])
}

/// All conditions together. Arguments of these calls are 32 bits wide; the kernel ignores the rest.
fn rule(conditions: &[(u8, SeccompCmpOp, u64)]) -> Result<SeccompRule, seccompiler::Error> {
    let condition = |(argument, operator, value): &(u8, SeccompCmpOp, u64)| {
        SeccompCondition::new(*argument, SeccompCmpArgLen::Dword, operator.clone(), *value)
    };
    let conditions = conditions.iter().map(condition).collect::<Result<Vec<_>, _>>()?;
    Ok(SeccompRule::new(conditions)?)
}

/// Refuses the second set of numbers for the same calls that some kernels have on x86-64, by which every rule above
/// could be passed by. Other architectures' calls end the process, which each generated filter sees to.
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
            assert!(program(families(sandbox).expect("they are valid"), errno::AFNOSUPPORT).is_ok());
        }
        assert!(program(refused().expect("they are valid"), errno::PERM).is_ok());
        assert!(listed().is_ok());
        assert!(shared::programs().is_ok());
    }
}
