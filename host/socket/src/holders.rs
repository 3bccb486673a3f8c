//! Compares the namespaces of the processes that hold a socket with ours.
//!
//! A program in a sandbox (Flatpak, or a rootless container with the host's network) can reach our port as the same
//! user, although it sees neither the user's files nor the token. It differs from the user's shell by its namespaces.
//!
//! `/proc` does not show every holder: a descriptor may be on its way between two processes, or belong to a process
//! that others may not inspect. A program in our own namespaces that keeps a descriptor for a confined one therefore
//! vouches for it.

use std::path::Path;

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{CWD, Dir, Mode, OFlags, openat, readlinkat};
use rustix::path::Arg;

/// Links below `/proc/PID` that must lead to the same place as ours for a process to count as equally free. `root` is
/// among them because `chroot` changes no namespace.
const NAMESPACES: [&str; 4] = ["ns/mnt", "ns/user", "ns/pid", "root"];

/// Lines of `/proc/PID/status` that tell how a process has limited itself; 0 means no limit. Landlock has no line, but
/// a process without privileges must set `no_new_privs` to use it. A process with the same limits as ours, for example
/// in the same container, counts as equally free.
const LIMITS: [&str; 3] = ["NoNewPrivs:", "Seccomp:", "Seccomp_filters:"];

/// True if at least one process holds the socket with this inode, and every holder is in the mount, user and PID
/// namespace of this process and is not limited more by seccomp or Landlock. False if one holder cannot be read.
///
/// Takes about ten microseconds for each process of the machine.
pub fn are_in_our_namespaces(inode: u32) -> bool {
    are_like_self(Path::new("/proc"), inode)
}

fn are_like_self(proc: &Path, inode: u32) -> bool {
    let Some(proc) = open_folder(CWD, proc) else {
        return false;
    };
    let own = open_folder(&proc, "self").and_then(|this| Some((read_namespaces(&this)?, read_limits(&this)?)));
    let Some((own_namespaces, own_limits)) = own else {
        return false;
    };
    let Ok(entries) = Dir::read_from(&proc) else {
        return false;
    };
    let link = format!("socket:[{inode}]");
    let mut is_held = false;
    for entry in entries.flatten() {
        let name = entry.file_name();
        if !name.to_bytes().iter().all(u8::is_ascii_digit) {
            continue;
        }
        // The descriptor stays bound to the process: if the process ends and its number is reused, reads through it
        // fail.
        let Some(process) = open_folder(&proc, name).filter(|process| holds_link(process, link.as_bytes())) else {
            continue;
        };
        let is_as_free = read_namespaces(&process).is_some_and(|namespaces| namespaces == own_namespaces)
            && read_limits(&process)
                .is_some_and(|limits| limits.iter().zip(own_limits).all(|(limit, own)| *limit <= own));
        if !is_as_free {
            return false;
        }
        is_held = true;
    }
    is_held
}

fn open_folder(at: impl AsFd, name: impl Arg) -> Option<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat(at, name, flags, Mode::empty()).ok()
}

/// The namespaces of a process, in the order of [`NAMESPACES`].
fn read_namespaces(process: &OwnedFd) -> Option<Vec<Vec<u8>>> {
    let read = |name| Some(readlinkat(process, name, Vec::new()).ok()?.into_bytes());
    NAMESPACES.into_iter().map(read).collect()
}

