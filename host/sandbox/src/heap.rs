//! Bounds the heap of a long-lived process.
//!
//! The C library keeps a heap for each of many threads, with the memory that was freed there. Without a bound, a daemon
//! that sometimes scans large repositories on several threads would hold several times of what it uses.

/// Heaps of all threads together. Two are enough for threads not to wait for each other much: small blocks come from
/// per-thread caches.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const HEAPS_MAX: std::ffi::c_int = 2;

/// Bounds the number of heaps. Call it before threads start: it does not affect threads that have a heap.
pub fn limit_heaps() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[expect(unsafe_code, reason = "no safe crate has the call")]
    // SAFETY: `mallopt` takes two numbers, sets a number under its own lock, and touches no memory of ours.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, HEAPS_MAX);
    }
}

/// Returns freed memory to the system. Blocks for some milliseconds.
pub fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[expect(unsafe_code, reason = "no safe crate has the call")]
    // SAFETY: `malloc_trim` takes a number and releases pages that hold no block in use, under the locks of the heaps.
    unsafe {
        libc::malloc_trim(0);
    }
}
