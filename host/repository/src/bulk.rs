//! Reads many listed files one after the other, for callers that read a whole tree.
//!
//! It is faster than single reads for three reasons. Only the names of the list are revalidated; no file is looked up
//! in the list; and one read returns the content with the first bytes, by which a key is recognised. The checks of the
//! opened file are the same. A file that has changed since the walk is read in the usual way.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{FileType, Stat};
use rustix::io::Errno;
use tokio_util::sync::CancellationToken;

use super::fingerprint;
use super::walk::{FileList, Scan, ScanError};
use super::{EntryKind, FileIdentity, OpenError, Repository, io_error};
use tool_core::text::decode_utf16;

/// A list with the names of the files that exist now. Their sizes and times may be older.
#[derive(Debug, Clone)]
pub struct ListedNames(Arc<Scan>);

impl ListedNames {
    /// The list as the walk made it.
    pub fn list(&self) -> &Arc<FileList> {
        &self.0.list
    }
}

/// Result of reading one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadOutcome {
    /// The content was appended.
    Whole,
    /// The file has more bytes than may be read.
    Large,
    /// The file is binary, and only text was wanted.
    Binary,
}

/// What is read of each file.
#[derive(Debug, Clone, Copy)]
pub struct ReadBounds {
    /// Largest file in bytes; a larger one is left out.
    pub bytes_max: u64,
    /// True to leave binary files out, and to decode UTF-16 with a byte order mark.
    pub text_only: bool,
}

/// Bytes at the beginning of a file in which a NUL marks it as binary.
const SNIFF_BYTES: usize = 8 * 1024;

/// Size in bytes from which a file is sniffed before it is read. Below, the extra call would cost as much as reading
/// the file.
const SNIFFED_APART_BYTES: u64 = 64 * 1024;

impl Repository {
    /// The files that exist now. Looks at each directory, while [`Self::list`] looks at each file.
    ///
    /// # Errors
    ///
    /// A directory cannot be read, or the caller is cancelled.
    pub fn names(&self, cancel: &CancellationToken) -> Result<ListedNames, ScanError> {
        let _turn = self.turn_to_scan(cancel)?;
        let outside = super::Ignores::files_outside(&self.path);
        let holds = |scan: &Arc<Scan>| {
            super::revalidate::has_same_names(scan, (&self.root, &self.path), &outside, self.bounds.settling, cancel)
        };
        if let Some(scan) = self.last_scan().filter(holds) {
            self.keep(Arc::clone(&scan));
            return Ok(ListedNames(self.merge_scan(scan, cancel)));
        }
        let scan = self.walk(outside, cancel)?;
        Ok(ListedNames(self.merge_scan(scan, cancel)))
    }

    /// The files that exist now, with their current sizes and times. Looks at each file.
    ///
    /// # Errors
    ///
    /// As of [`Self::names`].
    pub fn exact_names(&self, cancel: &CancellationToken) -> Result<ListedNames, ScanError> {
        let list = self.list(cancel)?;
        let Some(scan) = self.last_scan() else {
            return self.names(cancel);
        };
        if Arc::ptr_eq(&list, &scan.list) {
            return Ok(ListedNames(scan));
        }
        Ok(ListedNames(Arc::new(Scan {
            list,
            hidden: scan.hidden.clone(),
            walked: scan.walked.clone(),
            ..Scan::default()
        })))
    }

    /// Like [`Self::list_named`], for reading many files.
    ///
    /// # Errors
    ///
    /// As of [`Self::names`].
    pub fn names_beneath(&self, path: &str, cancel: &CancellationToken) -> Result<ListedNames, ScanError> {
        let file = rustix::fs::statat(self.directory(), path, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)
            .ok()
            .filter(|stat| !path.is_empty() && FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile);
        let scan = match file {
            Some(stat) => Scan {
                list: Arc::new(FileList {
                    files: vec![super::walk::file_entry(path.to_owned(), &stat)],
                    complete: true,
                    ..FileList::default()
                }),
                ..Scan::default()
            },
            None => super::walk::scan_tree(
                &self.tree(cancel),
                path,
                self.bounds,
                super::ScanBasis::default(),
                cancel,
            )?,
        };
        Ok(ListedNames(Arc::new(scan)))
    }

    /// A walk whose list also has the files of the layer.
    fn merge_scan(&self, scan: Arc<Scan>, cancel: &CancellationToken) -> Arc<Scan> {
        let merged = self.merge_list(Arc::clone(&scan.list), cancel);
        if Arc::ptr_eq(&merged, &scan.list) {
            return scan;
        }
        Arc::new(Scan {
            list: merged,
            hidden: scan.hidden.clone(),
            walked: scan.walked.clone(),
            ..Scan::default()
        })
    }

