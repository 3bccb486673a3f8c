//! The configuration of a running daemon, which follows changes of the file.
//!
//! Sessions read the file when they start. This module has the settings that apply between sessions, such as who may
//! send requests. Each query takes one `stat` call, and reads the file if it may have changed. While the file cannot be
//! parsed, the last valid settings apply. If there were none, every client needs the token.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use super::{Common, Environment, common, path};
use tool_core::api::Problem;

/// Age from which a change has another time than the next one: the clocks of file systems tick every few milliseconds,
/// some only every second or two.
const SETTLED: Duration = Duration::from_secs(3);

/// The current configuration below one home.
#[derive(Debug)]
pub struct Live {
    home: PathBuf,
    environment: Environment,
    seen: Mutex<Seen>,
}

#[derive(Debug)]
struct Seen {
    stamp: ConfigFingerprint,
    common: Arc<Common>,
    problem: Option<Problem>,
}

impl Live {
    /// Reads the file.
    pub fn open(home: &Path, environment: &Environment) -> Self {
        let stamp = ConfigFingerprint::of(&path(home));
        let (common, problem) = match common(home, environment) {
            Ok(common) => (common, None),
            Err(problem) => (Common::strict(environment), Some(problem)),
        };
        Self {
            home: home.to_owned(),
            environment: environment.clone(),
            seen: Mutex::new(Seen {
                stamp,
                common: Arc::new(common),
                problem,
            }),
        }
    }

    /// The settings that apply now. Blocks for the time of a `stat`, and of a read if the file has changed.
    pub fn current(&self) -> Arc<Common> {
        let stamp = ConfigFingerprint::of(&path(&self.home));
        let mut seen = self.lock();
        if stamp != seen.stamp || !stamp.is_settled() {
            self.read(&mut seen, stamp);
        }
        Arc::clone(&seen.common)
    }

    /// Reads the file even if it looks unchanged.
    pub fn reread(&self) {
        let stamp = ConfigFingerprint::of(&path(&self.home));
        self.read(&mut self.lock(), stamp);
    }

    fn read(&self, seen: &mut Seen, stamp: ConfigFingerprint) {
        seen.stamp = stamp;
        match common(&self.home, &self.environment) {
            Ok(common) => {
                if common != *seen.common || seen.problem.is_some() {
                    tracing::info!("the configuration has changed");
                    seen.common = Arc::new(common);
                }
                seen.problem = None;
            }
            Err(problem) => {
                if seen.problem.as_ref() != Some(&problem) {
                    tracing::warn!(%problem, "the configuration is wrong; what held before stays in force");
                }
                seen.problem = Some(problem);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Metadata that changes with every write of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ConfigFingerprint {
    /// Inode, size, and the times of the last write and the last change, in seconds and nanoseconds; absent if the file
    /// is missing or `stat` fails.
    file: Option<(u64, u64, [i64; 4])>,
    written: Option<SystemTime>,
}

impl ConfigFingerprint {
    fn of(place: &Path) -> Self {
        let metadata = fs::metadata(place).ok();
        Self {
            file: metadata.as_ref().map(|file| {
                let times = [file.mtime(), file.mtime_nsec(), file.ctime(), file.ctime_nsec()];
                (file.ino(), file.size(), times)
            }),
            written: metadata.and_then(|file| file.modified().ok()),
        }
    }

    fn is_settled(&self) -> bool {
        // A write time in the future does not count as a recent write.
        let age = self.written.map(|written| SystemTime::now().duration_since(written));
        !matches!(age, Some(Ok(age)) if age < SETTLED)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Auth;
    use super::*;

    struct Written {
        home: tempfile::TempDir,
        live: Live,
    }

    impl Written {
        fn new(text: &str) -> Self {
            let home = tempfile::tempdir().expect("a temporary folder");
            fs::write(path(home.path()), text).expect("the folder is writable");
            let live = Live::open(home.path(), &Environment::default());
            Self { home, live }
        }

        fn write(&self, text: &str) {
            fs::write(path(self.home.path()), text).expect("the folder is writable");
        }

        fn auth(&self) -> Auth {
            self.live.current().server.auth
        }
    }

    #[test]
    fn what_the_file_says_now_counts() {
        let written = Written::new("");
        assert_eq!(written.auth(), Auth::SameUser);
        written.write("[server]\nauth = \"token\"");
        assert_eq!(written.auth(), Auth::Token);
        written.write("[logging]\nlevel = \"DEBUG\"");
        assert_eq!(
            (written.auth(), written.live.current().log_level.as_str()),
            (Auth::SameUser, "DEBUG")
        );
        fs::remove_file(path(written.home.path())).expect("it is there");
        assert_eq!(written.live.current().log_level, "INFO");
    }

    #[test]
    fn two_changes_of_one_tick_and_one_length_are_both_seen() {
        let written = Written::new("[server]\nauth = \"token\" ##########");
        let others = "[server]\nauth = \"same-user\" ######";
        let time = fs::metadata(path(written.home.path())).and_then(|file| file.modified());
        assert_eq!(written.auth(), Auth::Token);
        written.write(others);
        let file = fs::File::options().write(true).open(path(written.home.path()));
        let file = file.expect("it is writable");
        file.set_modified(time.expect("files have times")).expect("it is ours");
        assert_eq!(written.auth(), Auth::SameUser);
    }

    #[test]
    fn a_file_that_is_broken_while_it_runs_changes_nothing() {
        for (text, auth) in [("", Auth::SameUser), ("[server]\nauth = \"token\"", Auth::Token)] {
            let written = Written::new(text);
            written.write("[server]\nauth = ");
            assert_eq!(written.auth(), auth);
            written.write("[server]\nauth = \"same-user\"");
            assert_eq!(written.auth(), Auth::SameUser, "it is mended");
        }
    }

    #[test]
    fn a_file_that_was_broken_from_the_start_lets_nobody_in_until_it_is_mended() {
        let written = Written::new("[server]\nauth = ");
        assert_eq!(written.auth(), Auth::Token);
        written.write("[server]\nauht = \"same-user\"");
        assert_eq!(written.auth(), Auth::Token);
        written.write("");
        assert_eq!(written.auth(), Auth::SameUser);
    }
}
