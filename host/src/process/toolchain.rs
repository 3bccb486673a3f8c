//! Which Python and which Node a test run of this user would find, for `tool doctor`.
//!
//! Only programs on the user's `PATH` outside the repository are asked for their version; of a virtual environment in
//! the repository its own record is read, because nothing of a repository runs before somebody agreed to it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tokio_util::sync::CancellationToken;

use super::{CommandSpec, RunEnd, RunLimits, environment, run};
use crate::limits;

/// The oldest Python that runs tests (specification).
const OLDEST_PYTHON: (u32, u32) = (3, 10);

/// A program that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Where it is.
    pub path: PathBuf,
    /// What it says its version is, for example `3.12.1`.
    pub version: String,
}

/// The Python for tests in `root`: its virtual environment, else the first on the `PATH` that is new enough. Blocks.
pub fn python(root: &Path, starter: &BTreeMap<String, String>) -> Option<Program> {
    let own = [".venv", "venv"].map(|name| root.join(name));
    let starters = starter.get("VIRTUAL_ENV").map(PathBuf::from);
    let in_environment = own
        .into_iter()
        .chain(starters)
        .find_map(|folder| virtual_environment(&folder));
    in_environment.or_else(|| {
        let names = ["python3", "python"];
        let found = names
            .into_iter()
            .flat_map(|name| environment::find_programs(starter, name));
        found
            .filter(|path| !path.starts_with(root))
            .filter_map(|path| ask(path, starter))
            .find(|program| is_new_enough(&program.version))
    })
}

/// The first program of this name on the `PATH`, where it answers `--version`. Blocks.
pub fn program(name: &str, root: &Path, starter: &BTreeMap<String, String>) -> Option<Program> {
    let mut found = environment::find_programs(starter, name).into_iter();
    found
        .find(|path| !path.starts_with(root))
        .and_then(|path| ask(path, starter))
}

fn virtual_environment(folder: &Path) -> Option<Program> {
    let path = folder.join("bin/python");
    if !environment::executable(&path) {
        return None;
    }
    let record = environment::venv_record(folder)?;
    let version = record.lines().find_map(|line| {
        let (key, value) = line.split_once('=')?;
        matches!(key.trim(), "version" | "version_info").then(|| value.trim().to_owned())
    })?;
    is_new_enough(&version).then_some(Program { path, version })
}

fn is_new_enough(version: &str) -> bool {
    let mut numbers = version.split('.').map(str::parse);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= OLDEST_PYTHON,
        _ => false,
    }
}

fn ask(path: PathBuf, starter: &BTreeMap<String, String>) -> Option<Program> {
    let command = CommandSpec {
        program: path.clone(),
        arguments: vec!["--version".to_owned()],
        directory: PathBuf::from("/"),
        environment: environment::for_run(starter),
    };
    let bounds = RunLimits::within(limits::seconds(limits::VERSION_SECONDS_MAX));
    let answer = run(&command, &bounds, &CancellationToken::new(), &|_| ()).ok()?;
    if answer.end != RunEnd::Exited(0) {
        return None;
    }
    // `Python 3.12.1`, `v22.1.0`, `10.7.0`
    let line = answer.output.lines().next()?.trim();
    let version = line.rsplit(' ').next()?.trim_start_matches('v').to_owned();
    Some(Program { path, version })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// A folder with a program that prints this.
    fn program_that_prints(name: &str, text: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let place = folder.path().join(name);
        fs::write(&place, format!("#!/bin/sh\necho '{text}'\n")).expect("the folder is writable");
        fs::set_permissions(&place, fs::Permissions::from_mode(0o755)).expect("it is ours");
        folder
    }

    fn path_of(folders: &[&Path]) -> BTreeMap<String, String> {
        let joined: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
        [("PATH".to_owned(), joined.join(":"))].into()
    }

    #[test]
    fn an_old_python_is_passed_over() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let old = program_that_prints("python3", "Python 3.9.2");
        let new = program_that_prints("python3", "Python 3.11.4");
        let found = python(root.path(), &path_of(&[old.path(), new.path()])).expect("one is new enough");
        assert_eq!(
            (found.version.as_str(), found.path),
            ("3.11.4", new.path().join("python3"))
        );
        assert_eq!(python(root.path(), &path_of(&[old.path()])), None);
    }

    #[test]
    fn the_projects_environment_comes_first_and_is_not_run() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let bin = root.path().join(".venv/bin");
        fs::create_dir_all(&bin).expect("the folder is writable");
        fs::write(bin.join("python"), "#!/bin/sh\ntouch ran\n").expect("the folder is writable");
        fs::set_permissions(bin.join("python"), fs::Permissions::from_mode(0o755)).expect("it is ours");
        fs::write(
            root.path().join(".venv/pyvenv.cfg"),
            "home = /usr/bin\nversion = 3.12.3\n",
        )
        .expect("writable");
        let found = python(root.path(), &BTreeMap::new()).expect("it is there");
        assert_eq!(found.version, "3.12.3");
        assert!(!root.path().join("ran").exists() && !Path::new("/ran").exists());
    }

    #[test]
    fn a_program_of_the_repository_is_never_asked() {
        let root = program_that_prints("node", "v22.1.0");
        assert_eq!(program("node", root.path(), &path_of(&[root.path()])), None);
        let elsewhere = tempfile::tempdir().expect("a temporary folder");
        let found = program("node", elsewhere.path(), &path_of(&[root.path()])).expect("it is there");
        assert_eq!(found.version, "22.1.0");
    }

    #[test]
    fn a_program_that_never_says_its_version_is_given_up() {
        let folder = program_that_prints("node", "");
        let place = folder.path().join("node");
        fs::write(&place, "#!/bin/sh\nexec sleep 30\n").expect("the folder is writable");
        let root = tempfile::tempdir().expect("a temporary folder");
        let _hurried = limits::pace::hurried(20);
        let started = std::time::Instant::now();
        assert_eq!(program("node", root.path(), &path_of(&[folder.path()])), None);
        assert!(started.elapsed() < Duration::from_secs(limits::VERSION_SECONDS_MAX));
    }
}
