//! Enters new namespaces without changing the user: it keeps its user and group ids, and gets rights that count only
//! inside.

use std::fs;
use std::io::{self, Write};

use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType};
use rustix::thread::UnshareFlags;

/// Moves this process into new user, mount, network, IPC and host name namespaces, and its next child into a new
/// process namespace. The kernel requires that the process has only one thread.
pub(super) fn enter_namespaces() -> io::Result<()> {
    let user = rustix::process::geteuid().as_raw();
    let group = rustix::process::getegid().as_raw();
    let flags = UnshareFlags::NEWUSER
        | UnshareFlags::NEWNS
        | UnshareFlags::NEWIPC
        | UnshareFlags::NEWUTS
        | UnshareFlags::NEWPID
        | UnshareFlags::NEWNET;
    #[expect(
        unsafe_code,
        reason = "no safe function for it; only `FILES` is dangerous, and it is not among the flags"
    )]
    // SAFETY: the table of file descriptors stays shared.
    unsafe {
        rustix::thread::unshare_unsafe(flags)?;
    }
    // Without this the kernel lets no unprivileged process map a group: a group can take rights away, and leaving it
    // would give them back.
    write_once("/proc/self/setgroups", "deny")?;
    write_once("/proc/self/uid_map", &format!("{user} {user} 1"))?;
    write_once("/proc/self/gid_map", &format!("{group} {group} 1"))?;
    keep_rights_over_exec()
}

/// Passes the rights of the new user namespace on to the inner helper, which builds a root with them and then gives
/// them up. Without the ambient set, only root's rights would survive `exec`.
fn keep_rights_over_exec() -> io::Result<()> {
    let mut sets = rustix::thread::capabilities(None)?;
    sets.inheritable = sets.permitted;
    rustix::thread::set_capabilities(None, sets)?;
    for capability in sets.permitted.iter() {
        rustix::thread::configure_capability_in_ambient_set(capability, true)?;
    }
    Ok(())
}

/// Writes in one call, as the kernel requires for these files.
fn write_once(path: &str, text: &str) -> io::Result<()> {
    fs::OpenOptions::new()
        .write(true)
        .open(path)?
        .write_all(text.as_bytes())
}

/// Turns on the loopback device, on which servers of a test suite listen. The namespace has no other device.
pub(super) fn raise_loopback() -> io::Result<()> {
    const NEW_LINK: u16 = 16;
    const REQUEST_WITH_ANSWER: u16 = 1 | 4;
    const LOOPBACK: i32 = 1;
    const UP: u32 = 1;
    let socket = rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    let mut request = Vec::with_capacity(32);
    // Header (length, type, flags, sequence, port), then family and padding, device type, index, flags, and the mask of
    // flags to change.
    request.extend(32u32.to_ne_bytes());
    request.extend(NEW_LINK.to_ne_bytes());
    request.extend(REQUEST_WITH_ANSWER.to_ne_bytes());
    request.extend([0; 8]);
    request.extend([0; 4]);
    request.extend(LOOPBACK.to_ne_bytes());
    request.extend(UP.to_ne_bytes());
    request.extend(UP.to_ne_bytes());
    rustix::net::send(&socket, &request, SendFlags::empty())?;
    let mut answer = [0u8; 256];
    let (count, _) = rustix::net::recv(&socket, &mut answer[..], rustix::net::RecvFlags::empty())?;
    // After the header of 16 bytes, an acknowledgement carries an error number; 0 is success.
    let error = answer.get(16..20).filter(|_| count >= 20);
    match error
        .and_then(|bytes| <[u8; 4]>::try_from(bytes).ok())
        .map(i32::from_ne_bytes)
    {
        Some(0) => Ok(()),
        Some(error) => Err(io::Error::from_raw_os_error(-error)),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}