/// The limits of a process, in the order of [`LIMITS`]. A missing line counts as 0: kernels before 5.9 have no
/// `Seccomp_filters`.
fn read_limits(process: &OwnedFd) -> Option<[u32; 3]> {
    let file = openat(process, "status", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let status = std::io::read_to_string(std::fs::File::from(file)).ok()?;
    let value = |name| {
        status
            .lines()
            .find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
    };
    Some(LIMITS.map(|name| value(name).unwrap_or(0)))
}

/// True if a descriptor of the process leads to `link`.
fn holds_link(process: &OwnedFd, link: &[u8]) -> bool {
    let Some(descriptors) = open_folder(process, "fd") else {
        return false;
    };
    let Ok(entries) = Dir::read_from(&descriptors) else {
        return false;
    };
    let mut buffer = Vec::new();
    entries.flatten().any(|entry| {
        let target = readlinkat(&descriptors, entry.file_name(), std::mem::take(&mut buffer));
        target.is_ok_and(|target| {
            buffer = target.into_bytes();
            buffer == link
        })
    })
}

#[cfg(test)]
mod tests {
    use std::fs::create_dir_all;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::symlink;

    use super::*;

    /// A folder like `/proc`: of each process its number, what its descriptors lead to, and its mount namespace.
    fn proc(processes: &[(&str, &[&str], Option<&str>)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for (number, descriptors, mount) in processes.iter().chain(&[("self", &[][..], Some("1"))]) {
            let process = folder.path().join(number);
            create_dir_all(process.join("fd")).expect("it can be made");
            create_dir_all(process.join("ns")).expect("it can be made");
            for (at, target) in descriptors.iter().enumerate() {
                symlink(target, process.join("fd").join(at.to_string())).expect("it can be made");
            }
            let kinds = [("mnt", *mount), ("user", Some("2")), ("pid", Some("3"))];
            // The numbers from 20 on are of processes in a `chroot`.
            let root = if number.starts_with('2') { "/jail" } else { "/" };
            symlink(root, process.join("root")).expect("it can be made");
            // Those from 30 on are confined by Landlock, and those from 40 on by seccomp.
            let (landlock, seccomp) = (number.starts_with('3'), number.starts_with('4'));
            let status = format!(
                "Name:\tx\nNoNewPrivs:\t{}\nSeccomp:\t{}\n",
                u8::from(landlock),
                2 * u8::from(seccomp)
            );
            std::fs::write(process.join("status"), status).expect("it can be made");
            for (kind, inode) in kinds.into_iter().filter_map(|(kind, inode)| Some((kind, inode?))) {
                symlink(format!("{kind}:[{inode}]"), process.join("ns").join(kind)).expect("it can be made");
            }
        }
        folder
    }

    #[test]
    fn every_holder_must_be_in_our_namespaces_and_one_must_be_seen() {
        const HOLDS: &[&str] = &["/dev/null", "socket:[7]"];
        const OTHERS: &[&str] = &["socket:[70]", "pipe:[7]"];
        let ours = ("10", HOLDS, Some("1"));
        for (processes, expected) in [
            (&[ours, ("11", OTHERS, Some("9"))][..], true),
            (&[ours, ("11", HOLDS, Some("1"))], true),
            (&[ours, ("11", HOLDS, Some("9"))], false),
            (&[("11", HOLDS, Some("9"))], false),
            (&[ours, ("11", HOLDS, None)], false),
            (&[("20", HOLDS, Some("1"))], false),
            (&[("30", HOLDS, Some("1"))], false),
            (&[ours, ("40", HOLDS, Some("1"))], false),
            (&[("11", OTHERS, Some("1"))], false),
            (&[("thread-self", HOLDS, Some("1"))], false),
            (&[], false),
        ] {
            assert_eq!(are_like_self(proc(processes).path(), 7), expected, "{processes:?}");
        }
        assert!(!are_like_self(Path::new("/nowhere"), 7));
    }

    #[test]
    fn the_kernel_shows_who_holds_a_socket() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let link = readlinkat(CWD, format!("/proc/self/fd/{}", listener.as_raw_fd()), Vec::new()).expect("it is open");
        let inode: u32 = link
            .to_str()
            .expect("ASCII")
            .trim_matches(|c: char| !c.is_ascii_digit())
            .parse()
            .expect("a number");
        assert!(are_in_our_namespaces(inode));
        drop(listener);
        assert!(!are_in_our_namespaces(inode), "it is closed");
    }
}
