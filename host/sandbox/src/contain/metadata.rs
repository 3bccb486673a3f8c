//! Modes and times of files in the fallback, where Landlock does not see the calls that change them.
//!
//! A filter cannot read paths. So it hands each of these calls to the outer helper, which works on its own copy of what
//! was asked: it opens the file without touching it, and changes that file where it lies in the folder of the run.
//! Everything else is refused, however it was named. By this a test suite may change the modes and times of its own
//! files, and of no other. Owners and attributes, which no test suite needs, are the filter's (`filter`).

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use libc::{seccomp_notif, seccomp_notif_resp, sock_filter, sock_fprog};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, Timespec, Timestamps};
use rustix::io::Errno;

#[cfg(target_arch = "x86_64")]
const ARCH: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCH: u32 = 0xc000_00b7;

/// The calls that are handed over.
const CALLS: &[libc::c_long] = &[
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchmodat2,
    libc::SYS_utimensat,
];

/// The longest path of the kernel, with its end.
const PATH_BYTES_MAX: usize = 4096;

/// Hands the calls of this process, and of everything that it starts, to whoever holds what is returned. Where somebody
/// outside answers calls already, as around some containers, there is no other one: then they are all refused.
pub(super) fn hand_over() -> io::Result<Option<OwnedFd>> {
    // A call that is being answered is not interrupted by signals that do not kill.
    let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    match apply(libc::SECCOMP_RET_USER_NOTIF, flags) {
        Ok(handle) => {
            #[expect(unsafe_code, reason = "the kernel gives a number")]
            // SAFETY: it is a handle that nobody else has.
            let calls = unsafe { OwnedFd::from_raw_fd(handle) };
            Ok(Some(calls))
        }
        Err(_) => {
            let refused = libc::SECCOMP_RET_ERRNO | Errno::PERM.raw_os_error().unsigned_abs();
            apply(refused, 0).map(|_| None)
        }
    }
}

