//! The lock that a daemon holds as long as it lives, so that a pid never has to prove that it runs.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};

use super::state;
use crate::daemon::LOCK_PATIENCE_MS;
use crate::limits;
use tool_core::api::{ErrorKind, Problem};

pub(super) fn lock_path(home: &Path) -> PathBuf {
    home.join("backend.lock")
}

/// Takes the lock. A process that checks the lock holds it for a moment, so one failed attempt proves nothing. The
/// lock belongs to another daemon if that daemon has a record, or if it is held for longer than a check takes.
pub(super) fn acquire_lock(home: &Path) -> Result<File, Problem> {
    let deadline = Instant::now() + limits::milliseconds(LOCK_PATIENCE_MS);
    loop {
        let file = state::open_private(&lock_path(home));
        let file = file.map_err(|error| state::start_failure("the lock of", home, &error))?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() && is_in_place(&file, home) {
            return Ok(file);
        }
        if state::find_daemon(home).is_some() || Instant::now() > deadline {
            return Err(Problem::new(
                ErrorKind::AlreadyRunning,
                "The backend is already running",
            ));
        }
        std::thread::sleep(Duration::from_millis(3));
    }
}

/// True if the locked file is the one at the path: the home may have been removed and recreated between opening and
/// locking.
fn is_in_place(file: &File, home: &Path) -> bool {
    let inode = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    let ours = file.metadata().map(inode).ok();
    ours.is_some() && ours == fs::metadata(lock_path(home)).map(inode).ok()
}

/// True while a daemon of this home holds its lock.
pub(super) fn is_held(home: &Path) -> bool {
    let Ok(file) = File::open(lock_path(home)) else {
        return false;
    };
    flock(&file, FlockOperation::NonBlockingLockShared).is_err()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_holds_it() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let held = acquire_lock(home.path()).expect("it is free");
        assert!(is_held(home.path()));
        assert_eq!(
            acquire_lock(home.path()).expect_err("it is held").kind,
            ErrorKind::AlreadyRunning
        );
        drop(held);
        assert!(!is_held(home.path()));
        acquire_lock(home.path()).expect("it is free again");
    }

    #[test]
    fn whoever_looks_at_it_keeps_nobody_from_taking_it() {
        let home = tempfile::tempdir().expect("a temporary folder");
        drop(acquire_lock(home.path()).expect("it is free"));
        let look = File::open(lock_path(home.path())).expect("it is there");
        flock(&look, FlockOperation::NonBlockingLockShared).expect("nobody holds it");
        let place = home.path().to_owned();
        let taking = std::thread::spawn(move || acquire_lock(&place).map(drop));
        std::thread::sleep(Duration::from_millis(50));
        drop(look);
        taking.join().expect("it ends").expect("the look is over");
    }

    #[test]
    fn a_lock_in_a_home_that_is_gone_is_none() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let held = acquire_lock(home.path()).expect("it is free");
        fs::remove_file(lock_path(home.path())).expect("it is there");
        assert!(!is_in_place(&held, home.path()) && !is_held(home.path()));
        acquire_lock(home.path()).expect("the new file is free");
    }

    #[test]
    fn whoever_holds_it_for_long_is_another_daemon() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let held = acquire_lock(home.path()).expect("it is free");
        let _hurried = crate::limits::pace::hurried(20);
        let started = Instant::now();
        assert_eq!(
            acquire_lock(home.path()).expect_err("it is held").kind,
            ErrorKind::AlreadyRunning
        );
        assert!(started.elapsed() < Duration::from_millis(LOCK_PATIENCE_MS));
        drop(held);
    }
}
