//! The daemon's logs: `logs/backend.log`, linked from `backend.log`, and `logs/access.log` with one line for each
//! request. Rotation limits their size. `http` writes the lines for requests.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use tracing_subscriber::EnvFilter;

use crate::limits;
use tool_core::redaction;

pub(super) fn log_path(home: &Path) -> PathBuf {
    home.join("logs").join("backend.log")
}

/// Opens the log of a home, with its size limit.
fn of_home(home: &Path) -> io::Result<RotatingFile> {
    let place = log_path(home);
    super::state::private_folder(place.parent().expect("the log lies in a folder"))?;
    RotatingFile::open(place, limits::LOG_BYTES_MAX)
}

pub(super) fn open_access_log(home: &Path) -> io::Result<impl Write + Send + 'static> {
    RotatingFile::open(home.join("logs").join("access.log"), limits::LOG_BYTES_MAX)
}

/// The log level, which may change while the daemon runs.
pub(super) struct LogLevel {
    current: Mutex<String>,
    set: Box<dyn Fn(&str) + Send + Sync>,
}

impl LogLevel {
    /// Applies this level, if it is not the present one.
    pub(super) fn follow(&self, level: &str) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if *current != level {
            (self.set)(level);
            tracing::info!(level, "the level of the log has changed");
            level.clone_into(&mut current);
        }
    }
}

/// Opens the log, and sends all traces to it. `level` is a filter such as `DEBUG`.
pub(super) fn start_log(home: &Path, level: &str) -> io::Result<LogLevel> {
    let log = of_home(home)?;
    link_documented_log(home);
    // rmcp may log whole messages, whose size other agents decide.
    let quiet = || "rmcp=error".parse().expect("a constant");
    let filter = move |level: &str| EnvFilter::builder().parse_lossy(level).add_directive(quiet());
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter(level))
        .with_ansi(false)
        .with_writer(Mutex::new(MaskedWriter(log)))
        .with_filter_reloading();
    let handle = builder.reload_handle();
    // A process has one daemon. The lines of a second one would go to the log of the first.
    let _ = tracing::subscriber::set_global_default(builder.finish());
    Ok(LogLevel {
        current: Mutex::new(level.to_owned()),
        // Fails only if the subscriber is gone, and the log with it.
        set: Box::new(move |level| drop(handle.reload(filter(level)))),
    })
}

/// Masks keys in traces, which may quote a file, a skill or a server. Each line arrives in one write.
struct MaskedWriter<W>(W);

impl<W: Write> Write for MaskedWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match std::str::from_utf8(bytes) {
            Ok(line) => self.0.write_all(redaction::mask_keys(line).as_bytes())?,
            Err(_) => self.0.write_all(bytes)?,
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// `backend.log` is documented as well. If the link cannot be made, the log itself is still complete.
fn link_documented_log(home: &Path) {
    let link = home.join("backend.log");
    if fs::symlink_metadata(&link).is_err() {
        let _ = std::os::unix::fs::symlink("logs/backend.log", &link);
    }
}

/// A log file. When it is full, it is renamed to `*.1` and replaces the previous one. If that fails, it is emptied: a
/// log that cannot be rotated may lose its past, but must not fill the disk.
struct RotatingFile {
    place: PathBuf,
    file: File,
    bytes: u64,
    bytes_max: u64,
}

impl RotatingFile {
    fn open(place: PathBuf, bytes_max: u64) -> io::Result<Self> {
        let file = open_for_append(&place)?;
        let bytes = file.metadata()?.len();
        Ok(Self {
            place,
            file,
            bytes,
            bytes_max,
        })
    }

    fn rotate(&mut self) -> io::Result<()> {
        let moved = fs::rename(&self.place, self.place.with_extension("log.1"));
        match moved.and_then(|()| open_for_append(&self.place)) {
            Ok(file) => self.file = file,
            Err(_) => self.file.set_len(0)?,
        }
        self.bytes = 0;
        Ok(())
    }
}

fn open_for_append(place: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o600).open(place)
}

