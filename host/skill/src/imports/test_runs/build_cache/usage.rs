//! Size and times of kept build output. Programs of the repository made the folders, so nothing is reached by a path,
//! no link is followed, and a folder that cannot be counted counts as too large.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::ffi::CStr;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};
use rustix::io::Errno;

/// Limit for the depth of folders. No build tool comes near it.
const DEPTH_MAX: usize = 64;

/// Divisor for the part of a disk that kept build output leaves free.
const DISK_PART_FREE: u64 = 20;

/// Limit for that part, in bytes: a twentieth of a large disk is more than anything else there waits for.
const DISK_FREE_BYTES_MAX: u64 = 2 << 30;

/// Disk usage of a folder.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Usage {
    /// Bytes on the disk.
    pub(super) bytes: u64,
    /// Files, directories and links.
    pub(super) entries: u64,
}

impl Usage {
    /// No limit.
    pub(super) const UNBOUNDED: Self = Self {
        bytes: u64::MAX,
        entries: u64::MAX,
    };

    fn exceeds(self, limit: Self) -> bool {
        self.bytes > limit.bytes || self.entries > limit.entries
    }
}

/// Measures folders together. A program may move directories while they are read, so the walk ends at the limit.
///
/// # Errors
///
/// [`Errno::FBIG`] above the limit. Otherwise a directory is too deep or cannot be read.
pub(super) fn measure_usage(folders: impl IntoIterator<Item = impl AsRef<Path>>, limit: Usage) -> Result<Usage, Errno> {
    let mut usage = Usage::default();
    for folder in folders {
        walk_folder(folder.as_ref(), &mut |_, _, stat| {
            let bytes = u64::try_from(stat.st_blocks).unwrap_or(0) * 512;
            usage.bytes = usage.bytes.saturating_add(bytes);
            usage.entries += 1;
            if usage.exceeds(limit) { Err(Errno::FBIG) } else { Ok(()) }
        })?;
    }
    Ok(usage)
}

/// Sets times in the future to the present: a build tool would never find a newer source.
///
/// # Errors
///
/// As for [`measure_usage`], or a time cannot be set.
pub(super) fn clamp_times(folder: &Path) -> Result<(), Errno> {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime).tv_sec;
    let present = Timestamps {
        last_access: Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_OMIT,
        },
        last_modification: Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_NOW,
        },
    };
    walk_folder(folder, &mut |directory, name, stat| {
        if stat.st_mtime <= now {
            return Ok(());
        }
        rustix::fs::utimensat(directory, name, &present, AtFlags::SYMLINK_NOFOLLOW)
    })
}

/// True if less than a twentieth of the disk and less than 2 GiB, or less than a twentieth of its inodes, is free.
pub(super) fn is_disk_full(folder: &Path) -> bool {
    let Ok(disk) = rustix::fs::statvfs(folder) else {
        return true;
    };
    lacks_room(
        disk.f_frsize,
        (disk.f_blocks, disk.f_bavail),
        (disk.f_files, disk.f_favail),
    )
}

/// As [`is_disk_full`], from the size of a block, the blocks and inodes of a disk, and the free ones of them.
fn lacks_room(block_bytes: u64, (blocks, free): (u64, u64), (files, free_files): (u64, u64)) -> bool {
    // Some file systems have no fixed number of inodes, and report 0.
    let lacks_files = files > 0 && free_files < files / DISK_PART_FREE;
    let part_free = (blocks / DISK_PART_FREE).min(DISK_FREE_BYTES_MAX / block_bytes.max(1));
    free < part_free || lacks_files
}

/// Visits every entry beneath a folder.
fn walk_folder(
    folder: &Path,
    visit: &mut dyn FnMut(BorrowedFd<'_>, &CStr, &Stat) -> Result<(), Errno>,
) -> Result<(), Errno> {
    let mut open = vec![Dir::new(rustix::fs::open(folder, DIRECTORY, Mode::empty())?)?];
    while let Some(current) = open.last_mut() {
        let Some(entry) = current.read() else {
            open.pop();
            continue;
        };
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let directory = current.fd()?;
        let stat = match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            // The entry was removed meanwhile.
            Err(Errno::NOENT) => continue,
            stat => stat?,
        };
        let inner: Option<OwnedFd> = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => match rustix::fs::openat(directory, name, DIRECTORY, Mode::empty()) {
                Err(Errno::NOENT) => continue,
                inner => Some(inner?),
            },
            _ => None,
        };
        match visit(directory, name, &stat) {
            Err(Errno::NOENT) => continue,
            visited => visited?,
        }
        if let Some(inner) = inner {
            if open.len() == DEPTH_MAX {
                return Err(Errno::NAMETOOLONG);
            }
            open.push(Dir::new(inner)?);
        }
    }
    Ok(())
}

