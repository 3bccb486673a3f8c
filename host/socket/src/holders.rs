//! The namespaces of the processes that hold a socket.
//!
//! A program in a sandbox of its own (Flatpak, a rootless container with the host's network) can reach our port as the
//! same user, and sees neither the user's files nor the token. It differs from the user's shell by its namespaces.
//!
//! What `/proc` does not show is not seen: a descriptor on its way between processes, or one of a process that others
//! may not look into. So a program in our own namespaces that keeps a descriptor for a confined one vouches for it.

use std::path::Path;

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{CWD, Dir, Mode, OFlags, openat, readlinkat};
use rustix::path::Arg;

/// A process is as free as this one where it is in the same namespace of each of these kinds, and has the same root
/// directory: that of a `chroot` is another one.
const NAMESPACES: [&str; 4] = ["ns/mnt", "ns/user", "ns/pid", "root"];

/// Lines of `/proc/PID/status` about the limits that a process has put on itself; 0 is none. Landlock has no line, but a
/// process without privileges must set `no_new_privs` to use it. A process with the limits of this one, as in the same
/// container, is as free.
const LIMITS: [&str; 3] = ["NoNewPrivs:", "Seccomp:", "Seccomp_filters:"];

/// True where at least one process holds the socket with this inode, and each that holds it is in the mount, user and
/// PID namespace of this process and not more limited by seccomp or Landlock. False where one of them cannot be read.
///
/// Takes some ten microseconds for each process of the machine.
pub fn are_in_our_namespaces(inode: u32) -> bool {
    are_like_self(Path::new("/proc"), inode)
}

fn are_like_self(proc: &Path, inode: u32) -> bool {
    let Some(proc) = open_folder(CWD, proc) else {
        return false;
    };
    let own = open_folder(&proc, "self").and_then(|this| Some((namespaces(&this)?, limits(&this)?)));
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
        // A handle stays with its process: a later process with the same number does not answer through it.
        let Some(process) = open_folder(&proc, name).filter(|process| holds(process, link.as_bytes())) else {
            continue;
        };
        let is_as_free = namespaces(&process).is_some_and(|namespaces| namespaces == own_namespaces)
            && limits(&process).is_some_and(|limits| limits.iter().zip(own_limits).all(|(limit, own)| *limit <= own));
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
fn namespaces(process: &OwnedFd) -> Option<Vec<Vec<u8>>> {
    let read = |name| Some(readlinkat(process, name, Vec::new()).ok()?.into_bytes());
    NAMESPACES.into_iter().map(read).collect()
}

/// The limits of a process, in the order of [`LIMITS`]. A missing line is 0: older kernels do not count the filters.
fn limits(process: &OwnedFd) -> Option<[u32; 3]> {
    let file = openat(process, "status", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let status = std::io::read_to_string(std::fs::File::from(file)).ok()?;
    let value = |name| {
        status
            .lines()
            .find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
    };
    Some(LIMITS.map(|name| value(name).unwrap_or(0)))
}

/// True where a descriptor of a process leads to `link`.
fn holds(process: &OwnedFd, link: &[u8]) -> bool {
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