    /// Appends the content of the file with this index in the list.
    ///
    /// # Errors
    ///
    /// The file is hidden or cannot be read.
    pub fn read_listed(
        &self,
        names: &ListedNames,
        at: usize,
        wanted: ReadBounds,
        into: &mut Vec<u8>,
        cancel: &CancellationToken,
    ) -> Result<ReadOutcome, OpenError> {
        let entry = &names.0.list.files[at];
        let path = entry.path.as_str();
        let is_layered = self.layer().is_some_and(|layer| layer.find(path).is_some());
        let Some((handle, stat)) = self.open_regular(path).filter(|_| !is_layered) else {
            return self.read_otherwise(path, wanted, into, cancel);
        };
        // Only a file with several names can have a hidden one, so most files need no search.
        let is_linked = stat.st_nlink > 1;
        if is_linked && self.is_hidden_link(names, at, &stat, cancel) {
            return Err(denied_error(path, super::HARD_LINK));
        }
        if let Some(reason) = self.hidden_link_reason(&stat, cancel) {
            return Err(denied_error(path, reason));
        }
        self.take(&handle, path, stat_size(&stat), wanted, into)
    }

    fn open_regular(&self, path: &str) -> Option<(OwnedFd, Stat)> {
        let handle = self.root.open_plainly(path).ok()?;
        let stat = rustix::fs::fstat(&handle).ok()?;
        (FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile).then_some((handle, stat))
    }

    /// Reads a file that was replaced by something else since the walk: a link is followed as usual, and all checks are
    /// made again.
    fn read_otherwise(
        &self,
        path: &str,
        wanted: ReadBounds,
        into: &mut Vec<u8>,
        cancel: &CancellationToken,
    ) -> Result<ReadOutcome, OpenError> {
        let opened = self.open_within(path, cancel)?;
        match opened.kind {
            EntryKind::File => self.take(&opened.handle, &opened.path, opened.size, wanted, into),
            _ => Err(OpenError::IsDirectory { path: path.to_owned() }),
        }
    }

    /// True if a file with several names has a hidden one. The walk knows, unless a name was added since. That changes
    /// the file's time, and then there is another walk.
    fn is_hidden_link(&self, names: &ListedNames, at: usize, stat: &Stat, cancel: &CancellationToken) -> bool {
        let entry = &names.0.list.files[at];
        let is_known = |list: &FileList| {
            let known = list.find(&entry.path);
            known.is_some_and(|known| known.changed_ns == fingerprint::changed_ns(stat))
        };
        let identity = FileIdentity::from_stat(stat);
        if names.0.hidden.contains(&identity) {
            return true;
        }
        if entry.changed_ns == fingerprint::changed_ns(stat) {
            return false;
        }
        if !self.scanned().is_some_and(|scan| is_known(&scan.list)) {
            // A walk that fails or is cut short knows less; what it knows still counts.
            drop(self.list(cancel));
        }
        // No caller waits for the content any more, and the file may be hidden.
        if cancel.is_cancelled() {
            return true;
        }
        self.scanned().is_some_and(|scan| scan.hidden.contains(&identity))
    }

    fn take(
        &self,
        handle: &OwnedFd,
        path: &str,
        size: u64,
        wanted: ReadBounds,
        into: &mut Vec<u8>,
    ) -> Result<ReadOutcome, OpenError> {
        if size > wanted.bytes_max {
            return Ok(ReadOutcome::Large);
        }
        let start = into.len();
        let read = self.take_bytes(handle, size, wanted, into);
        let read = match read {
            Err(errno) => Err(io_error(path, errno)),
            Ok(ReadOutcome::Whole) => self.judge_content(path, &into[start..]).map(|()| ReadOutcome::Whole),
            Ok(other) => Ok(other),
        };
        if !matches!(read, Ok(ReadOutcome::Whole)) {
            into.truncate(start);
        }
        read
    }