fn apply(action: u32, flags: libc::c_ulong) -> io::Result<RawFd> {
    let mut program = program(action);
    let program = sock_fprog {
        len: u16::try_from(program.len()).map_err(io::Error::other)?,
        filter: program.as_mut_ptr(),
    };
    let mode = libc::c_ulong::from(libc::SECCOMP_SET_MODE_FILTER);
    #[expect(unsafe_code, reason = "no safe function for it")]
    // SAFETY: the program is a whole one, and the kernel copies it.
    let answer = unsafe { libc::syscall(libc::SYS_seccomp, mode, flags, &raw const program) };
    match RawFd::try_from(answer) {
        Ok(answer) if answer >= 0 => Ok(answer),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Calls of another set of numbers pass here; the filters beside this one end or refuse them.
fn program(action: u32) -> Vec<sock_filter> {
    const LOAD: u16 = 0x20;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    let step = |code, jt, jf, k| sock_filter { code, jt, jf, k };
    let mut steps = vec![
        step(LOAD, 0, 0, 4),
        step(JUMP_IF_EQUAL, 1, 0, ARCH),
        step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
        step(LOAD, 0, 0, 0),
    ];
    for &call in CALLS {
        let number = u32::try_from(call).unwrap_or(u32::MAX);
        steps.push(step(JUMP_IF_EQUAL, 0, 1, number));
        steps.push(step(RETURN, 0, 0, action));
    }
    steps.push(step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW));
    steps
}

/// Who answers the calls.
pub(super) struct Clerk {
    calls: OwnedFd,
    /// What may be changed lies beneath it. The folder itself does not: it keeps others out.
    folder: PathBuf,
}

/// What a call wants to be done.
#[derive(Debug, Clone, Copy)]
enum Change {
    Mode(Mode),
    /// The address of two times; 0 for now.
    Times(u64),
}

/// A file as a call names it.
#[derive(Debug, Clone, Copy)]
struct Named {
    /// A handle of a folder or of the file itself, or the mark of the working directory.
    at: RawFd,
    /// The address of a path; without one the handle is meant.
    path: Option<u64>,
    flags: AtFlags,
}

impl Clerk {
    pub(super) fn new(calls: OwnedFd, folder: PathBuf) -> Self {
        Self { calls, folder }
    }

    /// Readable when there is a call to be answered.
    pub(super) fn calls(&self) -> &OwnedFd {
        &self.calls
    }

    /// Answers one call. One whose caller is gone needs no answer.
    pub(super) fn answer(&self) {
        if let Ok(call) = self.receive() {
            let done = self.serve(&call);
            self.reply(call.id, done.err());
        }
    }

    #[expect(unsafe_code, reason = "no safe function for it")]
    fn receive(&self) -> io::Result<seccomp_notif> {
        // SAFETY: the structure is the kernel's, all zeroes are a valid one, and the kernel wants to find it so.
        unsafe {
            let mut call: seccomp_notif = std::mem::zeroed();
            match libc::ioctl(self.calls.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut call) {
                0 => Ok(call),
                _ => Err(io::Error::last_os_error()),
            }
        }
    }

    #[expect(unsafe_code, reason = "no safe function for it")]
    fn reply(&self, id: u64, error: Option<Errno>) {
        let mut answer = seccomp_notif_resp {
            id,
            val: 0,
            error: error.map_or(0, |error| -error.raw_os_error()),
            flags: 0,
        };
        // SAFETY: the structure is whole. An error means that the caller is gone.
        unsafe {
            libc::ioctl(self.calls.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut answer);
        }
    }

    /// True while the caller waits. What was read by its number before that is its own, and of no process that has got
    /// the number since.
    #[expect(unsafe_code, reason = "no safe function for it")]
    fn is_waiting(&self, id: u64) -> bool {
        // SAFETY: the kernel reads one number.
        unsafe {
            libc::ioctl(
                self.calls.as_raw_fd(),
                libc::SECCOMP_IOCTL_NOTIF_ID_VALID,
                &raw const id,
            ) == 0
        }
    }

    fn serve(&self, call: &seccomp_notif) -> rustix::io::Result<()> {
        let (named, change) = wanted(i64::from(call.data.nr), &call.data.args)?;
        let caller = Caller(call.pid);
        let file = caller.open(named)?;
        let times = match change {
            Change::Times(address) if address != 0 => Some(caller.times(address)?),
            _ => None,
        };
        if !self.is_waiting(call.id) {
            return Err(Errno::SRCH);
        }
        // The name that the kernel gives it, which is where it lies and not how it was reached.
        let own = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd())).map_err(|_| Errno::INVAL)?;
        let place = rustix::fs::readlink(own.as_c_str(), Vec::new())?;
        if !self.holds(&place) {
            return Err(Errno::PERM);
        }
        match change {
            Change::Mode(mode) => rustix::fs::chmodat(CWD, own.as_c_str(), mode, AtFlags::empty()),
            Change::Times(_) => {
                let times = times.unwrap_or(NOW);
                rustix::fs::utimensat(CWD, own.as_c_str(), &times, AtFlags::empty())
            }
        }
    }

    fn holds(&self, place: &CStr) -> bool {
        use std::os::unix::ffi::OsStrExt;
        let inside = place.to_bytes().strip_prefix(self.folder.as_os_str().as_bytes());
        inside.is_some_and(|inside| inside.len() > 1 && inside.starts_with(b"/"))
    }
}

