//! Runs a program under the system-call filter of the sandbox alone, and names the calls that the filter refuses. A
//! developer finds out with it why a test suite fails. The program has the user's files and network.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::{Command, ExitStatus};
use std::sync::mpsc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::filter;

/// Names of refused calls that programs often make. Other refused calls are reported by number.
macro_rules! names {
    ($($name:ident $constant:ident)*) => { &[$((stringify!($name), libc::$constant)),*] };
}

const NAMES: &[(&str, libc::c_long)] = names! {
    add_key SYS_add_key
    bpf SYS_bpf
    chroot SYS_chroot
    clone3 SYS_clone3
    io_setup SYS_io_setup
    io_submit SYS_io_submit
    io_getevents SYS_io_getevents
    io_uring_setup SYS_io_uring_setup
    kcmp SYS_kcmp
    keyctl SYS_keyctl
    mbind SYS_mbind
    memfd_create SYS_memfd_create
    mount SYS_mount
    move_pages SYS_move_pages
    name_to_handle_at SYS_name_to_handle_at
    perf_event_open SYS_perf_event_open
    process_vm_readv SYS_process_vm_readv
    ptrace SYS_ptrace
    remap_file_pages SYS_remap_file_pages
    set_mempolicy SYS_set_mempolicy
    setns SYS_setns
    unshare SYS_unshare
    userfaultfd SYS_userfaultfd
    vmsplice SYS_vmsplice
};

/// Runs a program to its end. `tell` gets each call that is not on the list, once.
///
/// # Errors
///
/// The kernel has no listener for a filter (before Linux 5.0), or the program cannot be started.
pub fn run_listing_calls(program: &str, arguments: &[String], mut tell: impl FnMut(&str)) -> io::Result<ExitStatus> {
    let (send, listeners) = mpsc::channel();
    // A filter holds for the thread that applies it and what it starts. On a thread of its own, it does not hold for
    // the thread that answers.
    let runner = {
        let (program, arguments) = (program.to_owned(), arguments.to_vec());
        std::thread::spawn(move || {
            let listener = filter::install_listener()?;
            send.send(listener).map_err(io::Error::other)?;
            #[expect(
                clippy::disallowed_methods,
                reason = "the user asked for this program, outside of a sandbox"
            )]
            Command::new(program).args(arguments).status()
        })
    };
    if let Ok(listener) = listeners.recv() {
        let mut told = BTreeSet::new();
        while !runner.is_finished() {
            if let Some(call) = answer_call(&listener)?
                && told.insert(call)
            {
                let name = NAMES.iter().find(|(_, number)| *number == libc::c_long::from(call));
                tell(&name.map_or_else(|| format!("number {call}"), |(name, _)| (*name).to_owned()));
            }
        }
    }
    runner
        .join()
        .unwrap_or_else(|_| Err(io::Error::other("the program could not be watched")))
}

/// Time to wait for a call before checking whether the program has ended.
const WAIT: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};

/// Waits for a call, and answers it with `ENOSYS`.
#[expect(unsafe_code, reason = "no safe crate has the calls")]
fn answer_call(listener: &OwnedFd) -> io::Result<Option<i32>> {
    let mut ready = [PollFd::new(listener, PollFlags::IN)];
    if poll(&mut ready, Some(&WAIT))? == 0 || !ready[0].revents().contains(PollFlags::IN) {
        return Ok(None);
    }
    // SAFETY: the structure consists of integers, for which zero is a value, and the kernel asks for zeros.
    let mut call: libc::seccomp_notif = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one structure of this type.
    if unsafe { libc::ioctl(listener.as_raw_fd(), NOTIF_RECV as _, &raw mut call) } < 0 {
        // The caller has ended between the poll and this read.
        return Ok(None);
    }
    let reply = libc::seccomp_notif_resp {
        id: call.id,
        val: 0,
        error: -libc::ENOSYS,
        flags: 0,
    };
    // SAFETY: the kernel reads one structure of this type. A caller that has ended needs no answer.
    unsafe { libc::ioctl(listener.as_raw_fd(), NOTIF_SEND as _, &raw const reply) };
    Ok(Some(call.data.nr))
}

/// `SECCOMP_IOCTL_NOTIF_RECV` and `SECCOMP_IOCTL_NOTIF_SEND`. The numbers contain the sizes of their structures.
const NOTIF_RECV: libc::c_ulong = 0xc050_2100;
const NOTIF_SEND: libc::c_ulong = 0xc018_2101;

/// Takes ownership of a listener's handle that the kernel has returned.
#[expect(unsafe_code, reason = "a number becomes a handle")]
pub(super) fn own_handle(listener: libc::c_long) -> io::Result<OwnedFd> {
    let number = i32::try_from(listener).map_err(io::Error::other)?;
    if number < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made it, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_is_not_on_the_list_is_named_and_does_not_exist() {
        let script = "import ctypes, os, sys; libc = ctypes.CDLL(None, use_errno=True)\n\
                      result = libc.unshare(0x10000000); sys.exit(0 if result < 0 and ctypes.get_errno() == 38 else 1)";
        let mut told = Vec::new();
        let status = run_listing_calls("python3", &["-c".to_owned(), script.to_owned()], |name| {
            told.push(name.to_owned())
        });
        assert!(status.expect("there is Python").success());
        assert!(told.contains(&"unshare".to_owned()), "{told:?}");
    }
}
