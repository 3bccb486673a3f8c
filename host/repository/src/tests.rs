//! The promises of the repository, each against a real temporary tree.

mod ignore_files;
mod lists;
mod opening;
mod origins;
mod roots;
mod tracked;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, RenameFlags};
use tempfile::TempDir;

use super::root::is_trusted_owner;
use super::*;

const KEY_TEXT: &str = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAA\n";

/// A temporary root with these files; directories are made as needed.
fn tree(files: &[(&str, &str)]) -> TempDir {
    let folder = TempDir::new().expect("a temporary folder");
    for (path, content) in files {
        write(folder.path(), path, content);
    }
    folder
}

fn write(root: &Path, path: &str, content: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().expect("a path with a parent")).expect("directories are made");
    fs::write(path, content).expect("a file is written");
}

fn git_directory(root: &Path, path: &str) {
    write(root, &format!("{path}/HEAD"), "ref: refs/heads/main\n");
    write(root, &format!("{path}/config"), "[remote] url = https://token@host\n");
    for name in ["objects", "refs"] {
        fs::create_dir_all(root.join(path).join(name)).expect("directories are made");
    }
}

fn open(folder: &TempDir) -> Arc<Repository> {
    open_with(folder.path(), &Options::default())
}

fn open_with(root: &Path, options: &Options) -> Arc<Repository> {
    Repository::open(root, options).expect("the root is accepted")
}

fn list(repository: &Repository) -> Arc<FileList> {
    repository.list(&CancellationToken::new()).expect("the tree is walked")
}

fn paths(repository: &Repository) -> Vec<String> {
    list(repository).files.iter().map(|file| file.path.clone()).collect()
}

fn refusal(root: &Path, options: &Options) -> String {
    Repository::open(root, options)
        .expect_err("the root is refused")
        .to_string()
}

fn denied(repository: &Repository, path: &str) -> &'static str {
    match repository.open_at(path) {
        Err(OpenError::Denied { reason, .. }) => reason,
        other => panic!("{path}: expected a refusal, got {other:?}"),
    }
}

fn text(repository: &Repository, path: &str) -> String {
    let content = repository.read(path, 1 << 20).expect("the file is read");
    String::from_utf8(content).expect("the file is text")
}

#[expect(clippy::disallowed_methods, reason = "git makes the repositories of tests")]
fn git(folder: &Path, arguments: &[&str]) {
    let quiet = [
        "-c",
        "user.name=Ada",
        "-c",
        "user.email=ada@example.org",
        "-c",
        "protocol.file.allow=always",
    ];
    let done = Command::new("git")
        .arg("-C")
        .arg(folder)
        .args(quiet)
        .args(arguments)
        .output();
    let done = done.expect("git is installed");
    assert!(
        done.status.success(),
        "{arguments:?}: {}",
        String::from_utf8_lossy(&done.stderr)
    );
}

fn commit_all(folder: &Path) {
    git(folder, &["init", "--quiet", "--initial-branch=main"]);
    git(folder, &["add", "."]);
    git(folder, &["commit", "--quiet", "-m", "one"]);
}
