//! Bounds of the sandbox itself, hit from outside by messages to a helper, and from inside by a suite.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};

use super::{repository, run_tests};
use crate::support::{Home, folder, holds};

/// Returns a helper's answer to a specification with so many visible links, each with this target.
fn contained(links: usize, target: &str) -> Value {
    let repository = folder(&[]);
    let root = repository.path().canonicalize().expect("it is there");
    let links: Vec<Value> = (0..links)
        .map(|number| json!({"link": {"path": format!("/links/{number}"), "target": target}}))
        .collect();
    let bounds = json!({
        "tree_bytes": 1 << 20, "tree_inodes": 100, "scratch_bytes": 1 << 20, "scratch_inodes": 100,
        "build_bytes": 1 << 20, "build_inodes": 100,
        "tasks": 10, "memory_bytes": 1 << 30,
    });
    let spec = json!({
        "sandbox": "namespaces", "program": "/bin/true", "arguments": [], "directory": root, "environment": {},
        "root": root, "hidden": [], "visible": links, "layers": [], "files": [], "builds": [], "refreshed": [],
        "proposed": [], "before": [], "hands_back": false, "home": null, "bounds": bounds, "folder": null,
        "installation": null,
    });
    let text = spec.to_string().into_bytes();
    let (mut own, helpers) = UnixStream::pair().expect("there are sockets");
    let mut command = Home::empty().tool(Path::new("/"), &["__contain"]);
    command
        .stdin(Stdio::from(OwnedFd::from(helpers)))
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut child = command.spawn().expect("the binary runs");
    drop(command);
    own.write_all(&u32::try_from(text.len()).expect("it fits").to_le_bytes())
        .expect("it listens");
    own.write_all(&text).expect("it listens");
    let mut said = String::new();
    own.read_to_string(&mut said).expect("it speaks");
    child.wait().expect("it ends");
    serde_json::from_str(said.lines().last().unwrap_or_default()).expect("a message")
}

#[test]
fn what_is_visible_fits_the_root_or_nothing_runs() {
    assert_eq!(contained(10, "/usr"), json!({"exited": 0}));
    // `CONTAIN_ROOT_INODES_MAX`, then `CONTAIN_ROOT_BYTES_MAX`.
    let files = usize::try_from(tool_core::limits::CONTAIN_ROOT_INODES_MAX).expect("it fits");
    let pages = usize::try_from(tool_core::limits::CONTAIN_ROOT_BYTES_MAX / 4096).expect("it fits");
    for (links, target) in [(files, "/usr".to_owned()), (pages, format!("/{}", "x".repeat(4000)))] {
        let said = contained(links, &target);
        let reason = said["failed"]["reason"].as_str().unwrap_or_default();
        assert!(reason.contains("No space left on device"), "{said}");
    }
}

/// `CONTAIN_FILES_OPEN_MAX` and `CONTAIN_LOCKED_BYTES_MAX`.
#[test]
fn a_suite_that_opens_and_locks_without_end_is_refused() {
    let suite = "import ctypes, mmap, os, pytest\n\
                 def test_open():\n    \
                     with pytest.raises(OSError, match='Too many open files'):\n        \
                         while True:\n            os.dup(1)\n\
                 def test_lock():\n    \
                     size = 64 << 20\n    \
                     held = mmap.mmap(-1, size)\n    \
                     place = ctypes.addressof(ctypes.c_char.from_buffer(held))\n    \
                     assert ctypes.CDLL(None).mlock(ctypes.c_void_p(place), ctypes.c_size_t(size)) != 0\n";
    let (home, repository) = (Home::offline(), repository(&[("test_bounds.py", suite)]));
    let text = run_tests(&home, repository.path(), "{}").expect(0).stdout;
    holds(&text, &["PASSED: 2 passed", "sandbox: namespaces"]);
}
