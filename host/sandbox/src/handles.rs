//! Closes the handles that a helper inherits from the process that started it.

use std::fs;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

/// Closes every handle but the three standard ones and the socket. This program opens its own handles with `CLOEXEC`;
/// others come from the process that started it.
pub(crate) fn close_inherited() -> io::Result<()> {
    let socket = rustix::fs::fstat(io::stdin())?;
    let names = fs::read_dir("/proc/self/fd")?.flatten();
    let handles = names.filter_map(|entry| entry.file_name().to_str()?.parse::<RawFd>().ok());
    for handle in handles.filter(|&handle| handle > 2).collect::<Vec<_>>() {
        #[expect(
            unsafe_code,
            reason = "handles that this program did not open have no owner who could close them"
        )]
        // SAFETY: the process has one thread, and has opened only the socket, which is recognised, and the list above,
        // which is closed already.
        unsafe {
            let borrowed = rustix::fd::BorrowedFd::borrow_raw(handle);
            let is_socket = rustix::fs::fstat(borrowed)
                .is_ok_and(|stat| (stat.st_dev, stat.st_ino) == (socket.st_dev, socket.st_ino));
            // The list contained its own handle, which is closed by now.
            if !is_socket && rustix::io::fcntl_getfd(borrowed).is_ok() {
                drop(OwnedFd::from_raw_fd(handle));
            }
        }
    }
    Ok(())
}
