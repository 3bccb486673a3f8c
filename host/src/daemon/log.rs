//! The daemon's log: `logs/backend.log`, bounded by rotation, with `backend.log` leading to it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use tracing_subscriber::EnvFilter;

use crate::limits;

/// Where the log of a home lies.
pub(super) fn path(home: &Path) -> PathBuf {
    home.join("logs").join("backend.log")
}

/// Opens the log and sends everything that is traced there. `level` is a filter such as `DEBUG`.
pub(super) fn start(home: &Path, level: &str) -> io::Result<()> {
    let place = path(home);
    super::private_folder(place.parent().expect("the log lies in a folder"))?;
    let log = Rotating::open(place, limits::LOG_BYTES_MAX)?;
    link(home);
    let filter = EnvFilter::builder().parse_lossy(level);
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        .with_writer(Mutex::new(log))
        .finish();
    // A second daemon in one process exists in tests only; its lines go where the first one's go.
    let _ = tracing::subscriber::set_global_default(subscriber);
    Ok(())
}

/// `backend.log` is the other documented place. Where a link cannot be made, the log itself is still right.
fn link(home: &Path) {
    let link = home.join("backend.log");
    if fs::symlink_metadata(&link).is_err() {
        let _ = std::os::unix::fs::symlink("logs/backend.log", &link);
    }
}

/// A file that is renamed to `*.1` when it is full, replacing the one before.
struct Rotating {
    place: PathBuf,
    file: File,
    bytes: u64,
    bytes_max: u64,
}

impl Rotating {
    fn open(place: PathBuf, bytes_max: u64) -> io::Result<Self> {
        let file = append(&place)?;
        let bytes = file.metadata()?.len();
        Ok(Self {
            place,
            file,
            bytes,
            bytes_max,
        })
    }

    fn rotate(&mut self) -> io::Result<()> {
        fs::rename(&self.place, self.place.with_extension("log.1"))?;
        self.file = append(&self.place)?;
        self.bytes = 0;
        Ok(())
    }
}

fn append(place: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o600).open(place)
}

impl Write for Rotating {
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

    #[test]
    fn the_log_never_takes_more_than_twice_its_bound() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let place = folder.path().join("backend.log");
        let mut log = Rotating::open(place.clone(), 100).expect("the folder is writable");
        for line in 0..50 {
            writeln!(log, "line {line:03}").expect("the folder is writable");
        }
        let kept = fs::read_to_string(&place).expect("it is there");
        assert!(kept.ends_with("line 049\n"), "{kept}");
        let older = fs::read_to_string(place.with_extension("log.1")).expect("it was rotated");
        assert!(
            kept.len() <= 100 && older.len() <= 100,
            "{} and {}",
            kept.len(),
            older.len()
        );
        assert_eq!(fs::read_dir(folder.path()).expect("it is there").count(), 2);
    }
}
