//! Entering new namespaces as oneself: the user keeps identifier and group, and gets rights that count inside only.

use std::fs;
use std::io::{self, Write};

use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType};
use rustix::thread::UnshareFlags;

/// Puts this process into new user, mount, network, IPC and host name namespaces, and its next child into a new
/// process namespace. The process must have one thread.
pub(super) fn enter() -> io::Result<()> {
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
    // The kernel wants this before a group may be mapped without rights outside.
    write("/proc/self/setgroups", "deny")?;
    write("/proc/self/uid_map", &format!("{user} {user} 1"))?;
    write("/proc/self/gid_map", &format!("{group} {group} 1"))?;
    keep_rights_over_exec()
}

/// Hands the rights that the new user namespace gives on to the inner helper, which needs them to build a root and then
/// gives them up. Without this only root's would survive the start of a program.
fn keep_rights_over_exec() -> io::Result<()> {
    let mut sets = rustix::thread::capabilities(None)?;
    sets.inheritable = sets.permitted;
    rustix::thread::set_capabilities(None, sets)?;
    for capability in sets.permitted.iter() {
        rustix::thread::configure_capability_in_ambient_set(capability, true)?;
    }
    Ok(())
}

/// Writes in one piece, as these files want it.
fn write(path: &str, text: &str) -> io::Result<()> {
    fs::OpenOptions::new()
        .write(true)
        .open(path)?
        .write_all(text.as_bytes())
}

/// Switches the loopback device on, by which servers of a test suite are reached. There is no other device.
pub(super) fn raise_loopback() -> io::Result<()> {
    const NEW_LINK: u16 = 16;
    const REQUEST_WITH_ANSWER: u16 = 1 | 4;
    const LOOPBACK: i32 = 1;
    const UP: u32 = 1;
    let socket = rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    let mut request = Vec::with_capacity(32);
    // Length, type, flags, sequence, port; then family and padding, device type, index, flags and which of them.
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