/// Flags that open a directory, and no link.
const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

#[cfg(test)]
mod unit {
    use std::fs::{self, File};
    use std::os::unix::fs::symlink;
    use std::time::{Duration, SystemTime};

    use super::*;

    #[test]
    fn what_lies_deeper_than_a_path_reaches_counts_as_too_much() {
        let folder = tempfile::tempdir().expect("there is room");
        let mut inner = rustix::fs::open(folder.path(), DIRECTORY, Mode::empty()).expect("it is there");
        let name = "d".repeat(200);
        let measure = || measure_usage([folder.path()], Usage::UNBOUNDED);
        assert_eq!(measure(), Ok(Usage::default()));
        for _ in 0..DEPTH_MAX {
            rustix::fs::mkdirat(&inner, name.as_str(), Mode::RWXU).expect("folders can be made");
            inner = rustix::fs::openat(&inner, name.as_str(), DIRECTORY, Mode::empty()).expect("it is there");
        }
        assert_eq!(measure(), Err(Errno::NAMETOOLONG));
        tool_sandbox::scratch::remove_path(folder.path());
    }

    #[test]
    fn files_folders_and_links_count_and_links_lead_nowhere() {
        let folder = tempfile::tempdir().expect("there is room");
        fs::create_dir(folder.path().join("a")).expect("folders can be made");
        fs::write(folder.path().join("a/file"), vec![7; 64 << 10]).expect("files can be written");
        symlink("/usr", folder.path().join("link")).expect("links can be made");
        let usage = measure_usage([folder.path()], Usage::UNBOUNDED).expect("it can be counted");
        assert_eq!(usage.entries, 3);
        assert!(usage.bytes >= 64 << 10, "{usage:?}");
        let twice = || [folder.path(); 2];
        for (bytes, entries, is_within) in [
            (2 * usage.bytes, 6, true),
            (2 * usage.bytes - 1, 6, false),
            (2 * usage.bytes, 5, false),
        ] {
            let measured = measure_usage(twice(), Usage { bytes, entries });
            assert_eq!(measured.is_ok(), is_within, "{measured:?}");
        }
    }

    #[test]
    fn a_disk_is_full_where_neither_a_twentieth_nor_2_gib_is_free() {
        const GIB: u64 = 1 << 18;
        for (blocks, free, files, free_files, is_full) in [
            (100, 5, 0, 0, false),
            (100, 4, 0, 0, true),
            (4000 * GIB, 2 * GIB, 0, 0, false),
            (4000 * GIB, 2 * GIB - 1, 0, 0, true),
            (100, 50, 100, 5, false),
            (100, 50, 100, 4, true),
        ] {
            let row = format!("{free} of {blocks} blocks, {free_files} of {files} inodes");
            assert_eq!(lacks_room(4096, (blocks, free), (files, free_files)), is_full, "{row}");
        }
    }

    #[test]
    fn times_of_the_future_become_the_present_and_others_stay() {
        let folder = tempfile::tempdir().expect("there is room");
        let (old, far) = (SystemTime::UNIX_EPOCH, SystemTime::now() + Duration::from_secs(1 << 30));
        for (name, time) in [("old", old), ("far", far)] {
            let file = File::create(folder.path().join(name)).expect("files can be made");
            file.set_modified(time).expect("times can be set");
        }
        fs::create_dir(folder.path().join("inner")).expect("folders can be made");
        File::open(folder.path().join("inner"))
            .and_then(|inner| inner.set_modified(far))
            .expect("times can be set");
        clamp_times(folder.path()).expect("they are ours");
        let modified = |name: &str| fs::metadata(folder.path().join(name)).and_then(|data| data.modified());
        assert_eq!(modified("old").expect("it is there"), old);
        for name in ["far", "inner"] {
            assert!(modified(name).expect("it is there") <= SystemTime::now(), "{name}");
        }
    }
}
