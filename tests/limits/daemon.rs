//! Limits that a daemon sets for itself.

use std::path::Path;

use rustix::process::{Resource, getrlimit};
use tool_core::limits;

use crate::support::{Home, finish};

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "a shell that lowers a limit before the binary runs"
)]
fn a_daemon_may_have_many_files_open() {
    let home = Home::offline();
    let mut command = std::process::Command::new("/bin/sh");
    command
        .args([
            "-c",
            "ulimit -S -n 300 && exec \"$0\" service start",
            env!("CARGO_BIN_EXE_tool"),
        ])
        .env_clear()
        .env("HOME", home.path())
        .env("TOOL_HOME", home.path())
        .env("TOOL_BACKEND_PORT", "0")
        .current_dir(Path::new("/"));
    finish(command.output().expect("there is a shell")).expect(0);
    let pid = &home.record()["pid"];
    let table = std::fs::read_to_string(format!("/proc/{pid}/limits")).expect("it runs");
    let line = table
        .lines()
        .find(|line| line.starts_with("Max open files"))
        .expect("there is one");
    let soft: u64 = line
        .split_whitespace()
        .nth(3)
        .and_then(|word| word.parse().ok())
        .expect("a number");
    let most = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    assert_eq!(soft, limits::FILES_OPEN_WANTED.min(most));
}
