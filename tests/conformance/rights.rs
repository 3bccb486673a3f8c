//! Doing something without the rights to it, also where the tests run as root, whom no permission stops.

use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::geteuid;

use crate::support::Home;

/// The uid of a user without rights.
const NOBODY: u32 = 65534;

/// Runs the command as a user whom permissions hold: if the tests run as root, it runs as `nobody`, who then owns the
/// home.
#[expect(clippy::disallowed_methods, reason = "the tests run the real binary")]
pub(crate) fn unprivileged(home: &Home, command: &Command) -> Command {
    let program = Path::new(command.get_program());
    let mut same = if geteuid().is_root() {
        give(home.path());
        let mut dropped = Command::new(reachable(home, program));
        dropped.uid(NOBODY).gid(NOBODY);
        dropped
    } else {
        Command::new(program)
    };
    same.args(command.get_args());
    same.env_clear().stdin(Stdio::null());
    same.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    same.current_dir(command.get_current_dir().expect("a test says where"));
    same
}

/// The binary where the user `nobody` may run it: where it is, or a copy in the home.
fn reachable(home: &Home, program: &Path) -> PathBuf {
    let open = |folder: &Path| {
        let metadata = std::fs::metadata(folder);
        metadata.is_ok_and(|metadata| metadata.permissions().mode() & 0o001 != 0)
    };
    if program
        .ancestors()
        .skip(1)
        .filter(|folder| *folder != Path::new(""))
        .all(open)
    {
        return program.to_owned();
    }
    let copy = home.path().join("tool");
    std::fs::copy(program, &copy).expect("the binary can be copied");
    chown(&copy, Some(NOBODY), Some(NOBODY)).expect("root may give it away");
    copy
}

/// As root, gives a folder and what it holds to the user that [`unprivileged`] runs as.
pub(super) fn give(place: &Path) {
    if !geteuid().is_root() {
        return;
    }
    std::os::unix::fs::lchown(place, Some(NOBODY), Some(NOBODY)).expect("root may give it away");
    if place.is_dir() && !place.is_symlink() {
        for entry in std::fs::read_dir(place).expect("it can be listed") {
            give(&entry.expect("it can be listed").path());
        }
    }
}

/// Sets who may do what.
pub(super) fn restrict(place: &Path, mode: u32) {
    std::fs::set_permissions(place, std::fs::Permissions::from_mode(mode)).expect("it is ours");
}
