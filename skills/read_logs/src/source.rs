//! Chooses the file and the part of it to read.
//!
//! A log may be larger than memory, so a call reads one window: the end, or the part before an offset.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::time::UNIX_EPOCH;

use skill_sdk::{EntryKind, Failure, Host, Query};

use crate::parse;
use crate::time::LogTime;

/// Limit for the bytes of a window: some hundred thousand lines, well within the limits of a call for memory and
/// time.
pub(crate) const WINDOW_BYTES: u64 = 16 * 1024 * 1024;
/// Bytes that are read to find the time at an offset.
const PROBE_BYTES: usize = 64 * 1024;
/// Limit for the entries of a directory, and for log files.
const SEEN_MAX: usize = 2000;
/// Directories that often contain logs, whether git ignores them or not.
const PLACES: [&str; 7] = ["", "log", "logs", "var/log", "tmp", "storage/logs", "data/logs"];

/// A log file that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogFile {
    pub(crate) path: String,
    pub(crate) size: u64,
    /// Time of the last change in seconds since 1970; 0 if it is unknown.
    pub(crate) modified: u64,
}

/// Finds the log files beneath a directory, newest first. Most projects ignore their logs, so the usual directories
/// are searched in addition to the host's list.
pub(crate) fn find_logs(host: &dyn Host, under: &str) -> Result<Vec<LogFile>, Failure> {
    let query = Query {
        under: under.to_owned(),
        recursive: true,
        globs: ["*.log", "*.log.*", "**/log/*", "**/logs/*", "log/*", "logs/*"]
            .map(str::to_owned)
            .to_vec(),
        after: None,
    };
    let listed = host
        .list(&query)?
        .into_iter()
        .filter(|entry| entry.kind == EntryKind::File);
    let mut paths: Vec<String> = listed
        .map(|entry| entry.path)
        .filter(|path| is_log(path))
        .take(SEEN_MAX)
        .collect();
    for place in PLACES {
        let directory = [under, place]
            .iter()
            .filter(|part| !part.is_empty())
            .copied()
            .collect::<Vec<_>>()
            .join("/");
        look_into(host, &directory, &mut paths);
    }
    paths.sort();
    paths.dedup();
    let mut found: Vec<LogFile> = paths.into_iter().filter_map(|path| log_candidate(host, path)).collect();
    found.sort_by(|a, b| b.modified.cmp(&a.modified).then_with(|| a.path.cmp(&b.path)));
    Ok(found)
}

fn look_into(host: &dyn Host, directory: &str, paths: &mut Vec<String>) {
    let Ok(place) = host.path(directory) else {
        return;
    };
    for item in std::fs::read_dir(place).into_iter().flatten().flatten().take(SEEN_MAX) {
        let Ok(name) = item.file_name().into_string() else {
            continue;
        };
        let path = if directory.is_empty() {
            name
        } else {
            format!("{directory}/{name}")
        };
        if is_log(&path) && paths.len() < 2 * SEEN_MAX {
            paths.push(path);
        }
    }
}

/// True if a path looks like a log; compressed logs cannot be read.
fn is_log(path: &str) -> bool {
    let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
    let name = name.to_ascii_lowercase();
    if [".gz", ".bz2", ".xz", ".zst", ".zip"]
        .iter()
        .any(|end| name.ends_with(end))
    {
        return false;
    }
    let in_logs = directory.split('/').any(|part| part == "log" || part == "logs");
    let is_text = [".txt", ".out", ".err", ".jsonl"].iter().any(|end| name.ends_with(end));
    name.ends_with(".log")
        || name.contains(".log.")
        || ["nohup.out", "syslog", "messages"].contains(&&*name)
        || (in_logs && is_text)
}

fn log_candidate(host: &dyn Host, path: String) -> Option<LogFile> {
    let metadata = std::fs::metadata(host.path(&path).ok()?)
        .ok()
        .filter(std::fs::Metadata::is_file)?;
    let modified = metadata
        .modified()
        .ok()
        .and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    Some(LogFile {
        path,
        size: metadata.len(),
        modified: modified.map_or(0, |since| since.as_secs()),
    })
}

/// A part of a file that begins at a line.
#[derive(Debug)]
pub(crate) struct LogWindow {
    pub(crate) bytes: Vec<u8>,
    /// Offset in the file.
    pub(crate) start: u64,
}

/// Reads the window that ends at `end`.
pub(crate) fn read_window(file: &mut File, end: u64) -> std::io::Result<LogWindow> {
    let start = end.saturating_sub(WINDOW_BYTES);
    let mut bytes = read_range(file, start, (end - start) as usize)?;
    if start == 0 {
        return Ok(LogWindow { bytes, start });
    }
    // Skip the first line, which is incomplete. A line longer than the window is kept.
    let whole = memchr::memchr(b'\n', &bytes).map_or(0, |at| at + 1);
    let whole = if whole == bytes.len() { 0 } else { whole };
    bytes.drain(..whole);
    Ok(LogWindow {
        bytes,
        start: start + whole as u64,
    })
}

/// Finds the start of the entries after `until` by bisection, because a log is sorted by time.
pub(crate) fn find_position(file: &mut File, size: u64, until: LogTime, now_ms: i64) -> std::io::Result<u64> {
    let (mut before, mut after) = (0, size);
    while after - before > 16 * PROBE_BYTES as u64 {
        let middle = before + (after - before) / 2;
        let probe = read_range(file, middle, PROBE_BYTES)?;
        let Some((offset, time)) = first_time(&probe, now_ms) else {
            break;
        };
        let place = middle + offset;
        if time.ms > until.ms {
            after = place
        } else {
            before = place
        }
    }
    Ok(after)
}

/// The first line with a time in a probe, after the incomplete line.
fn first_time(probe: &[u8], now_ms: i64) -> Option<(u64, LogTime)> {
    let mut at = memchr::memchr(b'\n', probe)? + 1;
    while at < probe.len() {
        let length = memchr::memchr(b'\n', &probe[at..])?;
        let line = String::from_utf8_lossy(&probe[at..at + length]);
        if let Some(time) = parse::parse_header(&line, now_ms).and_then(|header| header.time) {
            return Some((at as u64, time));
        }
        at += length + 1;
    }
    None
}

fn read_range(file: &mut File, start: u64, length: usize) -> std::io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::with_capacity(length);
    file.take(length as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}