    fn take_bytes(
        &self,
        handle: &OwnedFd,
        size: u64,
        wanted: ReadBounds,
        into: &mut Vec<u8>,
    ) -> Result<ReadOutcome, Errno> {
        if wanted.text_only && size > SNIFFED_APART_BYTES {
            let mut head = [0; SNIFF_BYTES];
            let head = super::open::read_head(handle, &mut head);
            if is_binary(head) && !has_utf16_mark(head) {
                return Ok(ReadOutcome::Binary);
            }
        }
        let start = into.len();
        let expected = usize::try_from(size).map_err(|_| Errno::FBIG)?;
        loop {
            let length = into.len() - start;
            // One byte more than expected, so that growth is noticed without another call.
            into.reserve(expected.max(length) - length + 1);
            let spare = rustix::buffer::spare_capacity(into);
            let read = match rustix::io::pread(handle, spare, length as u64) {
                Err(Errno::INTR) => continue,
                read => read?,
            };
            let length = into.len() - start;
            if length as u64 > wanted.bytes_max {
                return Ok(ReadOutcome::Large);
            }
            if read == 0 || length == expected {
                break;
            }
        }
        if !wanted.text_only {
            return Ok(ReadOutcome::Whole);
        }
        match decode_utf16(&into[start..]) {
            Some(text) if text.len() as u64 > wanted.bytes_max => return Ok(ReadOutcome::Large),
            Some(text) => {
                into.truncate(start);
                into.extend(text.into_bytes());
            }
            None if is_binary(&into[start..]) => return Ok(ReadOutcome::Binary),
            None => {}
        }
        Ok(ReadOutcome::Whole)
    }

    /// Refuses content that begins like a secret.
    fn judge_content(&self, path: &str, content: &[u8]) -> Result<(), OpenError> {
        let reason = self.hidden_content(path, content);
        match reason {
            Some(reason) => Err(denied_error(path, reason)),
            None => Ok(()),
        }
    }
}

fn has_utf16_mark(head: &[u8]) -> bool {
    head.starts_with(b"\xff\xfe") || head.starts_with(b"\xfe\xff")
}

/// True if a content is binary: its beginning holds a NUL. Callers that want text decode UTF-16 with a byte order mark
/// first. The index and the full search both use this function, so that their answers agree.
pub fn is_binary(content: &[u8]) -> bool {
    memchr::memchr(0, &content[..content.len().min(SNIFF_BYTES)]).is_some()
}

fn stat_size(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(0)
}

