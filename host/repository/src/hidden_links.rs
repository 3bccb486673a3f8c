//! Detects hard links to hidden files in ignored and skipped directories.
//!
//! A walk records the inodes of the hidden files that it finds. It does not enter ignored and skipped directories,
//! which may hold a hundred times more files than the rest. This module searches them, but only when a file with
//! several hard links is opened. It keeps the result, and searches again if the file has changed since, for example by
//! a new link. If there are too many entries, files with several links are not opened.

use std::collections::HashSet;
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::Stat;
use tokio_util::sync::CancellationToken;

use super::hidden_entries::HiddenEntriesError;
use super::open::FileIdentity;
use super::{HARD_LINK, Repository, fingerprint};
use crate::lock_wait;
use tool_core::limits::SCAN_SETTLING_MS;

/// Entries of such a search. A large tree with its packages has 300,000, which takes a second. In a larger tree, files
/// with several links are not opened.
const LINKED_ENTRIES_MAX: u64 = 500_000;

const UNKNOWN: &str = "has several names, and there are too many files to know whether one of them is hidden";

/// Result of the last search for hidden files with several links.
#[derive(Debug, Default)]
pub(super) struct HiddenLinks(Mutex<Option<HiddenInodes>>);

#[derive(Debug)]
struct HiddenInodes {
    /// Start of the search, in nanoseconds since 1970.
    begun_ns: i128,
    /// Inodes without their devices: refusing an equal inode of another device does no harm. `None` if there were too
    /// many entries.
    inodes: Option<HashSet<u64>>,
}

impl Repository {
    /// Reason why a file is hidden: one of its hard links is hidden, and no list has that link. A file with one link
    /// needs no search. If the caller is cancelled before the answer is known, the file counts as hidden.
    pub(super) fn hidden_link_reason(&self, stat: &Stat, cancel: &CancellationToken) -> Option<&'static str> {
        if stat.st_nlink > 1 {
            self.hidden_links.reason_within(self, stat, LINKED_ENTRIES_MAX, cancel)
        } else {
            None
        }
    }
}

impl HiddenLinks {
    fn reason_within(
        &self,
        repository: &Repository,
        stat: &Stat,
        entries_max: u64,
        cancel: &CancellationToken,
    ) -> Option<&'static str> {
        let Some(mut known) = lock_wait::lock_unless_cancelled(&self.0, cancel) else {
            return Some(UNKNOWN);
        };
        // A new link changes the change time of the file itself.
        let settled = fingerprint::changed_ns(stat) + i128::from(SCAN_SETTLING_MS) * 1_000_000;
        if known.as_ref().is_none_or(|known| known.begun_ns <= settled) {
            let begun_ns = now_ns();
            let inodes = match repository.linked_hidden(entries_max, cancel) {
                // The next caller may have more time.
                Err(HiddenEntriesError::Cancelled) => return Some(UNKNOWN),
                found => found.ok(),
            };
            *known = Some(HiddenInodes { begun_ns, inodes });
        }
        match known.as_ref().and_then(|known| known.inodes.as_ref()) {
            Some(inodes) => inodes
                .contains(&FileIdentity::from_stat(stat).inode)
                .then_some(HARD_LINK),
            None => Some(UNKNOWN),
        }
    }
}

fn now_ns() -> i128 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i128::try_from(since.as_nanos()).unwrap_or(i128::MAX)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::Options;

    fn stat(path: &Path) -> Stat {
        rustix::fs::stat(path).expect("it is there")
    }

    fn made(files: &[(&str, &str)], links: &[(&str, &str)]) -> (tempfile::TempDir, std::sync::Arc<Repository>) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for (path, text) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().expect("it has one")).expect("folders can be made");
            fs::write(path, text).expect("files can be written");
        }
        for (from, to) in links {
            fs::hard_link(folder.path().join(from), folder.path().join(to)).expect("links can be made");
        }
        let repository = Repository::open(folder.path(), &Options::default()).expect("the folder is there");
        (folder, repository)
    }

    #[test]
    fn other_names_of_hidden_files_are_refused_wherever_these_lie() {
        let (folder, repository) = made(
            &[
                (".gitignore", "ignored/\n"),
                ("ignored/.env", "KEY=1"),
                ("ignored/deep/key.txt", "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n"),
                ("node_modules/p/.npmrc", "token"),
                ("node_modules/p/index.js", "x"),
                ("plain.txt", "x"),
            ],
            &[
                ("ignored/.env", "visible.txt"),
                ("node_modules/p/.npmrc", "visible-2.txt"),
                ("node_modules/p/index.js", "shared.js"),
                ("plain.txt", "plain-2.txt"),
            ],
        );
        let read = |path: &str| repository.read(path, 100).map_err(|error| error.to_string());
        for _ in 0..2 {
            for path in ["visible.txt", "visible-2.txt"] {
                let refused = read(path).expect_err("it is another name");
                assert_eq!(
                    refused,
                    format!("`{path}` is not accessible: it is another name of a hidden file")
                );
            }
            for path in ["shared.js", "plain.txt", "plain-2.txt"] {
                assert_eq!(read(path).as_deref(), Ok(&b"x"[..]), "{path}");
            }
            // The quick way of what a list has seen, too.
            repository.list(&CancellationToken::new()).expect("it is small");
        }
        // A name that is given later is looked for again.
        fs::write(folder.path().join("ignored/late.env"), "KEY=2").expect("files can be written");
        fs::hard_link(folder.path().join("ignored/late.env"), folder.path().join("late.txt"))
            .expect("it can be linked");
        read("late.txt").expect_err("it is another name");
    }

    #[test]
    fn what_has_several_names_is_refused_where_there_is_too_much_to_look_at() {
        let (folder, repository) = made(&[("a.txt", "x"), ("c.txt", "x")], &[("a.txt", "b.txt")]);
        let stat = stat(&folder.path().join("b.txt"));
        let cancel = CancellationToken::new();
        let within = |linked: &HiddenLinks, most, cancel| linked.reason_within(&repository, &stat, most, cancel);
        assert_eq!(within(&HiddenLinks::default(), 2, &cancel), Some(UNKNOWN));
        assert_eq!(within(&HiddenLinks::default(), LINKED_ENTRIES_MAX, &cancel), None);
    }

    #[test]
    fn who_has_no_time_to_look_is_refused_and_nothing_is_concluded_for_others() {
        let (folder, repository) = made(&[("a.txt", "x"), (".gitignore", "ignored/\n")], &[("a.txt", "b.txt")]);
        let (ended, waits) = (CancellationToken::new(), CancellationToken::new());
        ended.cancel();
        let open = |cancel| {
            repository
                .open_within("b.txt", cancel)
                .map(drop)
                .map_err(|error| error.to_string())
        };
        assert_eq!(open(&ended), Err(format!("`b.txt` is not accessible: it {UNKNOWN}")));
        assert_eq!(open(&waits), Ok(()));
        // Another thread looks, for long.
        let linked = HiddenLinks::default();
        let held = linked.0.lock().expect("nobody holds it");
        let stat = stat(&folder.path().join("b.txt"));
        let reason = linked.reason_within(&repository, &stat, LINKED_ENTRIES_MAX, &ended);
        assert_eq!(reason, Some(UNKNOWN));
        drop(held);
    }
}
