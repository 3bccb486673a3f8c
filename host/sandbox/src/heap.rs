//! The heap of a process that lives for long: bounded in what it holds beyond its needs.
//!
//! The C library keeps a heap for each of many threads, and what was freed in each. A daemon that scans large repositories
//! on several threads once in a while would hold several times of what it uses.

/// Heaps of all threads together. Two keep threads from waiting for each other much: small blocks come from caches of
/// their own.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const HEAPS_MAX: std::ffi::c_int = 2;

/// Bounds the number of heaps. Does nothing for threads that have one, so it comes first.
pub fn limit_heaps() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[expect(unsafe_code, reason = "no safe crate has the call")]
    // SAFETY: `mallopt` takes two numbers, sets a number under its own lock, and touches no memory of ours.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, HEAPS_MAX);
    }
}

/// Gives memory that was freed back to the system. Blocks for some milliseconds.
pub fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[expect(unsafe_code, reason = "no safe crate has the call")]
    // SAFETY: `malloc_trim` takes a number and releases pages that hold no block in use, under the locks of the heaps.
    unsafe {
        libc::malloc_trim(0);
    }
}