/// What the numbers of a call mean.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the kernel takes no more of these arguments either"
)]
fn wanted(number: i64, arguments: &[u64; 6]) -> rustix::io::Result<(Named, Change)> {
    let [first, second, third, fourth, ..] = *arguments;
    let mode = |value: u64| Change::Mode(Mode::from_raw_mode(value as u32 & 0o7777));
    let named = |at: u64, path: u64, flags: u64| Named {
        at: at as RawFd,
        path: (path != 0).then_some(path),
        flags: AtFlags::from_bits_retain(flags as u32),
    };
    let here = libc::AT_FDCWD as u64;
    match number {
        #[cfg(target_arch = "x86_64")]
        libc::SYS_chmod => Ok((named(here, first, 0), mode(second))),
        libc::SYS_fchmod => Ok((named(first, 0, 0), mode(second))),
        libc::SYS_fchmodat => Ok((named(first, second, 0), mode(third))),
        libc::SYS_fchmodat2 => Ok((named(first, second, fourth), mode(third))),
        libc::SYS_utimensat => Ok((named(first, second, fourth), Change::Times(third))),
        _ => Err(Errno::NOSYS),
    }
}

const NOW: Timestamps = {
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: rustix::fs::UTIME_NOW,
    };
    Timestamps {
        last_access: now,
        last_modification: now,
    }
};

/// The thread that made a call.
#[derive(Debug, Clone, Copy)]
struct Caller(u32);

impl Caller {
    /// The file itself, without any right to what is in it.
    fn open(self, named: Named) -> rustix::io::Result<OwnedFd> {
        let known = AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH;
        if !known.contains(named.flags) {
            return Err(Errno::INVAL);
        }
        let path = match named.path {
            Some(address) => self.path(address)?,
            None => return self.handle(named.at),
        };
        if path.is_empty() {
            return match named.flags.contains(AtFlags::EMPTY_PATH) {
                true => self.handle(named.at),
                false => Err(Errno::NOENT),
            };
        }
        let mut flags = OFlags::PATH | OFlags::CLOEXEC;
        flags.set(OFlags::NOFOLLOW, named.flags.contains(AtFlags::SYMLINK_NOFOLLOW));
        let path = self.own_names(path);
        match path.to_bytes().starts_with(b"/") {
            true => rustix::fs::open(path, flags, Mode::empty()),
            false => rustix::fs::openat(self.handle(named.at)?, path, flags, Mode::empty()),
        }
    }

    /// What one of its handles, or its working directory, stands for.
    fn handle(self, at: RawFd) -> rustix::io::Result<OwnedFd> {
        let place = match at {
            libc::AT_FDCWD => format!("/proc/{}/cwd", self.0),
            number if number >= 0 => format!("/proc/{}/fd/{number}", self.0),
            _ => return Err(Errno::BADF),
        };
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        match rustix::fs::open(place, flags, Mode::empty()) {
            Err(Errno::NOENT) => Err(Errno::BADF),
            other => other,
        }
    }

    /// Libraries name handles by `/proc/self`, which is another process here.
    fn own_names(self, path: CString) -> CString {
        let bytes = path.to_bytes();
        for (prefix, meant) in [("/proc/self/", ""), ("/proc/thread-self/", ""), ("/dev/fd/", "fd/")] {
            if let Some(rest) = bytes.strip_prefix(prefix.as_bytes()) {
                let start = format!("/proc/{}/{meant}", self.0);
                return CString::new([start.as_bytes(), rest].concat()).unwrap_or_default();
            }
        }
        path
    }

    fn path(self, address: u64) -> rustix::io::Result<CString> {
        let mut bytes = vec![0; PATH_BYTES_MAX];
        let count = self.read(&mut bytes, address)?;
        let path = CStr::from_bytes_until_nul(&bytes[..count]).map_err(|_| Errno::NAMETOOLONG)?;
        Ok(path.to_owned())
    }

    fn times(self, address: u64) -> rustix::io::Result<Timestamps> {
        let mut bytes = [0; 4 * size_of::<i64>()];
        if self.read(&mut bytes, address)? < bytes.len() {
            return Err(Errno::FAULT);
        }
        let number = |at: usize| {
            let mut eight = [0; 8];
            eight.copy_from_slice(&bytes[at * 8..at * 8 + 8]);
            i64::from_ne_bytes(eight)
        };
        let time = |at: usize| Timespec {
            tv_sec: number(at),
            tv_nsec: number(at + 1),
        };
        Ok(Timestamps {
            last_access: time(0),
            last_modification: time(2),
        })
    }