impl Write for RotatingFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes > 0 && self.bytes + bytes.len() as u64 > self.bytes_max {
            self.rotate()?;
        }
        let written = self.file.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes a whole line at once, as tracing does.
    fn put(log: &mut RotatingFile, line: &str) {
        log.write_all(format!("{line}\n").as_bytes())
            .expect("the folder is writable");
    }

    fn lines(place: &Path) -> Vec<String> {
        let text = fs::read_to_string(place).unwrap_or_default();
        assert!(text.is_empty() || text.ends_with('\n'), "lines are not torn: {text}");
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn the_log_is_two_files_of_whole_lines_with_the_newest_at_the_end() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let place = folder.path().join("backend.log");
        // Every tenth line a daemon starts anew, and goes on with the file that is there.
        for start in 0..10 {
            let mut log = RotatingFile::open(place.clone(), 100).expect("the folder is writable");
            for line in 0..10 {
                put(&mut log, &format!("line {:03}", start * 10 + line));
            }
        }
        let older = place.with_extension("log.1");
        for file in [&place, &older] {
            let bytes = fs::metadata(file).expect("it is there").len();
            assert!((1..=100).contains(&bytes), "{} holds {bytes} bytes", file.display());
        }
        assert_eq!(fs::read_dir(folder.path()).expect("it is there").count(), 2);
        let kept = [lines(&older), lines(&place)].concat();
        let newest: Vec<String> = (100 - kept.len()..100).map(|line| format!("line {line:03}")).collect();
        assert_eq!(
            kept, newest,
            "no line is missing between the oldest that is kept and the newest"
        );
    }

    #[test]
    fn a_line_longer_than_the_bound_is_written_once() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let place = folder.path().join("backend.log");
        let mut log = RotatingFile::open(place.clone(), 100).expect("the folder is writable");
        let long = "x".repeat(300);
        for line in ["a", &long, "b"] {
            put(&mut log, line);
        }
        assert_eq!(lines(&place), ["b"]);
        assert_eq!(lines(&place.with_extension("log.1")), [long]);
    }

    #[test]
    fn a_log_that_cannot_be_moved_is_emptied() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let place = folder.path().join("backend.log");
        // No file can take the name of a directory that holds something.
        fs::create_dir_all(folder.path().join("backend.log.1/x")).expect("the folder is writable");
        let mut log = RotatingFile::open(place.clone(), 100).expect("the folder is writable");
        for line in 0..50 {
            put(&mut log, &format!("line {line:03}"));
        }
        let kept = lines(&place);
        assert!(
            kept.len() <= 11 && kept.last().is_some_and(|line| line == "line 049"),
            "{kept:?}"
        );
    }

    #[test]
    fn what_looks_like_a_key_is_masked_in_the_log() {
        let mut log = MaskedWriter(Vec::new());
        let key = format!("ghp_{}", "a1B2c3D4e5F6".repeat(3));
        writeln!(log, "INFO it said {key} and more").expect("memory takes it");
        assert_eq!(log.0, b"INFO it said [redacted:github-token] and more\n");
    }

    #[test]
    fn both_documented_places_lead_to_the_log() {
        let home = tempfile::tempdir().expect("a temporary folder");
        fs::create_dir(home.path().join("logs")).expect("the folder is writable");
        fs::write(log_path(home.path()), "a line\n").expect("the folder is writable");
        link_documented_log(home.path());
        link_documented_log(home.path());
        assert_eq!(lines(&home.path().join("backend.log")), ["a line"]);
        let target = fs::read_link(home.path().join("backend.log")).expect("it is a link");
        assert_eq!(
            target,
            Path::new("logs/backend.log"),
            "a home that is moved takes its log along"
        );
    }

    #[test]
    fn the_log_of_a_daemon_has_the_bound_of_limits() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let log = of_home(home.path()).expect("the folder is writable");
        assert_eq!(log.bytes_max, limits::LOG_BYTES_MAX);
    }
}
