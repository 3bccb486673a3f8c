//! Reading: granted files work, and hidden ones or those outside are refused by every name.

use std::time::{Duration, Instant};

use serde_json::json;

use super::{Arena, DENIED};

#[test]
fn what_is_granted_works() {
    let arena = Arena::new();
    assert_eq!(arena.on("read", "/repo/README.md"), "got hello");
    assert_eq!(arena.on("read", "/repo/src/main.rs"), "got fn main() {}");
    assert_eq!(arena.on("read", "/repo/./src//main.rs"), "got fn main() {}");
    assert_eq!(arena.on("read", "/repo/app.log"), "got line");
    assert_eq!(arena.on("list", "/repo/src"), "got main.rs");
    assert_eq!(arena.on("list", "/repo/src/"), "got main.rs");
    assert_eq!(
        arena.on("stat", "/repo/README.md"),
        "got FileType { is_file: true, is_dir: false, is_symlink: false, .. } of 5"
    );
}

#[test]
fn links_within_the_repository_are_followed() {
    let arena = Arena::new();
    assert_eq!(arena.on("read", "/repo/inside"), "got hello");
    assert_eq!(arena.on("read", "/repo/twice"), "got hello");
    assert_eq!(arena.on("read", "/repo/inside-directory/main.rs"), "got fn main() {}");
    assert_eq!(arena.on("lstat", "/repo/inside"), "got link: true");
    assert_eq!(arena.on("lstat", "/repo/README.md"), "got link: false");
    assert_eq!(arena.on("readlink", "/repo/inside"), "got README.md");
}

#[test]
fn nothing_outside_the_repository_can_be_read() {
    let arena = Arena::new();
    for path in [
        "/repo/../outside/secret",
        "/repo/src/../../outside/secret",
        "/repo/src/../README.md",
        "/repo/out",
        "/repo/out/",
        "/repo/out-directory/secret",
        "/repo/absolute",
        "/repo/proc",
    ] {
        for attack in ["read", "stat"] {
            assert_eq!(arena.on(attack, path), DENIED, "{attack} {path}");
        }
    }
    for path in ["/repo/out-directory", "/repo/out-directory/", "/repo/.."] {
        assert_eq!(arena.on("list", path), DENIED, "{path}");
    }
    for path in [
        "/etc/passwd",
        "/",
        "../outside/secret",
        "/outside/secret",
        "/proc/self/environ",
    ] {
        let answer = arena.on("read", path);
        assert!(answer.starts_with("refused: "), "{path}: {answer}");
    }
    assert_eq!(arena.on("readlink", "/repo/out"), DENIED);
    assert_eq!(arena.on("readlink", "/repo/absolute"), DENIED);
}

#[test]
fn a_trailing_slash_makes_no_file_a_directory() {
    let arena = Arena::new();
    for path in ["/repo/README.md/", "/repo/README.md/.", "/repo/inside/"] {
        for attack in ["read", "stat", "lstat", "list"] {
            assert_eq!(arena.on(attack, path), "refused: NotADirectory", "{attack} {path}");
        }
    }
}

#[test]
fn hidden_files_are_not_there_by_any_name() {
    let arena = Arena::new();
    for path in [
        "/repo/.env",
        "/repo/.ENV",
        "/repo/.env/",
        "/repo/to-hidden",
        "/repo/hard",
        "/repo/src/.env",
        "/repo/.git",
    ] {
        for attack in ["read", "stat"] {
            assert_eq!(arena.on(attack, path), DENIED, "{attack} {path}");
        }
    }
    assert_eq!(arena.on("readlink", "/repo/to-hidden"), DENIED);
    let listed = arena.on("list", "/repo");
    assert!(!listed.contains(".env") && listed.contains("README.md"), "{listed}");
    for path in ["", "."] {
        let listed = arena.on("list-all", path);
        assert_eq!(listed.split(' ').find(|path| path.contains("env")), None, "{listed}");
    }
}

#[test]
fn special_files_are_refused_without_waiting() {
    let arena = Arena::new();
    let started = Instant::now();
    for path in ["/repo/pipe", "/repo/to-pipe", "/repo/socket"] {
        for attack in ["read", "stat", "open-files"] {
            let answer = arena.attack(&json!({"attack": attack, "path": path, "count": 1}));
            assert_eq!(answer, DENIED, "{attack} {path}");
        }
    }
    assert_eq!(arena.on("read", "/repo/loop"), "refused: FilesystemLoop");
    assert!(
        started.elapsed() < Duration::from_secs(10),
        "a FIFO must not be waited for"
    );
}
