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

use super::{CommonSettings, Environment, config_path, load_common};
use tool_core::api::Problem;

/// Age from which a change has another time than the next one: the clocks of file systems tick every few milliseconds,
/// some only every second or two.
const SETTLED: Duration = Duration::from_secs(3);

/// The current configuration below one home.
#[derive(Debug)]
pub struct LiveConfig {
    home: PathBuf,
    environment: Environment,
    seen: Mutex<LoadedConfig>,
}

#[derive(Debug)]
struct LoadedConfig {
    stamp: ConfigFingerprint,
    common: Arc<CommonSettings>,
    problem: Option<Problem>,
}

impl LiveConfig {
    /// Reads the file.
    pub fn open(home: &Path, environment: &Environment) -> Self {
        let stamp = ConfigFingerprint::read_fingerprint(&config_path(home));
        let (common, problem) = match load_common(home, environment) {
            Ok(common) => (common, None),
            Err(problem) => (CommonSettings::strict(environment), Some(problem)),
        };
        Self {
            home: home.to_owned(),
            environment: environment.clone(),
            seen: Mutex::new(LoadedConfig {
                stamp,
                common: Arc::new(common),
                problem,
            }),
        }
    }

    /// The settings that apply now. Blocks for the time of a `stat`, and of a read if the file has changed.
    pub fn current(&self) -> Arc<CommonSettings> {
        let stamp = ConfigFingerprint::read_fingerprint(&config_path(&self.home));
        let mut seen = self.lock();
        if stamp != seen.stamp || !stamp.is_settled() {
            self.read(&mut seen, stamp);
        }
        Arc::clone(&seen.common)
    }

    /// Reads the file even if it looks unchanged.
    pub fn reread(&self) {
        let stamp = ConfigFingerprint::read_fingerprint(&config_path(&self.home));
        self.read(&mut self.lock(), stamp);
    }

    fn read(&self, seen: &mut LoadedConfig, stamp: ConfigFingerprint) {
        seen.stamp = stamp;
        match load_common(&self.home, &self.environment) {
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

    fn lock(&self) -> MutexGuard<'_, LoadedConfig> {
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
    fn read_fingerprint(place: &Path) -> Self {
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
    use super::super::AuthPolicy;
    use super::*;

    struct Written {
        home: tempfile::TempDir,
        live: LiveConfig,
    }

    impl Written {
        fn new(text: &str) -> Self {
            let home = tempfile::tempdir().expect("a temporary folder");
            fs::write(config_path(home.path()), text).expect("the folder is writable");
            let live = LiveConfig::open(home.path(), &Environment::default());
            Self { home, live }
        }

        fn write(&self, text: &str) {
            fs::write(config_path(self.home.path()), text).expect("the folder is writable");
        }

        fn auth(&self) -> AuthPolicy {
            self.live.current().server.auth
        }
    }

    #[test]
    fn what_the_file_says_now_counts() {
        let written = Written::new("");
        assert_eq!(written.auth(), AuthPolicy::SameUser);
        written.write("[server]\nauth = \"token\"");
        assert_eq!(written.auth(), AuthPolicy::Token);
        written.write("[logging]\nlevel = \"DEBUG\"");
        assert_eq!(
            (written.auth(), written.live.current().log_level.as_str()),
            (AuthPolicy::SameUser, "DEBUG")
        );
        fs::remove_file(config_path(written.home.path())).expect("it is there");
        assert_eq!(written.live.current().log_level, "INFO");
    }

    #[test]
    fn two_changes_of_one_tick_and_one_length_are_both_seen() {
        let written = Written::new("[server]\nauth = \"token\" ##########");
        let others = "[server]\nauth = \"same-user\" ######";
        let time = fs::metadata(config_path(written.home.path())).and_then(|file| file.modified());
        assert_eq!(written.auth(), AuthPolicy::Token);
        written.write(others);
        let file = fs::File::options().write(true).open(config_path(written.home.path()));
        let file = file.expect("it is writable");
        file.set_modified(time.expect("files have times")).expect("it is ours");
        assert_eq!(written.auth(), AuthPolicy::SameUser);
    }

    #[test]
    fn a_file_that_is_broken_while_it_runs_changes_nothing() {
        for (text, auth) in [
            ("", AuthPolicy::SameUser),
            ("[server]\nauth = \"token\"", AuthPolicy::Token),
        ] {
            let written = Written::new(text);
            written.write("[server]\nauth = ");
            assert_eq!(written.auth(), auth);
            written.write("[server]\nauth = \"same-user\"");
            assert_eq!(written.auth(), AuthPolicy::SameUser, "it is mended");
        }
    }

    #[test]
    fn a_file_that_was_broken_from_the_start_lets_nobody_in_until_it_is_mended() {
        let written = Written::new("[server]\nauth = ");
        assert_eq!(written.auth(), AuthPolicy::Token);
        written.write("[server]\nauht = \"same-user\"");
        assert_eq!(written.auth(), AuthPolicy::Token);
        written.write("");
        assert_eq!(written.auth(), AuthPolicy::SameUser);
    }
}