    /// As much of its memory as there is, up to the length.
    fn read(self, buffer: &mut [u8], address: u64) -> rustix::io::Result<usize> {
        let place = format!("/proc/{}/mem", self.0);
        // One that does not let itself be looked into is refused.
        let memory =
            rustix::fs::open(place, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).map_err(|_| Errno::PERM)?;
        let memory = File::from(memory);
        let mut count = 0;
        while count < buffer.len() {
            match memory.read_at(&mut buffer[count..], address.saturating_add(count as u64)) {
                Ok(0) | Err(_) => break,
                Ok(more) => count += more,
            }
        }
        match count {
            0 => Err(Errno::FAULT),
            count => Ok(count),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This process as a caller of itself.
    fn clerk(folder: &std::path::Path) -> Clerk {
        let nobody = File::open("/dev/null").expect("it is there");
        Clerk::new(nobody.into(), folder.to_owned())
    }

    fn named(path: &CStr) -> Named {
        Named {
            at: libc::AT_FDCWD,
            path: Some(path.as_ptr() as u64),
            flags: AtFlags::empty(),
        }
    }

    #[test]
    fn a_file_is_the_one_that_the_caller_means_however_it_is_named() {
        let folder = tempfile::tempdir().expect("there is room for a folder");
        let place = folder.path().canonicalize().expect("it is there").join("file");
        let file = File::create(&place).expect("the folder is writable");
        std::os::unix::fs::symlink(&place, folder.path().join("link")).expect("the folder is writable");
        let caller = Caller(std::process::id());
        let same = |found: rustix::io::Result<OwnedFd>| {
            let found = rustix::fs::fstat(found.expect("it is found")).expect("it is there");
            let wanted = rustix::fs::fstat(&file).expect("it is there");
            (found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino)
        };
        let text = |name: &str| CString::new(folder.path().join(name).to_str().expect("it is text")).expect("no zero");
        let (direct, link) = (text("file"), text("link"));
        assert!(same(caller.open(named(&direct))) && same(caller.open(named(&link))));
        let itself = Named {
            flags: AtFlags::SYMLINK_NOFOLLOW,
            ..named(&link)
        };
        assert!(!same(caller.open(itself)));
        for name in ["/proc/self/fd", "/dev/fd"] {
            let own = CString::new(format!("{name}/{}", file.as_raw_fd())).expect("no zero");
            assert!(same(caller.open(named(&own))), "{name}");
        }
        let handle = Named {
            at: file.as_raw_fd(),
            path: None,
            flags: AtFlags::empty(),
        };
        assert!(same(caller.open(handle)));
        assert_eq!(caller.open(Named { at: -1, ..handle }).err(), Some(Errno::BADF));
        assert_eq!(
            caller
                .open(Named {
                    path: Some(8),
                    ..handle
                })
                .err(),
            Some(Errno::FAULT)
        );
    }

    #[test]
    fn what_may_be_changed_lies_beneath_the_folder() {
        let clerk = clerk(std::path::Path::new("/tmp/tool-run-x"));
        for (place, expected) in [
            (c"/tmp/tool-run-x/tree/a", true),
            (c"/tmp/tool-run-x/tree/a (deleted)", true),
            (c"/tmp/tool-run-x", false),
            (c"/tmp/tool-run-x/", false),
            (c"/tmp/tool-run-xy/a", false),
            (c"/etc/passwd", false),
            (c"pipe:[1]", false),
        ] {
            assert_eq!(clerk.holds(place), expected, "{place:?}");
        }
    }

    #[test]
    fn a_path_without_an_end_is_refused() {
        let caller = Caller(std::process::id());
        let endless = vec![b'x'; 2 * PATH_BYTES_MAX];
        assert_eq!(caller.path(endless.as_ptr() as u64).err(), Some(Errno::NAMETOOLONG));
    }
}
