//! Places for sessions that begin while the disk is full: folders with an empty journal, for which room is set aside.
//!
//! Without a folder there is no journal, and all that reads a session goes by its journal. So a few are made ahead of time;
//! a session that gets one is like any whose disk fills while it runs, but that its beginning is written down.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use super::journal::{SessionFolder, create_private_folder, private_file};
use crate::limits;

/// See the module.
pub(super) struct Spares {
    folder: PathBuf,
    /// One of them is not there, as far as is known.
    is_short: AtomicBool,
}

impl Spares {
    /// Those of a home directory. Nothing is made yet.
    pub(super) fn new(home: &Path) -> Self {
        Self {
            folder: home.join("spare"),
            is_short: AtomicBool::new(true),
        }
    }

    /// Makes those that are missing, as far as the disk lets it. Blocks.
    pub(super) fn fill(&self) {
        if !self.is_short.swap(false, Ordering::SeqCst) {
            return;
        }
        if let Err(error) = self.places().try_for_each(|place| make(&place)) {
            tracing::debug!(%error, "no place is kept for a session that begins on a full disk");
            self.is_short.store(true, Ordering::SeqCst);
        }
    }

    /// Makes one of them the folder of a session; its journal. Blocks.
    pub(super) fn take(&self, folder: &SessionFolder) -> io::Result<File> {
        self.is_short.store(true, Ordering::SeqCst);
        // What could be made of it before the disk was full.
        let _ = fs::remove_dir_all(folder.path());
        let is_taken = |place: SessionFolder| fs::rename(place.path(), folder.path()).is_ok();
        match self.places().any(is_taken) {
            true => folder.open(),
            false => Err(io::ErrorKind::StorageFull.into()),
        }
    }

    fn places(&self) -> impl Iterator<Item = SessionFolder> + '_ {
        (1..=limits::SESSIONS_SPARE).map(|number| SessionFolder::new(self.folder.join(number.to_string())))
    }
}

/// Makes a folder with an empty journal, and sets room aside for that.
fn make(place: &SessionFolder) -> io::Result<()> {
    create_private_folder(place.path())?;
    let journal = private_file().create(true).append(true).open(place.journal())?;
    set_aside(&journal, limits::JOURNAL_SPARE_BYTES)
}

/// Asks for room behind the end of a file. Some file systems cannot promise any.
#[cfg(target_os = "linux")]
fn set_aside(file: &File, bytes: u64) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    use rustix::io::Errno;
    match fallocate(file, FallocateFlags::KEEP_SIZE, 0, bytes) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        done => Ok(done?),
    }
}

#[cfg(not(target_os = "linux"))]
fn set_aside(_: &File, _: u64) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    fn folders() -> (tempfile::TempDir, Spares, SessionFolder) {
        let home = tempfile::tempdir().expect("a temporary folder");
        fs::create_dir(home.path().join("sessions")).expect("the folder is writable");
        let session = SessionFolder::new(home.path().join("sessions/s"));
        let spares = Spares::new(home.path());
        (home, spares, session)
    }

    #[test]
    fn a_session_gets_a_folder_with_room_for_a_journal() {
        let (_home, spares, session) = folders();
        spares.fill();
        // As a full disk leaves it.
        fs::create_dir(session.path()).expect("the folder is writable");
        let journal = spares.take(&session).expect("there are some");
        let metadata = journal.metadata().expect("it is open");
        let of_path = fs::metadata(session.journal()).expect("it is there");
        assert_eq!((metadata.ino(), metadata.len()), (of_path.ino(), 0));
        #[cfg(target_os = "linux")]
        assert!(
            metadata.blocks() * 512 >= limits::JOURNAL_SPARE_BYTES,
            "{}",
            metadata.blocks()
        );
    }

    #[test]
    fn there_are_a_few_and_those_that_are_gone_are_made_again() {
        let (home, spares, _) = folders();
        let sessions: Vec<SessionFolder> = (0..=limits::SESSIONS_SPARE)
            .map(|number| SessionFolder::new(home.path().join("sessions").join(number.to_string())))
            .collect();
        spares.fill();
        let taken = |session: &&SessionFolder| spares.take(session).is_ok();
        assert_eq!(sessions.iter().filter(taken).count(), limits::SESSIONS_SPARE);
        assert!(
            !sessions[limits::SESSIONS_SPARE].path().exists(),
            "nothing is left of a try"
        );
        spares.fill();
        spares
            .take(&sessions[limits::SESSIONS_SPARE])
            .expect("there are some again");
    }
}