fn denied_error(path: &str, reason: &'static str) -> OpenError {
    OpenError::Denied {
        path: path.to_owned(),
        reason,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::time::Duration;

    use super::*;
    use crate::Options;
    use crate::walk::WalkBounds;

    fn write(root: &Path, path: &str, content: impl AsRef<[u8]>) {
        let place = root.join(path);
        fs::create_dir_all(place.parent().expect("it has a parent")).expect("folders can be made");
        fs::write(place, content).expect("files can be written");
    }

    fn settle() {
        std::thread::sleep(Duration::from_millis(100));
    }

    fn open(root: &Path) -> Repository {
        let bounds = WalkBounds {
            settling: Duration::from_millis(60),
            ..WalkBounds::default()
        };
        settle();
        Repository::open_bounded(root, &Options::default(), bounds).expect("the folder is there")
    }

    fn names(repository: &Repository) -> ListedNames {
        repository.names(&CancellationToken::new()).expect("it can be listed")
    }

    const WANTED: ReadBounds = ReadBounds {
        bytes_max: 100_000,
        text_only: true,
    };

    /// Returns each path with the content that was read.
    fn read(repository: &Repository, names: &ListedNames) -> Vec<(String, Result<ReadOutcome, String>, usize)> {
        let all = names.list().files.iter().enumerate();
        all.map(|(at, file)| {
            let mut content = b"before".to_vec();
            let read = repository.read_listed(names, at, WANTED, &mut content, &CancellationToken::new());
            assert!(content.starts_with(b"before"), "what was there stays");
            let read = read.map_err(|error| error.to_string());
            (file.path.clone(), read, content.len() - "before".len())
        })
        .collect()
    }

    #[test]
    fn files_are_read_whole_or_said_why_not() {
        let folder = tempfile::tempdir().expect("there is room");
        let root = folder.path();
        write(root, "a.txt", "text");
        write(root, "b.bin", "te\0xt");
        write(root, "c/empty", "");
        write(root, "d.txt", vec![b'x'; 100_000]);
        write(root, "e.txt", vec![b'x'; 100_001]);
        write(root, "f.bin", [vec![0], vec![b'x'; 99_999]].concat());
        write(root, "h.txt", b"\xff\xfet\0e\0x\0t\0");
        write(root, "i.txt", b"\xff\xfet\0e\0x");
        write(root, "g.txt", "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n");
        let repository = open(root);
        let expected = [
            ("a.txt", Ok(ReadOutcome::Whole), 4),
            ("b.bin", Ok(ReadOutcome::Binary), 0),
            ("c/empty", Ok(ReadOutcome::Whole), 0),
            ("d.txt", Ok(ReadOutcome::Whole), 100_000),
            ("e.txt", Ok(ReadOutcome::Large), 0),
            ("f.bin", Ok(ReadOutcome::Binary), 0),
            (
                "g.txt",
                Err("`g.txt` is not accessible: it is a private key".to_owned()),
                0,
            ),
            ("h.txt", Ok(ReadOutcome::Whole), 4),
            ("i.txt", Ok(ReadOutcome::Binary), 0),
        ];
        assert_eq!(
            read(&repository, &names(&repository)),
            expected.map(|(path, read, bytes)| (path.to_owned(), read, bytes))
        );
    }

    #[test]
    fn names_are_used_again_only_while_they_hold_and_contents_are_those_of_now() {
        let folder = tempfile::tempdir().expect("there is room");
        let root = folder.path();
        write(root, "a.txt", "one");
        write(root, "b/c.txt", "two");
        let repository = open(root);
        let first = names(&repository);
        assert!(
            Arc::ptr_eq(&first.0, &names(&repository).0),
            "nothing changed, nothing is walked"
        );
        write(root, "a.txt", "longer than it was");
        let second = names(&repository);
        assert!(Arc::ptr_eq(&first.0, &second.0), "the names are as they were");
        assert_eq!(
            read(&repository, &second)[0],
            ("a.txt".to_owned(), Ok(ReadOutcome::Whole), 18)
        );
        write(root, "b/d.txt", "three");
        let paths = |names: &ListedNames| -> Vec<String> {
            let files = names.list().files.iter();
            files.map(|file| file.path.clone()).collect()
        };
        assert_eq!(paths(&names(&repository)), ["a.txt", "b/c.txt", "b/d.txt"]);
        settle();
        write(root, ".gitignore", "b\n");
        assert_eq!(paths(&names(&repository)), [".gitignore", "a.txt"]);
    }

    #[test]
    fn what_is_something_else_by_now_is_judged_anew() {
        let folder = tempfile::tempdir().expect("there is room");
        let root = folder.path();
        for path in ["a", "b", "c", "d", "e"] {
            write(root, path, "text");
        }
        write(root, ".env", "KEY=1");
        let repository = open(root);
        let names = names(&repository);
        for path in ["a", "b", "c", "d"] {
            fs::remove_file(root.join(path)).expect("it is there");
        }
        std::os::unix::fs::symlink("e", root.join("a")).expect("links can be made");
        std::os::unix::fs::symlink(".env", root.join("b")).expect("links can be made");
        std::os::unix::fs::symlink("/etc/hostname", root.join("c")).expect("links can be made");
        let read: Vec<_> = read(&repository, &names)
            .into_iter()
            .map(|(_, read, _)| read.map_err(|error| error.split(": ").last().unwrap_or_default().to_owned()))
            .collect();
        let hidden = "it holds environment variables, which are often secrets".to_owned();
        let expected = [
            Ok(ReadOutcome::Whole),
            Err(hidden),
            Err("it lies outside the repository".to_owned()),
            Err("`d` does not exist".to_owned()),
            Ok(ReadOutcome::Whole),
        ];
        assert_eq!(read, expected);
    }

    #[test]
    fn a_hidden_name_that_a_file_got_since_the_walk_hides_it() {
        let folder = tempfile::tempdir().expect("there is room");
        let root = folder.path();
        write(root, "a.txt", "text");
        write(root, "b.txt", "text");
        write(root, ".ssh/known", "x");
        let repository = open(root);
        let names = names(&repository);
        // In a hidden directory, which no list rests on.
        fs::hard_link(root.join("a.txt"), root.join(".ssh/copy")).expect("links can be made");
        fs::hard_link(root.join("b.txt"), root.join("c.txt")).expect("links can be made");
        let (ended, mut content) = (CancellationToken::new(), Vec::new());
        ended.cancel();
        let cut = repository.read_listed(&names, 1, WANTED, &mut content, &ended);
        assert!(cut.is_err() && content.is_empty(), "{cut:?}");
        let scanned = repository.last_scan().expect("it was walked");
        assert!(
            Arc::ptr_eq(&names.0, &scanned),
            "nobody walks for a call that has ended"
        );
        let read = read(&repository, &names);
        let hidden = "`a.txt` is not accessible: it is another name of a hidden file".to_owned();
        assert_eq!(read[0].1, Err(hidden));
        assert_eq!(read[1].1, Ok(ReadOutcome::Whole));
    }
}
