//! Reads result files in the tree that a run left. The number and size of the files are limited, and reading never
//! waits.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::time::SystemTime;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use rustix::fs::{Dir, FileType, OFlags};

/// Limit for the files of one run.
const FILES_MAX: usize = 5_000;
/// Limit for all files together in bytes. The results of ten thousand tests take some MiB.
const BYTES_MAX: u64 = 32 << 20;
/// Limit for the entries of the tree that are examined.
const ENTRIES_MAX: usize = 300_000;
/// Limit for the depth of the search.
const DEPTH_MAX: usize = 24;

/// Folders that hold no results of this run.
const SKIPPED: [&str; 4] = ["node_modules", ".git", ".venv", "venv"];

/// The files that were read, and whether these are all.
#[derive(Debug, Default)]
pub(super) struct ResultFiles {
    pub(super) texts: Vec<String>,
    pub(super) is_cut: bool,
}

/// Reads the files beneath `directory` that match a glob and were written since `started`. A run may leave links,
/// FIFOs and huge files under these names, so only regular files are read.
pub(super) fn find_result_files(tree: &OwnedFd, directory: &str, globs: &[String], started: SystemTime) -> ResultFiles {
    let mut found = ResultFiles::default();
    let Some(globs) = compile_globs(globs) else {
        return found;
    };
    let mut bytes = 0_u64;
    let is_whole = walk_tree(tree, directory, |path| {
        if !globs.is_match(&path) {
            return;
        }
        match read_file(tree, &join_path(directory, &path), BYTES_MAX - bytes, started) {
            None => {}
            Some(Some(text)) if found.texts.len() < FILES_MAX => {
                bytes += text.len() as u64;
                found.texts.push(text);
            }
            Some(_) => found.is_cut = true,
        }
    });
    found.is_cut |= !is_whole;
    found
}

/// Visits the files beneath `directory` of a tree, with paths relative to it. Returns false if there are too many
/// entries.
pub(super) fn walk_tree(tree: &OwnedFd, directory: &str, mut visit: impl FnMut(String)) -> bool {
    let mut entries = 0_usize;
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        for (name, kind) in entries_of(tree, &join_path(directory, &folder)) {
            entries += 1;
            if entries > ENTRIES_MAX {
                return false;
            }
            let path = join_path(&folder, &name);
            if kind != FileType::Directory {
                visit(path);
            } else if path.split('/').count() < DEPTH_MAX && !SKIPPED.contains(&name.as_str()) {
                folders.push(path);
            }
        }
    }
    true
}

fn compile_globs(globs: &[String]) -> Option<GlobSet> {
    let mut set = GlobSetBuilder::new();
    for glob in globs {
        set.add(GlobBuilder::new(glob).literal_separator(true).build().ok()?);
    }
    set.build().ok()
}

fn join_path(folder: &str, name: &str) -> String {
    match (folder, name) {
        ("", name) => name.to_owned(),
        (folder, "") => folder.to_owned(),
        (folder, name) => format!("{folder}/{name}"),
    }
}

#[cfg(target_os = "linux")]
pub(super) fn open_in_tree(tree: &OwnedFd, path: &str, flags: OFlags) -> Option<OwnedFd> {
    use rustix::fs::{Mode, ResolveFlags};
    use std::os::fd::AsFd;

    let path = if path.is_empty() { "." } else { path };
    let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let flags = flags | OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    rustix::fs::openat2(tree.as_fd(), path, flags, Mode::empty(), beneath).ok()
}

/// On this system no sandbox returns a tree.
#[cfg(not(target_os = "linux"))]
pub(super) fn open(_tree: &OwnedFd, _path: &str, _flags: OFlags) -> Option<OwnedFd> {
    None
}

fn entries_of(tree: &OwnedFd, folder: &str) -> Vec<(String, FileType)> {
    let opened = open_in_tree(tree, folder, OFlags::DIRECTORY).and_then(|folder| Dir::read_from(folder).ok());
    let entries = opened.into_iter().flatten().flatten().take(ENTRIES_MAX);
    entries
        .filter_map(|entry| Some((entry.file_name().to_str().ok()?.to_owned(), entry.file_type())))
        .filter(|(name, _)| name != "." && name != "..")
        .collect()
}

/// Reads the text of a file; the inner `Option` is `None` if the file exceeds the rest of the limit.
#[expect(
    clippy::option_option,
    reason = "no result file, and one that does not fit, are two things"
)]
fn read_file(tree: &OwnedFd, path: &str, bytes_max: u64, started: SystemTime) -> Option<Option<String>> {
    let file = File::from(open_in_tree(tree, path, OFlags::empty())?);
    let metadata = file.metadata().ok()?;
    // File systems round times, some to two seconds.
    let oldest = started - std::time::Duration::from_secs(3);
    if !metadata.is_file() || metadata.modified().ok()? < oldest {
        return None;
    }
    let mut content = Vec::new();
    file.take(bytes_max + 1).read_to_end(&mut content).ok()?;
    if content.len() as u64 > bytes_max {
        return Some(None);
    }
    Some(Some(String::from_utf8_lossy(&content).into_owned()))
}

#[cfg(test)]
mod unit {
    use super::*;

    fn read_in(folder: &std::path::Path, globs: &[&str], started: SystemTime) -> ResultFiles {
        let tree = OwnedFd::from(File::open(folder).expect("it is there"));
        let globs: Vec<String> = globs.iter().map(|glob| (*glob).to_owned()).collect();
        find_result_files(&tree, "", &globs, started)
    }

    #[test]
    fn only_fresh_regular_files_of_the_tree_are_read() {
        let folder = tempfile::tempdir().expect("there is room for a folder");
        let at = |path: &str| folder.path().join(path);
        std::fs::create_dir_all(at("a/reports")).expect("folders can be made");
        std::fs::write(at("secret.xml"), "secret").expect("files can be written");
        std::fs::write(at("a/reports/TEST-a.xml"), "<a/>").expect("files can be written");
        std::os::unix::fs::symlink(at("secret.xml"), at("a/reports/TEST-b.xml")).expect("links can be made");
        std::os::unix::fs::symlink("/etc", at("linked")).expect("links can be made");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            at("a/reports/TEST-c.xml"),
            FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .expect("a FIFO can be made");
        let globs = ["**/reports/TEST-*.xml", "linked/*"];
        let found = read_in(folder.path(), &globs, SystemTime::now());
        assert_eq!((found.texts, found.is_cut), (vec!["<a/>".to_owned()], false));
        let later = SystemTime::now() + std::time::Duration::from_secs(60);
        assert!(
            read_in(folder.path(), &globs, later).texts.is_empty(),
            "they are of an earlier run"
        );
    }

    /// `BYTES_MAX`.
    #[test]
    fn a_huge_result_file_is_not_read() {
        let folder = tempfile::tempdir().expect("there is room for a folder");
        let file = File::create(folder.path().join("r.xml")).expect("files can be written");
        file.set_len(BYTES_MAX + 1).expect("a sparse file can be made");
        let found = read_in(folder.path(), &["*.xml"], SystemTime::now());
        assert!(found.texts.is_empty() && found.is_cut);
    }
}
