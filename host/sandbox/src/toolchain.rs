//! Finds the Python and the Node of a project.
//!
//! Only programs on the user's `PATH` outside of the repository are asked for their version. For a virtual environment
//! in the repository its record is read instead, because nothing of a repository may run before the user has agreed.

mod python;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::{CommandSpec, RunEnd, RunLimits, environment, run_command};
use crate::limits;
pub use python::{MissingPython, PackageHome, Python, find_python};
pub use python::{choose_in, choose_python, pythons_on_path};

/// A program that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Path of the program.
    pub path: PathBuf,
    /// Version as reported, for example `3.12.1`.
    pub version: String,
}

/// Finds the first program called `name` on the `PATH` outside of `root`; `None` if it does not answer `--version`.
/// Blocks.
pub fn find_program(name: &str, root: &Path, starter: &BTreeMap<String, String>) -> Option<Program> {
    let found = environment::find_programs_outside(starter, name, root);
    found.into_iter().next().and_then(|path| ask_version(path, starter))
}

fn ask_version(path: PathBuf, starter: &BTreeMap<String, String>) -> Option<Program> {
    ask_within(path, starter, limits::seconds(limits::PROBE_SECONDS_MAX))
}

fn ask_within(path: PathBuf, starter: &BTreeMap<String, String>, time: Duration) -> Option<Program> {
    let command = CommandSpec {
        program: path.clone(),
        arguments: vec!["--version".to_owned()],
        directory: PathBuf::from("/"),
        environment: environment::for_run(starter),
    };
    let answer = run_command(&command, &RunLimits::within(time), &CancellationToken::new(), &|_| ()).ok()?;
    if answer.end != RunEnd::Exited(0) {
        return None;
    }
    // `Python 3.12.1`, `v22.1.0`, `10.7.0`
    let line = answer.output.lines().next()?.trim();
    let version = line.rsplit(' ').next()?.trim_start_matches('v').to_owned();
    Some(Program { path, version })
}

#[cfg(test)]
mod testing {
    //! A machine whose programs are small shell scripts.

    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    pub(super) struct ToolchainMachine {
        folder: tempfile::TempDir,
        pub(super) starter: BTreeMap<String, String>,
    }

    impl ToolchainMachine {
        /// A repository, and a `PATH` with nothing on it.
        pub(super) fn new() -> Self {
            let folder = tempfile::tempdir().expect("there is room for a folder");
            for name in ["root", "bin"] {
                fs::create_dir(folder.path().join(name)).expect("folders can be made");
            }
            let mut machine = Self {
                folder,
                starter: BTreeMap::new(),
            };
            machine.set("PATH", &machine.outside("bin").to_string_lossy());
            machine
        }

        pub(super) fn root(&self) -> PathBuf {
            self.outside("root")
        }

        pub(super) fn outside(&self, name: &str) -> PathBuf {
            self.folder.path().canonicalize().expect("it is there").join(name)
        }

        pub(super) fn path(&self) -> &str {
            &self.starter["PATH"]
        }

        pub(super) fn set(&mut self, name: &str, value: &str) {
            self.starter.insert(name.to_owned(), value.to_owned());
        }

        pub(super) fn write(&self, path: &str, content: &str) {
            fs::write(self.root().join(path), content).expect("files can be written");
        }

        /// A virtual environment whose Python is `script`.
        pub(super) fn environment(&self, place: &str, version: &str, script: &str) -> PathBuf {
            fs::create_dir_all(self.root().join(place)).expect("folders can be made");
            let folder = self.root().join(place).canonicalize().expect("it is there");
            let record = format!("home = /usr/bin\nversion = {version}\n");
            fs::write(folder.join("pyvenv.cfg"), record).expect("files can be written");
            find_program(&folder.join("bin/python"), script);
            folder
        }

        /// A Python on the `PATH` that answers the question for its version and does `script` otherwise.
        pub(super) fn python(&self, name: &str, version: &str, script: &str) {
            let answer =
                format!("if [ \"$1 $2\" = '-I -c' ]; then echo {version}; echo /machine/site-packages; exit; fi");
            self.tool(name, &format!("{answer}\n{script}"));
        }

        /// A program on the `PATH`.
        pub(super) fn tool(&self, name: &str, script: &str) {
            find_program(&self.outside("bin").join(name), script);
        }

        /// A program inside the repository.
        pub(super) fn repository_program(&self, path: &str, script: &str) {
            find_program(&self.root().join(path), script);
        }
    }

    fn find_program(path: &Path, script: &str) {
        fs::create_dir_all(path.parent().expect("it has a parent")).expect("folders can be made");
        fs::write(path, format!("#!/bin/sh\n{script}\n")).expect("files can be written");
        fs::set_permissions(path, PermissionsExt::from_mode(0o755)).expect("modes can be set");
    }
}

#[cfg(test)]
mod tests {
    use super::testing::ToolchainMachine;
    use super::*;

    #[test]
    fn the_projects_environment_says_its_version_and_is_not_run() {
        let machine = ToolchainMachine::new();
        let marker = machine.outside("ran");
        machine.environment(".venv", "3.12.3", &format!("touch '{}'", marker.display()));
        let found = find_python(&machine.root(), &machine.starter).expect("it is there");
        assert_eq!(found.version.as_deref(), Some("3.12.3"));
        assert!(!marker.exists());
    }

    #[test]
    fn a_program_of_the_repository_is_never_asked() {
        let mut machine = ToolchainMachine::new();
        machine.repository_program("bin/node", "echo v22.1.0");
        machine.set("PATH", &machine.root().join("bin").to_string_lossy());
        assert_eq!(find_program("node", &machine.root(), &machine.starter), None);
        let elsewhere = machine.outside("bin");
        let found = find_program("node", &elsewhere, &machine.starter).expect("it is there");
        assert_eq!(found.version, "22.1.0");
    }

    #[test]
    fn a_program_that_never_says_its_version_is_given_up() {
        let machine = ToolchainMachine::new();
        machine.tool("node", "PATH=/usr/bin:/bin; exec sleep 30");
        let _hurried = limits::pace::hurried(20);
        let started = std::time::Instant::now();
        assert_eq!(find_program("node", &machine.root(), &machine.starter), None);
        assert!(started.elapsed() < Duration::from_secs(limits::PROBE_SECONDS_MAX));
    }

    /// `PROBE_SECONDS_MAX`.
    #[test]
    fn a_program_that_does_not_say_its_version_is_not_waited_for() {
        let machine = ToolchainMachine::new();
        machine.tool("node", "PATH=/usr/bin:/bin; echo v22.1.0; sleep 600");
        let started = std::time::Instant::now();
        let asked = ask_within(
            machine.outside("bin/node"),
            &machine.starter,
            Duration::from_millis(300),
        );
        assert_eq!(asked, None);
        assert!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
    }
}
