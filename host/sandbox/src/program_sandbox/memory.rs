//! Measures the memory of a run, as far as the kernel says whose memory it is, and the free memory of the machine.
//!
//! Counted for a run: pages without a file, shared and swapped pages included; the page tables of its processes; and
//! the System V segments of its namespace, attached or not. The filter refuses files in memory (`memfd_create`),
//! because a handle of one can wait in a socket, where no process holds it. Shared memory that is no longer mapped and
//! the kernel's buffers have no known owner: the memory of the whole machine is watched for these. File systems in
//! memory have limits of their own.

use std::fs;

/// Divisor of the machine's memory: a run leaves this part free, because the kernel would otherwise kill programs of
/// its choice.
const CONTAIN_MACHINE_PART_KEPT: u64 = 16;

/// Growth of the machine's shared memory that does not count against a run, in addition to its limit: what the run may
/// write to its file systems in memory, and a gibibyte of other programs'.
const CONTAIN_SHARED_OTHERS_BYTES: u64 = 4 * 1024 * 1024 * 1024;

/// Threads of a process, and its bytes without a file. Quick, but memory that a fork shares with its parent counts for
/// both.
pub(super) fn estimate_memory(pid: u32) -> Option<(u64, u64)> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let held =
        ["RssAnon:", "RssShmem:", "VmSwap:", "VmPTE:"].map(|name| read_number(&status, name).unwrap_or_default());
    Some((read_number(&status, "Threads:")?, held.iter().sum::<u64>() * 1024))
}

/// The exact share of a process in these bytes; absent if the kernel does not allow reading it.
pub(super) fn measure_memory(pid: u32) -> Option<u64> {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let parts = read_number(&rollup, "Pss_Anon:").zip(read_number(&rollup, "Pss_Shmem:"));
    let held = parts.map(|(own, shared)| own + shared);
    // Older kernels report only the sum.
    let held = held.or_else(|| read_number(&rollup, "Pss:"))?;
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let tables = read_number(&status, "VmPTE:").unwrap_or_default();
    Some((held + read_number(&rollup, "SwapPss:").unwrap_or_default() + tables) * 1024)
}

/// Bytes of all System V segments of this namespace, which outlive every process. An attached segment also counts for
/// its process; only a run that uses half of its limit in segments would notice.
pub(super) fn read_segment_bytes() -> u64 {
    segments_in(&fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default())
}

fn segments_in(table: &str) -> u64 {
    let of_line = |line: &str| {
        let mut fields = line.split_ascii_whitespace().skip(14).map(str::parse::<u64>);
        Some(fields.next()?.ok()? + fields.next()?.ok()?)
    };
    table.lines().skip(1).filter_map(of_line).sum()
}

/// Memory of the machine at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct MachineMemory {
    total: u64,
    /// Available without ending a process, including swap.
    free: u64,
    /// Memory shared between processes and in file systems in memory, of all owners.
    shared: u64,
}

impl MachineMemory {
    pub(super) fn now() -> Self {
        Self::from(&fs::read_to_string("/proc/meminfo").unwrap_or_default())
    }

    fn from(text: &str) -> Self {
        let bytes = |name| read_number(text, name).unwrap_or_default() * 1024;
        Self {
            total: bytes("MemTotal:"),
            free: bytes("MemAvailable:") + bytes("SwapFree:"),
            shared: bytes("Shmem:"),
        }
    }

    /// True if so much more is taken than `before` that a run with this limit has to end, since the kernel does not say
    /// whose memory it is.
    pub(super) fn is_drained_since(&self, before: &Self, bound: u64) -> bool {
        let grown = self.shared.saturating_sub(before.shared);
        let kept = self.total / CONTAIN_MACHINE_PART_KEPT;
        // A machine that was short of memory before the run is not the run's doing.
        grown > bound.saturating_add(CONTAIN_SHARED_OTHERS_BYTES) || (self.free < kept && before.free > 2 * kept)
    }
}

/// Reads the number of a line; with a unit it is in kibibytes.
fn read_number(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn pages_of_segments_count_whether_in_memory_or_swapped_out() {
        let table = "       key      shmid perms                  size  cpid  lpid nattch   uid   gid  cuid  cgid      \
                     atime      dtime      ctime                   rss                  swap\n\
                     0          0   600              67108864   101   101      0  1000  1000  1000  1000 1 2 3 \
                     4096 8192\n\
                     7          1   600                  4096   101   101      2  1000  1000  1000  1000 1 2 3 \
                     1 0\n";
        assert_eq!(segments_in(table), 4096 + 8192 + 1);
        assert_eq!(segments_in(""), 0);
    }

    /// `CONTAIN_MACHINE_PART_KEPT`.
    #[test]
    fn what_nobody_can_be_asked_for_ends_a_run_before_the_machine_is_full() {
        let text = |free: u64, swap: u64| {
            let (total, free, swap) = (32 * GIB / 1024, free / 1024, swap / 1024);
            format!("MemTotal: {total} kB\nMemAvailable: {free} kB\nSwapFree: {swap} kB\nShmem: 8 kB\n")
        };
        let machine = |free, swap| MachineMemory::from(&text(free, swap));
        let before = machine(20 * GIB, 0);
        assert!(machine(GIB, 0).is_drained_since(&before, 16 * GIB));
        assert!(!machine(3 * GIB, 0).is_drained_since(&before, 16 * GIB));
        assert!(
            !machine(GIB, 2 * GIB).is_drained_since(&before, 16 * GIB),
            "there is room on a disk"
        );
        let full = machine(3 * GIB, 0);
        assert!(!machine(GIB, 0).is_drained_since(&full, 16 * GIB), "it was full before");
        assert!(
            !MachineMemory::from("").is_drained_since(&MachineMemory::from(""), GIB),
            "nothing is known"
        );
    }

    /// `CONTAIN_SHARED_OTHERS_BYTES`.
    #[test]
    fn shared_memory_that_nobody_has_mapped_counts_by_what_the_machine_has_of_it() {
        let machine = |shared| MachineMemory {
            total: 256 * GIB,
            free: 128 * GIB,
            shared,
        };
        let before = machine(GIB);
        let others = CONTAIN_SHARED_OTHERS_BYTES;
        assert!(!machine(17 * GIB + others).is_drained_since(&before, 16 * GIB));
        assert!(machine(17 * GIB + others + 1).is_drained_since(&before, 16 * GIB));
        assert!(!machine(0).is_drained_since(&before, 16 * GIB));
    }

    #[test]
    fn what_a_process_shares_is_counted_beside_what_it_has_alone() {
        let pid = std::process::id();
        let before = measure_memory(pid).expect("this kernel tells");
        let size = 64 << 20;
        #[expect(unsafe_code, reason = "no safe function for it")]
        // SAFETY: a new mapping, within which is written, and which nothing else refers to.
        unsafe {
            let (access, flags) = (
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
            );
            let place = libc::mmap(std::ptr::null_mut(), size, access, flags, -1, 0);
            assert_ne!(place, libc::MAP_FAILED);
            place.cast::<u8>().write_bytes(1, size);
            let (rough, exact) = (
                estimate_memory(pid).expect("it is told").1,
                measure_memory(pid).expect("it is told"),
            );
            libc::munmap(place, size);
            // Other tests of this process give memory back meanwhile.
            let held = u64::try_from(size / 2).expect("it is small");
            assert!(
                rough > held && exact > before.saturating_sub(held) + held,
                "{rough} {exact} {before}"
            );
        }
    }
}
